"""`[[column]]` tables of a plan: the public schema."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sidelight.plans.forms import (
    AMOUNT,
    FLAG,
    LABEL,
    TEXT,
    WHOLE,
    KeyForm,
    KeyPlace,
    choice,
    either,
    list_of,
    map_of,
    word,
)
from sidelight.plans.section import FolderResolver, Section
from sidelight.plans.tables import REQUIRED, PlanKey, TableForm, TaggedForm, table_of
from sidelight.records import Category, Column, Date, Drop, Fill, Label, Number, PersonId, Schema
from sidelight.records.keys import Key, Link, PersonVia, Reference


def _day(place: KeyPlace, value: str | datetime.date) -> Any:
    return TEXT.read(place, value.isoformat() if isinstance(value, datetime.date) else value)


#: A day: a text, or a date as TOML knows it.
_DAY = KeyForm("text in quotes", (str, datetime.date), {"type": "string"}, _day, python=(str,))


#: Texts of cells; of whole numbers, their digits.
_TEXTS = list_of(either(LABEL, WHOLE))
#: The forms of what says how texts are read.
_READING = {
    "decimal": choice(".", ","),
    "missing_texts": _TEXTS,
    "formats": _TEXTS,
    "aliases": replace(
        map_of(_TEXTS), writer=lambda value, _: {label: list(texts) for label, texts in value}, python=(tuple,)
    ),
}


def _missing(value: KeyForm) -> KeyForm:
    return either(
        word("drop", Drop()),
        table_of(Fill, names={"value": "fill"}, forms={"value": value}),
        words='"drop" or {fill = a public value}',
    )


def _column(made: type, **forms: KeyForm) -> TableForm:
    number = issubclass(made, Number)
    missing = _missing(AMOUNT if number and not issubclass(made, Date) else TEXT)
    table = table_of(made, forms={"missing": missing, **_READING, **forms}, common={"kind": TEXT, "from_rows": FLAG})
    if not number:
        return table
    keys = dict(table.keys)
    keys["missing"] = replace(keys["missing"], default=Drop())  # what a number without a policy has
    return replace(table, keys=keys)


#: The table of each kind of column.
COLUMN_TABLE = TaggedForm(
    tables={
        "number": _column(Number),
        "date": _column(Date, start=_DAY, end=_DAY),
        "category": _column(
            Category,
            categories=list_of(either(LABEL, WHOLE)),
            other=either(word(text=False, value=None), TEXT),  # false drops rows with another label
        ),
        "label": _column(Label),
        "person": _column(PersonId),
    },
    default="number",
)


def _tie(made: type, **more: PlanKey) -> TableForm:
    """Return the table of a key or a reference: `name` is its one column, `columns` are several."""
    columns = {
        "name": PlanKey("name", TEXT, None, "The column."),
        "columns": PlanKey("columns", list_of(TEXT), None, "Several columns, where one does not suffice."),
    }

    def make(name: str | None = None, columns: Sequence[str] = (), **given: Any) -> Any:
        return made(*(columns if name is None else (name,)), **given)

    def check(section: Section) -> None:
        if ("name" in section.values) == ("columns" in section.values):
            section.refuse('a key names its column by name = "...", or several by columns = [...]')

    def parts(tie: Any) -> dict[str, Any]:
        own = {"name": tie.columns[0]} if len(tie.columns) == 1 else {"columns": tie.columns}
        return own | {key: getattr(tie, key) for key in more}

    make.__doc__ = made.__doc__
    return TableForm(make=make, python=(made,), keys=columns | more, common={"kind": TEXT}, check=check, parts=parts)


_TO = PlanKey("to", TEXT, REQUIRED, "The table of the database whose key is named.")
_MAX_ROWS = PlanKey("max_rows", WHOLE, REQUIRED, "The most rows of one person that count in a statistic.")
#: Of a table of a database: columns, and how its rows are tied to those of others.
TIED_COLUMN_TABLE = TaggedForm(
    tables={
        **COLUMN_TABLE.tables,
        "key": _tie(Key),
        "reference": _tie(Reference, to=_TO),
        "via": _tie(PersonVia, to=_TO, max_rows=_MAX_ROWS),
    },
    default="number",
)


def write_column(column: Column | Link) -> dict[str, Any]:
    """Write the table of a column, its name first."""
    written = TIED_COLUMN_TABLE.write(column, FolderResolver())
    return {**({"name": written.pop("name")} if "name" in written else {}), **written}


def read_schema(
    whole: Section, sections: Sequence[Section], *, from_rows: bool = False, form: TaggedForm = COLUMN_TABLE
) -> Schema:
    """Read all columns; refuse those that were read from private rows and not confirmed, unless `from_rows`."""
    unconfirmed = [section for section in sections if section.values.get("from_rows") is True]
    if unconfirmed and not from_rows:
        names = ", ".join(repr(section.values.get("name")) for section in unconfirmed)
        unconfirmed[0].refuse(
            f"the declarations of {names} were read from private rows, and what is released would publish them. "
            "Replace bounds, labels and limits by what is public, true of everybody and not of these rows; then remove "
            "the line `from_rows = true` from each",
            key="from_rows",
        )
    if not sections:
        header = ".".join([*map(str, whole.path), "column"])
        whole.refuse(f"the schema is empty; declare the columns that the queries use, each as a [[{header}]] table")
    columns = [form.read_section(section) for section in sections]
    seen: dict[str, Section] = {}
    for column, section in zip(columns, sections, strict=True):
        if isinstance(column, (Key, Reference, PersonVia)):
            continue
        if column.name in seen:
            section.refuse(f"column {column.name!r} was declared before, at {seen[column.name].place()}", key="name")
        seen[column.name] = section
    with whole.naming():
        return Schema(columns)
