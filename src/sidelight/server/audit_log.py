"""The audit log: one line of JSON per paid request or owner's command, with the hash of the previous line.

It contains no value, token or query text.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sidelight.errors import StorageError

_FIRST = "0" * 64


class AuditLog:
    """Appends lines that are on disk when `write` returns; service and commands lock the file in turn."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock, self._path = threading.Lock(), path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._last, self._size = _FIRST, 0
        except OSError as error:
            raise StorageError(f"the audit log {path.name!r} cannot be opened: {error.strerror}") from None

    def write(self, **facts: Any) -> None:
        """Append a line and sync it.

        Raises:
            StorageError: it could not be written; the request must not be accepted.
        """
        with self._lock, self._turn():
            try:
                if os.fstat(self._file).st_size != self._size:  # first line, torn line, or another process wrote
                    self._last = _last_hash(self._path)
                text = json.dumps({**facts, "before": self._last}, sort_keys=True, ensure_ascii=True)
                line = f"{text}\n".encode()
                if os.write(self._file, line) != len(line):
                    raise OSError
                os.fdatasync(self._file)
                self._last, self._size = hashlib.sha256(line).hexdigest(), os.fstat(self._file).st_size
            except OSError:
                self._size = -1
                raise StorageError("the audit log cannot be written, so nothing is accepted") from None

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def is_writable(self) -> bool:
        """Return whether the disk of the log is writable and has free space."""
        try:
            os.fdatasync(self._file)
            return os.fstatvfs(self._file).f_bavail > 0
        except OSError:
            return False

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def check_audit_log(path: Path) -> int:
    """Return the number of lines of a log whose hashes are valid.

    Raises:
        StorageError: a line was changed, removed or inserted.
    """
    last = _FIRST
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if _before(line) not in (None, last):
                raise StorageError(f"line {number} of {path.name!r} does not follow the line before it")
            last = hashlib.sha256(line).hexdigest()
    return 0 if last == _FIRST else number


def _before(line: bytes) -> str | None:
    """Return the previous hash in a line; None for a torn line, whose own hash is in the next line."""
    try:
        return str(json.loads(line)["before"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _last_hash(path: Path) -> str:
    """Return the hash of the last line, reading from the end; a torn last line is ended first."""
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return _FIRST
        file.seek(max(0, size - 65_536))
        tail = file.read()
        if not tail.endswith(b"\n"):
            file.write(b"\n")
            tail += b"\n"
        return hashlib.sha256(tail[tail.rfind(b"\n", 0, -1) + 1 :]).hexdigest()
