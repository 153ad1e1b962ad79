"""Exact signed numbers for declarations: a bound of 0.1 is one tenth, not the float nearest to it.

Privacy amounts have their own reader, which refuses negative numbers; bounds of a column may be negative.
"""

from __future__ import annotations

import sys
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sidelight.errors import RangeError

#: Beyond this a decimal exponent is a slip of the pen, and the exact fraction would fill the memory.
LARGEST_EXPONENT = 400
#: The end of the floats: a larger number is as good as this one.
LARGEST_FLOAT = sys.float_info.max

#: Every float, written out exactly, has fewer digits; more would only fill the memory.
_MOST_DIGITS = 1200
#: Two such numbers and a fraction bar.
_LONGEST_TEXT = 2 * _MOST_DIGITS + 3

#: What a user may write for a public number.
Real = str | int | float | Decimal | Fraction


def exact_number(value: Real, *, name: str) -> Fraction:
    """Read a finite public number exactly; a float is read through its shortest decimal text.

    The one reader of numbers in texts that people write, other than amounts of privacy: the fraction of "1e99999999"
    would fill the memory, so its exponent is looked at first.

    >>> exact_number(0.1, name="lower")
    Fraction(1, 10)
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal, Fraction)):
        # NumPy's float64 is a float; its other scalars are read through item().
        item = getattr(value, "item", None)
        if item is None or isinstance(value, bool):
            raise RangeError(f"{name} must be a number, got {type(value).__name__}; write it as 0.5, '0.5' or 1/2")
        return exact_number(item(), name=name)
    try:
        if isinstance(value, float):
            return Fraction(repr(float(value)))
        if isinstance(value, str) and "/" in value and len(value) <= _LONGEST_TEXT:
            value = Fraction(value)
        read = Decimal(value) if isinstance(value, str) else value
        if not isinstance(read, Decimal) or _ordinary(read):
            exact = Fraction(read)
            return Fraction(int(exact.numerator), int(exact.denominator))  # of a subclass nothing is left
    except (ValueError, OverflowError, InvalidOperation, ZeroDivisionError):
        read = None
    if read is not None:
        raise RangeError(
            f"{name} must be a number of ordinary size, between 1e-{LARGEST_EXPONENT} and 1e{LARGEST_EXPONENT}"
        )
    raise RangeError(f"{name} must be a finite number, got {value!r}; leave it out where there is no bound")


def _ordinary(value: Decimal) -> bool:
    """Return whether the exact fraction of a decimal is small enough to be written down: 1e999999999 is not."""
    if not value.is_finite() or not value:
        return True
    return abs(value.adjusted()) <= LARGEST_EXPONENT and len(value.as_tuple().digits) <= _MOST_DIGITS


def number_text(value: Fraction) -> str:
    """Write a number so that `exact_number` reads it back: as a decimal where that is finite, else as p/q.

    >>> number_text(Fraction(-1, 8)), number_text(Fraction(1, 3))
    ('-0.125', '1/3')
    """
    odd, places = value.denominator, 0
    for prime in (2, 5):
        count = 0
        while odd % prime == 0:
            odd, count = odd // prime, count + 1
        places = max(places, count)
    if odd != 1:
        return f"{value.numerator}/{value.denominator}"
    digits = abs(value.numerator) * 10**places // value.denominator
    sign = "-" if value < 0 else ""
    if places == 0:
        return f"{sign}{digits}"
    text = str(digits).rjust(places + 1, "0")
    return f"{sign}{text[:-places]}.{text[-places:]}"


def nearest_float(value: Fraction) -> float:
    """Round to the nearest finite float: numbers beyond the largest float become the largest float."""
    try:
        return float(value)
    except OverflowError:
        return LARGEST_FLOAT if value > 0 else -LARGEST_FLOAT
