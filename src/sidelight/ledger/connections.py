"""The one place that opens the file of a ledger: SQLite connections that know their file, their log and their process.

POSIX locks belong to a process and a file, and closing any descriptor of the file gives up all of them, also one that
only read a few bytes. SQLite knows this and keeps one table of files for all its connections in a process; nobody else
does. So nothing here or elsewhere opens the file by other means, and what others in this process hold open is refused.
A forked child inherits that table without the locks that it tells of, so it is refused as well. And because somebody
may give up the locks all the same, each connection remembers which file and which log it began with: a commit into a
log that is no longer the one beside the file would be forgotten spending.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sqlite3
import threading
import time
import weakref
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidelight.errors import LedgerError
from sidelight.fork_guard import kept_from_children

Identity = tuple[int, int]  # device and inode
_LOG: Final = "-wal"
_BESIDE: Final = (_LOG, "-shm")  # the log, and the shared index of it, on which writers lock each other out


@dataclass
class _Opened:
    """What one connection began with."""

    path: Path
    process: int
    file: Identity | None
    connection: weakref.ref[FileConnection]
    beside: tuple[Identity | None, ...] | None = None  # of the log and its index; None for a connection that only reads
    left_alone: bool = False
    log_bytes: int = 0  # the longest that the log was seen; SQLite never shortens it while somebody has it open

    def unchanged(self) -> bool:
        """Return whether the same file, the same log and the same index are where they were, the log not cut."""
        if self.beside is None:
            return identity_of_file(self.path) == self.file
        if identity_of_file(self.path) != self.file or self.beside != _identities_beside(self.path):
            return False
        before, self.log_bytes = self.log_bytes, max(self.log_bytes, _size(log_of(self.path)))
        return _size(log_of(self.path)) >= before

    def may_close(self) -> bool:
        """Return whether closing the connection harms nobody."""
        return self.process == os.getpid() and not self.left_alone and self.unchanged()

    def is_alive(self) -> bool:
        """Return whether the connection is still open: an interrupt may keep it from leaving the list at its end."""
        connection = self.connection()
        return connection is not None and connection.is_open()


#: One thread at a time opens a file: of a connection that is not in the list yet, the descriptor looks foreign.
_turn = threading.RLock()  # again by the same thread: another connection may be collected while one is opened
_open: dict[int, _Opened] = {}  # by the connection's id; it leaves when it is closed
_inherited: set[Identity] = set()  # files that a parent process had open when this one was forked from it
_left_alone: list[FileConnection] = []  # kept for good: an interrupt where one is freed would close it all the same


class FileCursor(sqlite3.Cursor):
    """A cursor for which a damaged file is an error of SQLite's, also where its words are no text."""

    def execute(self, *given: Any) -> Any:
        """Run a statement."""
        try:
            return super().execute(*given)
        except UnicodeDecodeError:  # SQLite quotes the schema
            raise sqlite3.DatabaseError("malformed database schema: its words are no text") from None


