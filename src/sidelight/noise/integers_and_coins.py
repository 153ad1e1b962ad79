"""Exact uniform integers of any size, and exact coins: of rational probability, and of exp(-p/q), which is no float.

An integer draws just enough bits, and again while the result is too large. Hand-made because the standard library's
generators are banned from release paths (one source, one brand), and because the seeded order of consumption is part of
the tests' contract.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.noise.enclosures import LazyReal, exact_exp
from sidelight.noise.source import Source
from sidelight.noise.tables import STEPS_PER_UNIT, step_table, taylor_exp_neg

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


def random_order(count: int, source: Source) -> NDArray[np.int64]:
    """Return a uniformly random order: that of random words, drawn again until no two are equal."""
    while True:
        words = source.words(count)
        order = np.argsort(words, kind="stable")
        ordered = words[order]
        if not (ordered[1:] == ordered[:-1]).any():
            return np.asarray(order, np.int64)


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


def bernoulli(p: int, q: int, source: Source) -> bool:
    """Return True with probability p/q exactly, for integers 0 <= p <= q, q > 0."""
    if not 0 <= p <= q or q < 1:
        raise RangeError(f"a coin needs 0 <= p <= q and q >= 1, got p={p}, q={q}")
    return below(q, source) < p


def bernoulli_exp(p: int, q: int, source: Source) -> bool:
    """Return True with probability exp(-p/q) exactly, for integers p >= 0, q > 0.

    Guarantee: exact (Canonne, Kamath and Steinke 2020): floor(p/q) coins of exp(-1), then one of exp(-fraction). The
    number of rounds depends on p/q: where p/q depends on data, so does the time.

    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     bernoulli_exp(0, 1, source)
    True
    """
    if p < 0 or q < 1:
        raise RangeError(f"exp(-p/q) needs p >= 0 and q >= 1, got p={p}, q={q}")
    for _ in range(p // q):
        if not _unit_exp(1, 1, source):
            return False
    return _unit_exp(p % q, q, source)


def _unit_exp(p: int, q: int, source: Source) -> bool:
    """Flip exp(-p/q) for 0 <= p <= q: P(K > k) = (p/q)^k / k!, and the sum over odd K alternates to exp(-p/q)."""
    k = 1
    while below(q * k, source) < p:
        k += 1
    return k % 2 == 1


def exp_coin(exponents: NDArray[np.float64], exact: Callable[[int], Fraction], source: Source) -> NDArray[np.bool_]:
    """Flip one coin of probability exp(-z_i) for each z_i, exactly, in bulk.

    Guarantee: exact, provided |exponents[i] - exact(i)| <= 2**-48 (1 + exact(i)) (noise proof page, section 5): the
    floats only decide where they must be right; `exact(i)`, the true exponent, decides the rest.
    """
    steps = step_table()
    words = source.words(exponents.size)
    z = np.clip(exponents, 0.0, 690.0)  # a rounded zero may be negative; the polynomial is useless at large arguments
    step = np.floor(z * STEPS_PER_UNIT)
    bound = steps[step.astype(np.intp)] * taylor_exp_neg(z - step / STEPS_PER_UNIT)  # an exact difference (Sterbenz)
    tolerance = bound * (z + 1.0) * 2.0**-44 + 2.0**-62
    level = words.astype(np.float64) * 2.0**-64
    heads: NDArray[np.bool_] = level * (1.0 + 2.0**-50) + tolerance <= bound
    doubtful = ~(heads | (level * (1.0 - 2.0**-50) >= bound + tolerance))
    if source.force_scalar:
        doubtful[:] = True
    for i in np.flatnonzero(doubtful).tolist():
        source.fallbacks["coin"] += 1
        truth = exact(i)
        heads[i] = exact_exp(LazyReal(int(words[i]), 64, source), truth.numerator, truth.denominator)
    return heads
