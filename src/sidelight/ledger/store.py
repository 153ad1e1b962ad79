"""The database under a ledger: transactions, and errors a person can act on.

One rule for connections: a store has one engine, made in the process that uses it and closed with the store; every
transaction takes a connection from it in a `with` and gives it back. A new connection for each transaction would be
slower, because closing the last one writes the log into the file.

SQLite runs with a write-ahead log and `synchronous=FULL` (with NORMAL a power failure may lose the last commits, and a
lost commit is forgotten spending); every writing transaction begins with BEGIN IMMEDIATE, because a deferred one that
reads first cannot become a writer. PostgreSQL runs READ COMMITTED with row locks, and servers that acknowledge commits
before they are on disk are refused. This file imports SQLAlchemy, so it is imported when the first ledger is opened.
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

from sidelight.errors import LedgerDamagedError, LedgerError, LedgerUnavailableError
from sidelight.ledger.connections import FileConnection, connect_reading, connect_writing, forked, log_bytes
from sidelight.ledger.journal import look_at_rows, remember_head, remembered
from sidelight.ledger.lost_log import check_log, has_mark, mark, unmark
from sidelight.ledger.place import Place, has_log
from sidelight.ledger.schema import OpenTransaction, RememberedRows, Transaction
from sidelight.ledger.sqlite_connections import LedgerConnection, connect_memory

Result = TypeVar("Result")
_RETRIES: Final = 12
_CLOSING_SECONDS: Final = 5.0  # how long to wait for a thread that uses a ledger in memory while it is closed
_AGAIN: Final = frozenset({"40001", "40P01"})  # serialisation failure, deadlock: the database asks to try again
#: What a connection says of itself that reads a file as it stands, without a lock.
LOCKLESS: Final = "sidelight_lockless"
_ADVICE: Final = {
    "not a database": "check the path",
    "malformed": "the file is damaged; restore a backup and check it with `sidelight ledger verify --expect-head`",
    "unable to open": "check the path and the permissions of its directory, which must be writable too",
    "readonly": "a ledger needs write permission for the file and its directory; to look into one that others have "
    "open, wait until it is closed",
    "disk is full": "make room",
    "read-only transaction": "the database takes no writes now: try again when it does",
    "permission denied": "the role needs to SELECT, INSERT and UPDATE the tables of the ledger",
    "connection": "check that the server runs, and the host, user and database of the address",
}
_UNWRITTEN: Final = "nothing was written"
_WRITES_IN_LOG: Final = 128  # how often the log is written into the file
_LONG_LOG: Final = 4_000_000  # bytes, from which on a process that begins to write does so as well


class Store:
    """Transactions in one ledger, for any number of threads."""

    def __init__(
        self, place: Place, *, wait_seconds: float, answer_seconds: float | None = None, read_only: bool = False
    ) -> None:
        self.place = place
        self.wait_seconds, self.answer_seconds = wait_seconds, answer_seconds
        self.read_only = read_only
        self.ledger_id: str | None = None  # set once the first event has said which ledger this is
        self._known: RememberedRows | None = None
        self._written = 0  # transactions, since the log was written into the file
        self._connect()

    def _connect(self) -> None:
        self._connections = _Connections(
            self.place, self.wait_seconds, answer_seconds=self.answer_seconds, read_only=self.read_only
        )
        self._close = weakref.finalize(self, self._connections.close)  # also without a call of close

    def write(self) -> OpenTransaction[Transaction]:
        """Begin a transaction that may write; commits at the end, rolls back on any exception."""
        return OpenTransaction(self._write())

    def read(self) -> OpenTransaction[Transaction]:
        """Begin a transaction that sees one consistent moment and blocks no other."""
        return OpenTransaction(self._read())

    def _write(self) -> Generator[Transaction, None, None]:
        if self.read_only:
            raise LedgerError(
                f"the ledger {self.place.shown} was opened for reading only; nothing was written. Open it without "
                "read_only=True to spend from it"
            )
        engine, turn = self._engine_and_turn()  # refused in a forked child, where the lock may stay held for ever
        with turn, engine.connect() as connection, self._kept_if_usable(connection):
            self._keep_log(connection)
            with connection.begin():
                _check_file(connection)  # the lock is held: no process that respects it can move the log now
                if self.place.dialect == "sqlite":
                    unmark(connection)
                transaction = self._transaction(connection, ledger_id=self.ledger_id, known=self._known)
                yield transaction
                if self.place.dialect == "postgresql":
                    _check_lasting(transaction, self.place.shown)
                _check_file(connection)
                _check_under_way(connection)
            remember_head(transaction)
            self._known = remembered(transaction) or self._known
            _check_file(connection)  # for those that do not: the commit may be in an orphaned log

    def _keep_log(self, connection: sa.Connection) -> None:
        """Mark the file (see `MARK`) if it is not, and write the log into it, also at every 128th transaction."""
        _leave_if_made(connection, self.place)
        raw, path = connection.connection.dbapi_connection, self.place.path
        if path is None or not isinstance(raw, FileConnection) or raw.found_empty:
            return
        often, self._written = self._written % _WRITES_IN_LOG == 0, self._written + 1
        due = not has_mark(path) or (often and (self._written > 1 or log_bytes(path) > _LONG_LOG))
        if due:
            mark(connection, raw, path)

    @contextmanager
    def _kept_if_usable(self, connection: sa.Connection) -> Iterator[None]:
        """Let go of a connection to a server whose session may be the cause: it keeps settings of when it began."""
        try:
            yield
        except DBAPIError as error:
            if self.place.dialect == "postgresql" and _state(error) not in _AGAIN and not connection.closed:
                connection.invalidate(error)
            raise

    def _read(self) -> Generator[Transaction, None, None]:
        before, lockless = self._stamp(), False
        engine, turn = self._engine_and_turn()
        try:
            with self._explained(), turn, engine.connect() as connection:
                lockless = bool(connection.info.get(LOCKLESS))
                if not self.read_only:
                    _leave_if_made(connection, self.place)
                    _check_file(connection)
                if self.place.dialect == "postgresql":
                    _check_alive(connection)
                    connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                else:
                    connection.execution_options(sidelight_deferred=True)
                with connection.begin():
                    yield self._transaction(connection)
        except LedgerError:
            if lockless:
                self._check_unwritten(before)  # half of a commit looks like damage
            raise
        if lockless:
            self._check_unwritten(before)

    def _transaction(self, connection: sa.Connection, **known: Any) -> Transaction:
        if self.place.dialect == "sqlite":
            return Transaction(connection, "sqlite", **known)
        from sidelight.ledger.pipelined import PipelinedTransaction  # with psycopg, which a file does not need

        return PipelinedTransaction(connection, "postgresql", **known)

    def decide(self, work: Callable[[Transaction], Result], *, unwritten: str = _UNWRITTEN) -> Result:
        """Run `work` in a writing transaction, again if the database says so or the connection was lost.

        After a lost COMMIT it is unknown whether it happened: `work` must begin by looking for its own earlier trace.
        `unwritten` is what an error says of a transaction that was not written.
        """
        if self._known is None and self.ledger_id is not None:  # before anybody waits for the lock
            with self.read() as transaction:
                self._known = look_at_rows(transaction)
        lost, end = False, math.inf if self.answer_seconds is None else time.monotonic() + 2 * self.answer_seconds
        for attempt in range(_RETRIES):
            opened = self.write()
            try:
                with opened as transaction:
                    return work(transaction)
            except SQLAlchemyError as error:
                # a server that was lost may need a moment until it takes connections again
                lost = lost or (isinstance(error, DBAPIError) and error.connection_invalidated)
                last = attempt + 1 == _RETRIES or time.monotonic() > end
                if last or not (_state(error) in _AGAIN or lost):
                    raise self._explain(error, lost=lost, unwritten=unwritten) from error
            finally:
                opened.close()  # an interrupt may have kept `with` from its end
            time.sleep(min(1.0, 0.005 * 2**attempt))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def close(self) -> None:
        """Close the connections; the store may be used again, with new ones."""
        close = self._close
        self._connect()  # before, and not when it is used: each of several threads would make them, and one be closed
        close()

    def _engine_and_turn(self) -> tuple[sa.Engine, AbstractContextManager[object]]:
        connections = self._connections
        return connections.engine(), connections.turn

    def _check_unwritten(self, before: tuple[int, int] | None) -> None:
        if self._stamp() != before:
            raise LedgerUnavailableError(f"the ledger {self.place.shown} was written while it was read; try again")

    def _stamp(self) -> tuple[int, int] | None:
        """Return a stamp that changes when a file is written, for a reader without a lock."""
        if not self.read_only or self.place.path is None:
            return None
        try:
            found = self.place.path.stat()
        except OSError as error:
            raise LedgerUnavailableError(f"the ledger {self.place.shown} cannot be read: {error.strerror}") from error
        return found.st_size, found.st_mtime_ns

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise self._explain(error, unwritten="nothing was read") from error

    def _explain(self, error: SQLAlchemyError, *, lost: bool = False, unwritten: str = _UNWRITTEN) -> LedgerError:
        where, reason = self.place.shown, _reason(error)
        if lost:
            answers = isinstance(error, DBAPIError) and not error.connection_invalidated and _state(error) is not None
            return LedgerUnavailableError(
                f"the ledger {where} was lost in the middle of a transaction "
                f"{f'and now answers: {reason}' if answers else f'({reason}) and did not come back'}; a charge may "
                "stand without a release. Repeat the request with the same key once the server "
                f"{'can be written' if answers else 'runs'}; if it is then unfinished, resume it, which pays again"
            )
        if isinstance(error, PoolTimeout) or "database is locked" in reason or _state(error) == "55P03":
            return LedgerUnavailableError(
                f"the ledger {where} has been locked by another process for {self.wait_seconds:g} s; "
                f"{unwritten}. Try again, or find the process that holds it"
            )
        for sign, advice in _ADVICE.items():
            if sign in reason:
                kind = LedgerDamagedError if sign in ("not a database", "malformed") else LedgerUnavailableError
                return kind(f"the ledger {where} cannot be used: {reason}; {unwritten}; {advice}")
        return LedgerUnavailableError(f"the ledger {where} answered: {reason}; {unwritten}")


def _reason(error: SQLAlchemyError) -> str:
    cause = getattr(error, "orig", None) or error
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]


def _state(error: SQLAlchemyError) -> str | None:
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    return state if isinstance(state, str) else None


def _check_file(connection: sa.Connection) -> None:
    """Refuse to go on if the file or the log of the connection was replaced."""
    raw = connection.connection.dbapi_connection
    if isinstance(raw, FileConnection):
        raw.check()


def _leave_if_made(connection: sa.Connection, place: Place) -> None:
    """Let go of a connection to a file that was empty and has its tables now: the one after it has a log."""
    raw = connection.connection.dbapi_connection
    if isinstance(raw, FileConnection) and raw.found_empty and not place.is_empty:
        connection.invalidate()


def _check_under_way(connection: sa.Connection) -> None:
    """Check that the transaction was not ended before its commit, which would then silently do nothing."""
    raw = connection.connection.dbapi_connection
    if isinstance(raw, sqlite3.Connection) and not raw.in_transaction:
        raise LedgerUnavailableError(
            "the transaction was ended before its commit, by something else in this thread (a signal handler, or what "
            "was freed); what was asked for may stand in part. Run `sidelight ledger verify`, and try again"
        )


def _check_lasting(transaction: Transaction, shown: str) -> None:
    """See in the deciding transaction that its commit will last, and that an outcome may follow: both may change."""
    asked = (
        "SELECT set_config('synchronous_commit', 'on', true), current_setting('fsync'),"
        " has_any_column_privilege('entry', 'UPDATE')"
    )
    ((_, fsync, settles),) = transaction.rows(asked)
    if fsync != "on":
        raise LedgerError(
            f"the server {shown} now runs with fsync={fsync} and may forget a commit, that is, spending; nothing was "
            "granted. Set it on for this server"
        )
    if not settles:  # all else that an outcome needs, a charge needs, too
        raise LedgerError(
            f"the role may not UPDATE the table entry of {shown}, so no outcome of a charge could be written; nothing "
            "was granted. It needs to SELECT, INSERT and UPDATE the tables of the ledger"
        )


def _check_alive(connection: sa.Connection) -> None:
    """Reconnect if the server was restarted since the connection was used; `decide` begins again by itself."""
    raw: Any = connection.connection.dbapi_connection
    try:
        connection.dialect.do_ping(raw)
    except connection.dialect.loaded_dbapi.Error as error:
        connection.invalidate(error)
        connection.engine.dispose()  # the others of the pool are as old


_abandoned: list[sa.Engine] = []  # engines of a parent process: closing their connections here would disturb it


class _Connections:
    """The engine of one store in one process: pooled connections to a file or server, or the only one to memory."""

    def __init__(self, place: Place, wait_seconds: float, *, answer_seconds: float | None, read_only: bool) -> None:
        self._place = place
        self._wait_seconds, self._answer_seconds = wait_seconds, answer_seconds
        self._read_only = read_only
        self._process = os.getpid()
        self._memory = connect_memory(wait_seconds) if place.in_memory else None
        self._lock = threading.RLock()
        self._engine = self._make_engine()

    @property
    def turn(self) -> AbstractContextManager[object]:
        """A lock around the one connection of memory; files and servers have their own."""
        return nullcontext() if self._memory is None else self._lock

    def engine(self) -> sa.Engine:
        """Return the engine; a forked child is refused, or makes its own connections to a server."""
        if self._process != os.getpid():
            if self._place.path is not None:
                raise forked(self._place.path)
            if self._place.in_memory:
                raise LedgerError(
                    "an in-memory ledger was carried into a forked process, where it would be a second copy of the "
                    "budget; use a file"
                )
            _abandoned.append(self._engine)
            self._engine, self._process = self._make_engine(), os.getpid()
        return self._engine

    def close(self) -> None:
        """Close the connections; keep them open in a forked child, to which they do not belong."""
        if self._process != os.getpid():
            _abandoned.append(self._engine)
            return
        if self._memory is None:
            self._engine.dispose()
        elif self._lock.acquire(timeout=_CLOSING_SECONDS):  # never while a thread is in the middle of a charge
            try:
                self._engine.dispose()
                self._memory.end()
            finally:
                self._lock.release()

    def _make_engine(self) -> sa.Engine:
        path, memory, wait_seconds = self._place.path, self._memory, self._wait_seconds
        if memory is not None:
            return _sqlite_engine(lambda: memory, poolclass=StaticPool)
        if path is None:
            from sidelight.ledger.server_engine import postgresql_engine  # a file needs none of it

            return postgresql_engine(self._place, wait_seconds, self._answer_seconds)
        if self._read_only:
            return _reading_engine(path, wait_seconds)

        def connect() -> FileConnection:
            check_log(path)  # also by a ledger that was closed and is used again
            return connect_writing(path, wait_seconds)

        return _sqlite_engine(connect, poolclass=QueuePool, pool_timeout=wait_seconds)


def _sqlite_engine(connect: Callable[[], sqlite3.Connection], **options: Any) -> sa.Engine:
    engine = sa.create_engine("sqlite://", creator=connect, hide_parameters=True, **options)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _reading_engine(path: Path, wait_seconds: float) -> sa.Engine:
    """Open a new connection for every transaction: each checks whether there is a log to read."""

    def connect(_dialect: object, record: Any, _args: object, _options: object) -> sqlite3.Connection:
        lockless = not has_log(path)
        connection = connect_reading(path, wait_seconds, lockless=lockless)
        record.info[LOCKLESS] = lockless
        return connection

    engine = sa.create_engine("sqlite://", poolclass=NullPool, hide_parameters=True)
    sa.event.listen(engine, "do_connect", connect)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _begin_sqlite(connection: sa.Connection) -> None:
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, LedgerConnection)
    raw.let_go()  # of what an interrupt left: nothing runs on an idle connection
    deferred = connection.get_execution_options().get("sidelight_deferred", False)
    connection.exec_driver_sql("BEGIN" if deferred else "BEGIN IMMEDIATE")
