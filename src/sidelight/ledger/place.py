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
from sidelight.ledger.connections import connect_reading
from sidelight.ledger.lost_log import check_log
from sidelight.ledger.schema import TABLES, Dialect
from sidelight.readable import shown_address

# File systems that several machines mount at once. Shares between a host and its guests (9p, virtiofs) are left out:
# they are the root of many containers, where one kernel holds all locks.
# fmt: off
NETWORK_FILE_SYSTEMS: Final = frozenset((
    "afs", "afpfs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.ceph", "fuse.davfs2", "fuse.gcsfuse",
    "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs", "webdav",
))
# fmt: on
_ANYBODY_WRITES: Final = 0o222
#: The files that SQLite keeps next to a database: its log, the index of the log, an older kind of log.
BESIDE: Final = ("-wal", "-shm", "-journal")


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

    @property
    def is_empty(self) -> bool:
        """True for a file without content, and for memory and servers, of which only their tables say it."""
        return self.path is None or not self.path.exists() or self.path.stat().st_size == 0

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
        shown = _shown_server(rest)
        return Place(dialect="postgresql", address=f"postgresql+psycopg://{rest}", shown=shown)
    raise LedgerError(
        f"a ledger lives in SQLite or PostgreSQL, got an address that begins with {scheme!r}; "
        "write sqlite:///budget.db or postgresql://user@host/database"
    )


