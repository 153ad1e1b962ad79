"""Whatever happens to the locks of a file, its budget is not spent twice: sessions, forks, mounts, and meddling."""

from __future__ import annotations

import ast
import gc
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sidelight
from sidelight.errors import BudgetError, LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, connections, open_ledger, store
from sidelight.ledger.place import check_not_mounted

Beside = Callable[[str], Any]
QUARTER = Claims.of(PureDP("0.25"))


def opened(path: Path, **options: Any) -> Ledger:
    ledger = open_ledger(path, **options)
    ledger.open_scope("people", budget=PureDP(1))
    return ledger


def granted(ledger: Ledger) -> int:
    """Ask for a quarter of the budget; return 1 if it was granted."""
    try:
        ledger.scope("people").reserve(QUARTER, request={"kind": "x"})
    except BudgetError:
        return 0
    return 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


@pytest.fixture
def other(beside: Beside, path: Path) -> Beside:
    """A second process driven by commands: `open()`, `close()`, `granted()`."""
    beside(f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_locks import opened, granted as one
ledgers = []
def run_open(): ledgers.append(opened({str(path)!r}))
def run_close(): ledgers.pop().close()
""")
    return beside


def forked(work: Callable[[], object]) -> str:
    """Do something in a forked child; return the error that it met, or "no error"."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            work()
            text = "no error"
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


def test_two_sessions_and_another_process_share_one_budget(path: Path, other: Beside) -> None:
    """The exploit of the issue: opening the second session gave up the first one's locks, 6 of 4 were granted."""
    first = opened(path)
    total = granted(first)
    other("run_open(); result = None")
    with opened(path) as second:
        total += granted(second)
        total += other("result = one(ledgers[0])")
        other("run_close()")  # which removed the log while this process wrote into it
        total += granted(first) + granted(second)
        other("run_open()")
        for _ in range(3):
            total += granted(first) + other("result = one(ledgers[0])") + granted(second)
    assert total == 4
    assert first.verify().ok
    assert len(first.entries()) == 4
    other("run_close()")
    first.close()


def test_of_the_sessions_on_one_file_the_last_closes_the_log(path: Path) -> None:
    first, second = opened(path), opened(path)
    link = path.with_name("link.db")
    link.symlink_to(path)
    third = opened(link)
    assert granted(first)
    assert granted(third)
    first.close()
    third.close()
    assert granted(second)
    assert connections.log_of(path).exists()
    second.close()
    assert not connections.log_of(path).exists()
    assert granted(first)  # a closed ledger opens itself again, as ever
    del first, second, third
    gc.collect()
    assert not connections.log_of(path).exists()  # garbage collection closes an open ledger
    assert not any(each.path == path for each in connections._open.values())


def test_threads_that_open_close_and_spend(path: Path) -> None:
    opened(path).close()
    grants: list[int] = []

    def work() -> None:
        for _ in range(4):
            with opened(path) as ledger:
                grants.append(granted(ledger))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(grants) == 4
    assert len(grants) == 16
    with opened(path) as ledger:
        assert ledger.verify().ok


def test_a_connection_that_is_being_opened_is_nobody_else_s(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its descriptor is there before it is in the list: a thread that looks in between must not call it foreign."""
    opened(path).close()
    began, failures = connections.FileConnection.began, []

    def slowly(self: connections.FileConnection, place: Path) -> object:
        time.sleep(0.2)
        return began(self, place)

    def work() -> None:
        try:
            connections.connect_writing(path, 5).close()
        except LedgerError as error:
            failures.append(str(error))

    monkeypatch.setattr(connections.FileConnection, "began", slowly)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_forked_child_is_told_to_open_after_the_fork(path: Path) -> None:
    ledger = opened(path)
    for work in (
        lambda: granted(ledger),
        lambda: opened(path),
        lambda: open_ledger(path, read_only=True).entries(),
        lambda: ledger.verify(),
    ):
        assert "LedgerError" in forked(work)
        assert "daemonise" in forked(work)
    # nor does the child's end, or what it forgets, touch the parent's locks and log
    assert forked(lambda: (ledger.close(), gc.collect())) == "no error"
    log = connections.identity_of_file(connections.log_of(path))
    assert granted(ledger)
    assert connections.identity_of_file(connections.log_of(path)) == log
    ledger.close()
    assert forked(lambda: opened(path).close()) == "no error"  # closed before the fork
    assert granted(ledger)
    assert ledger.verify().ok
    ledger.close()


def test_a_child_that_ends_as_python_does_leaves_the_parent_alone(path: Path) -> None:
    code = f"""
import os, sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_locks import opened, granted
path = Path({str(path)!r})
ledger = opened(path)
with ledger.store.write() as transaction:  # in the middle of a transaction
    child = os.fork()
    if child == 0:
        del transaction, ledger
        sys.exit(0)
    os.waitpid(child, 0)
assert granted(ledger)
assert path.with_name("budget.db-wal").exists()
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
assert granted(ledger) and ledger.verify().ok
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    with opened(path) as ledger:
        assert len(ledger.entries()) == 2


def test_multiprocessing_by_fork_is_refused_with_what_to_do(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    with opened(path) as ledger:
        answers: Any = context.SimpleQueue()

        def work() -> None:
            try:
                granted(ledger)
            except LedgerError as error:
                answers.put(str(error))

        process = context.Process(target=work)
        process.start()
        assert "multiprocessing.get_context('spawn')" in answers.get()
        process.join()


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("how", ["removed", "renamed", "replaced"])
def test_a_file_or_log_that_is_meddled_with_is_noticed(path: Path, ending: str, how: str) -> None:
    ledger = opened(path)
    assert granted(ledger)
    target = path.with_name(path.name + ending)
    if how == "replaced":
        copy = shutil.copy(target, path.with_name("copy"))
        os.replace(copy, target)
    elif how == "renamed":
        target.rename(path.with_name("elsewhere"))
    else:
        target.unlink()
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"removed, replaced or renamed.*nothing is granted"):
            granted(ledger)
    with pytest.raises(LedgerError, match=r"by other means|replaced or renamed|does not hold it|kept for one|its log"):
        granted(opened(path))
    ledger.close()  # not even now is the lost log written over what others may have written


def test_a_log_that_goes_between_check_and_commit_gives_no_licence(path: Path) -> None:
    ledger = opened(path)
    with pytest.raises(LedgerError, match="removed, replaced or renamed"):
        ledger.store.decide(lambda _: connections.log_of(path).unlink())
    ledger.close()


def test_an_older_copy_in_the_same_process_is_not_spent_from(path: Path) -> None:
    with opened(path) as ledger:
        granted(ledger)
    backup = Path(shutil.copy(path, path.with_name("backup.db")))
    with opened(path) as ledger:
        assert granted(ledger)
    with open_ledger(backup) as older:
        assert older.verify().ok
        with pytest.raises(LedgerError, match="does not hold it: it is an older copy"):
            granted(older)
    with opened(path) as ledger:
        os.replace(backup, path)
        with pytest.raises(LedgerError, match="nothing is granted"):
            granted(ledger)


def test_what_else_this_process_has_open_is_refused(path: Path) -> None:
    opened(path).close()
    with path.open("rb"), pytest.raises(LedgerError, match=r"open by other means.*Close it first"):
        opened(path)
    with path.open("rb"), open_ledger(path, read_only=True) as reader:
        assert reader.verify().ok
    with opened(path) as ledger:
        assert granted(ledger)


MOUNTS = r"""
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
31 21 8:1 /host/budget.db /data/my\040budget.db rw - ext4 /dev/root rw
32 21 8:1 /host /data/folder rw - ext4 /dev/root rw
33 21 8:1 /host/b.db-wal /data/b.db-wal rw - ext4 /dev/root rw
"""


def test_a_ledger_that_is_a_mount_point_is_told_to_mount_the_folder() -> None:
    for name in ("/data/my budget.db", "/data/b.db"):
        with pytest.raises(LedgerError, match=r"Mount the folder '/data'"):
            check_not_mounted(Path(name), mounts=MOUNTS)
    check_not_mounted(Path("/data/folder/budget.db"), mounts=MOUNTS)


def test_a_real_mount_of_the_one_file(path: Path) -> None:
    opened(path).close()
    inside = path.parent / "container"
    inside.mkdir()
    (inside / "budget.db").touch()
    code = f"""
import subprocess, sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_locks import opened, granted
if subprocess.run(["mount", "--bind", {str(path)!r}, {str(inside / "budget.db")!r}], capture_output=True).returncode:
    sys.exit(77)
outer = opened(Path({str(path)!r}))
granted(outer)
opened(Path({str(inside / "budget.db")!r}))
"""
    if shutil.which("unshare") is None:
        pytest.skip("mounting needs unshare, which is not installed")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = ["unshare", "--mount", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("mounting needs root and a machine that allows it")
    assert "Mount the folder" in done.stderr
    assert not (inside / "budget.db-wal").exists()


def test_one_file_in_two_places_is_refused(path: Path) -> None:
    with opened(path) as ledger:
        began = next(each for each in connections._open.values() if each.path == path)
        began.path = path.parent / "elsewhere" / "budget.db"  # as a mount elsewhere would have it
        with pytest.raises(LedgerError, match="one file in two places"):
            connections.check_alone(path, spends=True)
        began.path = path
        assert granted(ledger)


SOURCE = Path(sidelight.__file__).parent
#: What may open files in the package of the ledger, and which: never the ledger's own.
OPENERS = {
    "exchange.py": "exports, which are JSON lines",
    "head_file.py": "the head file and its lock, which `check_output` keeps apart from a ledger",
    "ledger.py": "the draft of the copy that a migration keeps, after SQLite has written it",
    "lost_log.py": "the log, which has no locks, to read how it begins",
    "place.py": "/proc/self/mountinfo",
}
OPENING = {"open", "read_bytes", "read_text", "write_bytes", "write_text", "copy", "copy2", "copyfile", "copytree"}


def test_only_one_module_opens_a_ledgers_file() -> None:
    """A static check: SQLite in one place, files in the ledger's package where listed, its path nowhere else."""
    wrong: list[str] = []
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        text = file.read_text(encoding="utf-8")
        if not name.startswith("ledger/") and re.search(r"sqlite|apsw|place\s*\.\s*path", text) is None:
            continue  # no node of it can be one of these
        for node in ast.walk(ast.parse(text)):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = str(node.module) if isinstance(node, ast.ImportFrom) else ""
            reached = {text.split(".")[0] for text in [*imported, module]}
            if reached & {"sqlite3", "_sqlite3", "apsw", "pysqlite3"} and name not in SQLITE_USERS:
                wrong.append(f"{name}:{getattr(node, 'lineno', 0)} imports SQLite")
            called = node.func if isinstance(node, ast.Call) else None
            word = getattr(called, "attr", getattr(called, "id", ""))
            if name.startswith("ledger/") and word in OPENING and name.removeprefix("ledger/") not in OPENERS:
                wrong.append(f"{name}:{getattr(node, 'lineno', 0)} calls {word}")
            if word == "connect" and _is_sqlite(called) and name not in CONNECTING:
                wrong.append(f"{name}:{getattr(node, 'lineno', 0)} connects")
            own_path = isinstance(node, ast.Attribute) and node.attr == "path" and _ends_with(node.value, "place")
            if own_path and not name.startswith("ledger/") and name not in PATH_USERS:
                wrong.append(f"{name}:{getattr(node, 'lineno', 0)} takes the path of a ledger")
    assert wrong == []


SQLITE_USERS = {
    "ledger/connections.py": "the one place",
    "ledger/sqlite_connections.py": "connects to what that place says, and to memory",
    "ledger/lost_log.py": "catches its errors",
    "ledger/store.py": "names the type of a connection",
    "ledger/ledger.py": "catches its errors",
    "ledger/place.py": "catches its errors",
    "server/identity.py": "keeps tokens in a file of its own",
}
CONNECTING = ("ledger/connections.py", "ledger/sqlite_connections.py", "server/identity.py")
PATH_USERS = {
    "cli/running.py": "shows its name in a report",
    "quantiles/sequence/sequence.py": "names its state file after it",
}


def _is_sqlite(node: Any) -> bool:
    return isinstance(node, ast.Attribute) and _ends_with(node.value, "sqlite3")


def _ends_with(node: Any, name: str) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) == name


def test_nothing_opens_the_file_at_run_time(path: Path) -> None:
    """The same by Python's own audit events, which tell of every open() but not of SQLite's."""
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
found = []
sys.addaudithook(lambda name, args: found.append(args) if name in ("open", "shutil.copyfile") else None)
import sidelight as sl
from sidelight.cli.app import app
from test_locks import opened, granted
path = {str(path)!r}
table = sl.Table({{"age": [1.0, 2.0]}}, schema=[sl.Number("age", lower=0, upper=9)])
session, again = (sl.Session(table, budget=sl.PureDP(1), ledger=path) for _ in range(2))
session.release(sl.Quantiles([0.5], column="age", epsilon=0.5))
for command in ("show", "verify", "reap"):
    try:
        app(["ledger", command, path])
    except SystemExit:
        pass
sl.open_ledger(path).export(path + ".jsonl")
log = path + "-wal"  # has no locks, and how it begins is read
touched = [each for each in found if str(each[0]) in (path, path + "-shm") or (str(each[0]) == log and each[1] != "r")]
assert not touched, touched
assert any(str(each[0]).endswith(".jsonl.part") for each in found)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_a_ledger_that_is_closed_while_threads_use_it_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the threads that went on with it made connections, of which one was closed with it."""
    make = store._Connections._make_engine

    def slowly(connections: Any) -> Any:
        time.sleep(0.05)
        return make(connections)

    monkeypatch.setattr(store._Connections, "_make_engine", slowly)
    with opened(tmp_path / "budget.db") as ledger:
        ledger.close()
        threads = [threading.Thread(target=ledger.head) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    gc.collect()
    assert not (tmp_path / "budget.db-wal").exists()
