"""One cell at a time: how an untyped value becomes a number or a text, without ever raising or warning.

Only untyped columns (Python lists, object arrays) come here; typed columns are converted by their engine. What a cell
is, its type says: whole numbers and texts of a class of their own are read by the methods of the plain type.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

#: Types that convert to a number but are not numbers: NumPy would warn, or take the first of several.
_NO_NUMBER = (complex, np.complexfloating, np.ndarray, np.flexible, bytes, bytearray, memoryview)
#: Further types with one text for each value; those of modules that need not be loaded by their names.
_WRITTEN = (Fraction, UUID, date, time, timedelta, np.datetime64)
_WRITTEN_BY_NAME = {
    ("pandas", "Interval"),
    ("pandas", "Period"),
    ("ipaddress", "IPv4Address"),
    ("ipaddress", "IPv6Address"),
}


def number_of(cell: Any) -> float:
    """Return the cell as a float; NaN if it is missing or no number."""
    if type(cell) is float:
        return cell
    # Any object can stand in a cell, and what it raises must not depend on the rows. An interrupt of the user passes.
    try:
        return _read(cell)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return math.nan


def decoded(cell: bytes | None) -> str | None:
    """Return the text of some bytes; None where they are not UTF-8."""
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def _read(cell: Any) -> float:
    kind = type(cell)  # what isinstance asks second, __class__, a cell may answer as it likes
    if issubclass(kind, int):
        whole = int.__int__(cell)
        return nearest_or_infinite(whole) if abs(whole) >= 2**53 else float(whole)
    if issubclass(kind, float):
        return float.__float__(cell)
    if issubclass(kind, str):
        text = "".join(str.__iter__(cell))
        # digits and white space beyond ASCII are no number here, as in a CSV file
        return float(text) if text.isascii() else math.nan
    if issubclass(kind, Decimal):
        return Decimal.__float__(cell)
    if issubclass(kind, Fraction):
        return nearest_or_infinite(Fraction.__round__(cell)) if abs(cell) >= 2**53 else float(cell)
    if kind is np.ndarray and cell.ndim == 0:
        return number_of(cell.item())
    return math.nan if issubclass(kind, _NO_NUMBER) else float(cell)


def nearest_or_infinite(number: Any) -> float:
    """Return the nearest float; an infinity beyond the floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def plain_label(cell: Any) -> Any:
    """Return a text or a number as one of the plain types, which compare without surprises; None for anything else.

    >>> plain_label("yes"), plain_label(np.float32(0.5)), plain_label([1])
    ('yes', 0.5, None)
    """
    kind = type(cell)  # what isinstance asks second, __class__, a cell may answer as it likes
    if kind in (str, int, float, bool) or cell is None:
        return cell
    try:
        if issubclass(kind, str):
            return "".join(str.__iter__(cell))
        if issubclass(kind, np.bool_):
            return bool(cell)
        if issubclass(kind, int):
            return int.__int__(cell)
        if issubclass(kind, float):
            return float.__float__(cell)
        if issubclass(kind, (np.integer, np.floating)):
            return cell.item() if kind.__module__ == "numpy" else None
        return cell if kind in (Fraction, Decimal) else None
    except BaseException:  # a number that cannot be read is no label
        return None


def text_of(cell: Any) -> str | None:
    """Return the cell as the text by which labels and ids are compared; None if it is missing or has no text.

    >>> text_of("a"), text_of(7.0), text_of(True), text_of(date(2024, 1, 31)), text_of([1]), text_of(7 + 0j)
    ('a', '7', 'true', '2024-01-31', None, None)
    """
    if cell is None:
        return None
    try:  # around everything: also texts and numbers may be of a class of their own, and do what they like
        found = _found(cell)
        if not found:
            return None
        # what cannot be written as UTF-8 (half of a pair of surrogates) is no text, here as on every engine
        return found if found.isascii() or found.encode() else None
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def _found(cell: Any) -> str | None:
    kind = type(cell)
    if kind is str:
        return str(cell)
    if issubclass(kind, str):
        return "".join(str.__iter__(cell))  # a plain text: its own way to compare or to hash would raise later
    if issubclass(kind, (bool, np.bool_)):
        return "true" if cell else "false"
    if issubclass(kind, int):
        return _digits(int.__int__(cell))
    if issubclass(kind, np.integer):
        return _digits(int(cell))
    if issubclass(kind, (float, np.floating, Decimal)):
        value = number_of(cell)
        if math.isnan(value):
            return None
        text = _digits(int(value)) if value.is_integer() else repr(value)
        return text if issubclass(kind, float) or _says(text, cell) else _exact_text(cell)
    is_named = (kind.__module__.partition(".")[0], kind.__name__) in _WRITTEN_BY_NAME
    if not (is_named or issubclass(kind, _WRITTEN)) or bool(cell != cell):
        return None  # lists, objects and the like; NaT, which differs from itself
    return "".join(str.__iter__(str(cell)))


def _says(text: str, cell: Any) -> bool:
    """Return whether the text of the nearest float is that of the number itself."""
    return bool(Decimal(text) == cell if issubclass(type(cell), Decimal) else float(cell) == cell)


def _exact_text(cell: Any) -> str:
    """Write a decimal, or a float of more than 64 bits, that no float equals: two ids must not become one."""
    if not issubclass(type(cell), Decimal):
        return _digits(int(cell)) if cell == np.floor(cell) else str(cell)
    sign, digits, exponent = Decimal.as_tuple(cell)
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    exponent = int(exponent) + len(text) - len(kept)
    if 0 <= exponent <= 4300:
        kept, exponent = kept + "0" * exponent, 0
    return f"{'-' * sign}{kept}{f'E{exponent}' if exponent else ''}"


def _digits(whole: int) -> str:
    """Write a whole number; beyond 4300 digits Python raises for decimals, but not for hexadecimals."""
    try:
        return str(whole)
    except ValueError:
        return hex(whole)


def numbers_of(cells: Iterable[Any]) -> NDArray[np.float64]:
    """Return a float for each cell."""
    return np.fromiter((number_of(cell) for cell in cells), np.float64)


def texts_of(cells: Iterable[Any]) -> NDArray[Any]:
    """Return a text or None for each cell."""
    given = list(cells)
    out = np.empty(len(given), object)
    kinds = set(map(type, given))
    if kinds == {str} and "" not in given and "".join(given).isascii():  # plain texts as they are
        out[:] = given
        return out
    if kinds == {int}:
        out[:] = [_digits(cell) for cell in given]
        return out
    for place, cell in enumerate(given):
        out[place] = text_of(cell)
    return out
