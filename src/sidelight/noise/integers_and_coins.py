"""Exact uniform integers of any size, exact coins of probability p/q and exp(-p/q), and the exponential mechanism.

An integer draws just enough bits, and again while the result is too large. Hand-made because the standard library's
generators are banned from release paths (one source, one brand), and because the seeded order of consumption is part of
the tests' contract.
"""

from __future__ import annotations

import math
from numbers import Rational

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.noise.enclosures import LazyReal, exact_exp
from sidelight.noise.lattice import exact_scale
from sidelight.noise.source import Source, check_size
from sidelight.noise.strips import STEPS_PER_UNIT, step_table

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


# `Categorical` replaces Gumbel noise and exponential races: the same law from one draw instead of n, without a
# logarithm or the float rounding that makes a noisy argmax depend on data.
_SCORE_LIMIT = 2**62 - 1
_WEIGHT_LIMIT = 2**62
_UNIT_LIMIT = 2**64
_CANDIDATE_LIMIT = 2**30


class Categorical:
    """A law on 0..n-1 with P(i) ∝ weights[i] · exp(unit · scores[i]).

    Guarantee: exact (noise proof page, Theorem 4). With unit = ε/(2Δ) and integer scores of sensitivity Δ this is the
    exponential mechanism: ε-DP, bounded range ε. Scores must be integers before they come here: a real score is put on
    a public grid together with its sensitivity.

    Accuracy: the usual one of the exponential mechanism; about 1.005 trials a draw.

    Args:
        scores: Integers. Beyond ±(2**62 - 1) they are clamped, which no neighbour's score can turn into a larger
            difference; an error would depend on the data.
        unit: A positive exact rational up to 2**64.
        weights: A public base measure, integers 1..2**62; without it all candidates weigh the same.

    >>> from fractions import Fraction
    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     Categorical([0, 1, 2], Fraction(1, 2)).draw(source) in {0, 1, 2}
    True
    """

    __slots__ = ("_cumulative", "_gaps", "_proposal", "_shift", "_unit", "_weights")

    def __init__(self, scores: ArrayLike, unit: Rational, weights: ArrayLike | None = None) -> None:
        self._unit = exact_scale(unit)
        if self._unit > _UNIT_LIMIT:
            raise RangeError("unit must be at most 2**64; with so large a budget release the best candidate itself")
        clamped = np.clip(_integers(scores, "scores"), -_SCORE_LIMIT, _SCORE_LIMIT)
        self._gaps: NDArray[np.int64] = clamped.max() - clamped
        self._weights = None if weights is None else _base_measure(weights, clamped.size)
        self._prepare()

    def _prepare(self) -> None:
        """Bound each candidate's mass D_i = 2^shift · weight_i · exp(-z_i) by an integer d_i > D_i.

        Floats decide only how many trials a draw takes; each rounding is covered by a factor 1 ± 2^-40.
        """
        rate = float(self._unit) * (1.0 - 2.0**-40)
        steps = np.floor(np.minimum(self._gaps * rate, 690.0) * STEPS_PER_UNIT).astype(np.intp)
        masses = step_table()[steps]
        if self._weights is not None:
            masses = masses * self._weights.astype(np.float64)
        bits = min(40, 61 - masses.size.bit_length())
        self._shift = bits - math.frexp(float(masses.max()))[1]
        self._proposal = np.floor(np.ldexp(masses, self._shift) * (1.0 + 2.0**-40)).astype(np.int64) + 1
        self._cumulative = np.cumsum(self._proposal)

    def draw(self, source: Source) -> int:
        """Return the index of one candidate; further calls are independent draws, each a release of its own."""
        total = int(self._cumulative[-1])
        unit = self._unit
        source.sampling("categorical", [1 / unit])
        while True:
            i = int(np.searchsorted(self._cumulative, below(total, source), "right"))
            accepted = exact_exp(
                LazyReal(source.bits(64), 64, source),
                unit.numerator * int(self._gaps[i]),
                unit.denominator,
                factor=1 if self._weights is None else int(self._weights[i]),
                shift=self._shift,
                divisor=int(self._proposal[i]),
            )
            if accepted:
                return i

    def __repr__(self) -> str:
        return f"Categorical(candidates={self._gaps.size}, unit={self._unit})"


def _integers(values: ArrayLike, name: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or not 1 <= array.size <= _CANDIDATE_LIMIT:
        raise RangeError(f"{name} must be a list of 1 to 2**30 integers, got an array of shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise RangeError(
            f"{name} must be integers of at most 64 bits, got dtype {array.dtype}; "
            "put real values on a public grid first, with their sensitivity"
        )
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        array = np.minimum(array, np.uint64(2**63 - 1))
    return array.astype(np.int64, copy=False)


def _base_measure(weights: ArrayLike, candidates: int) -> NDArray[np.int64]:
    measure = _integers(weights, "weights")
    if measure.size != candidates:
        raise RangeError(f"there are {candidates} scores but {measure.size} weights; each candidate needs one")
    if measure.min() < 1 or measure.max() > _WEIGHT_LIMIT:
        raise RangeError("weights must lie in 1..2**62; leave out candidates of weight 0")
    return measure
