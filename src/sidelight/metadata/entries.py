"""What another format says about a column, in the keys in which a schema is stored: texts, and lists of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sidelight.grid import CODE_LIMIT
from sidelight.records.numbers import exact_number, number_text

#: An entry of `Schema.to_json`, as far as it is known: without a kind, nothing can be declared yet.
Entry = dict[str, Any]


def bounds_of(data: Mapping[str, Any], *, whole: bool, low: str = "minimum", high: str = "maximum") -> Entry:
    """Return a column of numbers by the keys of its bounds."""
    given = {key: data[word] for key, word in (("lower", low), ("upper", high)) if data.get(word) is not None}
    bounds = {key: exact_number(value, name=key) for key, value in given.items()}
    # unsigned 64-bit numbers, such as hashes, have no whole steps that codes could count: they are floats
    steps = whole and all(abs(bound) <= CODE_LIMIT for bound in bounds.values())
    entry: Entry = {"kind": "number"} | ({"granularity": "1"} if steps else {})
    return entry | {key: number_text(bound) for key, bound in bounds.items()}


def bounds_to(entry: Entry, low: str, high: str) -> dict[str, Any]:
    """Return the bounds as numbers of JSON, as far as these can say them exactly."""
    found = {}
    for key, word in (("lower", low), ("upper", high)):
        text = entry.get(key)
        if text is None or "/" in text:
            continue
        number: int | float = float(text) if "." in text else int(text)
        if Fraction(Decimal(repr(number))) == Fraction(text):
            found[word] = number
    return found


def days_of(data: Mapping[str, Any], *, unit: str) -> Entry:
    """Return a column of dates by its ends, where they are given."""
    entry: Entry = {"kind": "date", "unit": unit}
    for key, given in (("start", data.get("minimum")), ("end", data.get("maximum"))):
        if given is not None:
            entry[key] = str(given)
    return entry


def labels_of(labels: Iterable[Any], *, closed: bool) -> Entry:
    """Return a column of labels; other labels have a place of their own unless the list is closed."""
    texts = [str(label).lower() if isinstance(label, bool) else str(label) for label in labels]
    return {"kind": "category", "categories": texts} | ({} if closed else {"other": "other"})


def texts_of(texts: Iterable[Any]) -> Entry:
    """Return the texts for missing; the empty one needs no word."""
    found = [str(text) for text in texts if str(text).strip()]
    return {"missing_texts": found} if found else {}
