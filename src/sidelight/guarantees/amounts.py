"""Exact amounts: what a user writes becomes one rational number, and that number is charged, sampled with and printed.

Hand-made because the promise depends on it: a float is read through its `repr`, so 0.1 means 1/10 everywhere. Charging
1/10 while sampling with the float 0.1 (which is a little more) would charge too little (accounting proof page,
section 8).

Parameters without a closed form are found by one search: the last number on a decimal grid for which a proof holds. The
numbers with d significant digits are in order, so they can be counted: bisecting the count is bisecting the logarithm,
and the answer is a short decimal. The condition is itself a certified comparison in 80 digits, so the end that is
returned was proved, never the last iterate of a Newton method (section 7).
"""

from __future__ import annotations

import math
import numbers
import operator
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NotRequired, SupportsIndex, TypeAlias, TypedDict, Unpack

import numpy as np

from sidelight.errors import RangeError

#: What a public parameter may be written as.
Amount: TypeAlias = str | int | float | Decimal | Fraction
_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?|\.[0-9]+([eE][+-]?[0-9]{1,3})?", re.ASCII)
_RATIO = re.compile(r"[0-9]+/[0-9]+", re.ASCII)
_LONGEST_TEXT = 1200
_LARGEST = int(sys.float_info.max)
_BILLIONTH, _THOUSANDTH = Fraction(1, 10**9), Fraction(1, 10**3)
#: Between these a float shows a number.
_SHORTEST, _LONGEST = Fraction(1e-300), Fraction(1e300)
_PRICES = ("epsilon", "delta", "rho", "mu")
Condition = Callable[[Fraction], bool]
DIGITS = 12
_CLOSE = 6  # to how many digits a start is usually good


def exact(value: Amount | SupportsIndex, *, name: str) -> Fraction:
    """Read a public, non-negative amount as the rational number that the writer meant.

    >>> exact(0.1, name="epsilon"), exact("1e-6", name="delta"), exact("2/3", name="rho")
    (Fraction(1, 10), Fraction(1, 1000000), Fraction(2, 3))

    A NumPy scalar means the shortest decimal of its own precision, as a float does: `np.float32(0.1)` is 1/10.

    Raises:
        RangeError: NaN, an infinity, a negative number, one beyond all floats, a bool, or not a number at all; the
            message names it.
    """
    number = _read(value, name=name)
    if number.numerator < 0:  # integers compare ten times as fast as fractions
        raise RangeError(f"{name} must not be negative, got {_shown(value)}")
    if number.numerator > _LARGEST * number.denominator:
        raise RangeError(f"{name} must be at most 1.7e308, the largest floating-point number; got a larger one")
    return number


def positive(value: Amount | SupportsIndex, *, name: str) -> Fraction:
    """Read an amount that must be above zero: a release for nothing does not exist.

    >>> positive("0.5", name="epsilon")
    Fraction(1, 2)
    """
    number = exact(value, name=name)
    if number.numerator == 0:
        why = "; a release without a cost does not exist" if name in _PRICES else ""
        raise RangeError(f"{name} must be positive, got {_shown(value)}{why}")
    return number


def whole(value: object, *, name: str, least: int = 1, most: int | None = None, advice: str = "") -> int:
    """Read a whole number of Python or NumPy that lies between limits, as an int.

    >>> whole(np.int64(3), name="k")
    3

    Raises:
        RangeError: it is less or more, a bool, a float or not a number at all; `advice` ends the message.
    """
    number = own_int(value)
    large_enough = isinstance(number, int) and not isinstance(number, bool) and number >= least
    if large_enough and (most is None or number <= most):
        return int(number)
    limits = f"of at least {least}" if most is None else f"from {least} to {most}"
    if isinstance(number, int) and number.bit_length() > 200:  # beyond 4,300 digits Python refuses to write it
        shown = f"one of {number.bit_length()} bits"
    else:
        shown = repr(number) if isinstance(number, str | int | float | None) else type(number).__name__
    raise RangeError(f"{name} must be a whole number {limits}, got {_shown(shown)}" + (advice and f"; {advice}"))


def decimal_text(x: Fraction) -> str:
    """Write a rational number so that `exact` reads the same number back: as a decimal, or "p/q" where none is finite.

    >>> decimal_text(Fraction(1, 10)), decimal_text(Fraction(1, 3)), decimal_text(Fraction(1, 10**40))
    ('0.1', '1/3', '1e-40')
    """
    places = decimals_of(x)
    if places is None:
        return f"{x.numerator}/{x.denominator}"
    digits = str(abs(x.numerator) * 10**places // x.denominator)
    sign = "-" if x < 0 else ""
    if places == 0:
        return sign + digits
    if places - len(digits) > 20:  # far below the point: write the exponent instead of the zeros
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{sign}{mantissa}e-{places - len(digits) + 1}"
    digits = digits.rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}"


