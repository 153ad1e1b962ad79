"""The connections of one store in one process: to a file, to a server, or the only one to memory.

A forked child never uses those of its parent: it is refused, or makes its own to a server, and closes none that it got.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

from sidelight.errors import LedgerError
from sidelight.ledger.connections import FileConnection, connect_reading, connect_writing, forked
from sidelight.ledger.lost_log import check_log
from sidelight.ledger.place import Place, has_log
from sidelight.ledger.sqlite_connections import LedgerConnection, connect_memory

#: What a connection says of itself that reads a file as it stands, without a lock.
LOCKLESS: Final = "sidelight_lockless"
_CLOSING_SECONDS: Final = 5.0  # how long to wait for a thread that uses a ledger in memory while it is closed
_abandoned: list[sa.Engine] = []  # engines of a parent process: closing their connections here would disturb it


class ConnectionPool:
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
    engine = sa.create_engine("sqlite://", creator=connect, **options)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _reading_engine(path: Path, wait_seconds: float) -> sa.Engine:
    """Open a new connection for every transaction: each checks whether there is a log to read."""

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
    raw.let_go()  # of what an interrupt left: nothing runs on an idle connection
    deferred = connection.get_execution_options().get("sidelight_deferred", False)
    connection.exec_driver_sql("BEGIN" if deferred else "BEGIN IMMEDIATE")
