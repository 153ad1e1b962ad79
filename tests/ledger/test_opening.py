"""Opening a ledger: files that are created, refusals, and their messages."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from sidelight.errors import LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, connections, open_ledger

KEY = bytes(range(32))


def test_importing_the_ledger_does_not_import_sqlalchemy() -> None:
    code = "import sys, sidelight.ledger; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_memory_is_for_tests_only() -> None:
    with pytest.raises(LedgerError, match="forgets what was spent"):
        open_ledger("sqlite://")
    with open_ledger("sqlite://", testing=True) as ledger:
        scope = ledger.open_scope("people", budget=PureDP(1))
        assert isinstance(scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "x"}), Reservation)
        assert ledger.verify().ok
        assert scope.testing


def test_a_test_ledger_and_a_real_one_refuse_each_other(address: str, tmp_path: Path) -> None:
    open_ledger(address, testing=True).close()
    with pytest.raises(LedgerError, match="production refuses it"):
        open_ledger(address)
    with open_ledger(address, testing=True) as ledger:
        assert ledger.events()[0].content["testing"] == "1"
        assert ledger.testing
    open_ledger(tmp_path / "real.db").close()
    with pytest.raises(LedgerError, match="a test session refuses it"):
        open_ledger(tmp_path / "real.db", testing=True)


def test_create_false_makes_nothing(address: str, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        open_ledger(address, create=False)
    assert not (tmp_path / "budget.db").exists()
    open_ledger(address).close()
    open_ledger(address, create=False).close()


def test_opening_twice_keeps_the_identity(address: str) -> None:
    with open_ledger(address) as one, open_ledger(address) as two:
        assert one.ledger_id == two.ledger_id
        assert one.head() == two.head()
        assert len(one.events()) == 1


def test_a_key_is_needed_and_must_be_the_right_one(address: str) -> None:
    with open_ledger(address, key=KEY) as ledger:
        assert ledger.events()[0].content["mac"] == "hmac-sha256"
        assert ledger.verify().ok
    for key, words in ((None, "made with a secret key"), (b"x" * 32, "key does not belong")):
        with pytest.raises(LedgerError, match=words):
            open_ledger(address, key=key)


def test_a_ledger_without_a_key_cannot_be_opened_with_one(tmp_path: Path) -> None:
    open_ledger(tmp_path / "b.db").close()
    with pytest.raises(LedgerError, match="made without a key"):
        open_ledger(tmp_path / "b.db", key=KEY)


@pytest.mark.parametrize("key", [b"short", "x" * 32])
def test_a_weak_key_is_refused(tmp_path: Path, key: bytes) -> None:
    with pytest.raises(LedgerError, match="16 secret bytes"):
        open_ledger(tmp_path / "b.db", key=key)


def test_a_database_of_something_else(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "photos.db") as connection:
        connection.execute("CREATE TABLE photo (name TEXT)")
    connection.close()
    before = (tmp_path / "photos.db").read_bytes()
    with pytest.raises(LedgerError, match="database of something else"):
        open_ledger(tmp_path / "photos.db")
    assert (tmp_path / "photos.db").read_bytes() == before
    with sqlite3.connect(tmp_path / "meta.db") as connection:
        connection.execute("CREATE TABLE meta (key TEXT, value TEXT)")
    connection.close()
    with pytest.raises(LedgerError, match="is not a ledger"):
        open_ledger(tmp_path / "meta.db")


def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "b.db").touch()
    with open_ledger(tmp_path / "b.db") as ledger:
        assert ledger.verify().ok


def test_text_instead_of_a_database(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x" * 5000)
    with pytest.raises(LedgerError, match="not a SQLite database"):
        open_ledger(tmp_path / "notes.txt")


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    with open_ledger(path) as ledger:
        for number in range(30):
            ledger.open_scope(f"scope {number}", budget=PureDP(1))
    for extra in ("-wal", "-shm"):
        Path(f"{path}{extra}").unlink(missing_ok=True)
    content = bytearray(path.read_bytes())
    content[100:4000] = os.urandom(3900)
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"cannot be used|damaged|something else|answered"):
        open_ledger(path)


def test_a_cut_file(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    with open_ledger(path) as ledger:
        for number in range(30):
            ledger.open_scope(f"scope {number}", budget=PureDP(1))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    try:
        with open_ledger(path) as ledger:
            assert not ledger.verify().ok
    except LedgerError:
        pass  # noticed when opening, or by verify: both are fine, no error is not


def test_a_newer_schema(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    open_ledger(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER meta_update")
        connection.execute("UPDATE meta SET value = '3' WHERE key = 'schema'")
    connection.close()
    with pytest.raises(LedgerError, match="newer than this version reads"):
        open_ledger(path)


def test_a_locked_file_says_so_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    with open_ledger(path, wait_seconds=0.2) as ledger:
        scope = ledger.open_scope("people", budget=PureDP(1))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match=r"locked by another process for 0\.2 s"):
            scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "x"})
        other.execute("ROLLBACK")
        other.close()
        assert scope.totals().epsilon == 0
        assert isinstance(scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "x"}), Reservation)


def test_a_file_without_write_permission(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    open_ledger(path).close()
    path.chmod(0o400)
    with pytest.raises(LedgerError, match="cannot be written by this user"):
        open_ledger(path)


def test_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="does not exist"):
        open_ledger(tmp_path / "no" / "such" / "budget.db")


def test_no_server() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(LedgerError, match="check that the server runs") as refused:
        open_ledger("postgresql://ann:s3cret@127.0.0.1:1/budget", wait_seconds=1)
    assert "s3cret" not in str(refused.value)


def test_what_sqlite_runs_with(file_ledger: Ledger) -> None:
    """Trap 11: synchronous=NORMAL may forget the last commits; a deferred BEGIN cannot become a writer."""
    with file_ledger.store.write() as transaction:
        wanted = {"synchronous": 2, "journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 30_000}
        assert {name: transaction.rows(f"PRAGMA {name}")[0][0] for name in wanted} == wanted
        # the lock is held before the first statement: another writer cannot begin
        other = sqlite3.connect(str(file_ledger.place.path), timeout=0, isolation_level=None)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
    other.execute("BEGIN IMMEDIATE")
    other.execute("ROLLBACK")
    other.close()


def test_a_deferred_begin_would_have_failed(tmp_path: Path) -> None:
    """The negative control of trap 11: two deferred transactions that read first cannot both write."""
    path = tmp_path / "b.db"
    open_ledger(path).close()
    one, two = (sqlite3.connect(path, timeout=0.1, isolation_level=None) for _ in range(2))
    for connection in (one, two):
        connection.execute("BEGIN")
        connection.execute("SELECT value FROM meta WHERE key = 'head'").fetchone()
    one.execute("UPDATE meta SET value = 'x' WHERE key = 'head'")
    one.execute("COMMIT")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        two.execute("UPDATE meta SET value = 'y' WHERE key = 'head'")
    one.close()
    two.close()


def test_sqlite_that_will_not_be_durable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(connections.FileConnection):
        def execute(self, sql: str, *more: object) -> sqlite3.Cursor:
            return super().execute(sql.replace("synchronous = 2", "synchronous = 1"), *more)

    monkeypatch.setattr(connections, "FileConnection", Stubborn)
    with pytest.raises(LedgerError, match="would not set synchronous to 2"):
        open_ledger(tmp_path / "b.db")


def test_memory_carried_into_a_fork_is_a_second_budget_and_refused() -> None:
    ledger = open_ledger("sqlite://", testing=True)
    scope = ledger.open_scope("people", budget=PureDP(1))
    child = os.fork()
    if child == 0:
        try:
            scope.reserve(Claims.of(PureDP("0.25")), request={"kind": "x"})
        except LedgerError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("room", [0, 4096, 20_000])
def test_a_ledger_that_was_not_finished_is_named(tmp_path: Path, room: int) -> None:
    """A full disk at the first opening leaves a file without tables: the next says what it is and what to do."""
    path = tmp_path / "budget.db"
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        try:
            open_ledger(path)
        except LedgerError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert path.exists()
    with pytest.raises(LedgerError, match=r"making a ledger was not finished .* remove budget\.db"):
        open_ledger(path, create=False)
    for each in tmp_path.iterdir():
        each.unlink()
    with open_ledger(path) as ledger:
        assert ledger.verify().ok
