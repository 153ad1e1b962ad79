"""Exact signed numbers for declarations: a bound of 0.1 is one tenth, not the float nearest to it.

Privacy amounts have their own reader, which refuses negative numbers; bounds of a column may be negative.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import gcd, lcm

from sidelight.errors import RangeError
from sidelight.grid import CODE_LIMIT, Grid
from sidelight.readable import at_least

#: Beyond this a decimal exponent is a slip of the pen, and the exact fraction would fill the memory.
LARGEST_EXPONENT = 400
#: The end of the floats: a larger number is as good as this one.
LARGEST_FLOAT = sys.float_info.max

#: Every float, written out exactly, has fewer digits; more would only fill the memory.
_MOST_DIGITS = 1200
#: As many digits of a numerator or denominator; Python writes no integer of more than 4300 digits as a text.
_MOST_BITS = 4000
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
        if isinstance(value, str):
            value.encode("ascii")  # digits of another script are no number, as in a file
        if isinstance(value, str) and "/" in value and len(value) <= _LONGEST_TEXT:
            value = Fraction(value)
        read = Decimal(value) if isinstance(value, str) else value
        if not isinstance(read, Decimal) or _ordinary(read):
            exact = Fraction(read)
            if max(exact.numerator.bit_length(), exact.denominator.bit_length()) <= _MOST_BITS:
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


def check_steps(name: str, step: Fraction, *ends: Fraction | None) -> None:
    """Refuse a step that no grid can have, and ends of a column that lie more than 2**61 steps from 0.

    Codes are 64-bit integers. Ends beyond would be cut there without a word, and counts of the column would be false.
    """
    Grid(resolution=step)
    if any(abs(end) > CODE_LIMIT * step for end in ends if end is not None):
        raise RangeError(
            f"the bounds of {name!r} lie more than 2**61 steps of {number_text(step)} from 0, up to "
            f"{at_least(float(CODE_LIMIT * step))} is possible; use a coarser granularity or resolution, narrower "
            "bounds, or neither granularity nor resolution (floats have no such limit); ids and hashes are a Label or "
            "PersonId"
        )


def nearest_float(value: Fraction) -> float:
    """Round to the nearest finite float: numbers beyond the largest float become the largest float."""
    try:
        return float(value)
    except OverflowError:
        return LARGEST_FLOAT if value > 0 else -LARGEST_FLOAT


def nearest_double(number: Fraction) -> Fraction:
    """Return what floats are compared with: the float that a source holds for this number; itself beyond all floats.

    >>> nearest_double(Fraction(1, 10)) == Fraction(0.1)
    True
    """
    return Fraction(nearest_float(number)) if abs(number) <= LARGEST_FLOAT else number


def common_step(values: Iterable[Fraction]) -> Fraction:
    """Return the largest number of which all are multiples; 1 if all are 0.

    >>> common_step([Fraction(1, 2), Fraction(3, 4)])
    Fraction(1, 4)
    """
    given = [value for value in values if value]
    if not given:
        return Fraction(1)
    return Fraction(gcd(*(value.numerator for value in given)), lcm(*(value.denominator for value in given)))
