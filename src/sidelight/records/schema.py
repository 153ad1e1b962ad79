"""The public description of a table: which columns, what kind, within what bounds, and whose rows they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.guarantees.units import Person, Row, Unit
from sidelight.records.columns import Category, Column, Label, Number, PersonId
from sidelight.records.dates import Date
from sidelight.records.keys import Key, Link, PersonVia, Reference
from sidelight.records.missing import Drop, Fill, Missing
from sidelight.records.numbers import exact_number, number_text

#: What a column says about the reading of texts, by the form in JSON: a text, a list of texts, true or absent.
_SIGNS, _TEXTS, _FLAGS = ("decimal", "thousands"), ("formats", "missing_texts"), ("casefold", "strip")
_LINKS = {Key: "key", Reference: "reference", PersonVia: "via"}
_KINDS = ("number", "date", "category", "label", "person")
_ADVICE = {
    Number: "Number({!r}, lower=..., upper=...)",
    Category: "Category({!r}, [...])",
    Label: "Label({!r})",
    PersonId: "PersonId({!r}, max_rows=...)",
}
Kind = TypeVar("Kind", Number, Category, Label, PersonId)


@dataclass(frozen=True, init=False)
class Schema:
    """Describe the columns of a table; at most one names the person.

    Args:
        columns: `Number`, `Date`, `Category`, `Label` and `PersonId` declarations, and `Key`, `Reference` and
            `PersonVia` of a table of a database. What is not declared is never read.

    >>> schema = Schema([Number("age", granularity=1), PersonId("patient", max_rows=2)])
    >>> schema.unit
    Person(column='patient', max_rows=2)
    """

    columns: tuple[Column, ...]
    links: tuple[Link, ...] = field(default=(), repr=False)

    def __init__(self, columns: Iterable[Column | Link]) -> None:
        everything: tuple[Any, ...] = tuple(columns) if isinstance(columns, Iterable) else (columns,)
        links = tuple(each for each in everything if isinstance(each, (Key, Reference, PersonVia)))
        given = tuple(each for each in everything if not isinstance(each, (Key, Reference, PersonVia)))
        for column in given:
            if not isinstance(column, (Number, Category, Label, PersonId)):
                raise SchemaError(
                    f"a schema is a list of Number, Category, Label and PersonId, got {type(column).__name__} in it; "
                    'write schema=[sl.Number("age"), sl.Category("sex", ["F", "M"])]'
                )
        names = [column.name for column in given]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SchemaError(f"column {twice[0]!r} is declared twice")
        if not everything:
            raise SchemaError("a schema needs at least one Number or Category column")
        if sum(isinstance(column, PersonId) for column in given) > 1:
            raise SchemaError("a schema names one PersonId at most; the protected unit is one person")
        for kind in (Key, PersonVia):
            if sum(isinstance(link, kind) for link in links) > 1:
                raise SchemaError(f"a table has one {kind.__name__} at most; several columns go into one declaration")
        if any(isinstance(link, PersonVia) for link in links) and any(isinstance(each, PersonId) for each in given):
            raise SchemaError(
                "a row finds its person in one way, PersonId or PersonVia, and both are declared; where a row names "
                "two people, declare the one who is protected"
            )
        object.__setattr__(self, "columns", given)
        object.__setattr__(self, "links", links)

    @property
    def names(self) -> tuple[str, ...]:
        """The declared names, in order."""
        return tuple(column.name for column in self.columns)

    def number(self, name: str) -> Number:
        """Return the declaration of a number column; an error that says what to declare if there is none."""
        return self._find(name, Number)

    def category(self, name: str) -> Category:
        """Return the declaration of a category column; an error that says what to declare if there is none."""
        return self._find(name, Category)

    def label(self, name: str) -> Label:
        """Return the declaration of a label column; an error that says what to declare if there is none."""
        return self._find(name, Label)

    @property
    def person(self) -> PersonId | None:
        """The person column, if one is declared; an error if the person is found through another table."""
        if self.via is not None:
            raise SchemaError(
                f"the rows reach their person through the table {self.via.to!r} (PersonVia); put both tables into a "
                "sl.Database, open the session on it, and name this one by of="
            )
        return self._person

    @cached_property  # a release asks for it a dozen times
    def _person(self) -> PersonId | None:
        return next((column for column in self.columns if isinstance(column, PersonId)), None)

    @cached_property
    def via(self) -> PersonVia | None:
        """How rows reach their person through another table, if they do."""
        return next((link for link in self.links if isinstance(link, PersonVia)), None)

    @property
    def key(self) -> Key | None:
        """What other rows name a row by, if that is declared."""
        return next((link for link in self.links if isinstance(link, Key)), None)

    @property
    def source_names(self) -> tuple[str, ...]:
        """The columns of the source that the declarations name, each once."""
        return tuple(dict.fromkeys([*self.names, *(name for link in self.links for name in link.columns)]))

    @property
    def unit(self) -> Unit:
        """What one neighbour differs by: a row, or all rows of a person."""
        person = self.person
        return Row() if person is None else Person(column=person.name, max_rows=person.max_rows)

    @property
    def rows_per_unit(self) -> int:
        """How many rows of one protected unit count at most."""
        person = self.person
        return 1 if person is None else person.max_rows

    def to_json(self) -> dict[str, Any]:
        """Return the schema as JSON values, with strings only."""
        columns = {"columns": [_declared_to_json(column) | _reading_to_json(column) for column in self.columns]}
        return columns | ({"links": [_link_to_json(link) for link in self.links]} if self.links else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schema:
        """Return the schema that `to_json` wrote."""
        links = [_link_from_json(entry) for entry in data.get("links", ())]
        return cls([*(_column_from_json(entry) for entry in data["columns"]), *links])

    def digest(self) -> str:
        """Return the SHA-256 of the canonical JSON, to tell whether two tables have the same declarations."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _find(self, name: str, kind: type[Kind]) -> Kind:
        if not isinstance(name, str):
            raise SchemaError(f"the name of one declared column is wanted, got {type(name).__name__}")
        advice = _ADVICE[kind].format(name)
        for column in self.columns:
            if column.name == name:
                if isinstance(column, kind):
                    return column
                found = type(column).__name__
                raise SchemaError(
                    f"column {name!r} is declared as {found}, a {kind.__name__} is needed; declare {advice}"
                )
        raise SchemaError(
            f"column {name!r} is not declared; declare {advice} in the schema ({nearest(name, self.names)})"
        )


