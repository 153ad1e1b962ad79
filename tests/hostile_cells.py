"""Cells that try to raise, to warn, or to change what another record is read as. Shared by tests and benchmarks."""

from __future__ import annotations

import datetime
import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np


class NoSign:
    """Too large for a float, and not to be compared with zero."""

    def __float__(self):
        raise OverflowError

    def __gt__(self, other):
        raise TypeError


class NoFloat(float):
    """A float that cannot be read as one."""

    def __float__(self):
        raise ValueError


class QuarrelError(Exception):
    """What the classes below raise, whatever they are asked."""


def _refuse(*_: object) -> Any:
    raise QuarrelError("quotes a record")


class QuarrelsomeText(str):
    """A text that raises when it is compared, hashed, written or encoded."""

    __slots__ = ()
    __eq__ = __ne__ = __lt__ = __gt__ = __str__ = __repr__ = __float__ = __bool__ = encode = _refuse
    __hash__ = _refuse


class QuarrelsomeInt(int):
    """A whole number that raises when it is read as anything."""

    __eq__ = __ne__ = __lt__ = __gt__ = __str__ = __repr__ = __float__ = __int__ = __index__ = __bool__ = _refuse
    __hash__ = _refuse


class QuarrelsomeFloat(float):
    """A float that raises when it is read as anything."""

    __eq__ = __ne__ = __lt__ = __gt__ = __str__ = __repr__ = __float__ = __bool__ = is_integer = _refuse
    __hash__ = _refuse


class QuarrelsomeDecimal(Decimal):
    """A decimal that raises when it is read as anything."""

    __eq__ = __ne__ = __lt__ = __gt__ = __str__ = __repr__ = __float__ = __bool__ = _refuse
    __hash__ = _refuse


class Spoofed:
    """An object that says it is a text, and is none."""

    __class__ = property(_refuse)  # type: ignore[assignment]
    __eq__ = __ne__ = __str__ = __repr__ = __float__ = __bool__ = _refuse
    __hash__ = _refuse


class Leaving:
    """An object that wants to end the program when it is read."""

    def __float__(self):
        raise SystemExit("quotes a record")

    __str__ = __repr__ = __float__


class LeavingFloat(float):
    """A float that wants to end the program when it is read."""

    __float__ = __str__ = __repr__ = Leaving.__float__


class Colour(enum.Enum):
    """A label of a class of its own."""

    RED = 1


@dataclass(frozen=True)
class RawText:
    """Bytes that are not valid UTF-8 in a text column, for sources that allow them."""

    content: bytes


#: Every cell by name. Sources that cannot hold one leave it out.
CELLS: dict[str, Any] = {
    "null": None,
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "minus zero": -0.0,
    "largest float": 1.7976931348623157e308,
    "smallest float": 5e-324,
    "half": 0.5,
    "2^53 + 1": 2**53 + 1,
    "2^63": 2**63,
    "below -2^63": -(2**63) - 1,
    "2^64": 2**64,
    "400 digits": 10**400,
    "5000 digits": 10**5000,
    "empty text": "",
    "space": " ",
    "text": "no number",
    "text of a number": "12",
    "text beyond floats": "1e999",
    "long text": "y" * 200_000,
    "null byte": "\x00",
    "null byte inside": "a\x00b",
    "lone surrogate": "\ud800",
    "invalid UTF-8": RawText(b"\xff\xfe"),
    "half a UTF-8 letter": RawText(b"v1\xc3"),
    "quotation mark": '"',
    "comma": ",",
    "line break": "a\nb",
    "bytes": b"v1",
    "bytes that are no text": b"\xff",
    "true": True,
    "false": False,
    "complex": 1j,
    "NumPy complex": np.complex64(1 + 2j),
    "decimal": Decimal("1.5"),
    "decimal NaN": Decimal("NaN"),
    "decimal signalling NaN": Decimal("sNaN"),
    "decimal beyond floats": Decimal("1e5000"),
    "fraction": Fraction(1, 3),
    "fraction beyond floats": Fraction(10**5000, 3),
    "date": datetime.date(2020, 1, 1),
    "time with zone": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    "span of time": datetime.timedelta(1),
    "not a time": np.datetime64("NaT"),
    "list": [1, 2],
    "empty list": [],
    "mapping": {"a": 1},
    "set": {1},
    "array of one": np.array([1.0]),
    "array of two": np.array([1.0, 2.0]),
    "array of no dimension": np.array(1.0),
    "masked": np.ma.masked,
    "float16": np.float16(1.5),
    "longdouble": np.longdouble("1e4000"),
    "object": object(),
    "label of a class": Colour.RED,
    "no sign": NoSign(),
    "no float": NoFloat(3),
    "quarrelsome text": QuarrelsomeText("q"),
    "quarrelsome whole number": QuarrelsomeInt(77),
    "quarrelsome float": QuarrelsomeFloat(7.5),
    "quarrelsome decimal": QuarrelsomeDecimal("7.5"),
    "spoofed class": Spoofed(),
    "leaving": Leaving(),
    "leaving float": LeavingFloat(6.5),
    "pair": (1, 2),
    "range": range(3),
    "view of bytes": memoryview(b"a"),
    "array of bytes": bytearray(b"1"),
    "quarrel in a list": [QuarrelsomeText("q")],
}


def cells_of_pandas() -> Iterator[tuple[str, Any]]:
    """Give the missing values that pandas has of its own."""
    import pandas as pd

    yield "pandas NA", pd.NA
    yield "pandas NaT", pd.NaT
    yield "pandas Timestamp", pd.Timestamp("2020-01-01")
