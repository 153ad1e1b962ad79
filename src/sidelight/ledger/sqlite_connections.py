"""SQLite connections that end their statements and transaction when they are closed, and make commits durable."""

from __future__ import annotations

import sqlite3
import time
import weakref
from contextlib import suppress
from typing import Any, TypeVar

from sidelight.errors import LedgerError

Connected = TypeVar("Connected", bound=sqlite3.Connection)


class FileCursor(sqlite3.Cursor):
    """A cursor that reports a damaged file as SQLite's error, also where the schema is not valid text."""

    def execute(self, *given: Any) -> Any:
        try:
            return super().execute(*given)
        except UnicodeDecodeError:  # SQLite quotes the schema
            raise sqlite3.DatabaseError("malformed database schema: it is not valid text") from None


class LedgerConnection(sqlite3.Connection):
    """A connection that ends its statements and transaction when it is closed.

    SQLite only postpones closing while a cursor is referenced (as by the traceback of an interrupt); the transaction
    would stay open, and block all others, until that cursor is freed.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        self._cursors: list[weakref.ref[sqlite3.Cursor]] = []  # without callbacks, in which an interrupt would be lost
        try:
            super().__init__(*given, **options)
        except BaseException:
            with suppress(sqlite3.Error):
                sqlite3.Connection.close(self)  # an interrupt: the file is open but not listed yet
            raise

    def cursor(self, factory: Any = None) -> Any:
        made = super().cursor(FileCursor if factory is None else factory)
        self._cursors = [weakref.ref(made), *(each for each in self._cursors if each() is not None)]
        return made

    def execute(self, *given: Any) -> Any:
        return self.cursor().execute(*given)

    def is_open(self) -> bool:
        try:
            return self.total_changes >= 0
        except sqlite3.ProgrammingError:
            return False

    def let_go(self) -> None:
        """End open statements (an unfinished one keeps an old snapshot) and the transaction."""
        for cursor in [each() for each in self._cursors]:
            with suppress(sqlite3.Error):
                if cursor is not None:
                    cursor.close()
        if self.is_open() and self.in_transaction:
            sqlite3.Connection.rollback(self)


class MemoryConnection(LedgerConnection):
    """The only connection to a ledger in memory, which would be lost with it: `close` only ends a transaction."""

    def close(self) -> None:
        self.let_go()  # after an interrupt SQLAlchemy closes the connection that it was using

    def end(self) -> None:
        try:
            self.let_go()
        finally:
            super().close()


def connect(kind: type[Connected], address: str, wait_seconds: float, *, uri: bool = False) -> Connected:
    # isolation_level=None: the driver begins nothing by itself; the store does, with IMMEDIATE
    return sqlite3.connect(
        address, timeout=wait_seconds, isolation_level=None, check_same_thread=False, factory=kind, uri=uri
    )


def connect_memory(wait_seconds: float) -> MemoryConnection:
    """Open a ledger that is forgotten with the process."""
    connection = connect(MemoryConnection, ":memory:", wait_seconds)
    prepare(connection, wait_seconds, journal="memory")
    return connection


def prepare(connection: sqlite3.Connection, wait_seconds: float, *, journal: str | None) -> None:
    """Set the pragmas that make a commit durable, and check that they are set; `journal` None stays as it is."""
    log = {} if journal is None else {"journal_mode": journal, "wal_autocheckpoint": 0}
    for name, value in {"busy_timeout": int(wait_seconds * 1000), **log, "synchronous": 2, "foreign_keys": 1}.items():
        patiently(connection, f"PRAGMA {name} = {value}", wait_seconds)
        (got,) = connection.execute(f"PRAGMA {name}").fetchone()
        if got != value:
            raise LedgerError(
                f"SQLite would not set {name} to {value} (it stays {got}), so a commit might be lost; "
                "put the ledger on a local disk, or use PostgreSQL"
            )
    connection.execute("PRAGMA fullfsync = 1")  # macOS: through the drive's cache as well


def patiently(connection: sqlite3.Connection, statement: str, wait_seconds: float) -> None:
    """Execute, waiting for locks: SQLite's own timeout does not cover the change to a write-ahead log."""
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute(statement).fetchall()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
