"""One form of a cell, whatever type a reader of files made of its column.

A reader derives the type of a column from all of its cells: one id "ann" makes texts of the ids 1, 2, 3, one missing
label makes floats of 0 and 1, and of True and False one text makes "True" and "False". Here 7, 7.0, "7", "007" and
" 7 " are one number, True, "True" and "TRUE" are 1, and a date is the same as its ISO text. So the type of a column,
about which one record decides, does not decide about the cells of others. Whole numbers from 2**53 on are the nearest
float, which is what a reader makes of them where one cell is missing.
"""

from __future__ import annotations

import datetime
import math
import re
import uuid
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from sidelight.records.cells import number_of, text_of

#: What readers take for a number, and the words and hexadecimals (of pyarrow) that they make numbers of. Possessive:
#: a run of digits is read in one way, so that a long one takes no longer than it is.
_NUMBER = re.compile(r"[+-]?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:e[+-]?\d++)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_WORDS = {"true": 1.0, "false": 0.0}
_HEXADECIMAL = re.compile(r"0x[0-9a-f]{1,16}", re.ASCII | re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d", re.ASCII)

_NUMBERS = (Real, Decimal, np.bool_)
_DATES = (datetime.date, datetime.time)


def canonical_number(cell: Any) -> float:
    """Return the number of a cell that is or spells one; NaN for anything else. Never raises, never warns.

    >>> [canonical_number(cell) for cell in (7, "007", " 7.0 ", "7e0", True, "TRUE", "seven")]
    [7.0, 7.0, 7.0, 7.0, 1.0, 1.0, nan]
    """
    cell = _plain(cell)
    if not issubclass(type(cell), str):
        return number_of(cell) + 0.0  # no negative zero: a reader of whole numbers has none
    text = text_of(cell)
    found = None if text is None else _spelled(text)
    return math.nan if found is None else found + 0.0


def canonical_text(cell: Any) -> str | None:
    """Return the text that is the same for every type of the cell; None for a missing one. Never raises.

    >>> [canonical_text(cell) for cell in (7, 7.0, "07", "True", "ann", "NaN")]
    ['7', '7', '7', '1', 'ann', None]
    """
    cell = _plain(cell)
    text = text_of(cell)
    if text is None:
        return None
    number = number_of(cell) if issubclass(type(cell), _NUMBERS) else _spelled(text)
    if number is None:
        return _dated(text)
    if math.isnan(number):
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def has_form(cell: Any) -> bool:
    """Return whether a cell is a number, a text, a date or an identifier: lists and other containers have no form."""
    # what isinstance asks second, __class__, a cell may answer as it likes
    return issubclass(type(_plain(cell)), (str, *_NUMBERS, *_DATES, uuid.UUID))


def _plain(cell: Any) -> Any:
    """Return real numbers and texts as such: one complex number, or one of bytes, makes its kind of a whole column."""
    if type(cell) in (complex, np.complex64, np.complex128) and cell.imag == 0:
        return cell.real
    if issubclass(type(cell), bytes):
        return bytes.decode(cell, "utf-8", "replace")
    return cell


def _spelled(text: str) -> float | None:
    """Return the number that a text spells, as readers of files take it; None if it spells none."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    if _HEXADECIMAL.fullmatch(text):
        whole = int(text, 16)
        return float(whole - 2**64 if whole >= 2**63 else whole)  # 64 bits with a sign, as pyarrow reads them
    return _WORDS.get(text.lower()) if len(text) <= 5 else None


def _dated(text: str) -> str:
    """Write an ISO date, time, or both in one way, as the text of what a reader makes of it; others stay."""
    found = text.strip()
    try:
        if _DATE.match(found):
            moment = datetime.datetime.fromisoformat(found)
            return str(moment if moment.tzinfo is None else moment.astimezone(datetime.UTC))
        if _TIME.match(found):
            return str(datetime.time.fromisoformat(found))
    except (ValueError, OverflowError):
        pass
    return text
