"""The server's own random draws, so that a saved server goes on exactly where it stopped.

One key is drawn when a server starts; every draw has a name (its round and purpose), and its bytes are SHAKE-128 of key
and name. Nothing moves on, so the key is the whole state of the generator: asking again for the same name gives the
same bytes. These draws are never what protects a client: that noise is drawn by the client, from the operating system.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.experts.leader_change import Floats
from sidelight.noise import OSEntropy, Source, integers_below, standard_normal
from sidelight.noise.source import SEEDED_BRANDING

_PREFIX = b"sidelight/experts/1\0"
_KEY_BYTES = 32


class _Named:
    """Bytes of one name: read once, from the start."""

    def __init__(self, key: bytes, name: str, branding: str) -> None:
        self._hash = hashlib.shake_128(_PREFIX + key + name.encode(), usedforsecurity=True)
        self._position = 0
        self._branding = branding

    @property
    def branding(self) -> str:
        return self._branding

    def read(self, nbytes: int) -> bytes:
        block = self._hash.copy()
        block.update(self._position.to_bytes(8, "little"))
        self._position += 1
        return block.digest(nbytes)


class Stream:
    """Named draws below one key. `Stream()` draws the key from the operating system; `Stream.seeded` is for tests.

    >>> stream = Stream.seeded(7)
    >>> bool((stream.normals("start", 3) == Stream.from_state(stream.state()).normals("start", 3)).all())
    True
    """

    def __init__(self, *, key: bytes | None = None, branding: str = "os") -> None:
        self._key = OSEntropy().read(_KEY_BYTES) if key is None else key
        self.branding = branding
        if len(self._key) != _KEY_BYTES:
            raise RangeError(f"the key of a stream has {_KEY_BYTES} bytes, got {len(self._key)}")

    @classmethod
    def seeded(cls, seed: int | str) -> Stream:
        """Return a reproducible stream; it brands what it touches."""
        digest = hashlib.sha256(f"{type(seed).__name__}:{seed}".encode()).digest()
        return cls(key=digest, branding=SEEDED_BRANDING)

    def normals(self, name: str, size: int) -> Floats:
        """Return `size` standard normals of this name: always the same ones."""
        with Source(_Named(self._key, name, self.branding)) as source:
            return standard_normal(size, source)

    def choice(self, name: str, *, below: int, size: int = 1) -> NDArray[np.int64]:
        """Return `size` uniform integers of 0..below-1."""
        with Source(_Named(self._key, name, self.branding)) as source:
            return integers_below(below, size, source).astype(np.int64)

    def child(self, name: str) -> Stream:
        """Return the independent stream of a name below this one."""
        key = hashlib.sha256(_PREFIX + b"child\0" + self._key + name.encode()).digest()
        return Stream(key=key, branding=self.branding)

    def state(self) -> dict[str, str]:
        """Return the key and its branding. Whoever reads it can predict the server's draws: keep it with the server."""
        return {"key": self._key.hex(), "branding": self.branding}

    @classmethod
    def from_state(cls, state: dict[str, str]) -> Stream:
        """Return the stream that `state` describes."""
        return cls(key=bytes.fromhex(state["key"]), branding=state["branding"])

    def __repr__(self) -> str:
        return f"Stream(branding={self.branding!r})"
