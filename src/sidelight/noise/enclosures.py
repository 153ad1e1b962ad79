"""Integer enclosures of the exponential function, and the exact decisions that samplers make from revealed bits.

An enclosure is lo <= 2**precision * value <= hi, proved, at any precision. Hand-made because the exactness of every
sampler rests on them: Python integers only, each step monotone and rounded outwards, so the enclosure is right by
induction (noise proof page, section 4). No libm, SciPy or mpmath decides.

Lazy reals are uniform numbers of which a prefix is known: the slow method behind every fast one. A decision is given
only when all completions of the revealed bits agree on it; otherwise more bits are revealed. Bits once revealed belong
to their variable and are extended: a redraw of doubtful cases would bias the law (Theorem 1).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.noise.source import Source

#: How much finer than the prefix an enclosure is computed.
_GUARD_BITS = 64


def exp_neg(p: int, q: int, precision: int) -> tuple[int, int]:
    """Enclose exp(-p/q) in units of 2**-precision, for integers p >= 0, q > 0.

    >>> exp_neg(1, 1, 20)  # 2**20 / e = 385749.7...
    (385749, 385750)
    """
    if p == 0:
        return 1 << precision, 1 << precision
    if p >= q * precision:
        return 0, 1  # exp(-B) < 2**-B; this also bounds the work for absurd exponents
    # exp(+x) by its series of positive terms at x = p / (q 2^halvings) < 2^-8, then squared back and inverted
    halvings = (p // q + 1).bit_length() + 8
    working = precision + halvings + 16
    one = 1 << working
    divisor = q << halvings
    lo = hi = term_lo = term_hi = one
    n = 1
    while term_hi > 1:
        term_lo = term_lo * p // (divisor * n)
        term_hi = -(-term_hi * p // (divisor * n))
        lo += term_lo
        hi += term_hi
        n += 1
    hi += 2  # the rest of the series: below one unit, since each term is less than 2^-8 of the one before
    for _ in range(halvings):
        lo = lo * lo >> working
        hi = -(-hi * hi >> working)
    return (one << precision) // hi, -(-(one << precision) // lo)


class Strips(Protocol):
    """A law cut into strips: X = (J + U) / 2**digits, where U is kept with probability exp(-exponent(J, U))."""

    name: Literal["gauss", "exponential"]
    digits: int

    def cdf(self, j: int, precision: int) -> tuple[int, int]:
        """Enclose P(J <= j) in units of 2**-precision."""
        ...

    def exponent(self, j: int, u: int, bits: int) -> tuple[int, int]:
        """Return the exponent at U = u / 2**bits as an exact fraction (numerator, denominator)."""
        ...

    def float_exponent(self, j: NDArray[np.intp], u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the exponent in floats, within half a unit 2**-52 of the truth (noise proof page, section 5)."""
        ...


