"""Where a ledger lives: reads the address a user gives and refuses places that cannot keep a promise.

A file on a network file system is refused where that can be seen: its locks are often advisory in name only, and two
machines would each spend the whole budget. A team that needs several machines uses PostgreSQL.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from sidelight.errors import LedgerError
from sidelight.ledger.schema import TABLES, Dialect

# File systems that several machines mount at once. Shares between a host and its guests (9p, virtiofs) are left out:
# they are the root of many containers, where one kernel holds all locks.
# fmt: off
NETWORK_FILE_SYSTEMS: Final = frozenset((
    "afs", "afpfs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.ceph", "fuse.davfs2", "fuse.gcsfuse",
    "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs", "webdav",
))
# fmt: on
_SQLITE_HEADER: Final = b"SQLite format 3\x00"
_ANYBODY_WRITES: Final = 0o222


@dataclass(frozen=True)
class Place:
    """A parsed address. `address` may hold a password: it is never shown, `shown` is."""

    dialect: Dialect
    address: str
    shown: str
    path: Path | None = None  # of a file; None for memory and for servers

    @property
    def in_memory(self) -> bool:
        """True for a ledger that is forgotten with the process."""
        return self.dialect == "sqlite" and self.path is None

    def __repr__(self) -> str:
        return f"Place({self.shown!r})"


def parse_place(url: str | os.PathLike[str]) -> Place:
    """Read "budget.db", "sqlite:///budget.db", "sqlite://" (memory) or "postgresql://...".

    >>> parse_place("sqlite:///budget.db").path.name
    'budget.db'
    >>> parse_place("postgresql://ann:secret@db/budget").shown
    'postgresql://ann:***@db/budget'
    """
    if not isinstance(url, str | os.PathLike):
        raise LedgerError(f"a ledger is a file or an address, got {type(url).__name__}; write sqlite:///budget.db")
    text = os.fspath(url)
    if not text.strip():
        raise LedgerError("a ledger needs an address, got an empty one; try sqlite:///budget.db")
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _memory() if text == ":memory:" else _file(text)
    if re.fullmatch(r"sqlite(\+pysqlite)?", scheme):
        return _sqlite_url(rest, text)
    if re.fullmatch(r"postgres(ql)?(\+psycopg)?", scheme):
        shown = f"postgresql://{_without_password(rest)}"
        return Place(dialect="postgresql", address=f"postgresql+psycopg://{rest}", shown=shown)
    raise LedgerError(
        f"a ledger lives in SQLite or PostgreSQL, got an address that begins with {scheme!r}; "
        "write sqlite:///budget.db or postgresql://user@host/database"
    )


def check_file(path: Path, *, create: bool, read_only: bool = False) -> None:
    """Refuse a file that is not there, not a database, linked twice, or on a network file system."""
    parent = path.parent
    if not parent.is_dir():
        raise LedgerError(
            f"the directory {str(parent)!r} of the ledger does not exist; make it first, or correct the path"
        )
    kind = file_system(parent)
    if kind in NETWORK_FILE_SYSTEMS:
        raise LedgerError(
            f"{str(path)!r} lies on a network file system ({kind}), where file locks do not hold between machines; "
            "put the ledger on a local disk, or use PostgreSQL"
        )
    if not path.exists():
        if not create:
            raise LedgerError(
                f"there is no ledger at {str(path)!r}; correct the path (a new one would have a full budget)"
            )
        return
    if not path.is_file():
        raise LedgerError(
            f"{str(path)!r} is not a file; name the ledger's own file, such as {str(path / 'budget.db')!r}"
        )
    if path.stat().st_nlink > 1:
        raise LedgerError(
            f"{str(path)!r} has a second hard link, and SQLite would keep two logs for one file; "
            "remove the other link (a backup is made with `sidelight ledger export`)"
        )
    if not os.access(path, os.R_OK):
        raise LedgerError(f"{str(path)!r} cannot be read by this user; ask its owner for permission to read it")
    # the administrator may write everything, also a copy that was marked so that nobody spends from it
    if not read_only and not (os.access(path, os.W_OK) and path.stat().st_mode & _ANYBODY_WRITES):
        raise LedgerError(
            f"{str(path)!r} cannot be written by this user, and whoever spends must write; "
            "to look into it there are `sidelight ledger show`, `verify` and `export`, or open_ledger(read_only=True)"
        )
    with path.open("rb") as file:
        start = file.read(len(_SQLITE_HEADER))
    if start and start != _SQLITE_HEADER:
        raise LedgerError(f"{str(path)!r} is not a ledger (not a SQLite database); check the path")
    names = _tables(path)
    if names and not names & set(TABLES):
        raise LedgerError(
            f"{str(path)!r} is a database of something else (it has a table {min(names)!r}); a ledger has its own file"
        )


def _tables(path: Path) -> set[str]:
    """Look without touching: opening a ledger switches its file to a write-ahead log, which others may not want."""
    try:
        with closing(sqlite3.connect(reading_uri(path, lockless=not has_log(path)), uri=True)) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.Error:
        return set()  # locked or damaged: opening it will say so
    return {str(name) for (name,) in rows}


def reading_uri(path: Path, *, lockless: bool) -> str:
    """Return the address under which SQLite reads a file and leaves nothing beside it.

    Without a write-ahead log nobody has the file open, and it can be read as it stands (`immutable`), even in a folder
    in which this user cannot make the log's files. With a log the newest commits are in there, and it must be read too.
    Who reads as it stands takes no lock, and looks afterwards whether the file was written meanwhile.
    """
    return f"{path.as_uri()}?mode=ro{'&immutable=1' if lockless else ''}"


def has_log(path: Path) -> bool:
    """Say whether commits of a file stand, or may stand, in a log beside it."""
    return any(path.with_name(path.name + ending).exists() for ending in ("-wal", "-journal"))


def file_system(directory: Path, *, mounts: str | None = None) -> str | None:
    """Return the type of the file system that holds the directory, or None where the system does not say."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    wanted = directory.resolve()
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4]))
        # of two mounts on one point the later hides the earlier, hence >=
        if wanted.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), right.split(" ")[0])
    return None if best is None else best[1]


def _sqlite_url(rest: str, text: str) -> Place:
    if "?" in rest or "#" in rest:
        raise LedgerError(f"a ledger's SQLite address takes no options, got {text!r}; they could switch off its locks")
    if rest in ("", "/", "/:memory:"):
        return _memory()
    if not rest.startswith("/"):
        raise LedgerError(f"a SQLite address has three slashes before the path, got {text!r}; write sqlite:///{rest}")
    return _file(unquote(rest[1:]))


def _memory() -> Place:
    return Place(dialect="sqlite", address="sqlite://", shown="sqlite:// (memory)")


def _file(text: str) -> Place:
    if "\x00" in text:
        raise LedgerError("a path holds no NUL character; correct the ledger's path")
    path = Path(os.path.realpath(os.path.expanduser(text)))  # a later chdir must not move the ledger
    return Place(dialect="sqlite", address="", shown=str(path), path=path)


def _without_password(rest: str) -> str:
    parts = urlsplit(f"//{rest}")
    login, at, host = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    query = "?***" if parts.query else ""  # a password may stand there too
    return f"{user}{':***' if colon else ''}{at}{host}{parts.path}{query}"
