"""An integer that depends on a person's id alone, the same on every engine.

It only spreads the choice of a person's rows (it is one input of a mix); persons are distinguished by the id itself, so
a collision harms nothing, and MD5's weaknesses do not matter. MD5 because every engine has it.

A reader of files makes the whole number 7 of "007", unless another record has an id such as "ann": then all ids are
texts. So the key is that of the whole number which an id spells. Otherwise one record could change the choice among the
rows of everybody else.
"""

from __future__ import annotations

import hashlib
import re

_SPACE = r"[ \t\n\v\f\r]*"
#: What readers take for a whole number: zero, one without a sign or with a plus, one below zero. DuckDB reads it, too.
_WHOLE = rf"^{_SPACE}(?:[+-]?0*(0)|\+?0*([1-9][0-9]*)|(-)0*([1-9][0-9]*)){_SPACE}$"
_DIGITS = r"\1\2\3\4"
_WHOLE_NUMBER = re.compile(_WHOLE)


def text_key(text: str) -> int:
    """Return the first 60 bits of the text's MD5.

    >>> text_key("abc")
    648541476951500027
    """
    digest = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big") >> 4


def spelled(text: str) -> str:
    """Return the whole number that a text spells, as readers of files take it, in its shortest form; others stay.

    >>> [spelled(text) for text in ("007", " +7", "-0", "-07", "7.0", "ann")]
    ['7', '7', '0', '-7', '7.0', 'ann']
    """
    return _WHOLE_NUMBER.sub(_DIGITS, text)


def person_key(text: str) -> int:
    """Return the key of the whole number that an id spells, or of its text.

    >>> person_key("007") == person_key("7") == text_key("7")
    True
    """
    return text_key(spelled(text))


def person_key_sql(text: str, *, whole: bool = False) -> str:
    """Write `person_key` of an expression for DuckDB; `whole`: it writes whole numbers in their shortest form."""
    # what spells a whole number begins with white space, a sign or a digit: with bytes below that of a colon
    form = f"CASE WHEN {text} < ':' THEN regexp_replace({text}, '{_WHOLE}', '{_DIGITS}') ELSE {text} END"
    return f"CAST('0x' || substr(md5({text if whole else form}), 1, 15) AS BIGINT)"
