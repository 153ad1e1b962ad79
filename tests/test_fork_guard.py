"""No resource of a parent is released by a forked child; no unguarded finalizers."""

from __future__ import annotations

import ast
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import sidelight
from sidelight.fork_guard import finalize_here, is_inherited, temporary_folder
from sidelight.records import rows
from sidelight.records.engines import postgres

SOURCE = Path(sidelight.__file__).parent
#: What acts at the end of an object or of Python, and therefore in every forked child as well.
ENDINGS = {"weakref.finalize", "atexit.register", "TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile"}
#: Those that may be written, and why a child does no harm by them.
ALLOWED = {
    ("fork_guard.py", "weakref.finalize"): "the one that asks whose thing it is",
    ("ledger/connections.py", "__del__"): "asks for the process, and keeps what is not its own (`may_close`)",
    ("ledger/store.py", "weakref.finalize"): "`leave` asks for the process: a child may have an engine of its own",
}


def endings(text: str) -> set[str]:
    """Return what the text of a module has of `ENDINGS`, and `__del__`, however it was imported."""
    found, names = set(), {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            names |= {each.asname: each.name for each in node.names if each.asname}
        elif isinstance(node, ast.FunctionDef) and node.name == "__del__":
            found.add(node.name)
        if isinstance(node, ast.Attribute | ast.Name):
            first, _, rest = ast.unparse(node).partition(".")
            whole = ".".join(filter(None, [names.get(first, first), rest]))
            found |= {each for each in ENDINGS if whole == each or whole == f"tempfile.{each}"}
    return found


def test_every_finalizer_asks_whose_thing_it_is() -> None:
    words = ("finalize", "atexit", "__del__", "Temporary")  # most files have none, and need not be parsed
    found = {
        (path.relative_to(SOURCE).as_posix(), each)
        for path in sorted(SOURCE.rglob("*.py"))
        if any(word in (text := path.read_text(encoding="utf-8")) for word in words)
        for each in endings(text)
    }
    assert found == ALLOWED.keys(), "use sidelight.fork_guard, or say why a forked child does no harm"


#: What a thread can hold that a forked child does not have: the child would wait for ever.
LOCK = re.compile(r"(?<!asyncio\.)\b(?:R?Lock|Condition|(?:Bounded)?Semaphore|Barrier|(?:Simple)?Queue)\(")
#: The files that may have one, and why no child waits for it.
ALLOWED_LOCKS = {
    "ledger/connections.py": "a child makes its own",
    "ledger/store.py": "a child makes its own; one of memory is refused before it is asked for",
    "records/engines/duckdb_sources.py": "one for each process",
    "records/engines/parquet.py": "of one pass, and of the threads of that pass",
    "records/engines/postgres.py": "one for each process",
    "records/rows.py": "one for each process",
    "server/audit_log.py": "of the listener, whose children are forked by another process",
    "server/identity.py": "of the listener, whose children are forked by another process",
    "server/zygote.py": "of the listener; the process that forks has no threads",
    "session/accounts.py": "a child is refused before it waits",
    "stability/pate/teachers.py": "one for each process",
}


def test_no_forked_child_waits_for_a_thread_that_it_does_not_have() -> None:
    files = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    found = {name for name, path in files.items() if LOCK.search(path.read_text(encoding="utf-8"))}
    assert found == ALLOWED_LOCKS.keys(), "do without a lock, or say why no forked child waits for it"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_opens_a_snapshot_that_a_thread_of_its_parent_is_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, opening, go_on = os.getpid(), threading.Event(), threading.Event()

    def connected(address: str, *, begin: str) -> Any:
        del address, begin
        if os.getpid() == parent:
            opening.set()
            go_on.wait(20)
        return mock.MagicMock()

    monkeypatch.setattr(postgres, "_described", lambda *given: None)
    monkeypatch.setattr(postgres, "_connected", connected)
    snapshot = postgres.Snapshot("an address", "SELECT 1")
    other = threading.Thread(target=snapshot._moment.number)
    other.start()
    try:
        assert opening.wait(10)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10)  # ends it if it waits
            snapshot._moment.number()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        go_on.set()
        other.join(10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_limits_blas_although_a_thread_of_its_parent_is_about_to(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, limiting, go_on = os.getpid(), threading.Event(), threading.Event()

    def controller() -> Any:
        if os.getpid() == parent:
            limiting.set()
            go_on.wait(20)
        return None

    def limited() -> None:
        with rows.one_blas_thread():
            pass

    monkeypatch.setattr(rows, "_blas", controller)
    other = threading.Thread(target=limited)
    other.start()
    try:
        assert limiting.wait(10)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10)  # ends it if it waits
            limited()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        go_on.set()
        other.join(10)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import weakref\nweakref.finalize(a, b)", {"weakref.finalize"}),
        ("import weakref as w\nw.finalize(a, b)", {"weakref.finalize"}),
        ("from weakref import finalize as end\nend(a, b)", {"weakref.finalize"}),
        ("import atexit\n@atexit.register\ndef f(): pass", {"atexit.register"}),
        ("from tempfile import TemporaryDirectory\nTemporaryDirectory()", {"TemporaryDirectory"}),
        ("import tempfile\ntempfile.NamedTemporaryFile()", {"NamedTemporaryFile"}),
        ("class A:\n    def __del__(self): pass", {"__del__"}),
        ("import weakref\nweakref.ref(a)\nfinalize(b)", set()),
    ],
)
def test_the_walk_finds_what_it_should(text: str, found: set[str]) -> None:
    assert endings(text) == found