def short_text(x: Fraction, *, digits: int = 6) -> str:
    """Write a number for people: at most six significant digits, 1e-6 rather than 0.000001. Not read back.

    >>> short_text(Fraction(1, 10**6)), short_text(Fraction(1, 3)), short_text(Fraction(3))
    ('1e-6', '0.333333', '3')
    """
    if x == 0:
        return "0"
    if not _SHORTEST < abs(x) < _LONGEST:
        return decimal_text(x)
    text = f"{float(x):.{digits}g}"
    if "e" not in text and abs(x) < _THOUSANDTH:
        text = f"{float(x):.{digits - 1}e}"
    mantissa, _, exponent = text.partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def bound_text(x: Fraction) -> str:
    """Write what is promised for people, rounded up: what is printed is published, and must hold.

    A billionth is left out: 2.000000000001, which a computation rounded up, is printed as 2.

    >>> bound_text(Fraction(1, 3)), bound_text(Fraction(2, 3)), bound_text(Fraction(1, 10**6)), bound_text(Fraction(0))
    ('0.333334', '0.666667', '1e-6', '0')
    """
    text = short_text(x)
    if Fraction(text) * (1 + _BILLIONTH) >= x:
        return text
    written = Decimal(text)
    return short_text(Fraction(written) + Fraction(10) ** (written.adjusted() - 5))  # one more in the sixth digit


def decimals_of(x: Fraction) -> int | None:
    """Count the digits after the decimal point; None where the decimal expansion does not end."""
    rest, twos, fives = x.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None


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


def largest(holds: Condition, **search: Unpack[Search]) -> Fraction:
    """Find the largest number on the grid for which a condition that fails from some point on holds.

    `start` is a guess that is good to about `close` digits; a wrong one costs evaluations, not correctness.

    Raises:
        RangeError: it does not even hold at `lower`; the message names the bracket.
    """
    return _searched(holds, rising=False, **search)


def smallest(holds: Condition, **search: Unpack[Search]) -> Fraction:
    """Find the smallest number on the grid for which a condition that holds from some point on holds."""
    return _searched(holds, rising=True, **search)


def last_where(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Find the last whole number where a condition holds that holds at `low` and fails from some number to `high` on.

    >>> last_where(lambda n: n * n <= 50, 0, 50)
    7
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


class Search(TypedDict):
    """Where to search for a number, and what to call it where there is none."""

    start: Fraction
    lower: Fraction
    upper: Fraction
    name: str
    digits: NotRequired[int]
    close: NotRequired[int]


def _searched(
    holds: Condition,
    *,
    rising: bool,
    start: Fraction,
    lower: Fraction,
    upper: Fraction,
    name: str,
    digits: int = DIGITS,
    close: int = _CLOSE,
) -> Fraction:
    bottom, top = _index(lower, digits), _index(upper, digits)
    good, bad = _bracket(holds, start, bottom, top, digits, close, rising=rising)
    if good is None:
        raise RangeError(
            f"no {name} between {short_text(lower)} and {short_text(upper)} meets the target; change the target"
        )
    while bad is not None and abs(bad - good) > 1:  # halve the bracket until its ends are neighbours
        middle = (good + bad) // 2
        if holds(_value(middle, digits)):
            good = middle
        else:
            bad = middle
    return _value(good, digits)


def own_int(value: Any) -> Any:
    """Return a NumPy integer as an int, so that it is stored as one; anything else as it came, for the caller to check.

    A duration of NumPy is derived from its integers, and is none.

    >>> import numpy as np
    >>> own_int(np.int64(3)), own_int(True), own_int(3.0)
    (3, True, 3.0)
    """
    return int(value) if isinstance(value, np.integer) and not isinstance(value, np.timedelta64) else value


def _read(value: object, *, name: str) -> Fraction:
    if type(value) is Fraction and type(value.numerator) is type(value.denominator) is int:
        return value
    if isinstance(value, bool):
        raise RangeError(f"{name} must be a number, got {value!r} (a bool)")
    if isinstance(value, Fraction):
        return Fraction(int(value.numerator), int(value.denominator))  # of a subclass nothing is left
    if isinstance(value, int):
        return Fraction(int(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise RangeError(f"{name} must be finite, got {_shown(value)}")
        return Fraction(float.__repr__(value))  # the decimal that was written, not the binary that is stored
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise RangeError(f"{name} must be finite, got {value}")
        if abs(value.adjusted()) > 999:
            raise RangeError(f"{name} must lie within 1e-999..1e999, got {value}")
        return Fraction(value)
    if isinstance(value, str):
        return _parse(value, name=name)
    if isinstance(value, numbers.Real) and type(value).__module__ == "numpy":  # float32 and the like, as they are shown
        if not math.isfinite(value):
            raise RangeError(f"{name} must be finite, got {_shown(value)}")
        return _parse(str(value), name=name)
    try:
        return Fraction(operator.index(value))  # type: ignore[arg-type]  # NumPy integers and the like
    except TypeError:
        raise RangeError(
            f"{name} must be a str, int, float, Decimal or Fraction, got {type(value).__name__}; "
            "amounts are public numbers, never data"
        ) from None


def _parse(text: str, *, name: str) -> Fraction:
    stripped = text.strip()
    if len(stripped) <= _LONGEST_TEXT:
        unsigned = stripped.removeprefix("-")
        if _DECIMAL.fullmatch(unsigned):
            return Fraction(stripped)
        if _RATIO.fullmatch(unsigned) and int(unsigned.partition("/")[2]) != 0:
            return Fraction(stripped)
    shown = text if len(text) <= 40 else text[:40] + "..."
    raise RangeError(f'{name} must be a finite decimal such as "0.1", "1e-6" or "2/3", got {shown!r}')


def _shown(value: object) -> str:
    text = float.__repr__(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:60] + "..."


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
