"""The one solver for parameters without a closed form: the last number on a decimal grid for which a proof holds.

The numbers with d significant digits are in order, so they can be counted: bisecting the count is bisecting the
logarithm, and the answer is a short decimal. The condition is itself a certified comparison in 80 digits, so the end
that is returned was proved, never the last iterate of a Newton method (accounting proof page, section 7).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sidelight.errors import RangeError
from sidelight.guarantees.amounts import short_text

Condition = Callable[[Fraction], bool]
DIGITS = 12
_CLOSE = 6  # to how many digits a start is usually good


def grid_floor(x: Fraction, *, digits: int = DIGITS) -> Fraction:
    """Round a positive number down to `digits` significant digits.

    >>> grid_floor(Fraction(2, 3), digits=3)
    Fraction(333, 500)
    """
    return _value(_index(x, digits), digits)


def grid_ceil(x: Fraction, *, digits: int = DIGITS) -> Fraction:
    """Round a positive number up to `digits` significant digits.

    >>> grid_ceil(Fraction(2, 3), digits=3)
    Fraction(667, 1000)
    """
    index = _index(x, digits)
    return _value(index if _value(index, digits) == x else index + 1, digits)


def largest(
    holds: Condition,
    *,
    start: Fraction,
    lower: Fraction,
    upper: Fraction,
    name: str,
    digits: int = DIGITS,
    close: int = _CLOSE,
) -> Fraction:
    """Find the largest number on the grid for which a condition that fails from some point on holds.

    `start` is a guess that is good to about `close` digits; a wrong one costs evaluations, not correctness.

    Raises:
        RangeError: it does not even hold at `lower`; the message names the bracket.
    """
    bottom, top = _index(lower, digits), _index(upper, digits)
    good, bad = _bracket(holds, start, bottom, top, digits, close, rising=False)
    if good is None:
        raise RangeError(_no_bracket(name, lower, upper))
    return _halved(holds, good, bad, digits)


def smallest(
    holds: Condition,
    *,
    start: Fraction,
    lower: Fraction,
    upper: Fraction,
    name: str,
    digits: int = DIGITS,
    close: int = _CLOSE,
) -> Fraction:
    """Find the smallest number on the grid for which a condition that holds from some point on holds."""
    bottom, top = _index(lower, digits), _index(upper, digits)
    good, bad = _bracket(holds, start, bottom, top, digits, close, rising=True)
    if good is None:
        raise RangeError(_no_bracket(name, lower, upper))
    return _halved(holds, good, bad, digits)


def _halved(holds: Condition, good: int, bad: int | None, digits: int) -> Fraction:
    """Halve a bracket until its ends are neighbours, and return the one where the condition holds."""
    while bad is not None and abs(bad - good) > 1:
        middle = (good + bad) // 2
        if holds(_value(middle, digits)):
            good = middle
        else:
            bad = middle
    return _value(good, digits)


def _bracket(
    holds: Condition, start: Fraction, bottom: int, top: int, digits: int, close: int, *, rising: bool
) -> tuple[int | None, int | None]:
    """Walk from `start` in growing steps to one index where the condition holds and one where it fails."""
    index = min(max(_index(start, digits), bottom), top)
    stride = max(1, 10 ** (digits - close))  # a start as good as it says is bracketed in two evaluations
    good: int | None = None
    bad: int | None = None
    while True:
        if holds(_value(index, digits)):
            good = index
            if bad is not None or index == (bottom if rising else top):
                return good, bad
            index = index - stride if rising else index + stride
        else:
            bad = index
            if good is not None or index == (top if rising else bottom):
                return good, bad
            index = index + stride if rising else index - stride
        index = min(max(index, bottom), top)
        stride *= 8


def _index(x: Fraction, digits: int) -> int:
    """Count the grid's numbers up to x: exponent * (9 * 10^(d-1)) + mantissa - 10^(d-1), rounded down."""
    if x <= 0:
        raise RangeError(f"the search needs a positive number, got {short_text(x)}")
    exponent = len(str(x.numerator)) - len(str(x.denominator))
    if _power_of_ten(exponent) > x:
        exponent -= 1
    mantissa = x * _power_of_ten(digits - 1 - exponent)
    first: int = 10 ** (digits - 1)
    return exponent * 9 * first + int(mantissa) - first


def _value(index: int, digits: int) -> Fraction:
    first: int = 10 ** (digits - 1)
    exponent, offset = divmod(index, 9 * first)
    return (first + offset) * _power_of_ten(exponent - digits + 1)


def _power_of_ten(exponent: int) -> Fraction:
    return Fraction(10**exponent) if exponent >= 0 else Fraction(1, 10**-exponent)


def _no_bracket(name: str, lower: Fraction, upper: Fraction) -> str:
    return f"no {name} between {short_text(lower)} and {short_text(upper)} meets the target; change the target"
