"""Declared readings of cells: how a text becomes a number or a label where it is not written as programs write it.

A reading is public and looks at one cell alone. Every engine hands its texts to the functions below, so that one
rule in Python decides what a cell is, and not the parser of an engine. What cannot be read is missing; nothing raises.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SchemaError
from sidelight.records.cells import number_of

#: What each sign between thousands may look like: people and programs do not tell spaces or apostrophes apart.
_THOUSANDS = {".": ".", ",": ",", "_": "_", "'": "'\u2019", " ": " \u00a0\u2007\u2009\u202f"}
_INFINITE = {f"{sign}{word}" for sign in ("", "+", "-") for word in ("inf", "infinity")}
#: Texts remembered during a pass, so that each is read once.
_MOST_KNOWN = 1 << 18
_LONGEST_COMPOSED = 1000
Value = TypeVar("Value")


class Remembered(dict[str | None, Value]):
    """What a function gives for texts, each computed once as long as there are not too many."""

    def __init__(self, read: Callable[[str | None], Value]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, text: str | None) -> Value:
        if len(self) >= _MOST_KNOWN:
            self.clear()
        found = self[text] = self._read(text)
        return found


class MissingByValue:
    """What readings of numbers and dates share: a value that a text for missing also means is missing everywhere."""

    missing: tuple[str, ...]

    def _plain(self, text: str) -> float:
        """Return the value of a stripped text, whatever is missing; NaN if it has none."""
        raise NotImplementedError

    @property
    def missing_values(self) -> tuple[float, ...]:
        """The values that mean missing."""
        return _values_among(self)

    def of_values(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values that an engine has read, NaN for those that mean missing."""
        missing = self.missing_values
        return np.where(np.isin(values, missing), np.nan, values) if missing else values

    def of_text(self, text: str | None) -> float:
        """Return the value that a text means; NaN if it has none, or means missing."""
        if text is None or text.strip() in self.missing:
            return math.nan
        value = self._plain(text.strip())
        return math.nan if value in self.missing_values else value

    def means_missing(self, text: str) -> bool:
        """Return whether a text is declared to mean missing."""
        return text.strip() in self.missing or self._plain(text.strip()) in self.missing_values


@lru_cache
def _values_among(reading: MissingByValue) -> tuple[float, ...]:
    found = (reading._plain(text) for text in reading.missing)
    return tuple(value for value in found if not math.isnan(value))


@dataclass(frozen=True)
class NumberReading(MissingByValue):
    """How a text becomes a number: its decimal sign, the sign between its thousands, and texts that mean missing.

    Cells that are numbers already stay what they are. A number that one of the texts for missing also means is missing
    wherever it stands: with "999", the text "999,0" and the float 999 as well.

    >>> german = NumberReading(decimal=",", thousands=".", missing=("k.A.", "999"))
    >>> german.of_text(" 1.234,5 "), german.of_text("k.A."), german.of_text("12.34"), german.of_cell(1.5)
    (1234.5, nan, nan, 1.5)
    """

    decimal: str = "."
    thousands: str | None = None
    missing: tuple[str, ...] = ()

    def of_cell(self, cell: Any) -> float:
        """Return the number of an untyped cell: a text is read, and anything else is what it is. Nothing raises."""
        if type(cell) is not str and not issubclass(type(cell), str):
            value = number_of(cell)
            return math.nan if value in self.missing_values else value
        return self.of_text("".join(str.__iter__(cell)))

    def _plain(self, text: str) -> float:
        found = _number_pattern(self.decimal, self.thousands).fullmatch(text)
        if found is None:
            return float(text) if text.lower() in _INFINITE else math.nan
        sign, plain, grouped, fraction, exponent = found.groups(default="")
        whole = plain or re.sub("[^0-9]", "", grouped)
        if not whole and not fraction:
            return math.nan
        value = float(f"{whole or '0'}.{fraction or '0'}e{exponent or '0'}")
        return -value if sign in ("-", "\u2212") else value


@lru_cache
def _number_pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    # groups of three digits; of two or three before the last one, as in India
    group = "(?!)" if thousands is None else f"[{re.escape(_THOUSANDS[thousands])}]"
    grouped = f"[0-9]{{1,3}}(?:{group}[0-9]{{2,3}})*{group}[0-9]{{3}}"
    fraction = f"(?:{re.escape(decimal)}([0-9]*))?"
    return re.compile(f"([+\u2212-]?)(?:([0-9]*)|({grouped})){fraction}(?:[eE]([+-]?[0-9]{{1,5}}))?")


