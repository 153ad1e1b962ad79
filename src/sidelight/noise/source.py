"""Where random bytes come from, and what samplers draw from: a guarded view, opened for one release and closed with it.

Production uses `OSEntropy` and nothing else. The only other implementation is the seeded one of `sidelight.testing`,
whose brand follows every release that it touched.

No byte may serve two purposes. Bulk words are asked for and handed out at once, never stored. Scalar draws share a pool
of 512 bytes (a system call for eight bytes costs more than the draw); a byte leaves the pool before it is used. The
pool is why a source refuses to work after a fork, in another thread, after its release, and as a copy.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from types import TracebackType
from typing import Literal, NoReturn, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import NoiseError, StrictError

#: The brand of bytes that an attacker cannot predict.
OS_BRANDING = "os"

#: The brand of bytes that anybody who knows the seed can reproduce.
SEEDED_BRANDING = "seeded: not private"
Numerics = Literal["exact", "idealized"]
POOL_BYTES = 512


class Entropy(Protocol):
    """Uniform random bytes, and a word on whether they are secret."""

    @property
    def branding(self) -> str:
        """Return where the bytes come from; the release door copies this into the release."""
        ...

    def read(self, nbytes: int) -> bytes:
        """Return exactly `nbytes` uniform bytes that were never returned before."""
        ...


class OSEntropy:
    """The operating system's generator. It keeps nothing, so nothing can be used twice.

    A failure of the operating system propagates: there is no second choice.
    """

    __slots__ = ()

    @property
    def branding(self) -> str:
        """Return "os": the bytes are secret."""
        return OS_BRANDING

    def read(self, nbytes: int) -> bytes:
        """Return `nbytes` bytes of `os.urandom`."""
        return os.urandom(nbytes)


class Source:
    """Uniform bits for the samplers of one release.

    `declared` is what the query promised about its numerics before it was charged: with "exact", a sampler that is only
    as good as floating point raises instead of drawing. `numerics` tells the weakest sampler that has drawn so far.
    `force_scalar` sends every doubtful-case test to the slow method: same law (noise proof page, Theorem 1), hundreds
    of times slower; it exists so that tests reach the slow method.

    >>> from sidelight.noise import OSEntropy
    >>> with Source(OSEntropy()) as source:
    ...     source.bits(3) in range(8)
    True
    """

    __slots__ = (
        "_closed",
        "_declared",
        "_entropy",
        "_numerics",
        "_pid",
        "_pool",
        "_thread",
        "fallbacks",
        "force_scalar",
    )

    def __init__(self, entropy: Entropy, *, declared: Numerics = "idealized", force_scalar: bool = False) -> None:
        self._entropy = entropy
        self._declared = declared
        self._numerics: Numerics = "exact"
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self._pool = b""
        self._closed = False
        self.force_scalar = force_scalar
        #: How often a slow method was needed. For tests only: the counts depend on the noise and must not be shown.
        self.fallbacks: Counter[str] = Counter()

    @property
    def branding(self) -> str:
        """Return where the bytes come from, for `Release.entropy`."""
        return self._entropy.branding

    @property
    def numerics(self) -> Numerics:
        """Return how the weakest draw so far was computed, for `Release.numerics`."""
        return self._numerics

    def note_idealized(self) -> None:
        """Record that a draw is only as good as floating point; refuse if exact numerics were declared."""
        self._guard()
        if self._declared == "exact":
            raise StrictError(
                "this release declared numerics='exact' but asked for a continuous draw, which is idealized; "
                "use an integer sampler, or declare numerics='idealized' in the query"
            )
        self._numerics = "idealized"

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return n uniform 64-bit words (read-only)."""
        self._guard()
        return np.frombuffer(self._entropy.read(8 * n), "<u8").astype(np.uint64, copy=False)

    def words32(self, n: int) -> NDArray[np.uint32]:
        """Return n uniform 32-bit words (read-only)."""
        self._guard()
        return np.frombuffer(self._entropy.read(4 * n), "<u4").astype(np.uint32, copy=False)

    def bits(self, k: int) -> int:
        """Return one uniform integer of k bits."""
        self._guard()
        nbytes = (k + 7) // 8
        if len(self._pool) < nbytes:
            self._pool = self._entropy.read(max(POOL_BYTES, nbytes))
        taken, self._pool = self._pool[:nbytes], self._pool[nbytes:]
        return int.from_bytes(taken, "little") >> (8 * nbytes - k)

    def close(self) -> None:
        """Drop the pool; every later draw raises."""
        self._pool = b""
        self._closed = True

    def _guard(self) -> None:
        if self._closed:
            raise NoiseError("this noise source is closed with its release; open a new release to draw again")
        if os.getpid() != self._pid:
            raise NoiseError(
                "a noise source does not survive a fork: both sides would use the same bytes; "
                "open a new release in the child process"
            )
        if threading.get_ident() != self._thread:
            raise NoiseError("a noise source belongs to the thread of its release; open one release in each thread")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise NoiseError(
            "a noise source cannot be pickled or copied: two copies would hand out the same bytes; "
            "open a new release instead"
        )

    def __repr__(self) -> str:
        return f"Source(branding={self.branding!r}, numerics={self.numerics!r})"
