"""Tokens of clients: a random secret each, of which only a hash is kept. Revoking works at once, without a restart.

A token is `sl_<id>_<secret>`: the id finds the entry, the secret of 256 random bits is compared through its SHA-256 in
constant time. Secrets of that length cannot be guessed, so a slow hash would add nothing.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sidelight.errors import RangeError, RefusedError, SidelightError
from sidelight.experts.states import STATE_VERSION, checked_kind, load_state, save_state
from sidelight.noise import OSEntropy

_PREFIX = "sl"
_NOBODY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One token as it is kept."""

    id: str
    client: str
    digest: str
    revoked: bool = False


class Tokens:
    """The tokens in a file. Reading looks whether the file changed, so revoking needs no restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._entries: dict[str, Entry] = {}

    def client_of(self, authorization: str | None) -> str:
        """Return whose token an `Authorization` header carries, or raise `RefusedError`."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise RefusedError("no_token", "send the client's token: Authorization: Bearer sl_...")
        try:
            self._refresh()
        except (SidelightError, OSError, KeyError, TypeError):
            raise RefusedError("storage", "the tokens cannot be read, so nobody is known here") from None
        parts = token.strip().split("_", 2)
        entry = self._entries.get(parts[1]) if len(parts) == 3 and parts[0] == _PREFIX else None
        wanted = _NOBODY if entry is None else entry.digest
        same = hmac.compare_digest(_digest(token.strip()), wanted)  # also for an unknown id, so that time tells nothing
        if entry is None or not same:
            raise RefusedError("unknown_token", "this token is not known here")
        if entry.revoked:
            raise RefusedError("revoked_token", "this token was revoked; ask whoever runs the service for a new one")
        return entry.client

    def entries(self) -> list[Entry]:
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
                self._entries[name] = Entry(id=name, client=client, digest=_digest(token))
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
            stored: list[dict[str, Any]] = checked_kind(load_state(self._path), "tokens")["tokens"]
            self._entries = {entry["id"]: Entry(**entry) for entry in stored}
            self._seen = seen


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