@dataclass(frozen=True)
class TextReading:
    """How a text becomes a label or an id.

    Args:
        labels: Pairs of a text and the label that it means; a text that none of them has stays as it is.
        strip: Whether white space makes no difference: none around, and one space for a run of it.
        casefold: Whether capitals, and ways to write one letter in Unicode (é), make no difference.
        missing: Texts that mean missing.
        one_spelling: Whether texts that `strip` and `casefold` make equal become one text: ids.

    >>> reading = TextReading(labels=(("male", "m"), ("m", "m")), strip=True, casefold=True, missing=("?",))
    >>> [reading.of_text(text) for text in (" Male", "M", "?", "x")]
    ['m', 'm', None, 'x']
    """

    labels: tuple[tuple[str, str], ...] = ()
    strip: bool = False
    casefold: bool = False
    missing: tuple[str, ...] = ()
    one_spelling: bool = False

    def of_text(self, text: str | None) -> str | None:
        """Return the label or id; None if the cell is missing."""
        if text is None:
            return None
        key = self.key(text)
        labels, missing = _keys_of(self)
        if not key or key in missing:
            return None
        return labels.get(key, key if self.one_spelling else text)

    def key(self, text: str) -> str:
        """Return what is compared of a text."""
        if self.casefold:
            text = composed(composed(text).casefold())
        return " ".join(text.split()) if self.strip else text


def composed(text: str) -> str:
    """Return the one composition of texts that Unicode calls equal; one of more than 1000 characters stays as it is.

    Composing sorts marks above one letter in a time that grows with the square of their number: hours for one cell.
    """
    return text if len(text) > _LONGEST_COMPOSED else unicodedata.normalize("NFC", text)


@lru_cache
def _keys_of(reading: TextReading) -> tuple[dict[str, str], frozenset[str]]:
    labels = {reading.key(text): label for text, label in reading.labels}
    return labels, frozenset(reading.key(text) for text in reading.missing)


def check_signs(decimal: str | None, thousands: str | None, *, name: str) -> None:
    """Refuse signs of numbers that no reading could tell apart."""
    if decimal not in (None, ".", ","):
        raise SchemaError(f'decimal of column {name!r} must be "." or ",", got {decimal!r}')
    if thousands is not None and thousands not in _THOUSANDS:
        known = ", ".join(map(repr, _THOUSANDS))
        raise SchemaError(f"thousands of column {name!r} must be one of {known}, got {thousands!r}")
    if thousands is not None and thousands == (decimal or "."):
        other = "," if thousands == "." else "."
        raise SchemaError(
            f"decimal and thousands of column {name!r} must differ, and both are {thousands!r}; write "
            f'decimal = "{other}" as well'
        )


def checked_texts(texts: Iterable[object], *, name: str, what: str = "missing_texts") -> tuple[str, ...]:
    """Return a list of public texts; none is empty, and whole numbers are their digits."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise SchemaError(f'{what} of column {name!r} must be a list of texts, such as ["n/a", "-"], got {texts!r}')
    found = tuple(str(text) if type(text) is int else text for text in texts)
    for text in found:
        if not isinstance(text, str) or not text.strip():
            raise SchemaError(
                f"{what} of column {name!r} must be texts that are not empty, got {text!r}; an empty cell is missing "
                "without being named"
            )
        checked_utf8(text, name=name)
    return tuple(str.__str__(text) for text in found)


def checked_utf8(text: str, *, name: str) -> None:
    """Refuse a public text that no cell could hold: one that cannot be written as UTF-8."""
    try:
        str.encode(text)
    except UnicodeEncodeError:
        raise SchemaError(f"column {name!r} declares a text that is not Unicode; write it anew") from None


def checked_name(name: str) -> str:
    """Return the name of a column; refuse one that some engine cuts off or cannot hold."""
    checked_utf8(name, name=name)
    if "\0" in name:
        raise SchemaError(f"the name of a column holds the character NUL, got {name!r}; rename the column")
    return str.__str__(name)  # of a subclass nothing is left


def label_texts(labels: Iterable[str], aliases: Mapping[str, Iterable[object]], *, name: str) -> Any:
    """Return the aliases of each label, and all pairs of a text and its label."""
    known = tuple(labels)
    if not isinstance(aliases, Mapping):
        raise SchemaError(
            f'aliases of column {name!r} must be a table of labels, such as {{"M": ["male", "m"]}}, got {aliases!r}'
        )
    found: dict[str, tuple[str, ...]] = {}
    for label, texts in aliases.items():
        if label not in known:
            raise SchemaError(
                f"column {name!r} has aliases of {label!r}, which is not among its labels; the labels are "
                + ", ".join(map(repr, known))
            )
        found[str(label)] = checked_texts(texts, name=name, what=f"the aliases of {label!r}")
    pairs = [(text, label) for label in known for text in (label, *found.get(label, ()))]
    return tuple(found.items()), tuple(pairs)


def check_labels(reading: TextReading, *, name: str) -> None:
    """Refuse texts that would mean two labels, or a label and nothing."""
    seen: dict[str, str] = {}
    for text, label in reading.labels:
        key = reading.key(text)
        if seen.setdefault(key, label) != label:
            raise SchemaError(f"column {name!r} reads {text!r} as {seen[key]!r} and as {label!r}; leave one out")
    for text in reading.missing:
        if reading.key(text) in seen:
            raise SchemaError(f"column {name!r} reads {text!r} as missing and as {seen[reading.key(text)]!r}")


def check_flags(name: str, **flags: object) -> None:
    """Refuse what is neither true nor false."""
    for flag, given in flags.items():
        if not isinstance(given, bool):
            raise SchemaError(f"{flag} of column {name!r} must be True or False, got {given!r}")
