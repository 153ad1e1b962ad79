"""A ledger's file without its log: it holds older charges, or none, and grants nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sidelight.errors import LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, connections, lost_log, open_ledger, store

LOST = r"lacks its log .*-wal.*Nothing was granted"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


def charge(ledger: Ledger, times: int = 1) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    for _ in range(times):
        assert isinstance(scope.reserve(Claims.of(PureDP("0.01")), request={"kind": "x"}), Reservation)


def charge_and_die(path: Path, times: int = 3, *, marked: bool = False) -> None:
    """Charge in a process that ends without closing the ledger; `marked`: while the mark is in the log."""
    child = os.fork()
    if child == 0:
        try:
            ledger = open_ledger(path)
            charge(ledger, times)
            if marked:
                with ledger.store.write() as transaction:
                    transaction.define("PRAGMA user_version = 1")
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def mark_of(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(found)


@pytest.mark.parametrize("charges", [1, 7])
def test_a_copy_of_an_open_ledger_grants_nothing(path: Path, charges: int) -> None:
    with open_ledger(path) as ledger:
        charge(ledger, charges)
        copy = Path(shutil.copy(path, path.with_name("copy.db")))
        for read_only in (False, True):
            with pytest.raises(LedgerError, match=LOST):
                open_ledger(copy, read_only=read_only)
        charge(ledger)
        assert ledger.verify().ok


@pytest.mark.parametrize("left", ["nothing", "empty", "one byte", "header", "cut page", "zeros", "random"])
def test_a_log_that_is_lost_after_a_crash_is_noticed(path: Path, left: str) -> None:
    charge_and_die(path)
    whole = log_of(path).read_bytes()
    log_of(path).unlink()
    path.with_name(path.name + "-shm").unlink()
    found = {
        "empty": b"",
        "one byte": whole[:1],
        "header": whole[:32],
        "cut page": whole[:4000],
        "zeros": bytes(len(whole)),
        "random": np.random.default_rng(1).bytes(len(whole)),
    }
    if left in found:
        log_of(path).write_bytes(found[left])
    for read_only in (False, True, False):
        with pytest.raises(LedgerError, match=LOST):
            open_ledger(path, read_only=read_only)


def test_a_closed_ledger_that_is_used_again_looks_for_its_log(path: Path) -> None:
    ledger = open_ledger(path)
    charge(ledger)
    ledger.close()
    charge_and_die(path)
    log_of(path).unlink()
    path.with_name(path.name + "-shm").unlink()
    with pytest.raises(LedgerError, match=LOST):
        charge(ledger)


def test_a_reader_at_the_first_charge_delays_the_mark_to_the_next(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_ledger(path) as ledger:
        charge(ledger)
    taken_off = []
    unmark = connections.FileConnection.unmark
    monkeypatch.setattr(
        connections.FileConnection, "unmark", lambda each: (taken_off.append(each.is_marked()), unmark(each))
    )
    with open_ledger(path) as ledger:
        with open_ledger(path, read_only=True) as reading, reading.store.read() as transaction:
            transaction.rows("SELECT COUNT(*) FROM event")
            charge(ledger)
            taken_off.clear()
            charge(ledger, 5)
            assert not lost_log.has_mark(path)
            assert not any(taken_off)  # nor is it tried in the log again, where a process that dies would leave it
        charge(ledger)
        assert lost_log.has_mark(path)
        assert any(taken_off)
        copy = Path(shutil.copy(path, path.with_name("copy.db")))
        with pytest.raises(LedgerError, match=LOST):
            open_ledger(copy)
    assert mark_of(path) == 0


def test_another_program_that_writes_the_log_into_the_file_does_not_take_the_mark_off_for_long(path: Path) -> None:
    with open_ledger(path) as ledger:
        charge(ledger)
        program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint(FULL)').fetchall()"
        subprocess.run([sys.executable, "-c", program, str(path)], check=True)
        assert not lost_log.has_mark(path)
        charge(ledger)
        assert lost_log.has_mark(path)


def test_an_interrupt_while_the_file_is_marked_leaves_a_ledger_that_opens(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(connection: connections.FileConnection) -> None:
        raise KeyboardInterrupt

    open_ledger(path).close()
    ledger = open_ledger(path)
    with monkeypatch.context() as patched:
        patched.setattr(connections.FileConnection, "unmark", interrupted)
        with pytest.raises(KeyboardInterrupt):
            charge(ledger)
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (1,)
    other.close()
    ledger.close()
    assert mark_of(path) == 0
    with open_ledger(path) as ledger:
        assert ledger.verify().ok


def test_a_mark_that_a_killed_process_left_is_taken_off_by_another_that_has_the_ledger_open(path: Path) -> None:
    with open_ledger(path) as ledger:
        charge(ledger)
        program = (
            "import os, sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA user_version = 1'); os._exit(0)"
        )
        subprocess.run([sys.executable, "-c", program, str(path)], check=True)
        charge(ledger)
        with sqlite3.connect(path) as other:
            assert other.execute("PRAGMA user_version").fetchone() == (0,)
        other.close()


@pytest.mark.parametrize("marked", [False, True])
def test_a_log_that_is_there_after_a_crash_is_read(path: Path, marked: bool) -> None:
    charge_and_die(path, marked=marked)
    for _ in range(2):
        with open_ledger(path) as ledger:
            assert len(ledger.scope("people").entries()) == 3
            assert ledger.verify().ok
    assert mark_of(path) == 0


def test_closing_by_another_program_loses_nothing(path: Path) -> None:
    charge_and_die(path)
    with sqlite3.connect(path) as connection:
        connection.execute("SELECT COUNT(*) FROM event").fetchall()
    connection.close()
    assert not log_of(path).exists()
    with open_ledger(path) as ledger:
        assert len(ledger.scope("people").entries()) == 3


def test_a_long_log_is_written_into_the_file_which_stays_marked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_WRITES_IN_LOG", 8)
    with open_ledger(path) as ledger:
        charge(ledger, 20)
        copy = Path(shutil.copy(path, path.with_name("copy.db")))
        with pytest.raises(LedgerError, match=LOST):
            open_ledger(copy)
    with sqlite3.connect(copy) as connection:
        (entries,) = connection.execute("SELECT COUNT(*) FROM entry").fetchone()
    connection.close()
    assert 8 < entries < 20


def test_what_changed_the_file_last_takes_the_mark_off(path: Path) -> None:
    with open_ledger(path) as one, open_ledger(path) as two:
        charge(one)
        charge(two)
    assert mark_of(path) == 0
    with open_ledger(path) as ledger:
        assert len(ledger.scope("people").entries()) == 2


def test_a_file_without_tables_is_no_licence_for_a_new_ledger(path: Path) -> None:
    """What was left of a ledger of 0.5 and before, whose tables were in the log only."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert path.stat().st_size == 4096
    with pytest.raises(LedgerError, match=r"only a database without tables.*its log budget\.db-wal was removed"):
        open_ledger(path)


