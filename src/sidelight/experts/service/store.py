"""The folder of a service: one snapshot, and the journal of what came since. One process at a time.

A snapshot has a number, and only the journal of the same number belongs to it. A round is closed by writing the next
snapshot as a whole; after a crash there is the old snapshot with its journal, or the new one with an empty journal.
Journals of closed rounds are deleted: a server that keeps single reports keeps what batches should hide.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from sidelight.errors import StorageError
from sidelight.experts.states import STATE_VERSION, checked_kind, load_state, save_state, sync_folder

_HEADER = re.compile(rb"batch (\d{1,12}) ([0-9a-f]{64})\n")


class Store:
    """Snapshots and journals below a folder that this process has locked."""

    def __init__(self, folder: Path, *, sync: Callable[[int], None] = os.fdatasync) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._sync = sync
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StorageError(f"another process serves from {str(folder)!r}; stop it first") from None
        self._number = 0

    @property
    def _snapshot(self) -> Path:
        return self._folder / "snapshot.json"

    def _journal_path(self, number: int) -> Path:
        return self._folder / f"journal-{number}"

    def load(self) -> tuple[dict[str, Any], list[str]] | None:
        """Return the last snapshot and the texts of its journal, or None in an empty folder."""
        if not self._snapshot.exists():
            return None
        stored = checked_kind(load_state(self._snapshot), "service")
        self._number = stored["number"]
        return stored["content"], read_journal(self._journal_path(self._number))

    def save(self, content: dict[str, Any]) -> None:
        """Write the next snapshot as a whole; with it the journal so far is done with, and deleted."""
        number = self._number + 1
        save_state({"kind": "service", "version": STATE_VERSION, "number": number, "content": content}, self._snapshot)
        self._number = number
        self._forget_others()

    def journal(self, *, executor: Executor) -> Journal:
        """Open the journal that belongs to the last snapshot."""
        self._forget_others()
        return Journal(self._journal_path(self._number), executor=executor, sync=self._sync)

    def _forget_others(self) -> None:
        keep = self._journal_path(self._number)
        others = [path for path in self._folder.glob("journal-*") if path != keep]
        for path in others:
            path.unlink()
        if others:
            sync_folder(self._folder)

    def close(self) -> None:
        """Let the next process in."""
        os.close(self._lock)


class Journal:
    """The reports of a round, each on the disk before it is acknowledged: texts to append, and wait for with `durable`.

    Appends of many requests share one write and one sync (group commit): while a sync runs, the next batch gathers.
    Each batch carries its length and hash. Only the last can be unfinished after a crash, because the next is written
    after the sync; nothing of it was acknowledged, and it is cut off.
    """

    def __init__(self, path: Path, *, executor: Executor, sync: Callable[[int], None] = os.fdatasync) -> None:
        self.path = path
        self._executor = executor
        self._sync = sync
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        sync_folder(path.parent)
        self._waiting: list[str] = []
        self._appended = 0
        self._stored = 0
        self._storing: asyncio.Task[None] | None = None
        self._broken = False

    def append(self, text: str) -> None:
        """Add a text of one line. It is stored when `durable` has returned."""
        self._waiting.append(text)
        self._appended += 1

    async def durable(self) -> None:
        """Return when everything appended so far is on the disk.

        Raises:
            StorageError: it is not, and nothing that follows will be: what memory holds is ahead of the disk.
        """
        wanted = self._appended
        while self._stored < wanted:
            if self._broken:
                raise StorageError("the journal cannot be written; the service takes no more reports")
            if self._storing is None or self._storing.done():
                self._storing = asyncio.create_task(self._store())
            await asyncio.shield(self._storing)

    async def _store(self) -> None:
        batch, self._waiting = self._waiting, []
        target = self._appended
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._write, batch_of(batch))
        except OSError:
            self._broken = True  # after a failed sync nobody knows what the disk holds: never try again
            return
        self._stored = target

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._handle, view) :]
        self._sync(self._handle)

    def close(self) -> None:
        """Close the file. Nothing may be waiting."""
        os.close(self._handle)


def batch_of(texts: list[str]) -> bytes:
    """Return the stored form of a batch of texts without line breaks."""
    body = "".join(f"{text}\n" for text in texts).encode()
    return b"batch %d %s\n" % (len(body), hashlib.sha256(body).hexdigest().encode()) + body


def read_journal(path: Path) -> list[str]:
    """Return the texts, and cut off an unfinished last batch. A bad batch before a good one is damage, and refused."""
    data = path.read_bytes() if path.exists() else b""
    texts: list[str] = []
    good = 0
    while (body := _body_at(data, good)) is not None:
        texts += body.decode().splitlines()
        good = data.index(b"\n", good) + 1 + len(body)
    if good < len(data):
        if any(_body_at(data, found.start()) for found in _HEADER.finditer(data, good)):
            raise StorageError(f"{path.name} is damaged in the middle: the disk lost acknowledged reports")
        with open(path, "r+b") as file:
            file.truncate(good)
            os.fsync(file.fileno())
    return texts


def _body_at(data: bytes, start: int) -> bytes | None:
    header = _HEADER.match(data, start)
    if header is None:
        return None
    body = data[header.end() : header.end() + int(header[1])]
    whole = len(body) == int(header[1]) and hashlib.sha256(body).hexdigest().encode() == header[2]
    return body if whole else None
