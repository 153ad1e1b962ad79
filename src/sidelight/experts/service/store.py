"""The files of a service: a snapshot with the journal of what came since, one process at a time, and clients' tokens.

A snapshot has a number, and only the journal of the same number belongs to it. A round is closed by writing the next
snapshot as a whole; after a crash there is the old snapshot with its journal, or the new one with an empty journal.
Journals of closed rounds are deleted: a server that keeps single reports keeps what batches should hide.

A token is `sl_<id>_<secret>`, of which only a hash is kept: the id finds the entry, the secret of 256 random bits is
compared through its SHA-256 in constant time. Secrets of that length cannot be guessed, so a slow hash would add
nothing. Revoking works at once, without a restart.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sidelight.errors import RangeError, RefusedError, SidelightError, StorageError
from sidelight.experts.player import STATE_VERSION, checked_kind, load_state, restoring, save_state, sync_folder
from sidelight.noise import OSEntropy

_PREFIX = "sl"
_NOBODY = hashlib.sha256(b"").hexdigest()
_HEADER = re.compile(rb"batch (\d{1,12}) ([0-9a-f]{64})\n")


class ServiceStore:
    """Snapshots and journals below a folder that this process has locked."""

    def __init__(self, folder: Path, *, sync: Callable[[int], None] = os.fdatasync) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StorageError(f"{str(folder)!r} is no folder that can be written: {error.strerror}") from None
        self._folder = folder
        self._sync = sync
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
        stored = checked_kind(load_state(self._snapshot), "service") if self._snapshot.exists() else None
        self._number = 0 if stored is None else stored["number"]
        numbers = [path.name.partition("-")[2] for path in self._folder.glob("journal-*")]
        if any(number.isdecimal() and int(number) > self._number for number in numbers):
            raise StorageError(
                f"{str(self._folder)!r} has acknowledged reports that are newer than its snapshot, which is missing or "
                "was replaced; restore both from one backup"
            )
        return None if stored is None else (stored["content"], read_journal(self._journal_path(self._number)))

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
            self._broken = True  # after a failed sync what the disk holds is unknown: never try again
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


@dataclass(frozen=True, kw_only=True)
class Token:
    """One token as it is kept."""

    id: str
    client: str
    digest: str
    revoked: bool = False


class Tokens:
    """The tokens in a file. Reading looks whether the file changed, so revoking needs no restart."""

    def __init__(self, path: Path) -> None:
        self._path = Path(os.path.realpath(path))  # one file and one lock, by whatever link they are reached
        self._seen: tuple[int, int, int] | None = None
        self._entries: dict[str, Token] = {}

    def client_of(self, authorization: str | None) -> str:
        """Return the client of the token in an `Authorization` header, or raise `RefusedError`."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise RefusedError("no_token", "send the client's token: Authorization: Bearer sl_...")
        try:
            self._refresh()
        except (SidelightError, OSError):
            raise RefusedError("storage", "the tokens cannot be read, so no client is known here") from None
        parts = token.strip().split("_", 2)
        entry = self._entries.get(parts[1]) if len(parts) == 3 and parts[0] == _PREFIX else None
        wanted = _NOBODY if entry is None else entry.digest
        # compared for an unknown id, too, so that time tells nothing
        same = hmac.compare_digest(_token_digest(token.strip()), wanted)
        if entry is None or not same:
            raise RefusedError("unknown_token", "this token is not known here")
        if entry.revoked:
            raise RefusedError("revoked_token", "this token was revoked; ask the operator of the service for a new one")
        return entry.client

    def entries(self) -> list[Token]:
        """Return all tokens, revoked ones too, as they are kept."""
        self._refresh()
        return list(self._entries.values())

    def issue(self, *clients: str) -> list[str]:
        """Make a new token for each client and return them: they cannot be read again. Earlier ones are revoked."""
        made = []
        with self._writing():
            for client in clients:
                self._revoke(client)
                entropy = OSEntropy()
                name = entropy.read(8).hex()
                secret = base64.urlsafe_b64encode(entropy.read(32)).decode().rstrip("=")
                token = f"{_PREFIX}_{name}_{secret}"
                self._entries[name] = Token(id=name, client=client, digest=_token_digest(token))
                made.append(token)
        return made

    def revoke(self, client: str) -> None:
        """Revoke the token of a client. What it reported before stays counted."""
        with self._writing():
            if not self._revoke(client):
                raise RangeError(f"no token of {client!r} is in use; nothing was revoked")

    def _revoke(self, client: str) -> bool:
        live = [entry for entry in self._entries.values() if entry.client == client and not entry.revoked]
        for entry in live:
            self._entries[entry.id] = replace(entry, revoked=True)
        return bool(live)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Read, change and replace the file while no other process does."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            self._refresh()
            yield
            tokens = [asdict(entry) for entry in self._entries.values()]
            save_state({"kind": "tokens", "version": STATE_VERSION, "tokens": tokens}, self._path)
        finally:
            self._seen = None
            os.close(handle)

    def _refresh(self) -> None:
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            self._seen, self._entries = None, {}
            return
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen != self._seen:
            stored = checked_kind(load_state(self._path), "tokens")
            with restoring("tokens"):
                self._entries = {entry["id"]: Token(**entry) for entry in stored["tokens"]}
            self._seen = seen


def _token_digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
