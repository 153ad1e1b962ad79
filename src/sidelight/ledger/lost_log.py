"""The mark of a ledger's file: without the log that holds its newest charges it shows, and the file grants nothing.

A file whose newest commits are in its log has a mark (`connections.MARK`), which the log takes back. Where the mark is
what counts although there should be a log, the log was lost: left behind by a copy, removed, or emptied by a crash.
"""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sidelight.errors import LedgerError
from sidelight.ledger.connections import MARK, FileConnection, connect_reading, log_of

if TYPE_CHECKING:
    import sqlalchemy as sa

#: How a log begins, by the order of the bytes in its words; then its page size; then checksums of its first 24 bytes.
_ORDER: Final = {0x377F0682: "<", 0x377F0683: ">"}
_HEADER, _PAGE_HEADER = 32, 24


def check_log(path: Path) -> None:
    """Refuse a file that has the mark, and no log that can take it back."""
    if all(_lacks_its_log(path) for _ in range(2)):  # twice: another process may open or close it between two looks
        raise LedgerError(
            f"{str(path)!r} lacks its log {path.name}-wal, which holds the newest charges: the file was copied alone "
            "while the ledger was open, or the log was removed or emptied, as after a crash. Nothing was granted. Put "
            "the log of that moment next to it, or use the ledger from which it was copied; a new ledger would grant "
            "the same people a second budget. Copy a ledger only while it is not open. If its owner knows that nothing "
            "is missing, Limitations, in the documentation, say how to go on"
        )


def has_mark(path: Path) -> bool | None:
    """Return whether a file says, where its log is not read, that there is one; None if it cannot be read."""
    try:
        with closing(connect_reading(path, 0.0, lockless=True)) as connection:
            return connection.is_marked()
    except sqlite3.Error:
        return None


def mark(connection: sa.Connection, raw: FileConnection, path: Path) -> None:
    """Write the log into the file, with the mark, and take that off the log.

    Where others read, the log cannot be written into the file as a whole, and the next transaction tries again: the
    mark is not put into the log then, where a process that dies would leave it.
    """
    for _ in range(3):
        undisturbed = False
        if not raw.is_open():  # after an interrupt: the transaction gets another connection
            break
        raw.check()  # the log of another file must never be written into this one
        if not _is_written(raw):
            break
        try:
            with connection.begin():
                raw.check()
                connection.exec_driver_sql(f"PRAGMA user_version = {MARK}")
            raw.check()
            undisturbed = _is_written(raw) and raw.is_marked()
        finally:
            raw.unmark()
        if undisturbed or has_mark(path):  # else another process took the mark off before the log was written
            break


def _is_written(raw: FileConnection) -> bool:
    """Write the log into the file; return whether that was possible. If not, a later time will do."""
    with suppress(sqlite3.Error):
        busy, pages, written = raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return not busy and bool(pages == written)
    return False


def unmark(connection: sa.Connection) -> None:
    """Take the mark off what the log says, in the transaction of a charge, where somebody left it there."""
    if connection.exec_driver_sql("PRAGMA user_version").scalar() == MARK:
        connection.exec_driver_sql("PRAGMA user_version = 0")


def _lacks_its_log(path: Path) -> bool:
    return bool(not _log_begins(path) and has_mark(path) and not _log_begins(path))


def _log_begins(path: Path) -> bool:
    """Return whether the log begins as SQLite's do, and may hold a page: one of zeros, or cut off before, does not.

    Its pages are not looked at: a log that begins anew holds none that counts, until its first commit is written. To
    open and close the log takes no locks away, unlike the file (see `connections`).
    """
    with suppress(OSError, struct.error), open(log_of(path), "rb") as log:
        head = log.read(_HEADER)
        magic, _, page = struct.unpack_from(">3I", head)
        words, first, second = struct.unpack_from(f"{_ORDER.get(magic, '>')}6I", head), 0, 0
        for one, other in zip(words[::2], words[1::2], strict=True):
            first = (first + one + second) % 2**32
            second = (second + other + first) % 2**32
        sums = struct.unpack_from(">2I", head, 24)
        return magic in _ORDER and sums == (first, second) and len(log.read(_PAGE_HEADER + page)) == _PAGE_HEADER + page
    return False