class GaussStrips:
    """The half-normal law in strips of 1/64: P(J = j) ∝ exp(-j²/8192), kept with exp(-(2jU + U²)/8192)."""

    name: Literal["gauss", "exponential"] = "gauss"
    digits = 6

    def cdf(self, j: int, precision: int) -> tuple[int, int]:
        """Enclose the quotient of a partial sum and the total; beyond the list of sums the upper end is 1."""
        if j < 0:
            return 0, 0
        sums = _gauss_sums(precision)
        if j >= len(sums.lo):
            return (sums.lo[-1] << precision) // sums.total_hi, 1 << precision
        return (
            (sums.lo[j] << precision) // sums.total_hi,
            min(1 << precision, -(-(sums.hi[j] << precision) // sums.total_lo)),
        )

    def exponent(self, j: int, u: int, bits: int) -> tuple[int, int]:
        return u * ((2 * j << bits) + u), 8192 << (2 * bits)

    def float_exponent(self, j: NDArray[np.intp], u: NDArray[np.float64]) -> NDArray[np.float64]:
        return 2.0**-13 * (u * (2.0 * j + u))


class ExponentialStrips:
    """The exponential law in strips of 1/32: P(J = j) ∝ exp(-j/32), kept with exp(-U/32)."""

    name: Literal["gauss", "exponential"] = "exponential"
    digits = 5

    def cdf(self, j: int, precision: int) -> tuple[int, int]:
        if j < 0:
            return 0, 0
        lo, hi = _exponential_survival(j, precision)
        return (1 << precision) - hi, (1 << precision) - lo

    def exponent(self, j: int, u: int, bits: int) -> tuple[int, int]:
        return u, 32 << bits

    def float_exponent(self, j: NDArray[np.intp], u: NDArray[np.float64]) -> NDArray[np.float64]:
        return 2.0**-5 * u


class _Sums(NamedTuple):
    lo: list[int]
    hi: list[int]
    total_lo: int
    total_hi: int


@lru_cache(maxsize=32)
def _gauss_sums(precision: int) -> _Sums:
    """Enclose the partial sums of exp(-i²/8192) by w' = w·r, r' = r·exp(-1/4096), with 32 guard bits."""
    working = precision + 32
    ratio_lo, ratio_hi = exp_neg(1, 8192, working)
    step_lo, step_hi = exp_neg(1, 4096, working)
    weight_lo = weight_hi = 1 << working
    sum_lo = sum_hi = 0
    lo: list[int] = []
    hi: list[int] = []
    while len(lo) < 64 or weight_hi >= 1 << 16:
        sum_lo += weight_lo
        sum_hi += weight_hi
        lo.append(sum_lo)
        hi.append(sum_hi)
        weight_lo = weight_lo * ratio_lo >> working
        weight_hi = -(-weight_hi * ratio_hi >> working)
        ratio_lo = ratio_lo * step_lo >> working
        ratio_hi = -(-ratio_hi * step_hi >> working)
    # from i = 64 on the ratio is at most exp(-129/8192) < 1 - 1/65, so the rest is below 65 weights
    return _Sums(lo, hi, sum_lo, sum_hi + 65 * weight_hi + 65)


@lru_cache(maxsize=4096)
def _exponential_survival(j: int, precision: int) -> tuple[int, int]:
    return exp_neg(j + 1, 32, precision)


GAUSS = GaussStrips()
EXPONENTIAL = ExponentialStrips()


class LazyReal:
    """A uniform real of [n, n + 1) / 2**bits, known better whenever it is extended."""

    __slots__ = ("_source", "_step", "bits", "n")

    def __init__(self, n: int, bits: int, source: Source, *, step: int = 64) -> None:
        self.n = n
        self.bits = bits
        self._source = source
        self._step = step

    def extend(self) -> None:
        """Reveal more bits."""
        self.n = self.n << self._step | self._source.bits(self._step)
        self.bits += self._step


def exact_strip(law: Strips, r: LazyReal) -> int:
    """Return the J with P(J <= J-1) <= r < P(J <= J), by galloping and bisecting over enclosures."""
    while True:
        precision = r.bits + _GUARD_BITS
        start, end = r.n << _GUARD_BITS, (r.n + 1) << _GUARD_BITS
        # beyond 32 * precision the enclosures no longer move: a run of ones in r would gallop for ever
        low, high, furthest = -1, 0, 32 * precision
        while high < furthest and law.cdf(high, precision)[0] < end:
            low, high = high, min(2 * high + 1, furthest)
        while low + 1 < high:
            middle = (low + high) // 2
            if law.cdf(middle, precision)[0] < end:
                low = middle
            else:
                high = middle
        if law.cdf(high - 1, precision)[1] <= start and end <= law.cdf(high, precision)[0]:
            return high
        r.extend()


def exact_keep(law: Strips, j: int, u: LazyReal, v: LazyReal) -> bool:
    """Return whether v < exp(-exponent(j, u)); u and v are extended together."""
    while True:
        precision = v.bits + _GUARD_BITS
        # the exponent grows with u, so the ends of u's interval enclose the bound
        bound_lo = exp_neg(*law.exponent(j, u.n + 1, u.bits), precision)[0]
        bound_hi = exp_neg(*law.exponent(j, u.n, u.bits), precision)[1]
        if (v.n + 1) << _GUARD_BITS <= bound_lo:
            return True
        if v.n << _GUARD_BITS >= bound_hi:
            return False
        u.extend()
        v.extend()


def exact_exp(v: LazyReal, p: int, q: int, *, factor: int = 1, shift: int = 0, divisor: int = 1) -> bool:
    """Return whether v < factor · 2**shift · exp(-p/q) / divisor."""
    left, right = max(0, -shift), max(0, shift)
    while True:
        precision = v.bits + _GUARD_BITS + right
        bound_lo, bound_hi = exp_neg(p, q, precision)
        if (v.n + 1) * divisor << (_GUARD_BITS + left) <= factor * bound_lo:
            return True
        if v.n * divisor << (_GUARD_BITS + left) >= factor * bound_hi:
            return False
        v.extend()


def exact_floor(j: int, u: LazyReal, digits: int, scale: Fraction, offset: Fraction) -> int:
    """Return floor(scale · (j + u) / 2**digits + offset)."""
    while True:
        unit = scale / (1 << (u.bits + digits))
        prefix = (j << u.bits) + u.n
        answer = (unit * prefix + offset).__floor__()
        if unit * (prefix + 1) + offset <= answer + 1:  # the end itself is excluded
            return answer
        u.extend()
