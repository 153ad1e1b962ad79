"""How the numbers that describe a prior are read: finite floats, meant as the decimals that they print as."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from sidelight.errors import RangeError

Numeric = float | int | str | Decimal | Fraction


def finite(value: Numeric, *, name: str) -> float:
    """Read a finite number."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(Fraction(value)) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise RangeError(f"{name} must be a finite number, got {value!r}; write it as a decimal") from None
    if not math.isfinite(number):
        raise RangeError(f"{name} must be a finite number, got {number}; a prior has no infinite parameter")
    return number


def positive(value: Numeric, *, name: str) -> float:
    """Read a finite number above zero."""
    number = finite(value, name=name)
    if number <= 0:
        raise RangeError(f"{name} must be positive, got {number}; give the typical distance of a wrong guess")
    return number


def as_decimal(number: float) -> Fraction:
    """Return the shortest decimal that reads back as this float: 0.3 means 3/10, as it does in a grid's resolution."""
    return Fraction(repr(number))


def text_of(written: Mapping[str, object], key: str) -> str:
    """Return a field that must be there as text."""
    value = written.get(key)
    if not isinstance(value, str):
        raise RangeError(f"a stored prior needs the field {key!r} as text, got {value!r}")
    return value


def texts_of(written: Mapping[str, object], key: str) -> list[str]:
    """Return a field that must be there as a list of texts."""
    value = written.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RangeError(f"a stored prior needs the field {key!r} as a list of texts, got {value!r}")
    return value
