"""Arrays of numbers with twice the digits of a float: an unevaluated sum of two floats, high + low.

The last certificate of a fit needs them, because the rounding of floats grows with the square of the number of rows.
Nothing in NumPy has them on every machine (`longdouble` is 64 bits here and 113 there). With u = 2⁻⁵³ the relative
errors are: sum 3u², product 7u², quotient 15u² (Joldes, Muller and Popescu 2017, Tight and rigorous error bounds for
basic building blocks of double-word arithmetic), exponential 2⁻⁹⁰ [`test_double_double`: against 60 digits]. They hold
while nothing leaves 1e-140 .. 1e140 (below, an absolute error of 1e-290), which the plan of a fit sees to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: The relative rounding of one operation on floats.
UNIT_ROUNDOFF = 2.0**-53
_TERMS = 15
#: The argument of the series is at most log(2)/2 over this power of two.
_HALVINGS = 4


@dataclass(frozen=True, repr=False, eq=False)
class DoubleDouble:
    """high + low, |low| at most half an ulp of high; arrays of one shape."""

    high: Floats
    low: Floats

    @classmethod
    def of(cls, values: Floats | float) -> DoubleDouble:
        """Return floats as they are, exactly."""
        high = np.asarray(values, dtype=np.float64)
        return cls(high, np.zeros_like(high))

    @classmethod
    def nearest(cls, value: Fraction) -> DoubleDouble:
        """Return a rational within 2⁻¹⁰⁶ of its size."""
        high = float(value)
        return cls(np.asarray(high), np.asarray(float(value - Fraction(high))))

    def plus(self, other: DoubleDouble) -> DoubleDouble:
        """Return the sum."""
        total, lost = two_sum(self.high, other.high)
        small, smaller = two_sum(self.low, other.low)
        total, lost = _quick_two_sum(total, lost + small)
        return DoubleDouble(*_quick_two_sum(total, lost + smaller))

    def minus(self, other: DoubleDouble) -> DoubleDouble:
        """Return the difference."""
        return self.plus(other.negated())

    def negated(self) -> DoubleDouble:
        """Return the number with its sign changed, exactly."""
        return DoubleDouble(-self.high, -self.low)

    def times(self, other: DoubleDouble) -> DoubleDouble:
        """Return the product."""
        high, low = two_product(self.high, other.high)
        return DoubleDouble(*_quick_two_sum(high, low + (self.high * other.low + self.low * other.high)))

    def over(self, other: DoubleDouble) -> DoubleDouble:
        """Return the quotient."""
        quotient = self.high / other.high
        shape = np.broadcast_shapes(self.high.shape, other.high.shape)
        whole = DoubleDouble.of(np.broadcast_to(quotient, shape))
        rest = self.minus(other.times(whole))
        return DoubleDouble(*_quick_two_sum(quotient, rest.high / other.high))

    def times_floats(self, x: Floats) -> DoubleDouble:
        """Return the product with floats: an error of 3u²."""
        product, lost = two_product(x, self.high)
        return DoubleDouble(*two_sum(product, lost + x * self.low))

    def __getitem__(self, where: Any) -> DoubleDouble:
        return DoubleDouble(self.high[where], self.low[where])

    def times_power_of_two(self, exponent: NDArray[np.int64] | int) -> DoubleDouble:
        """Return the product with 2**exponent, exactly unless it vanishes."""
        return DoubleDouble(np.ldexp(self.high, exponent), np.ldexp(self.low, exponent))

    def where(self, chosen: NDArray[np.bool_], other: DoubleDouble) -> DoubleDouble:
        """Return `other` where chosen."""
        return DoubleDouble(np.where(chosen, other.high, self.high), np.where(chosen, other.low, self.low))

    def clipped(self, lower: DoubleDouble, upper: DoubleDouble) -> DoubleDouble:
        """Return the number held between two bounds."""
        kept = self.where(self.minus(lower).high < 0, lower)
        return kept.where(kept.minus(upper).high > 0, upper)

    def exponential(self) -> DoubleDouble:
        """Return e to the number; beyond ±700 that of ±700."""
        with np.errstate(invalid="ignore"):
            far = np.abs(self.high) > 700.0
            x = self.where(far, DoubleDouble.of(np.copysign(700.0, self.high)))
        powers = np.rint(x.high / math.log(2.0))
        rest = x.minus(_LOG_TWO.times(DoubleDouble.of(powers))).times_power_of_two(-_HALVINGS)
        total = _INVERSE_FACTORIALS[-1]
        for coefficient in reversed(_INVERSE_FACTORIALS[:-1]):
            total = rest.times(total).plus(coefficient)
        for _ in range(_HALVINGS):
            total = total.times(total)
        return total.times_power_of_two(powers.astype(np.int64))

    def column_sums(self) -> DoubleDouble:
        """Return the sums over the first axis, by halves: of m terms with an error of 3u²·log2(2m) of their sizes."""
        high, low = self.high, self.low
        while high.shape[0] > 1:
            half = high.shape[0] // 2
            both = DoubleDouble(high[:half], low[:half]).plus(DoubleDouble(high[half : 2 * half], low[half : 2 * half]))
            left = high.shape[0] - 2 * half
            high = np.concatenate([both.high, high[-left:]]) if left else both.high
            low = np.concatenate([both.low, low[-left:]]) if left else both.low
        return DoubleDouble(high.sum(axis=0), low.sum(axis=0))  # of one term, or of none

    def fractions(self) -> list[Fraction]:
        """Return the numbers as they are, in the order of the raveled arrays; they must be finite."""
        both = zip(self.high.ravel().tolist(), self.low.ravel().tolist(), strict=True)
        return [Fraction(high) + Fraction(low) for high, low in both]

    def __repr__(self) -> str:
        return "DoubleDouble()"  # it may be private


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded sum and its error, a + b = sum + error exactly (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded product and its error, exactly unless something under- or overflows (Dekker, Veltkamp)."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def floats_of(numbers: Floats | DoubleDouble) -> Floats:
    """Return numbers rounded to floats."""
    return numbers.high if isinstance(numbers, DoubleDouble) else numbers


def _quick_two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded sum and its error where |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def _split(a: Floats) -> tuple[Floats, Floats]:
    wide = a * 134217729.0  # 2²⁷ + 1
    high = wide - (wide - a)
    return high, a - high


_LOG_TWO = DoubleDouble.nearest(Fraction("0.69314718055994530941723212145817656807550013436025525412068"))
_INVERSE_FACTORIALS = [DoubleDouble.nearest(Fraction(1, math.factorial(k))) for k in range(_TERMS)]