def check_file(path: Path, *, create: bool, read_only: bool = False) -> None:
    """Refuse a file that is not there, not a database, linked twice, mounted by itself, or on a network file system."""
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
    check_not_mounted(path)
    if not path.exists():
        if not create:
            raise LedgerError(
                f"there is no ledger at {str(path)!r}; correct the path (a new one would have a full budget)"
            )
        left = [path.name + ending for ending in BESIDE if path.with_name(path.name + ending).exists()]
        if left and not path.exists():  # else another process is just making it: SQLite makes the file first
            raise LedgerError(
                f"there is no ledger at {str(path)!r}, but files that SQLite kept for one ({', '.join(left)}): it was "
                "moved or removed, perhaps while it was open. Put it back: a new one would grant the same people a "
                "second budget, and has another name, for other people only"
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
    # the administrator may write everything, also a copy that is marked read-only so that it is never spent from
    if not read_only and not (os.access(path, os.W_OK) and path.stat().st_mode & _ANYBODY_WRITES):
        raise LedgerError(
            f"{str(path)!r} cannot be written by this user, and spending writes to it; "
            "to look into it there are `sidelight ledger show`, `verify` and `export`, or open_ledger(read_only=True)"
        )
    names = tables_in(path)
    if names and not names & set(TABLES):
        raise LedgerError(
            f"{str(path)!r} is a database of something else (it has a table {min(names)!r}); a ledger has its own file"
        )
    check_log(path)


def read_key(file: Path) -> bytes:
    """Return the key of a ledger from a file: its bytes without white space at the ends."""
    try:
        return file.read_bytes().strip()
    except OSError as error:
        raise LedgerError(
            f"the key of the ledger, {str(file)!r}, cannot be read ({error.strerror}); make one with "
            "`head -c 32 /dev/urandom | base64`"
        ) from None


def has_log(path: Path) -> bool:
    """Return whether commits of a file may be in a log."""
    return any(path.with_name(path.name + ending).exists() for ending in ("-wal", "-journal"))


def tables_in(path: Path) -> set[str] | None:
    """Return the tables of a database without changing it; None if it is locked or damaged (opening it says more)."""
    try:
        with closing(connect_reading(path, 0.0, lockless=not has_log(path))) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.Error as error:
        if "not a database" in str(error):
            raise LedgerError(f"{str(path)!r} is not a ledger (not a SQLite database); check the path") from None
        return None
    return {str(name) for (name,) in rows}


def no_ledger_in(place: Place) -> LedgerError:
    """Return the error of an address without a ledger; it is for people to say whether an empty file was one."""
    if place.path is None:
        return LedgerError(f"there is no ledger in {place.shown}; check the address")
    return LedgerError(
        f"there is no ledger in {place.shown}, only a database without tables: making a ledger was not finished (a "
        f"full disk, a crash), or its log {place.path.name}-wal was removed, and with it what was spent. Check the "
        f"address; if nothing was ever released with it, remove {place.path.name} and its -wal and -shm, and run again"
    )


def check_output(path: Path) -> None:
    """Refuse to overwrite a ledger, its log or its lock, or anything that is not an ordinary file.

    Replacing the log of a ledger gives back what was charged, and nothing can detect it afterwards.
    """
    target = Path(os.path.realpath(path))
    for ending in BESIDE:
        if target.name.endswith(ending):
            raise LedgerError(
                f"{str(path)!r} ends like a file that SQLite keeps next to a database ({ending}), and writing it could "
                "destroy a ledger; choose another name"
            )
    if target.exists() and not target.is_file():
        raise LedgerError(f"{str(path)!r} is not an ordinary file; choose another place")
    if target.exists() and _is_ledger(target):
        raise LedgerError(
            f"{str(path)!r} is a database, perhaps a ledger, and writing over it would give back what was spent; "
            "choose another place"
        )


def _is_ledger(path: Path) -> bool:
    if any(path.with_name(path.name + ending).exists() for ending in BESIDE):
        return True  # another process may have it open
    try:
        names = tables_in(path)
    except LedgerError:  # not a database
        return False
    return names is None or bool(names)  # a damaged one may be restored: do not write over it


def check_not_mounted(path: Path, *, mounts: str | None = None) -> None:
    """Refuse a file that is itself a mount point: its log lies in the folder, which is not mounted with it.

    Two containers that mount the one file, or one and the host, would keep two logs and each spend the whole budget.
    """
    points = _mount_points(mounts)
    if points is None:  # not Linux: then the device tells, if the file is there
        apart = path.exists() and path.stat().st_dev != path.parent.stat().st_dev
        mounted = [path] if apart else []
    else:
        files = [path, *(path.with_name(path.name + ending) for ending in BESIDE)]
        mounted = [each for each in files if each in points]
    if mounted:
        raise LedgerError(
            f"{str(mounted[0])!r} is a mount point of its own, and SQLite keeps its log next to it, where others who "
            f"use the file do not see it: each would spend the whole budget. Mount the folder {str(path.parent)!r} "
            "that holds the ledger, not the file"
        )


def file_system(directory: Path, *, mounts: str | None = None) -> str | None:
    """Return the type of the file system that holds the directory, or None where the system does not say."""
    points = _mount_points(mounts)
    if points is None:
        return None
    wanted = directory.resolve()
    around = [point for point in points if wanted.is_relative_to(point)]
    return points[max(around, key=lambda point: len(point.parts))] if around else None


def _mount_points(mounts: str | None = None) -> dict[Path, str] | None:
    """Return what is mounted where (point -> type of file system), or None where the system does not say."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    points: dict[Path, str] = {}
    for line in mounts.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split(" ")
        if separator and len(fields) >= 5:
            text = re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), os.fsencode(fields[4]))
            points[Path(os.fsdecode(text))] = right.split(" ")[0]  # of two on one point the later hides the earlier
    return points


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
    if text != text.strip() or re.match(r"(file|sqlite\d?|postgres(ql)?)(\+\w+)?:", text.lower()) or "?" in text:
        raise LedgerError(
            f"a ledger's path has no spaces around it, no options and no scheme but sqlite:///, got {text!r}; it would "
            "be a new ledger with a full budget"
        )
    path = Path(os.path.realpath(os.path.expanduser(text)))  # a later chdir must not move the ledger
    if not path.name:
        raise LedgerError(f"{str(path)!r} is not a file; name the ledger's own file, such as budget.db")
    return Place(dialect="sqlite", address="", shown=str(path), path=path)


def _shown_server(rest: str) -> str:
    try:
        urlsplit(f"//{rest}").port  # noqa: B018 (raises where it is no number)
        if "search_path" in unquote(rest):
            raise LedgerError(
                "a ledger's address sets no search_path: each schema would hold a ledger of its own, with the whole "
                "budget; leave it out, and give the ledger a database of its own"
            )
        return shown_address(f"postgresql://{rest}")
    except ValueError:
        raise LedgerError(
            "the address of the ledger's server cannot be read (host and port); write postgresql://user@host:5432/database"
        ) from None
