"""Reproducible random bytes for tests: SHAKE-128 in counter mode.

The same bytes on every platform, Python and NumPy version, from `hashlib` alone. Everything drawn from it is branded
"seeded: not private": anyone who knows the seed can subtract the noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Self

from sidelight.errors import LedgerError, RangeError
from sidelight.guarantees.claims import SEEDED
from sidelight.ledger import Ledger
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.release import Outcome
from sidelight.session import ArrayQuery, Session
from sidelight.session.accounts import InProcessAccount
from sidelight.session.pipeline import release_once


def seeded_release(query: ArrayQuery, data: Any, *, seed: int | str | bytes) -> Outcome:
    """Release once with seeded noise. The result prints NOT PRIVATE and `private` is False."""
    return release_once(query, data, entropy=SeededEntropy(seed))


class SeededSession(Session):
    """A session with seeded noise, on no ledger or on one that was opened with `testing=True`."""

    def __init__(self, table: Any, *, seed: int | str | bytes, **rest: Any) -> None:
        super().__init__(table, **rest)
        self._entropy = SeededEntropy(seed)
        if isinstance(self._account, InProcessAccount):  # a ledger knows it itself
            self._account.seeded = True

    def __repr__(self) -> str:
        return f"{super().__repr__()} · {SEEDED}"

    def _check(self, ledger: Ledger) -> None:
        if not ledger.testing:
            raise LedgerError("seeded noise is not private: pass open_ledger(url, testing=True), a ledger for tests")


#: A change of the stream, or of the order in which a sampler consumes it, changes the version in this prefix.
_PREFIX = b"sidelight/seeded/1\0"
_BLOCK_BYTES = 8192
#: No length is 2**64 - 1, so these eight bytes end the path and the encoding is injective.
_END = b"\xff" * 8


class SeededEntropy:
    """A reproducible stream of bytes, named by a seed and a path of child names.

    >>> SeededEntropy(0).read(8).hex()
    'ff00b58c3d96e048'
    >>> SeededEntropy(0).child("noise").branding
    'seeded: not private'
    """

    def __init__(self, seed: int | str | bytes, path: Sequence[str] = ()) -> None:
        self._seed = seed
        self._path = tuple(path)
        self._hash = hashlib.shake_128(_PREFIX, usedforsecurity=False)
        for part in (_seed_bytes(seed), *(name.encode() for name in self._path)):
            self._hash.update(len(part).to_bytes(8, "little") + part)
        self._hash.update(_END)
        self._next_block = 0
        self._left = b""

    @property
    def branding(self) -> str:
        """Return the brand of bytes that are no secret."""
        return SEEDED_BRANDING

    def child(self, name: str) -> Self:
        """Return the independent stream of a name below this one, from its start."""
        return type(self)(self._seed, (*self._path, name))

    def read(self, nbytes: int) -> bytes:
        """Return the next `nbytes` bytes of the stream."""
        parts, have = [self._left], len(self._left)
        while have < nbytes:
            block = self._hash.copy()
            block.update(self._next_block.to_bytes(8, "little"))
            self._next_block += 1
            parts.append(block.digest(_BLOCK_BYTES))
            have += _BLOCK_BYTES
        stream = b"".join(parts)
        self._left = stream[nbytes:]
        return stream[:nbytes]

    def __repr__(self) -> str:
        return f"SeededEntropy({self._seed!r}, path={self._path!r})"


def _seed_bytes(seed: int | str | bytes) -> bytes:
    if isinstance(seed, bytes):
        return b"b" + seed
    if isinstance(seed, str):
        return b"s" + seed.encode()
    if isinstance(seed, int) and not isinstance(seed, bool):
        return b"i" + str(seed).encode()
    raise RangeError(f"a seed is an int, a str or bytes, got {type(seed).__name__}")
