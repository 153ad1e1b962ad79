"""What another format says about a column, in the keys in which a schema is stored: texts, and lists of them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sidelight.errors import SchemaError
from sidelight.grid import CODE_LIMIT
from sidelight.records.dates import minutes_of_text
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
    """Return a column of dates by its ends, where they are given; an end within an hour stands for that hour."""
    entry: Entry = {"kind": "date", "unit": unit}
    for key, given in (("start", data.get("minimum")), ("end", data.get("maximum"))):
        if given is not None:
            entry[key] = str(given)
            minutes = minutes_of_text(entry[key])
            if unit == "hour" and minutes is not None:
                hour = datetime.datetime(1970, 1, 1) + datetime.timedelta(hours=minutes // 60)
                entry[key] = hour.isoformat(sep=" ", timespec="minutes")
    return entry


def limits_of(name: str, *levels: Mapping[str, Any]) -> dict[str, Any]:
    """Return minimum and maximum of a column, by any of their words; refuse two that differ.

    The bound of an exclusive word is allowed here, which declares more than the word does and nothing wrong.
    """
    found = dict[str, Any]()
    for word in ("minimum", "maximum"):
        words = [word, *(f"{word[:3]}{kind}" for kind in ("Inclusive", "Exclusive"))]
        given = [level[each] for level in levels for each in words if level.get(each) is not None]
        if any(str(each) != str(given[0]) for each in given):
            said = " and ".join(str(each) for each in given)
            raise SchemaError(f"the {word} of column {name!r} must be said once, got {said}; keep one")
        found |= {word: given[0]} if given else {}
    return found


def check_flags(name: str, data: Mapping[str, Any], *flags: str) -> None:
    """Refuse a flag that is neither true nor false: a text would count as true."""
    for flag in flags:
        if not isinstance(data.get(flag), bool | None):
            raise SchemaError(f"{name}: {flag} must be true or false, without quotes, got {data[flag]!r}")


def labels_of(labels: Iterable[Any], *, closed: bool) -> Entry:
    """Return a column of labels; other labels have a place of their own unless the list is closed."""
    texts = [str(label).lower() if isinstance(label, bool) else str(label) for label in labels]
    return {"kind": "category", "categories": texts} | ({} if closed else {"other": "other"})


def texts_of(texts: Iterable[Any]) -> Entry:
    """Return the texts for missing; the empty one needs no word."""
    found = [str(text) for text in texts if str(text).strip()]
    return {"missing_texts": found} if found else {}
