"""The database under a ledger: connections, transactions, and errors a person can act on.

The only file that imports SQLAlchemy. SQLite runs with a write-ahead log and `synchronous=FULL` (with NORMAL the last
commits may be lost at power failure, and a lost commit is forgotten spending); every writing transaction begins with
BEGIN IMMEDIATE, because a deferred one that reads first cannot become a writer. PostgreSQL runs READ COMMITTED with row
locks, and servers that acknowledge commits before they are on disk are refused.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

from sidelight.errors import LedgerError
from sidelight.ledger.place import Place, has_log, reading_uri
from sidelight.ledger.schema import Dialect

Result = TypeVar("Result")
Row = tuple[Any, ...]

_RETRIES: Final = 12
_AGAIN: Final = frozenset({"40001", "40P01"})  # serialisation failure, deadlock: the database asks to try again
#: What a connection says of itself that reads a file as it stands, without a lock.
_LOCKLESS: Final = "sidelight_lockless"
_abandoned: list[sa.Engine] = []  # engines of a parent process: closing their connections here would disturb its locks


@lru_cache(maxsize=256)
def _text(sql: str) -> sa.TextClause:
    return sa.text(sql)


class Transaction:
    """One open transaction: plain SQL text with named parameters, plain rows back."""

    def __init__(self, connection: sa.Connection, dialect: Dialect) -> None:
        self._connection = connection
        self.dialect: Dialect = dialect

    def rows(self, sql: str, **parameters: object) -> list[Row]:
        """Return all rows of a query."""
        return [tuple(row) for row in self._connection.execute(_text(sql), parameters)]

    def row(self, sql: str, **parameters: object) -> Row | None:
        """Return the first row of a query, or None."""
        row = self._connection.execute(_text(sql), parameters).first()
        return None if row is None else tuple(row)

    def each(self, sql: str) -> Iterator[Row]:
        """Go through the rows of a long query without holding them all."""
        # for this statement alone: set on the connection it would stay, and PostgreSQL would open cursors for INSERTs
        with self._connection.execute(_text(sql), execution_options={"yield_per": 1000}) as result:
            for row in result:
                yield tuple(row)

    def run(self, sql: str, **parameters: object) -> int:
        """Execute a statement and return how many rows it changed."""
        return self._connection.execute(_text(sql), parameters).rowcount

    def define(self, sql: str) -> None:
        """Execute a statement that defines tables or triggers."""
        self._connection.exec_driver_sql(sql)

    def tables(self) -> set[str]:
        """Return the names of the tables that are visible."""
        return set(sa.inspect(self._connection).get_table_names())


class Store:
    """Connections to one place, for any number of threads; makes its own anew in a forked child."""

    def __init__(self, place: Place, *, wait_seconds: float, read_only: bool = False) -> None:
        self.place = place
        self.wait_seconds = wait_seconds
        self.read_only = read_only
        self._pid = os.getpid()
        self._turn: AbstractContextManager[object] = threading.RLock() if place.in_memory else nullcontext()
        self._engine = _engine(place, wait_seconds, read_only=read_only)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Begin a transaction that may write; commits at the end, rolls back on any exception."""
        if self.read_only:
            raise LedgerError(
                f"the ledger {self.place.shown} was opened for reading only; nothing was written. Open it without "
                "read_only=True to spend from it"
            )
        with self._turn, self._connect().begin() as connection:
            yield Transaction(connection, self.place.dialect)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Begin a transaction that sees one consistent moment and holds up nobody."""
        before, lockless = self._stamp(), False
        try:
            with self._explained(), self._turn, self._connect().connect() as connection:
                lockless = bool(connection.info.get(_LOCKLESS))
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
        """Close all connections of this process."""
        if self._pid == os.getpid():
            self._engine.dispose()

    def _connect(self) -> sa.Engine:
        if self._pid != os.getpid():
            if self.place.in_memory:
                raise LedgerError(
                    "an in-memory ledger was carried into a forked process, where it would be a second copy of the "
                    "budget; use a file"
                )
            _abandoned.append(self._engine)
            engine = _engine(self.place, self.wait_seconds, read_only=self.read_only)
            self._engine, self._pid = engine, os.getpid()
        return self._engine

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


def _engine(place: Place, wait_seconds: float, *, read_only: bool) -> sa.Engine:
    if place.dialect == "postgresql":
        return _postgresql_engine(place, wait_seconds)
    if read_only and place.path is not None:
        return _reading_engine(place.path, wait_seconds)
    target = ":memory:" if place.path is None else str(place.path)

    def connect() -> sqlite3.Connection:
        # isolation_level=None: the driver begins nothing by itself; `begin` below does, with IMMEDIATE
        connection = sqlite3.connect(target, timeout=wait_seconds, isolation_level=None, check_same_thread=False)
        try:
            _prepare_sqlite(connection, wait_seconds, in_memory=place.in_memory)
        except BaseException:
            connection.close()
            raise
        return connection

    if place.in_memory:
        engine = sa.create_engine("sqlite://", creator=connect, poolclass=StaticPool)
    else:
        engine = sa.create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_timeout=wait_seconds)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _reading_engine(path: Path, wait_seconds: float) -> sa.Engine:
    """Connect anew for every transaction: whether there is a log to read is asked each time, and kept with it."""

    def connect(_dialect: object, record: Any, _args: object, _options: object) -> sqlite3.Connection:
        lockless = not has_log(path)
        connection = sqlite3.connect(
            reading_uri(path, lockless=lockless),
            uri=True,
            timeout=wait_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA query_only = 1")
        record.info[_LOCKLESS] = lockless
        return connection

    engine = sa.create_engine("sqlite://", poolclass=NullPool)
    sa.event.listen(engine, "do_connect", connect)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, wait_seconds: float, *, in_memory: bool) -> None:
    wanted = {
        "busy_timeout": int(wait_seconds * 1000),
        "journal_mode": "memory" if in_memory else "wal",
        "synchronous": 2,  # FULL
        "foreign_keys": 1,
    }
    for name, value in wanted.items():
        _patiently(connection, f"PRAGMA {name} = {value}", wait_seconds)
        (got,) = connection.execute(f"PRAGMA {name}").fetchone()
        if got != value:
            raise LedgerError(
                f"SQLite would not set {name} to {value} (it stays {got}), so a commit might be lost; "
                "put the ledger on a local disk, or use PostgreSQL"
            )
    connection.execute("PRAGMA fullfsync = 1")  # macOS: through the drive's cache as well


def _patiently(connection: sqlite3.Connection, statement: str, wait_seconds: float) -> None:
    """Execute, waiting for locks: SQLite's own patience does not cover the change to a write-ahead log."""
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _begin_sqlite(connection: sa.Connection) -> None:
    deferred = connection.get_execution_options().get("sidelight_deferred", False)
    connection.exec_driver_sql("BEGIN" if deferred else "BEGIN IMMEDIATE")


