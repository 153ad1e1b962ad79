"""The only module that opens the file of a ledger: SQLite connections that know their file, log and process.

POSIX locks belong to a process and a file, and closing any descriptor of the file gives up all of them, even one that
only read a few bytes. SQLite handles this with one table of files for all its connections in a process; other code does
not. So the file is opened here and nowhere else, and a file that this process has open by other means is refused. A
forked child inherits SQLite's table without the locks, so it is refused as well. Each connection also remembers which
file and log it began with: a commit into a log that was replaced would be forgotten spending.
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

from sidelight.errors import LedgerDamagedError, LedgerError
from sidelight.fork_guard import kept_from_children
from sidelight.ledger.sqlite_connections import LedgerConnection, connect, patiently, prepare

FileIdentity = tuple[int, int]  # device and inode
#: What `PRAGMA user_version` is in a file whose newest commits are in its log. The log says 0, and wins while it is
#: there: a ledger that is open, or opened after a crash, has no mark, and closing the last connection, by whatever
#: program, writes the log into the file, and with it the 0. Only a file without its log shows the mark.
MARK: Final = 1
_LOG: Final = "-wal"
_BESIDE: Final = (_LOG, "-shm")  # the log, and the shared index of it, on which writers lock each other out


@dataclass
class _Opened:
    """The file, log and process of one connection."""

    path: Path
    process: int
    file: FileIdentity | None
    connection: weakref.ref[FileConnection]
    beside: tuple[FileIdentity | None, ...] | None = None  # log and index; None if it only reads
    left_alone: bool = False
    log_bytes: int = 0  # the longest that the log was seen; SQLite never shortens it while it is open

    def unchanged(self) -> bool:
        """Return whether file, log and index are the same as at the start, and the log was not truncated."""
        if identity_of_file(self.path) != self.file or self.beside not in (None, _identities_beside(self.path)):
            return False
        before, now = self.log_bytes, 0 if self.beside is None else log_bytes(self.path)
        self.log_bytes = max(before, now)
        return now >= before

    def may_close(self) -> bool:
        """Return whether closing is safe."""
        return self.process == os.getpid() and not self.left_alone and self.unchanged()

    def is_alive(self) -> bool:
        """Return whether the connection is open: after an interrupt a closed one may still be listed."""
        connection = self.connection()
        return connection is not None and connection.is_open()


#: One thread at a time opens a file: the descriptor of a connection that is not listed yet looks foreign.
_turn = threading.RLock()  # reentrant: another connection may be collected while one is opened
_open: dict[int, _Opened] = {}  # by the connection's id, until it is closed
_inherited: set[FileIdentity] = set()  # files that the parent process had open at the fork
_left_alone: list[FileConnection] = []  # kept for good: an interrupt while one is freed would close it


class FileConnection(LedgerConnection):
    """A connection to a ledger's file, never closed in a forked child or after its log was replaced.

    Closing the last connection writes the log into the file and deletes it. In a child that would corrupt the parent's
    ledger, and a replaced log would overwrite what others wrote since.
    """

    _began: _Opened | None = None
    found_empty = False  # the file had no page when it was opened: it gets a log once its tables are made

    def began(self, path: Path) -> _Opened:
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
        if began is not None and began.process != os.getpid():
            raise forked(began.path)
        if began is None or (not began.left_alone and began.unchanged()):
            return
        if not began.left_alone:
            began.left_alone = True
            _left_alone.append(self)
        raise _meddled_with(began.path)

    def is_marked(self) -> bool:
        """Return whether the log says that the file has the mark (see `MARK`), or the file where there is no log."""
        return bool(self.execute("PRAGMA user_version").fetchall() == [(MARK,)])

    def unmark(self) -> None:
        """Take the mark off what the log says, also where a process died that had put it there.

        If others lock the file for too long, or the disk is full, the next that writes or closes does it. After an
        interrupt a checkpoint may be unfinished: what is written beside it would keep the file locked.
        """
        self.let_go()
        with suppress(sqlite3.Error):
            if self.is_marked():
                self.execute("PRAGMA user_version = 0")

    def close(self) -> None:
        if self._began is None:
            super().close()
        elif self._began.may_close():
            try:
                if self._began.beside is None:
                    self.let_go()
                else:
                    self.unmark()
            finally:
                super().close()
            self._began = None
            _open.pop(id(self), None)

    def rollback(self) -> None:
        if self._began is None or self._began.process == os.getpid():  # not the transaction of a parent process
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
            close(self)  # before it leaves the list, or its descriptor would look foreign
            opened.pop(id(self), None)
        else:
            keep(named(self))  # the system will close it when the process ends


def identity_of_file(path: Path) -> FileIdentity | None:
    """Return device and inode of a path without opening it; None if there is nothing."""
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def _identities_beside(path: Path) -> tuple[FileIdentity | None, ...]:
    return tuple(identity_of_file(path.with_name(path.name + ending)) for ending in _BESIDE)


def log_bytes(path: Path) -> int:
    """Return how long the log of a file is; 0 if there is none."""
    with suppress(OSError):
        return os.stat(log_of(path)).st_size
    return 0


def log_of(path: Path) -> Path:
    """Return where SQLite keeps the write-ahead log of a file."""
    return path.with_name(path.name + _LOG)


def connect_writing(path: Path, wait_seconds: float) -> FileConnection:
    """Open a file for charges, with durable commits and a write-ahead log, unless it is empty and gets its tables."""
    with _turn:
        check_alone(path, spends=True)
        before = identity_of_file(path)
        connection = connect(FileConnection, str(path), wait_seconds)
        began = connection.began(path)
    try:
        patiently(connection, "SELECT COUNT(*) FROM sqlite_master", wait_seconds)  # undoes half a commit, too
        connection.found_empty = connection.execute("PRAGMA page_count").fetchone() == (0,)
        prepare(connection, wait_seconds, journal=None if connection.found_empty else "wal")
        if not connection.found_empty:  # having read, SQLite has the log open, and keeps it there until it is closed
            patiently(connection, "SELECT COUNT(*) FROM sqlite_master", wait_seconds)
            began.beside = _identities_beside(path)
        if None in (began.beside or ()) or (before is not None and before != began.file):
            raise LedgerError(f"the file {str(path)!r} was replaced or its log removed while it was opened; try again")
        connection.check()
        connection.unmark()
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reading(path: Path, wait_seconds: float, *, lockless: bool) -> FileConnection:
    """Open a file for reading; nothing is written to its folder.

    Without a write-ahead log no process has the file open, and it is read as it stands (`immutable`, `lockless`), even
    in a folder in which this user cannot create the log's files; the caller then checks afterwards that it was not
    written meanwhile. With a log, the newest commits are there, and it is read too.
    """
    with _turn:
        check_alone(path, spends=False)
        address = f"{path.as_uri()}?mode=ro{'&immutable=1' if lockless else ''}"
        connection = connect(FileConnection, address, wait_seconds, uri=True)
        connection.began(path)
    connection.execute("PRAGMA query_only = 1")
    return connection


def copy_file(path: Path, copy: Path) -> None:
    """Write the committed state of a file into an empty one, as a single file without a log."""
    with closing(connect_reading(path, 30.0, lockless=False)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")


def check_alone(path: Path, *, spends: bool) -> None:
    """Refuse a file on which this process cannot hold locks: inherited by a fork, under two names, or open otherwise.

    Where this process has working connections to the file, its descriptors belong to them.
    """
    file = identity_of_file(path)
    if file in _inherited:
        raise forked(path)
    process = os.getpid()
    mine = [each for each in list(_open.values()) if each.process == process]
    live = [each for each in mine if each.is_alive()]
    ours = [each for each in live if each.file == file]
    for each in ours:
        if each.path != path and not _same_place(each.path, path):
            raise LedgerError(
                f"{str(path)!r} and {str(each.path)!r}, which is open here, are one file in two places, and SQLite "
                "would keep two logs for it; use one path"
            )
    kept = [*live, *(each for each in mine if each.connection() is None)]  # those that could not be closed, too
    replaced = any(each.path == path and each.file != file for each in kept)
    if spends and (replaced or any(each.left_alone for each in ours)):
        raise _meddled_with(path)
    if spends and file and not ours and _held_otherwise(file) and not _is_given_up(file):
        raise LedgerError(
            f"this process has the file {str(path)!r} open by other means (open(), another database library, or what a "
            "parent process had open); closing that would give up the ledger's locks. Close it first; to look into a "
            "ledger use open_ledger(read_only=True)"
        )


def _meddled_with(path: Path) -> LedgerDamagedError:
    return LedgerDamagedError(
        f"the file {str(path)!r} or its log ({', '.join(path.name + ending for ending in _BESIDE)}) was removed, "
        "replaced or renamed while it was open here; nothing is granted any more, because what is written now could be "
        "forgotten. End this process, leave the file alone, run `sidelight ledger verify --expect-head` with your "
        "newest release's head, and open it again; copy, hash or move a ledger only while it is not open"
    )


def forked(path: Path) -> LedgerError:
    """Return the error of a child whose parent had the ledger open."""
    return LedgerError(
        f"the ledger {str(path)!r} was open in the process from which this one was forked, and SQLite's locks do not "
        "survive a fork: both would spend the budget. Nothing was charged. Fork (or daemonise) first and open the "
        "ledger then, close it before the fork, or start workers with multiprocessing.get_context('spawn')"
    )


def _is_given_up(file: FileIdentity) -> bool:
    """Wait for connections to the file that are just being freed; return whether the file is closed then.

    A dead connection may still be listed because it is being closed, or because of an interrupt; and an interrupt while
    a file was opened leaves the descriptor to its traceback, which the garbage collector frees.
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
    """Return whether two paths are one name in one folder (mounted twice): then there is one log."""
    return one.name == other.name and identity_of_file(one.parent) == identity_of_file(other.parent)


def _held_otherwise(file: FileIdentity, *, unknown: bool = False) -> bool:
    """Return whether this process has a descriptor of the file; `unknown` where the system does not say."""
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