class LedgerConnection(sqlite3.Connection):
    """A connection that lets go of everything when it is closed.

    To close a connection of which somebody still holds a cursor (the traceback of an interrupt does) is only put off by
    SQLite: its transaction would go on, and keep everybody else waiting, until that cursor is freed.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        self._cursors: list[weakref.ref[sqlite3.Cursor]] = []  # no callbacks: an interrupt in one would be lost
        try:
            super().__init__(*given, **options)
        except BaseException:
            with suppress(sqlite3.Error):
                sqlite3.Connection.close(self)  # an interrupt: the file is open, and nobody knows of it yet
            raise

    def cursor(self, factory: Any = None) -> Any:
        """Return a cursor that knows damaged files."""
        made = super().cursor(FileCursor if factory is None else factory)
        self._cursors = [weakref.ref(made), *(each for each in self._cursors if each() is not None)]
        return made

    def execute(self, *given: Any) -> Any:
        """Run a statement, by such a cursor."""
        return self.cursor().execute(*given)

    def is_open(self) -> bool:
        """Return whether it was not closed."""
        try:
            return self.total_changes >= 0
        except sqlite3.ProgrammingError:
            return False

    def let_go(self) -> None:
        """End what is under way: statements, of which one that was not read to its end keeps to an old moment; and the
        transaction."""
        for cursor in [each() for each in self._cursors]:
            with suppress(sqlite3.Error):
                if cursor is not None:
                    cursor.close()
        if self.is_open() and self.in_transaction:
            sqlite3.Connection.rollback(self)


class MemoryConnection(LedgerConnection):
    """The one connection to a ledger in memory, which is gone with it: whoever closes it only ends a transaction."""

    def close(self) -> None:
        """Let go; an interrupt makes SQLAlchemy close what it was using."""
        self.let_go()

    def end(self) -> None:
        """Close, and forget the ledger."""
        try:
            self.let_go()
        finally:
            super().close()


class FileConnection(LedgerConnection):
    """A connection to a ledger's file. Of a parent process, or with its log gone, it is left alone and never closed.

    To close the last connection writes the log into the file and removes it, which only its owner may do: a child would
    do it under its parent's feet, and a log that was replaced would overwrite what others wrote since.
    """

    _began: _Opened | None = None

    def began(self, path: Path) -> _Opened:
        """Remember the file and the process."""
        try:
            kept_from_children(self)
            self._began = _open[id(self)] = _Opened(path, os.getpid(), identity_of_file(path), weakref.ref(self))
        except BaseException:
            sqlite3.Connection.close(self)
            raise
        return self._began

    def check(self) -> None:
        """Refuse to go on after a fork, or if another file or log stands where those of this connection stood."""
        began = self._began
        if began is None:
            return
        if began.process != os.getpid():
            raise forked(began.path)
        if not began.left_alone and began.unchanged():
            return
        if not began.left_alone:
            began.left_alone = True
            _left_alone.append(self)
        raise _meddled_with(began.path)

    def close(self) -> None:
        """Close, unless that would harm others."""
        if self._began is None:
            super().close()
        elif self._began.may_close():
            try:
                self.let_go()
            finally:
                super().close()
            self._began = None
            _open.pop(id(self), None)

    def rollback(self) -> None:
        """Roll back, unless the transaction is that of a parent process."""
        if self._began is None or self._began.process == os.getpid():
            super().rollback()

    def __del__(
        self,
        keep: Any = ctypes.pythonapi.Py_IncRef,
        named: Any = ctypes.py_object,
        opened: Any = _open,
        close: Any = sqlite3.Connection.close,
    ) -> None:
        if self._began is None:
            return
        if self._began.may_close():
            close(self)  # before it leaves the list, or its descriptor would look like somebody else's
            opened.pop(id(self), None)
        else:
            keep(named(self))  # the system will close it when the process ends


def identity_of_file(path: Path) -> Identity | None:
    """Return device and inode of what is at a path, without opening it; None if there is nothing."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _identities_beside(path: Path) -> tuple[Identity | None, ...]:
    return tuple(identity_of_file(path.with_name(path.name + ending)) for ending in _BESIDE)


def log_of(path: Path) -> Path:
    """Return where SQLite keeps the write-ahead log of a file."""
    return path.with_name(path.name + _LOG)


def connect_writing(path: Path, wait_seconds: float) -> FileConnection:
    """Open a file for charges: with a write-ahead log, and with commits that are on the disk when they return."""
    with _turn:
        check_alone(path, spends=True)
        before = identity_of_file(path)
        # isolation_level=None: the driver begins nothing by itself; the store does, with IMMEDIATE
        connection = sqlite3.connect(
            path, timeout=wait_seconds, isolation_level=None, check_same_thread=False, factory=FileConnection
        )
        began = connection.began(path)
    try:
        prepare(connection, wait_seconds, journal="wal")
        # having read, SQLite has opened the log and holds the lock that keeps it there until the connection is closed
        _patiently(connection, "SELECT COUNT(*) FROM sqlite_master", wait_seconds)
        began.beside = _identities_beside(path)
        if None in began.beside or (before is not None and before != began.file):
            raise LedgerError(f"the file {str(path)!r} was replaced or its log removed while it was opened; try again")
        connection.check()
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reading(path: Path, wait_seconds: float, *, lockless: bool) -> FileConnection:
    """Open a file such that nothing is written, neither there nor beside it.

    Without a write-ahead log nobody has the file open, and it can be read as it stands (`immutable`), even in a folder
    in which this user cannot make the log's files. With a log the newest commits are in there, and it must be read too.
    Who reads as it stands takes no lock, and looks afterwards whether the file was written meanwhile.
    """
    with _turn:
        check_alone(path, spends=False)
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=ro{'&immutable=1' if lockless else ''}",
            uri=True,
            timeout=wait_seconds,
            isolation_level=None,
            check_same_thread=False,
            factory=FileConnection,
        )
        connection.began(path)
    connection.execute("PRAGMA query_only = 1")
    return connection


def connect_memory(wait_seconds: float) -> MemoryConnection:
    """Open a ledger that is forgotten with the process."""
    connection = sqlite3.connect(
        ":memory:", timeout=wait_seconds, isolation_level=None, check_same_thread=False, factory=MemoryConnection
    )
    prepare(connection, wait_seconds, journal="memory")
    return connection


def tables_in(path: Path) -> set[str] | None:
    """Look without touching: opening a ledger switches its file to a write-ahead log, which others may not want.

    None of a database that is locked or damaged: it may be a ledger, and opening it will say more.
    """
    try:
        with closing(connect_reading(path, 0.0, lockless=not has_log(path))) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.Error as error:
        if "not a database" in str(error):
            raise LedgerError(f"{str(path)!r} is not a ledger (not a SQLite database); check the path") from None
        return None
    return {str(name) for (name,) in rows}