def _link_to_json(link: Link) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": _LINKS[type(link)], "columns": list(link.columns)}
    entry |= {} if isinstance(link, Key) else {"to": link.to}
    return entry | ({"max_rows": str(link.max_rows)} if isinstance(link, PersonVia) else {})


def _link_from_json(data: Mapping[str, Any]) -> Link:
    if data["kind"] == "key":
        return Key(*data["columns"])
    if data["kind"] == "reference":
        return Reference(*data["columns"], to=data["to"])
    return PersonVia(*data["columns"], to=data["to"], max_rows=int(data["max_rows"]))


def _reading_to_json(column: Column) -> dict[str, Any]:
    """Return what is declared about the reading of texts; nothing where nothing is."""
    found: dict[str, Any] = {}
    for key in _SIGNS:
        if getattr(column, key, None) is not None:
            found[key] = getattr(column, key)
    for key in _TEXTS:
        if getattr(column, key, ()):
            found[key] = list(getattr(column, key))
    found |= {key: "true" for key in _FLAGS if getattr(column, key, False)}
    aliases = getattr(column, "aliases", ())
    return found | ({"aliases": {label: list(texts) for label, texts in aliases}} if aliases else {})


def _reading_from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: data[key] for key in (*_SIGNS, *_TEXTS, "aliases") if key in data}
    return found | {key: data[key] == "true" for key in _FLAGS if key in data}


def _declared_to_json(column: Column) -> dict[str, Any]:
    if isinstance(column, PersonId):
        return {"kind": "person", "name": column.name, "max_rows": str(column.max_rows)}
    if isinstance(column, Category):
        entry: dict[str, Any] = {"kind": "category", "name": column.name, "categories": list(column.categories)}
        if column.other is not None:
            entry["other"] = column.other
        if column.per_person is not None:
            entry["per_person"] = str(column.per_person)
        return entry | ({} if column.missing is None else {"missing": _missing_to_json(column.missing)})
    if isinstance(column, Label):
        entry = {"kind": "label", "name": column.name, "missing": _missing_to_json(column.missing)}
        return entry | ({} if column.per_person is None else {"per_person": str(column.per_person)})
    if isinstance(column, Date):
        missing = _missing_to_json(column.missing)
        if isinstance(column.missing, Fill):
            missing["value"] = column.calendar.text(float(exact_number(column.missing.value, name="fill")))
        ends = {"start": column.start, "end": column.end, "unit": column.unit}
        return {"kind": "date", "name": column.name, **ends, "missing": missing}
    numbers = {"lower": column.lower, "upper": column.upper, "granularity": column.granularity}
    texts = {key: number_text(value) for key, value in numbers.items() if value is not None}
    return {"kind": "number", "name": column.name, **texts, "missing": _missing_to_json(column.missing)}


def _missing_to_json(missing: Missing) -> dict[str, str]:
    if isinstance(missing, Drop):
        return {"policy": "drop"}
    value = missing.value
    return {
        "policy": "fill",
        "value": value if isinstance(value, str) else number_text(exact_number(value, name="fill")),
    }


def _column_from_json(data: Mapping[str, Any]) -> Column:
    name, read = data["name"], _reading_from_json(data)
    if data["kind"] == "person":
        return PersonId(name, max_rows=int(data["max_rows"]), **read)
    policy = data.get("missing")
    missing = None if policy is None else Fill(policy["value"]) if policy["policy"] == "fill" else Drop()
    per_person = int(data["per_person"]) if "per_person" in data else None
    if data["kind"] == "category":
        own: dict[str, Any] = {"other": data.get("other"), "missing": missing, "per_person": per_person}
        return Category(name, data["categories"], **own, **read)
    if data["kind"] == "label":
        return Label(name, missing=missing, per_person=per_person, **read)
    if data["kind"] == "date":
        return Date(name, start=data["start"], end=data["end"], unit=data["unit"], missing=missing, **read)
    if data["kind"] == "number":
        bounds: dict[str, Any] = {key: data.get(key) for key in ("lower", "upper", "granularity")}
        return Number(name, **bounds, missing=missing, **read)
    raise SchemaError(f"unknown kind of column {data['kind']!r}; {nearest(data['kind'], _KINDS)}")


def listed_names(given: Iterable[str] | None, *, name: str = "columns") -> tuple[str, ...] | None:
    """Return a list of names as a tuple; refuse a text, whose letters would be the names."""
    if isinstance(given, str):
        raise RangeError(f"{name} must be a list of names, got the text {given!r}")
    return None if given is None else tuple(given)
