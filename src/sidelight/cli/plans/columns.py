"""`[[column]]` of a plan: the public schema, one table a column."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from sidelight.plan_section import Section
from sidelight.records import Category, Date, Drop, Fill, Label, Number, PersonId, Schema

Column = Number | Category | Label | PersonId


def read_schema(sections: Sequence[Section], *, whole: Section) -> Schema:
    """Read all columns and put them together."""
    if not sections:
        whole.refuse("the schema is empty; declare the columns that the queries use, each as a [[column]] table")
    columns = [_column(section) for section in sections]
    seen: dict[str, Section] = {}
    for column, section in zip(columns, sections, strict=True):
        if column.name in seen:
            section.refuse(f"column {column.name!r} was declared before, at {seen[column.name].place()}", key="name")
        seen[column.name] = section
    with whole.naming():
        return Schema(columns)


def _column(section: Section) -> Column:
    kind = section.choice("kind", list(COLUMN_KINDS), "number")
    with section.naming():
        return COLUMN_KINDS[kind](section)


def _number(section: Section) -> Number:
    section.only("kind", "name", "lower", "upper", "granularity", "missing")
    return Number(
        section.text("name"),
        lower=section.amount("lower", None),
        upper=section.amount("upper", None),
        granularity=section.amount("granularity", None),
        **_missing(section, number=True),
    )


def _date(section: Section) -> Date:
    section.only("kind", "name", "start", "end", "unit", "missing")
    return Date(
        section.text("name"),
        start=_day(section, "start"),
        end=_day(section, "end"),
        unit=section.choice("unit", ["day", "hour"], "day"),
        **_missing(section, number=False),
    )


def _day(section: Section, key: str) -> str:
    """Read a date: a text, or one that TOML knows as such."""
    given = section.values.get(key)
    return given.isoformat() if isinstance(given, datetime.date) else section.text(key)


def _category(section: Section) -> Category:
    section.only("kind", "name", "categories", "other", "missing", "per_person")
    given: dict[str, Any] = _missing(section, number=False)
    if section.values.get("other") is False:
        given["other"] = None  # rows with a label that is not listed are dropped
    elif "other" in section:
        given["other"] = section.text("other")
    if "per_person" in section:
        given["per_person"] = section.integer("per_person")
    return Category(section.text("name"), section.labels("categories"), **given)


def _label(section: Section) -> Label:
    section.only("kind", "name", "casefold", "missing", "per_person")
    given: dict[str, Any] = _missing(section, number=False)
    if "per_person" in section:
        given["per_person"] = section.integer("per_person")
    if "casefold" in section:
        given["casefold"] = section.flag("casefold", default=False)
    return Label(section.text("name"), **given)


def _person(section: Section) -> PersonId:
    section.only("kind", "name", "max_rows")
    return PersonId(section.text("name"), max_rows=section.integer("max_rows"))


def _missing(section: Section, *, number: bool) -> dict[str, Any]:
    """Read `missing = "drop"` or `missing = {fill = 0}`; left out, the column's own default stands."""
    if "missing" not in section:
        return {}
    if section.values["missing"] == "drop":
        return {"missing": Drop()}
    if not isinstance(section.values["missing"], dict):
        section.refuse('missing must be "drop" or {fill = a public value}', key="missing")
    fill = section.section("missing").only("fill")
    return {"missing": Fill(fill.amount("fill") if number else fill.text("fill"))}


#: How a column of each kind is read.
COLUMN_KINDS: dict[str, Callable[[Section], Column]] = {
    "number": _number,
    "date": _date,
    "category": _category,
    "label": _label,
    "person": _person,
}
