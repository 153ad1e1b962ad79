"""Lazy reals: uniform numbers of which a prefix is known, and the exact decisions made from prefixes.

This is the slow method behind every fast one. A decision is given only when all completions of the revealed bits agree
on it; otherwise more bits are revealed. Bits once revealed belong to their variable and are extended: a redraw
of doubtful cases would bias the law (noise proof page, Theorem 1).
"""

from __future__ import annotations

from fractions import Fraction

from sidelight.noise.enclosures import Strips, exp_neg
from sidelight.noise.source import Source

#: How much finer than the prefix an enclosure is computed.
_GUARD_BITS = 64


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
