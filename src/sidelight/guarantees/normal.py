"""Certified values of the normal law: erfc, its inverse, and the privacy profile of the Gaussian pair.

Hand-made because charges and capacities depend on it and libm's erfc has no proven error: a series of positive terms
with a geometric tail bound near zero, a continued fraction whose convergents lie on both sides of the value further
out, both in outward-rounded decimals (accounting proof page, section 8). Every operation names its context: the
operators of `Decimal` would round at the caller's 28 digits.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from sidelight.guarantees.intervals import DOWN, ONE, UP, ZERO, Interval

#: pi lies between these two (the digits of A000796, cut after the 99th decimal).
_PI_DIGITS = "3.141592653589793238462643383279502884197169399375105820974944592307816406286208998628034825342117067"
_PI = Interval(Decimal(_PI_DIGITS + "9"), Decimal(_PI_DIGITS + "99"))
_SQRT_PI = _PI.sqrt()
_ROOT_2 = Interval.of(2).sqrt()
_ONE = Interval(ONE, ONE)
_TWO = Interval.of(2)
_HALF = Interval.of(Fraction(1, 2))
_SERIES_END = Decimal(5)
_FACTOR = _TWO / _SQRT_PI


def erf_by_series(z: Interval) -> Interval:
    """Enclose erf(z), 0 <= z <= 5, by 2/sqrt(pi) * exp(-z^2) * sum of 2^n z^(2n+1) / (2n+1)!!, all terms positive."""
    ratio = (z * z) * _TWO
    low_term, high_term = z.lower, z.upper
    low_sum, high_sum = low_term, high_term
    odd = 3
    while True:
        low_term = DOWN.divide(DOWN.multiply(low_term, ratio.lower), Decimal(odd))
        high_term = UP.divide(UP.multiply(high_term, ratio.upper), Decimal(odd))
        low_sum = DOWN.add(low_sum, low_term)
        high_sum = UP.add(high_sum, high_term)
        odd += 2
        # From here on the ratio of successive terms is below 1/2, so what is left out is less than the last term.
        if UP.multiply(Decimal(2), ratio.upper) < odd and high_term <= high_sum.scaleb(-85, UP):
            break
    total = Interval(low_sum, UP.add(high_sum, high_term))
    value = _FACTOR * (-(z * z)).exp() * total
    return Interval(max(ZERO, value.lower), min(ONE, value.upper))


def _erfc_by_fraction(z: Interval) -> Interval:
    """Enclose erfc(z), z > 0, by exp(-z^2)/sqrt(pi) / (z + (1/2)/(z + (2/2)/(z + (3/2)/(z + ...))))."""
    steps = int(DOWN.divide(Decimal(6000), DOWN.multiply(z.lower, z.lower))) + 45
    # The tail after `steps` terms is at least z and at most z + (steps/2)/z; each step inverts and narrows the bounds.
    low, high = z.lower, UP.add(z.upper, UP.divide(Decimal(steps), DOWN.multiply(Decimal(2), z.lower)))
    for k in range(steps - 1, 0, -1):
        half_k = UP.divide(Decimal(k), Decimal(2))  # exact: one decimal
        low, high = DOWN.add(z.lower, DOWN.divide(half_k, high)), UP.add(z.upper, UP.divide(half_k, low))
    return (-(z * z)).exp() / (_SQRT_PI * Interval(low, high))


def erfc(z: Interval) -> Interval:
    """Enclose the complementary error function of an interval of either sign."""
    if z.upper < 0:
        return _TWO - erfc(-z)
    if z.lower < 0:
        return Interval(erfc(Interval(z.upper, z.upper)).lower, erfc(Interval(z.lower, z.lower)).upper)
    if z.lower >= _SERIES_END:
        return _erfc_by_fraction(z)
    return _ONE - erf_by_series(z)


def normal_cdf(x: Interval) -> Interval:
    """Enclose the standard normal distribution function.

    >>> 0.975 < normal_cdf(Interval.of(2)).lower < 0.9773
    True
    """
    return _HALF * erfc(-x / _ROOT_2)


def inverse_erfc_upper(c: Interval) -> Decimal:
    """Return a proven upper bound, good to 50 digits, of the z with erfc(z) = c, for 0 < c < 1."""
    z = _inverse_erfc(c)
    step = Decimal("1e-58")
    while True:
        bound = UP.multiply(z, UP.add(ONE, step))
        if erfc(Interval(bound, bound)).upper <= c.lower:
            return bound
        step = step.scaleb(3, UP)


def inverse_erfc_lower(c: Interval) -> Decimal:
    """Return a proven lower bound, good to 50 digits, of the z with erfc(z) = c, for 0 < c < 1."""
    z = _inverse_erfc(c)
    step = Decimal("1e-58")
    while True:
        bound = DOWN.multiply(z, DOWN.subtract(ONE, step))
        if bound <= 0:
            return ZERO
        if erfc(Interval(bound, bound)).lower >= c.upper:
            return bound
        step = step.scaleb(3, UP)


def _inverse_erfc(c: Interval) -> Decimal:
    """Approximate the z with erfc(z) = c: Newton on the logarithm, from a float. A guess; callers prove it."""
    target = c.upper
    if target > Decimal("1e-290"):
        z = Decimal(max(-NormalDist().inv_cdf(float(target) / 2), 1e-18) / 2**0.5)
    else:
        z = DOWN.sqrt(
            DOWN.ln(target).copy_negate()
        )  # erfc(z) < exp(-z^2): right of the root, from where Newton falls to it
    for _ in range(60):
        value = erfc(Interval(z, z)).upper
        slope = UP.divide(UP.multiply(_FACTOR.upper, UP.exp(UP.multiply(z.copy_negate(), z))), value)
        step = UP.divide(UP.ln(UP.divide(value, target)), slope)
        z = max(UP.add(z, step), UP.divide(z, Decimal(2)))
        if step.copy_abs() <= z.scaleb(-62, UP):
            break
    return z


@lru_cache(maxsize=4096)
def gaussian_delta(mu: Fraction, x: Fraction) -> Interval:
    """Enclose the profile of the Gaussian pair at x, either sign: Phi(mu/2 - x/mu) - e^x Phi(-mu/2 - x/mu).

    >>> round(float(gaussian_delta(Fraction(1, 2), Fraction(1)).upper), 10)
    0.006829595
    """
    root_half = _ONE / _ROOT_2
    a = Interval.of(x / mu - mu / 2) * root_half
    b = Interval.of(x / mu + mu / 2) * root_half
    value = _HALF * (erfc(a) - Interval.of(x).exp() * erfc(b))
    return Interval(min(max(value.lower, ZERO), ONE), max(ZERO, min(value.upper, ONE)))