class Spoken:
    """Says so in a file when it is ended, by whomever."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def end(self) -> None:
        with self.file.open("a") as told:
            told.write("ended\n")

    def __del__(self) -> None:
        with self.file.open("a") as told:
            told.write("freed\n")


class Owner:
    """What a user holds."""


class Alike(Spoken):
    """All of them are equal, and none can be hashed."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def test_a_thing_is_ended_once_with_its_owner(tmp_path: Path) -> None:
    owner, thing = Owner(), Spoken(tmp_path / "told")
    finalize_here(owner, Spoken.end, thing)
    gone = weakref.ref(thing)
    assert not is_inherited(thing)
    del owner, thing
    gc.collect()
    assert gone() is None
    assert (tmp_path / "told").read_text() == "ended\nfreed\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("guarded", [True, False])
def test_a_child_neither_ends_nor_frees_what_is_its_parents(tmp_path: Path, *, guarded: bool) -> None:
    """With `weakref.finalize` in its place the child does both: by dropping the owner, or at its end."""
    story = f"""if True:
        import gc, os, sys, weakref
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import threading
        from test_fork_guard import Alike, Owner, Spoken, finalize_here, temporary_folder
        held = [Owner(), Owner()]
        for owner, name, kind in zip(held, ("dropped", "kept"), (Alike, Alike)):
            thing = kind(Path({str(tmp_path)!r}, name))
            (finalize_here if {guarded} else weakref.finalize)(owner, Spoken.end, thing)
        del owner, thing
        own, ready, done = threading.local(), threading.Event(), threading.Event()
        def holds():
            own.held = Owner()
            (finalize_here if {guarded} else weakref.finalize)(
                own.held, Spoken.end, Spoken(Path({str(tmp_path)!r}, "of a thread"))
            )
            ready.set()
            done.wait()
        threading.Thread(target=holds, daemon=True).start()
        ready.wait()
        with temporary_folder() as folder:
            child = os.fork()
            if child == 0:
                del held[0]
                gc.collect()
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert os.path.isdir(folder)
        assert not os.path.isdir(folder)
        print([Path({str(tmp_path)!r}, name).exists() for name in ("dropped", "kept", "of a thread")])
        done.set()
    """
    done = subprocess.run([sys.executable, "-c", story], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str([not guarded] * 3), done.stderr[-2000:]
    assert (tmp_path / "kept").read_text().startswith("ended")  # by the parent, at its end


def test_a_folder_goes_with_its_block() -> None:
    with pytest.raises(KeyError), temporary_folder() as folder:
        raise KeyError
    assert not os.path.isdir(folder)


def test_what_is_ended_early_is_ended_once() -> None:
    class Owner:
        """Something that can be referred to weakly."""

    ended: list[int] = []
    owner, thing = Owner(), Owner()
    end = finalize_here(owner, lambda _: ended.append(1), thing)
    end()
    end()
    del owner
    gc.collect()
    assert ended == [1]
