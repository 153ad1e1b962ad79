"""The database under a ledger: transactions, and errors a person can act on.

This file and `engines` are the only ones that import SQLAlchemy.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sidelight.errors import LedgerError
from sidelight.ledger.connections import FileConnection
from sidelight.ledger.engines import LOCKLESS, engines_for
from sidelight.ledger.journal import remember_head
from sidelight.ledger.place import Place
from sidelight.ledger.transaction import Transaction

Result = TypeVar("Result")

_RETRIES: Final = 12
_AGAIN: Final = frozenset({"40001", "40P01"})  # serialisation failure, deadlock: the database asks to try again


class Store:
    """Transactions in one place, for any number of threads; all stores of a process on one file share connections."""

    def __init__(self, place: Place, *, wait_seconds: float, read_only: bool = False) -> None:
        self.place = place
        self.wait_seconds = wait_seconds
        self.read_only = read_only
        self.ledger_id: str | None = None  # set once the first event has said which ledger this is
        self._turn: AbstractContextManager[object] = threading.RLock() if place.in_memory else nullcontext()
        self._engines = engines_for(place, wait_seconds, read_only=read_only)
        self._leave = weakref.finalize(self, self._engines.leave)  # also if nobody closes it

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Begin a transaction that may write; commits at the end, rolls back on any exception."""
        if self.read_only:
            raise LedgerError(
                f"the ledger {self.place.shown} was opened for reading only; nothing was written. Open it without "
                "read_only=True to spend from it"
            )
        with self._turn, self._connect().connect() as connection:
            file = _file_of(connection)
            with connection.begin():
                file.check()  # the lock is held: from here on nobody who keeps to the locks can move the log away
                if self.place.dialect == "postgresql":
                    _check_lasting(connection, self.place.shown)
                transaction = Transaction(connection, self.place.dialect, ledger_id=self.ledger_id)
                yield transaction
                file.check()
            remember_head(transaction)
            file.check()  # somebody who does not: the commit may be in a log that nobody reads

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Begin a transaction that sees one consistent moment and holds up nobody."""
        before, lockless = self._stamp(), False
        try:
            with self._explained(), self._turn, self._connect().connect() as connection:
                lockless = bool(connection.info.get(LOCKLESS))
                if not self.read_only:
                    _file_of(connection).check()
                if self.place.dialect == "postgresql":
                    connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                else:
                    connection.execution_options(sidelight_deferred=True)
                with connection.begin():
                    yield Transaction(connection, self.place.dialect)
        except LedgerError:
            if lockless:
                self._check_unwritten(before)  # half of a commit looks like damage
            raise
        if lockless:
            self._check_unwritten(before)

    def decide(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` in a writing transaction, again if the database says so or the connection was lost.

        After a lost COMMIT nobody knows whether it happened, so `work` must begin by looking for its own earlier trace.
        """
        lost = False
        for attempt in range(_RETRIES):
            try:
                with self.write() as transaction:
                    return work(transaction)
            except SQLAlchemyError as error:
                # a server that was lost may need a moment until it takes connections again
                lost = lost or (isinstance(error, DBAPIError) and error.connection_invalidated)
                if attempt + 1 == _RETRIES or not (_state(error) in _AGAIN or lost):
                    raise self._explain(error, lost=lost) from error
            time.sleep(min(1.0, 0.005 * 2**attempt))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def close(self) -> None:
        """Leave the connections; the last user of a file closes them."""
        self._leave()

    def _connect(self) -> sa.Engine:
        if not self._leave.alive:  # closed, and used again
            self._engines = engines_for(self.place, self.wait_seconds, read_only=self.read_only)
            self._leave = weakref.finalize(self, self._engines.leave)
        return self._engines.engine(self.wait_seconds)

    def _check_unwritten(self, before: tuple[int, int] | None) -> None:
        if self._stamp() != before:
            raise LedgerError(f"the ledger {self.place.shown} was written while it was read; try again")

    def _stamp(self) -> tuple[int, int] | None:
        """Return what tells whether a file was written, for a reader that may take no lock."""
        if not self.read_only or self.place.path is None:
            return None
        try:
            found = self.place.path.stat()
        except OSError as error:
            raise LedgerError(f"the ledger {self.place.shown} cannot be read: {error.strerror}") from error
        return found.st_size, found.st_mtime_ns

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise self._explain(error) from error

    def _explain(self, error: SQLAlchemyError, *, lost: bool = False) -> LedgerError:
        where, reason = self.place.shown, _reason(error)
        if lost:
            return LedgerError(
                f"the ledger {where} was lost in the middle of a transaction ({reason}) and did not come back; a "
                "charge may stand without a release. Repeat the request with the same key once the server runs"
            )
        if isinstance(error, PoolTimeout) or "database is locked" in reason or _state(error) == "55P03":
            return LedgerError(
                f"the ledger {where} has been locked by another process for {self.wait_seconds:g} s; "
                "nothing was written. Try again, or find the process that holds it"
            )
        for sign, advice in _ADVICE.items():
            if sign in reason:
                return LedgerError(f"the ledger {where} cannot be used: {reason}; {advice}")
        return LedgerError(f"the ledger {where} answered: {reason}; nothing was written")


_ADVICE: Final = {
    "not a database": "check the path",
    "malformed": "the file is damaged; restore a backup and check it with `sidelight ledger verify --expect-head`",
    "unable to open": "check the path and the permissions of its directory, which must be writable too",
    "readonly": "a ledger needs write permission for the file and its directory; to look into one that somebody has "
    "open, wait until it is closed",
    "disk is full": "make room; nothing was written",
    "connection": "check that the server runs, and the host, user and database of the address",
}


def _reason(error: SQLAlchemyError) -> str:
    cause = getattr(error, "orig", None) or error
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]


def _state(error: SQLAlchemyError) -> str | None:
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    return state if isinstance(state, str) else None


class _NoFile:
    def check(self) -> None:
        """A place that is no file has none that could be replaced."""


def _file_of(connection: sa.Connection) -> FileConnection | _NoFile:
    raw = connection.connection.dbapi_connection
    return raw if isinstance(raw, FileConnection) else _NoFile()


def _check_lasting(connection: sa.Connection, shown: str) -> None:
    """See in the deciding transaction that its commit will last: settings of a server may change while it is in use."""
    connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
    (fsync,) = connection.exec_driver_sql("SELECT current_setting('fsync')").one()
    if fsync != "on":
        raise LedgerError(
            f"the server {shown} now runs with fsync={fsync} and may forget a commit, that is, spending; nothing was "
            "granted. Set it on for this server"
        )
