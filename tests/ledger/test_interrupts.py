"""Interrupts at any point: no transaction, lock, old snapshot or wrong record remains."""

from __future__ import annotations

import _thread
import gc
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sidelight.errors import LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, connections, open_ledger, sqlite_connections
from sidelight.ledger.schema import OpenTransaction

SMALL = Claims.of(PureDP("0.01"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


@contextmanager
def interruptions() -> Iterator[None]:
    """Let an alarm be an interrupt."""

    def ring(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    collecting = gc.isenabled()
    gc.disable()  # an idle session does not collect either
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if collecting:
            gc.enable()


def opened(path: Path | str, **options: Any) -> Ledger:
    ledger = open_ledger(path, **options)
    ledger.open_scope("people", budget=PureDP(1000))
    return ledger


def charge(ledger: Ledger) -> None:
    reservation = ledger.scope("people").reserve(SMALL, request={"kind": "x"})
    assert isinstance(reservation, Reservation)
    reservation.release("1")


def is_free(path: Path) -> bool:
    """Return whether somebody else could write now."""
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return False
    finally:
        other.close()
    return True


def test_interrupts_in_charges_leave_the_file_free(path: Path) -> None:
    """No open transaction when a caller keeps the traceback.

    A cursor in the traceback used to keep the transaction of one charge in ten open, for all processes.
    """
    ledger = opened(path)
    for _ in range(3):
        charge(ledger)
    begun = time.perf_counter()
    charge(ledger)
    usual, rng = time.perf_counter() - begun, random.Random(8)
    kept, locked, done, failed = [], 0, 4, []
    with interruptions():
        for _ in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.05, 1) * usual)
                try:
                    charge(ledger)
                    done += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt as interrupt:
                kept = [interrupt]  # as a notebook does with the last one
            except LedgerError as error:
                failed.append(str(error))
            locked += not is_free(path)
    assert kept, "at least one interrupt"
    assert locked == 0
    assert len(failed) <= 3, failed
    assert not connections._turn._is_owned()
    charge(ledger)
    assert ledger.verify().ok
    states = [entry.state for entry in ledger.scope("people").entries()]
    assert states.count("released") >= done + 1
    ledger.close()


def test_an_interrupted_checkpoint_leaves_the_file_free(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a writer of the mark leaves open in a traceback used to lock the file as long as the traceback lived."""
    ledger, plain, seen = open_ledger(path), sqlite_connections.FileCursor.execute, []

    def interrupted(cursor: Any, *given: Any) -> Any:
        found = plain(cursor, *given)
        seen.append(given[0])
        if given[0].startswith("PRAGMA wal_checkpoint") and len(checkpoints(seen)) == 2:
            raise KeyboardInterrupt
        return found

    def checkpoints(statements: list[str]) -> list[str]:
        return [each for each in statements if each.startswith("PRAGMA wal_checkpoint")]

    monkeypatch.setattr(sqlite_connections.FileCursor, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt) as kept:
        ledger.open_scope("people", budget=PureDP(9))
    assert kept.tb is not None
    assert is_free(path)
    ledger.close()


def test_a_connection_that_is_gone_does_not_stand_for_the_file(path: Path) -> None:
    """An interrupt where a connection is freed keeps it from leaving the list."""
    opened(path).close()
    connection = connections.connect_writing(path, 1)
    sqlite3.Connection.close(connection)
    entry = connections._open[id(connection)]
    assert not entry.is_alive()
    with path.open("rb"), pytest.raises(LedgerError, match="open by other means"):
        open_ledger(path)
    open_ledger(path).close()
    connections._open[1] = entry
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            open_ledger(path).close()
            os._exit(7)
        os._exit(1)
    connections._open.pop(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_connection_that_is_closed_lets_go_of_what_others_hold(path: Path) -> None:
    opened(path).close()
    connection = connections.connect_writing(path, 1)
    connection.execute("BEGIN IMMEDIATE")
    cursor = connection.execute("SELECT * FROM scope")
    connection.close()
    assert is_free(path)
    assert not connections._held_otherwise(connections.identity_of_file(path))  # type: ignore[arg-type]
    del cursor


def test_what_is_left_on_a_connection_does_not_show_an_old_moment(path: Path) -> None:
    """A statement that was not read to its end keeps the moment that it began with, for all that come after it."""
    first, second = opened(path, wait_seconds=1), opened(path, wait_seconds=2)
    with first.store.read() as transaction:
        raw = transaction._connection.connection.dbapi_connection
    left = raw.execute("SELECT * FROM scope UNION ALL SELECT * FROM scope")
    left.fetchone()
    before = first.scope("people").totals().epsilon
    left = raw.execute("SELECT * FROM scope UNION ALL SELECT * FROM scope")
    left.fetchone()
    charge(second)
    assert first.scope("people").totals().epsilon > before
    first.close()
    second.close()


def test_a_transaction_that_somebody_ended_is_not_called_committed(path: Path) -> None:
    with opened(path) as ledger, pytest.raises(LedgerError, match="was ended before its commit"):
        ledger.store.decide(lambda found: found._connection.connection.dbapi_connection.rollback())


def test_an_interrupt_in_a_commit_is_not_an_assertion_of_somebody_else(path: Path) -> None:
    def work(_: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise AssertionError from None

    def broken(_: object) -> None:
        raise AssertionError("our own")

    with opened(path) as ledger:
        with pytest.raises(KeyboardInterrupt):
            ledger.store.decide(work)
        with pytest.raises(AssertionError, match="our own"):
            ledger.store.decide(broken)
        try:
            raise KeyboardInterrupt  # an interrupt that was handled before is not raised again
        except KeyboardInterrupt:
            with pytest.raises(AssertionError, match="our own"):
                ledger.store.decide(broken)
        charge(ledger)


def test_a_connection_that_an_interrupt_closed_is_replaced(path: Path) -> None:
    with opened(path) as ledger:
        with ledger.store.read() as transaction:
            raw: Any = transaction._connection.connection.dbapi_connection
        sqlite3.Connection.close(raw)
        charge(ledger)
        raw.close()  # again: nothing to do
        assert ledger.verify().ok


def test_a_child_is_told_of_a_file_that_a_thread_is_closing(path: Path) -> None:
    """The connection says that it is closed before SQLite has let go of the file."""
    opened(path).close()
    connection = connections.connect_writing(path, 1)
    cursor = connection.execute("SELECT * FROM scope")
    sqlite3.Connection.close(connection)  # put off by the cursor, as by a thread that is in the middle of it
    assert not connection.is_open()
    child = os.fork()
    if child == 0:
        try:
            open_ledger(path, read_only=True)
        except LedgerError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    del cursor


def test_an_interrupt_between_the_halves_ends_both() -> None:
    """The exception is kept, and with it all frames; contextlib's manager stays open as long as that."""
    ended: list[str] = []

    def halves() -> Generator[int, None, None]:
        try:
            _ = [*map(_thread.interrupt_main, [signal.SIGINT])]  # comes when the next call returns
            yield 1
        finally:
            ended.append("yes")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as kept, OpenTransaction(halves()):
            ended.append("the block began")
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == ["yes"]
    assert kept.value is not None


def test_open_transactions_commit_and_fail_as_a_block_does() -> None:
    seen: list[str] = []

    def halves() -> Generator[int, None, None]:
        try:
            yield 1
        except KeyError as error:
            seen.append("failed")
            raise LedgerError("told") from error
        seen.append("committed")

    with OpenTransaction(halves()) as number:
        assert number == 1
    with pytest.raises(LedgerError, match="told"), OpenTransaction(halves()):
        raise KeyError
    with pytest.raises(ValueError, match="other"), OpenTransaction(halves()):
        raise ValueError("other")
    assert seen == ["committed", "failed"]


def test_a_ledger_in_memory_outlives_an_interrupt() -> None:
    """SQLAlchemy closes the connection that it was using: the only one."""
    with opened("sqlite://", testing=True) as ledger:
        charge(ledger)
        memory = ledger.store._connections._memory
        assert memory is not None
        memory.execute("BEGIN IMMEDIATE")
        memory.close()
        charge(ledger)
        assert len(ledger.scope("people").entries()) == 2


def test_a_ledger_in_memory_is_not_closed_in_the_middle_of_a_charge() -> None:
    ledger, order = opened("sqlite://", testing=True), []
    inside, may_go = threading.Event(), threading.Event()

    def work(_: object) -> None:
        inside.set()
        may_go.wait(5)
        order.append("charged")

    thread = threading.Thread(target=lambda: ledger.store.decide(work))
    thread.start()
    inside.wait(5)
    closing = threading.Thread(target=lambda: (ledger.close(), order.append("closed")))
    closing.start()
    time.sleep(0.1)
    may_go.set()
    thread.join()
    closing.join()
    assert order == ["charged", "closed"]


def test_a_forked_child_does_not_wait_for_a_ledger_in_memory() -> None:
    ledger = opened("sqlite://", testing=True)
    inside, may_go = threading.Event(), threading.Event()

    def work(_: object) -> None:
        inside.set()
        may_go.wait(5)

    thread = threading.Thread(target=lambda: ledger.store.decide(work))
    thread.start()
    inside.wait(5)
    child = os.fork()
    if child == 0:
        signal.alarm(5)  # of the system: it ends the child
        try:
            ledger.scope("people").totals()
        except LedgerError:
            os._exit(7)
        os._exit(1)
    status = os.waitpid(child, 0)[1]
    may_go.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 7
    ledger.close()
