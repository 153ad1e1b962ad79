"""SQLAlchemy engines for each kind of place, and for each file of a ledger one set that the whole process shares.

Any number of sessions on one file use the same connections, and the last of them closes them. SQLite runs with a
write-ahead log and `synchronous=FULL` (with NORMAL the last commits may be lost at power failure, and a lost commit is
forgotten spending); every writing transaction begins with BEGIN IMMEDIATE, because a deferred one that reads first
cannot become a writer. PostgreSQL runs READ COMMITTED with row locks, and servers that acknowledge commits before they
are on disk are refused.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

from sidelight.errors import LedgerError
from sidelight.ledger.connections import connect_memory, connect_reading, connect_writing, forked, has_log
from sidelight.ledger.place import Place

#: What a connection says of itself that reads a file as it stands, without a lock.
LOCKLESS: Final = "sidelight_lockless"
_shared: dict[tuple[Path, bool], SharedFile] = {}
_turn = threading.RLock()  # of `_shared`; a finaliser may come in the middle of it, hence R
_abandoned: list[sa.Engine] = []  # engines of a parent process: closing their connections here would disturb it


class SharedFile:
    """The engines of one file in this process, one for each patience, for all who write or for all who only read."""

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
        self._engine = _memory_engine(wait_seconds) if place.in_memory else _postgresql_engine(place, wait_seconds)

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
        if self._process == os.getpid():
            self._engine.dispose()


def engines_for(place: Place, wait_seconds: float, *, read_only: bool) -> SharedFile | OwnEngine:
    """Return where the connections to a place come from."""
    return OwnEngine(place, wait_seconds) if place.path is None else share(place.path, read_only=read_only)


def _writing_engine(path: Path, wait_seconds: float) -> sa.Engine:
    return _sqlite_engine(lambda: connect_writing(path, wait_seconds), poolclass=QueuePool, pool_timeout=wait_seconds)


def _memory_engine(wait_seconds: float) -> sa.Engine:
    return _sqlite_engine(lambda: connect_memory(wait_seconds), poolclass=StaticPool)


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