def _postgresql_engine(place: Place, wait_seconds: float) -> sa.Engine:
    try:
        engine = sa.create_engine(
            place.address,
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
            pool_timeout=wait_seconds,
            connect_args={"connect_timeout": max(1, int(wait_seconds))},
        )
    except ImportError:
        raise LedgerError(
            "a ledger in PostgreSQL needs psycopg, which is not installed; run: pip install 'sidelight[postgres]'"
        ) from None
    except SQLAlchemyError:
        raise LedgerError(
            f"{place.shown} is not an address of PostgreSQL; write postgresql://user@host/database"
        ) from None

    def prepare(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            commit = cursor.fetchone()[0]
            cursor.execute("SHOW fsync")
            fsync = cursor.fetchone()[0]
            cursor.execute("SHOW server_encoding")
            encoding = cursor.fetchone()[0]
            cursor.execute(f"SET lock_timeout = {int(wait_seconds * 1000)}")
        connection.commit()
        if commit == "off" or fsync == "off":
            raise LedgerError(
                f"the server {place.shown} runs with synchronous_commit={commit}, fsync={fsync} and may forget a "
                "commit, that is, spending; set both on for this database"
            )
        if encoding != "UTF8":
            raise LedgerError(
                f"the database {place.shown} stores {encoding} text; a ledger needs one created with UTF8"
            )

    sa.event.listen(engine, "connect", prepare)
    return engine
