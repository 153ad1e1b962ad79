"""Uniform integers of any size, exact: draw just enough bits, and again while the result is too large.

Hand-made because the standard library's generators are banned from release paths (one source, one brand), and because
the seeded order of consumption is part of the tests' contract.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.noise.source import Source

#: Draws to a chunk: large enough that NumPy's overhead vanishes, small enough to stay in the cache.
CHUNK = 1 << 16


def below(n: int, source: Source) -> int:
    """Return a uniform integer of 0..n-1, for n of any size.

    Guarantee: every value has probability 1/n exactly. Fewer than two draws of ceil(log2 n) bits on average; a power of
    two is never redrawn.

    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     0 <= below(10**30, source) < 10**30
    True
    """
    if n < 1:
        raise RangeError(f"below(n) needs n >= 1, got {n}; an empty range has no element to draw")
    k = (n - 1).bit_length()
    if k == 0:
        return 0
    while True:
        r = source.bits(k)
        if r < n:
            return r


def integers_below(n: int, size: int, source: Source) -> NDArray[np.int64]:
    """Return `size` independent uniform integers of 0..n-1, for n up to 2**63.

    Guarantee: exact, by masking and rejection; a power of two is never rejected (dither bits).

    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     integers_below(2**20, 3, source).shape
    (3,)
    """
    if not 1 <= n <= 2**63:
        raise RangeError(f"integers_below(n) needs 1 <= n <= 2**63, got {n}; use below(n) for larger ranges")
    check_size(size)
    out = np.zeros(size, np.int64)
    if n == 1:
        return out
    for start in range(0, size, CHUNK):
        _fill(n, out[start : start + CHUNK], source)
    return out


def check_size(size: int) -> None:
    """Refuse a negative number of draws."""
    if size < 0:
        raise RangeError(f"size must be at least 0, got {size}")


def _fill(n: int, out: NDArray[np.int64], source: Source) -> None:
    """Fill one chunk; integer arithmetic sizes the batches, since they are part of the seeded contract."""
    k = (n - 1).bit_length()
    mask = (1 << k) - 1
    have = 0
    while have < out.size:
        need = out.size - have
        trials = need if n == 1 << k else (need << k) * 50 // (n * 49) + 16
        kept: NDArray[np.uint32] | NDArray[np.uint64]
        kept = source.words32(trials) & np.uint32(mask) if k <= 32 else source.words(trials) & np.uint64(mask)
        if n < 1 << k:
            kept = kept[kept < kept.dtype.type(n)]
        kept = kept[:need]
        out[have : have + kept.size] = kept
        have += kept.size