def copy_file(path: Path, copy: Path) -> None:
    """Write the committed state of a file into an empty one, as a single file without a log beside it."""
    with (
        closing(connect_reading(path, 30.0, lockless=False)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")


def has_log(path: Path) -> bool:
    """Return whether commits of a file stand, or may stand, in a log beside it."""
    return any(path.with_name(path.name + ending).exists() for ending in (_LOG, "-journal"))


def check_alone(path: Path, *, spends: bool) -> None:
    """Refuse a file of which this process cannot hold locks: inherited by a fork, under two names, or open otherwise.

    Where this process has working connections to the file already, its descriptors are theirs.
    """
    file = identity_of_file(path)
    if file is None:
        return
    if file in _inherited:
        raise forked(path)
    ours = _ours(file)
    for each in ours:
        if each.path != path and not _same_place(each.path, path):
            raise LedgerError(
                f"{str(path)!r} and {str(each.path)!r}, which is open here, are one file in two places, and SQLite "
                "would keep two logs for it; use one path"
            )
    if spends and any(each.left_alone for each in ours):
        raise _meddled_with(path)
    if spends and not ours and _held_otherwise(file) and not _is_given_up(file):
        raise LedgerError(
            f"this process has the file {str(path)!r} open by other means (open(), another database library, or what a "
            "parent process had open); closing that would give up the ledger's locks. Close it first; to look into a "
            "ledger use open_ledger(read_only=True)"
        )


def _meddled_with(path: Path) -> LedgerError:
    return LedgerError(
        f"the file {str(path)!r} or its log ({', '.join(path.name + ending for ending in _BESIDE)}) was removed, "
        "replaced or renamed while it was open here; nothing is granted any more, because what is written now could be "
        "forgotten. End this process, leave the file alone, run `sidelight ledger verify --expect-head` with your "
        "newest release's head, and open it again; copy, hash or move a ledger only while nobody has it open"
    )


def forked(path: Path) -> LedgerError:
    """Return the error of a child whose parent had the ledger open."""
    return LedgerError(
        f"the ledger {str(path)!r} was open in the process from which this one was forked, and SQLite's locks do not "
        "survive a fork: both would spend the budget. Nothing was charged. Fork (or daemonise) first and open the "
        "ledger then, close it before the fork, or start workers with multiprocessing.get_context('spawn')"
    )


def prepare(connection: sqlite3.Connection, wait_seconds: float, *, journal: str) -> None:
    """Set what makes a commit last, and see that it is set."""
    wanted = {
        "busy_timeout": int(wait_seconds * 1000),
        "journal_mode": journal,
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
            connection.execute(statement).fetchall()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _ours(file: Identity) -> list[_Opened]:
    """Return what this process has open of a file by connections that are still there."""
    process = os.getpid()
    return [each for each in list(_open.values()) if each.file == file and each.process == process and each.is_alive()]


def _is_given_up(file: Identity) -> bool:
    """Wait for connections of the file that are being freed just now; return whether nobody has it open then.

    One that is gone may stand in the list because it is being closed, or because an interrupt kept it from leaving; and
    an interrupt while a file was opened leaves that to its traceback, of which the garbage collector knows.
    """
    gone = [key for key, each in list(_open.items()) if each.file == file and not each.is_alive()]
    for _ in range(20 if gone else 0):
        if not any(key in _open for key in gone) or not _held_otherwise(file):
            break
        time.sleep(0.01)
    for key in gone:
        if (each := _open.get(key)) is not None and not each.is_alive():
            _open.pop(key, None)
    gc.collect()
    return not _held_otherwise(file)


def _same_place(one: Path, other: Path) -> bool:
    """Return whether two paths lead to one name in one folder (a folder mounted twice): then there is one log."""
    return one.name == other.name and identity_of_file(one.parent) == identity_of_file(other.parent)


def _held_otherwise(file: Identity, *, unknown: bool = False) -> bool:
    """Return whether this process has a descriptor of the file; `unknown` where the system does not tell."""
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except (OSError, ValueError):
        return unknown
    for number in numbers:
        with suppress(OSError):
            found = os.fstat(number)
            if (found.st_dev, found.st_ino) == file:
                return True
    return False


def _remember_what_was_open() -> None:
    global _turn
    _turn = threading.RLock()  # a thread that the child does not have may hold the parent's
    for each in list(_open.values()):  # one that another thread was closing has let go of its file, or not yet
        if each.file is not None and (each.is_alive() or _held_otherwise(each.file, unknown=True)):
            _inherited.add(each.file)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_remember_what_was_open)
