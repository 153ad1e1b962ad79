"""Certified arithmetic: an interval of two decimals that surely holds the true value, and the normal law in it.

Hand-made because charges depend on it: `decimal` rounds +, -, *, / in the given direction, and its sqrt, exp and ln to
the nearest 80-digit number, so one step up or down makes each of them a proven bound on every machine (libm is not
trusted). Every conversion that is not rational is evaluated here, and its upper end is what is charged.

erfc, its inverse and the privacy profile of the Gaussian pair are a series of positive terms with a geometric tail
bound near zero, and a continued fraction whose convergents lie on both sides of the value further out (accounting proof
page, section 8). Every operation names its context: the operators of `Decimal` would round at the caller's 28 digits.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from statistics import NormalDist

from sidelight.errors import RangeError

PRECISION = 80
_LIMITS = {"prec": PRECISION, "Emax": 10**15, "Emin": -(10**15), "traps": []}
DOWN = Context(rounding=ROUND_FLOOR, **_LIMITS)  # type: ignore[arg-type]
UP = Context(rounding=ROUND_CEILING, **_LIMITS)  # type: ignore[arg-type]
ZERO, ONE = Decimal(0), Decimal(1)

#: Decimals reach 1e±10**15, and no rational number does: what lies further below is rounded outwards, further above it
#: is refused. Amounts are not read beyond 1e±999 either.
_FURTHEST_BELOW, _FURTHEST_ABOVE = 999, 10**5


class Interval:
    """A closed interval [lower, upper] of decimals; operations round outwards.

    >>> third = Interval.of(Fraction(1, 3))
    >>> third.lower < Fraction(1, 3) < third.upper
    True
    """

    __slots__ = ("lower", "upper")

    def __init__(self, lower: Decimal, upper: Decimal) -> None:
        if not lower <= upper:
            raise ArithmeticError(f"not an interval: [{lower}, {upper}]")
        self.lower = lower
        self.upper = upper

    @classmethod
    def of(cls, x: Fraction | int) -> Interval:
        """Enclose a rational number."""
        if isinstance(x, int):
            return cls(DOWN.create_decimal(x), UP.create_decimal(x))
        return cls(_quotient(x, DOWN), _quotient(x, UP))

    def __add__(self, other: Interval) -> Interval:
        return Interval(DOWN.add(self.lower, other.lower), UP.add(self.upper, other.upper))

    def __sub__(self, other: Interval) -> Interval:
        return Interval(DOWN.subtract(self.lower, other.upper), UP.subtract(self.upper, other.lower))

    def __neg__(self) -> Interval:
        return Interval(self.upper.copy_negate(), self.lower.copy_negate())

    def __mul__(self, other: Interval) -> Interval:
        a, b, c, d = self.lower, self.upper, other.lower, other.upper
        if a >= 0 and c >= 0:
            return Interval(DOWN.multiply(a, c), UP.multiply(b, d))
        pairs = ((a, c), (a, d), (b, c), (b, d))
        return Interval(min(DOWN.multiply(x, y) for x, y in pairs), max(UP.multiply(x, y) for x, y in pairs))

    def __truediv__(self, other: Interval) -> Interval:
        if other.lower <= 0 <= other.upper:
            raise ArithmeticError("division by an interval that holds zero")
        pairs = tuple((x, y) for x in (self.lower, self.upper) for y in (other.lower, other.upper))
        return Interval(min(DOWN.divide(x, y) for x, y in pairs), max(UP.divide(x, y) for x, y in pairs))

    def sqrt(self) -> Interval:
        """Enclose the square root; a lower end below zero counts as zero."""
        low = max(self.lower, ZERO)
        return Interval(
            max(ZERO, DOWN.sqrt(low).next_minus(DOWN)) if low else ZERO,
            UP.sqrt(self.upper).next_plus(UP) if self.upper else ZERO,
        )

    def exp(self) -> Interval:
        """Enclose the exponential; that of 0 is exactly 1."""
        return Interval(
            max(ZERO, DOWN.exp(self.lower).next_minus(DOWN)) if self.lower else ONE,
            UP.exp(self.upper).next_plus(UP) if self.upper else ONE,
        )

    def log(self) -> Interval:
        """Enclose the natural logarithm of a positive interval; that of 1 is exactly 0."""
        if self.lower <= 0:
            raise ArithmeticError("logarithm of an interval that is not positive")
        return Interval(
            DOWN.ln(self.lower).next_minus(DOWN) if self.lower != 1 else ZERO,
            UP.ln(self.upper).next_plus(UP) if self.upper != 1 else ZERO,
        )

    def tanh(self) -> Interval:
        """Enclose the hyperbolic tangent of a non-negative interval."""
        q = (-(self + self)).exp()  # e^(-2x); tanh = (1 - q)/(1 + q)
        one = Interval(ONE, ONE)
        value = (one - q) / (one + q)
        return Interval(max(ZERO, value.lower), min(ONE, value.upper))

    def lowest(self, other: Interval) -> Interval:
        """Enclose the smaller of two values."""
        return Interval(min(self.lower, other.lower), min(self.upper, other.upper))

    def __repr__(self) -> str:
        return f"Interval({self.lower:.20}, {self.upper:.20})"


def round_up(x: Decimal, *, digits: int = 40) -> Fraction:
    """Round a decimal up to a rational of few digits, the form in which a derived amount is stored.

    A positive number below 1e-999 becomes 1e-999, a negative one above -1e-999 becomes 0.

    >>> round_up(Decimal("1e-1000000000000000")) == Fraction(1, 10**999)
    True

    Raises:
        RangeError: The number is beyond all amounts, 1e100000 or more.
    """
    if not x.is_finite() or x.adjusted() > _FURTHEST_ABOVE:
        raise RangeError(
            f"these public numbers lead to {x:.3e}, beyond every amount; the largest that is computed with is "
            f"1e{_FURTHEST_ABOVE}. Choose a smaller epsilon, or fewer records a person"
        )
    if x and x.adjusted() < -_FURTHEST_BELOW:
        return Fraction(1, 10**_FURTHEST_BELOW) if x > 0 else Fraction(0)
    return Fraction(Context(prec=digits, rounding=ROUND_CEILING, Emax=10**15, Emin=-(10**15)).plus(x))


def round_down(x: Decimal, *, digits: int = 40) -> Fraction:
    """Round a decimal down to a rational of few digits, the form in which a derived capacity is stored.

    A positive number below 1e-999 becomes 0, a negative one above -1e-999 becomes -1e-999.

    Raises:
        RangeError: The number is beyond all amounts, 1e100000 or more.
    """
    return -round_up(x.copy_negate(), digits=digits)


def root_up(square: Fraction) -> Fraction:
    """Return the square root if it is rational, else a dyadic number above it by less than a share of 2**-126.

    >>> root_up(Fraction(9, 4)), root_up(Fraction(2)) ** 2 > 2
    (Fraction(3, 2), True)
    """
    low = root_down(square)
    return low if low * low == square else low + Fraction(1, _root_unit(square))


def root_down(square: Fraction) -> Fraction:
    """Return the square root if it is rational, else a dyadic number below it by less than a share of 2**-126."""
    top, bottom = isqrt(square.numerator), isqrt(square.denominator)
    if top * top == square.numerator and bottom * bottom == square.denominator:
        return Fraction(top, bottom)
    unit = _root_unit(square)
    return Fraction(isqrt(square.numerator * unit * unit // square.denominator), unit)


def root_above(square: Fraction | int, *, bits: int) -> Fraction:
    """Return the first multiple of 2**-bits above the square root.

    >>> root_above(4, bits=1), root_above(Fraction(1, 2), bits=3)
    (Fraction(5, 2), Fraction(3, 4))
    """
    return Fraction(isqrt(int(square * (1 << 2 * bits))) + 1, 1 << bits)


def root_below(square: Fraction | int) -> Fraction:
    """Return the last multiple of 2**-128 that is at most the square root.

    >>> root_below(4), float(root_below(2))
    (Fraction(2, 1), 1.4142135623730951)
    """
    return Fraction(isqrt(int(square * (1 << 256))), 1 << 128)


def _root_unit(square: Fraction) -> int:
    return 1 << 128 + max(0, (square.denominator.bit_length() - square.numerator.bit_length()) // 2)


def _quotient(x: Fraction, context: Context) -> Decimal:
    if x.denominator == 1:
        return context.create_decimal(x.numerator)
    # exact numerator and denominator, one directed division
    return context.divide(Decimal(x.numerator), Decimal(x.denominator))


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
