"""The database under a ledger: transactions, errors a person can act on, and the connections that a process shares.

Any number of sessions on one file use the same connections, and the last of them closes them. SQLite runs with a
write-ahead log and `synchronous=FULL` (with NORMAL the last commits may be lost at power failure, and a lost commit is
forgotten spending); every writing transaction begins with BEGIN IMMEDIATE, because a deferred one that reads first
cannot become a writer. PostgreSQL runs READ COMMITTED with row locks, and servers that acknowledge commits before they
are on disk are refused. This file imports SQLAlchemy, so it is imported when the first ledger is opened.
"""

from __future__ import annotations

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

from sidelight.errors import LedgerError
from sidelight.ledger.connections import (
    FileConnection,
    LedgerConnection,
    MemoryConnection,
    connect_memory,
    connect_reading,
    connect_writing,
    forked,
    has_log,
)
from sidelight.ledger.journal import remember_head
from sidelight.ledger.place import Place
from sidelight.ledger.schema import Transaction
from sidelight.ledger.steps import Steps

Result = TypeVar("Result")
_RETRIES: Final = 12
_PATIENCE: Final = 5.0  # seconds, for a thread that has a ledger in memory while it is closed
_AGAIN: Final = frozenset({"40001", "40P01"})  # serialisation failure, deadlock: the database asks to try again
#: What a connection says of itself that reads a file as it stands, without a lock.
LOCKLESS: Final = "sidelight_lockless"
_ADVICE: Final = {
    "not a database": "check the path",
    "malformed": "the file is damaged; restore a backup and check it with `sidelight ledger verify --expect-head`",
    "unable to open": "check the path and the permissions of its directory, which must be writable too",
    "readonly": "a ledger needs write permission for the file and its directory; to look into one that somebody has "
    "open, wait until it is closed",
    "disk is full": "make room; nothing was written",
    "connection": "check that the server runs, and the host, user and database of the address",
}


class Store:
    """Transactions in one place, for any number of threads; all stores of a process on one file share connections."""

    def __init__(self, place: Place, *, wait_seconds: float, read_only: bool = False) -> None:
        self.place = place
        self.wait_seconds = wait_seconds
        self.read_only = read_only
        self.ledger_id: str | None = None  # set once the first event has said which ledger this is
        self._engines = engines_for(place, wait_seconds, read_only=read_only)
        self._leave = weakref.finalize(self, self._engines.leave)  # also if nobody closes it

    def write(self) -> Steps[Transaction]:
        """Begin a transaction that may write; commits at the end, rolls back on any exception."""
        return Steps(self._write())

    def read(self) -> Steps[Transaction]:
        """Begin a transaction that sees one consistent moment and holds up nobody."""
        return Steps(self._read())

    def _write(self) -> Generator[Transaction, None, None]:
        if self.read_only:
            raise LedgerError(
                f"the ledger {self.place.shown} was opened for reading only; nothing was written. Open it without "
                "read_only=True to spend from it"
            )
        engine, turn = self._connect()  # refused in a forked child, in which nobody may hold the turn any more
        with turn, engine.connect() as connection:
            file = _file_of(connection)
            with connection.begin():
                file.check()  # the lock is held: from here on nobody who keeps to the locks can move the log away
                if self.place.dialect == "postgresql":
                    _check_lasting(connection, self.place.shown)
                transaction = Transaction(connection, self.place.dialect, ledger_id=self.ledger_id)
                yield transaction
                file.check()
                _check_under_way(connection)
            remember_head(transaction)
            file.check()  # somebody who does not: the commit may be in a log that nobody reads

    def _read(self) -> Generator[Transaction, None, None]:
        before, lockless = self._stamp(), False
        engine, turn = self._connect()
        try:
            with self._explained(), turn, engine.connect() as connection:
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
            steps = self.write()
            try:
                with steps as transaction:
                    return work(transaction)
            except SQLAlchemyError as error:
                # a server that was lost may need a moment until it takes connections again
                lost = lost or (isinstance(error, DBAPIError) and error.connection_invalidated)
                if attempt + 1 == _RETRIES or not (_state(error) in _AGAIN or lost):
                    raise self._explain(error, lost=lost) from error
            finally:
                steps.close()  # an interrupt may have kept `with` from its end
            time.sleep(min(1.0, 0.005 * 2**attempt))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def close(self) -> None:
        """Leave the connections; the last user of a file closes them."""
        self._leave()

    def _connect(self) -> tuple[sa.Engine, AbstractContextManager[object]]:
        if not self._leave.alive:  # closed, and used again
            self._engines = engines_for(self.place, self.wait_seconds, read_only=self.read_only)
            self._leave = weakref.finalize(self, self._engines.leave)
        engines = self._engines
        return engines.engine(self.wait_seconds), engines.turn

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


def _check_under_way(connection: sa.Connection) -> None:
    """See that nobody ended the transaction before its commit, which would then say nothing and do nothing."""
    raw = connection.connection.dbapi_connection
    if isinstance(raw, sqlite3.Connection) and not raw.in_transaction:
        raise LedgerError(
            "the transaction was ended before its commit, by something else in this thread (a signal handler, or what "
            "was freed); what was asked for may stand in part. Run `sidelight ledger verify`, and try again"
        )