def test_the_file_names_its_ledger_from_the_first_commit(path: Path) -> None:
    with open_ledger(path) as ledger:
        copy = Path(shutil.copy(path, path.with_name("copy.db")))
        with open_ledger(copy, read_only=True) as found:
            assert found.ledger_id == ledger.ledger_id


def test_many_processes_make_one_ledger(path: Path) -> None:
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with open_ledger(path) as ledger:
                    charge(ledger)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    with open_ledger(path) as ledger:
        assert len(ledger.scope("people").entries()) == 8
        assert ledger.verify().ok
    assert mark_of(path) == 0


@pytest.mark.parametrize("then", ["charge", "close"])
def test_a_mark_that_stayed_because_others_locked_the_file_is_taken_off(
    path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """Left in the log, it would be written into the file by the last close: a complete ledger would be refused."""
    taken = connections.FileConnection.unmark
    with monkeypatch.context() as patched:
        patched.setattr(connections.FileConnection, "unmark", lambda _connection: None)
        patched.setattr(store, "unmark", lambda _connection: None)
        ledger = open_ledger(path)
        charge(ledger)
        with sqlite3.connect(path) as other:  # while `ledger` has it open, so that the log is what it reads
            assert other.execute("PRAGMA user_version").fetchone() == (1,)
        other.close()
    assert connections.FileConnection.unmark is taken
    if then == "charge":
        monkeypatch.setattr(connections.FileConnection, "unmark", lambda _connection: None)
        charge(ledger)
    ledger.close()
    assert mark_of(path) == 0
    with open_ledger(path) as ledger:
        assert len(ledger.scope("people").entries()) == (2 if then == "charge" else 1)