def _check_lasting(connection: sa.Connection, shown: str) -> None:
    """See in the deciding transaction that its commit will last: settings of a server may change while it is in use."""
    connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
    (fsync,) = connection.exec_driver_sql("SELECT current_setting('fsync')").one()
    if fsync != "on":
        raise LedgerError(
            f"the server {shown} now runs with fsync={fsync} and may forget a commit, that is, spending; nothing was "
            "granted. Set it on for this server"
        )


_shared: dict[tuple[Path, bool], SharedFile] = {}
_turn = threading.RLock()  # of `_shared`; a finaliser may come in the middle of it, hence R
_abandoned: list[sa.Engine] = []  # engines of a parent process: closing their connections here would disturb it


class SharedFile:
    """The engines of one file in this process, one for each patience, for all who write or for all who only read."""

    turn: AbstractContextManager[object] = nullcontext()  # the file has its own locks

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self.process = os.getpid()
        self.users = 0
        self._engines: dict[float, sa.Engine] = {}

    def engine(self, wait_seconds: float) -> sa.Engine:
        """Return the engine that all with this patience share; refused in a forked child."""
        if self.process != os.getpid():
            raise forked(self.path)
        with _turn:
            if wait_seconds not in self._engines:
                make = _reading_engine if self.read_only else _writing_engine
                self._engines[wait_seconds] = make(self.path, wait_seconds)
            return self._engines[wait_seconds]

    def leave(self) -> None:
        """Close the connections with the last user; do nothing in a forked child, to which they do not belong."""
        if self.process != os.getpid():
            return
        with _turn:
            self.users -= 1
            if self.users == 0 and _shared.pop((self.path, self.read_only), None) is self:
                self._dispose()

    def _dispose(self) -> None:  # apart from the lock: Python 3.13 can be interrupted where a loop in `with` goes back
        for engine in self._engines.values():
            engine.dispose()


def share(path: Path, *, read_only: bool) -> SharedFile:
    """Return what this process has open of a file, and count one more user; `leave` takes it back."""
    with _turn:
        shared = _shared.get((path, read_only))
        if shared is None or shared.process != os.getpid():
            shared = _shared[path, read_only] = SharedFile(path, read_only=read_only)
        shared.users += 1
        return shared


class OwnEngine:
    """The engine of a place that is no file: memory, which stays in its process, or a server."""

    def __init__(self, place: Place, wait_seconds: float) -> None:
        self._place = place
        self._process = os.getpid()
        self._memory = connect_memory(wait_seconds) if place.in_memory else None
        self._lock = threading.RLock()
        self._engine = _memory_engine(self._memory) if self._memory else _postgresql_engine(place, wait_seconds)

    @property
    def turn(self) -> AbstractContextManager[object]:
        """What one thread at a time has: the one connection of memory; servers have as many as are asked for."""
        return nullcontext() if self._memory is None else self._lock

    def engine(self, wait_seconds: float) -> sa.Engine:
        """Return the engine; a forked child makes connections of its own to a server."""
        if self._process != os.getpid():
            if self._place.in_memory:
                raise LedgerError(
                    "an in-memory ledger was carried into a forked process, where it would be a second copy of the "
                    "budget; use a file"
                )
            _abandoned.append(self._engine)
            self._engine, self._process = _postgresql_engine(self._place, wait_seconds), os.getpid()
        return self._engine

    def leave(self) -> None:
        """Close the connections of this process."""
        if self._process != os.getpid():
            return
        if self._memory is None:
            self._engine.dispose()
        elif self._lock.acquire(timeout=_PATIENCE):  # never while a thread is in the middle of a charge
            try:
                self._engine.dispose()
                self._memory.end()
            finally:
                self._lock.release()


def engines_for(place: Place, wait_seconds: float, *, read_only: bool) -> SharedFile | OwnEngine:
    """Return where the connections to a place come from."""
    return OwnEngine(place, wait_seconds) if place.path is None else share(place.path, read_only=read_only)


def _writing_engine(path: Path, wait_seconds: float) -> sa.Engine:
    return _sqlite_engine(lambda: connect_writing(path, wait_seconds), poolclass=QueuePool, pool_timeout=wait_seconds)


def _memory_engine(connection: MemoryConnection) -> sa.Engine:
    return _sqlite_engine(lambda: connection, poolclass=StaticPool)


def _sqlite_engine(connect: Callable[[], sqlite3.Connection], **options: Any) -> sa.Engine:
    engine = sa.create_engine("sqlite://", creator=connect, **options)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _reading_engine(path: Path, wait_seconds: float) -> sa.Engine:
    """Connect anew for every transaction: whether there is a log to read is asked each time, and kept with it."""

    def connect(_dialect: object, record: Any, _args: object, _options: object) -> sqlite3.Connection:
        lockless = not has_log(path)
        connection = connect_reading(path, wait_seconds, lockless=lockless)
        record.info[LOCKLESS] = lockless
        return connection

    engine = sa.create_engine("sqlite://", poolclass=NullPool)
    sa.event.listen(engine, "do_connect", connect)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _begin_sqlite(connection: sa.Connection) -> None:
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, LedgerConnection)
    raw.let_go()  # of what an interrupt left: nothing else is under way on a connection that nobody has
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


def _start_anew() -> None:
    """In a forked child: nothing is shared with the parent, and no other thread holds the turn."""
    global _turn
    _turn = threading.RLock()
    _shared.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
