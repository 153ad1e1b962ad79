"""Dummy data: rows of a declared shape that come from the schema alone, to try a plan before the data is touched.

They are the same for everybody and on every machine. A column that no schema declares marks each row.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.accuracy.forecast import generated
from sidelight.errors import RangeError
from sidelight.guarantees.amounts import whole
from sidelight.records import Column, Date, Number, PersonId, Schema, Table
from sidelight.records.date_formats import ISO, written
from sidelight.table_texts import csv_line

#: What a table of dummy rows is called, and the column and the text that mark each of its rows.
NAME, MARK, MARKED = "generated rows", "generated", "not real"
LARGEST = 1_000_000
#: Rows of the persons in turn, up to their cap.
_ROWS_OF_PERSON = (1, 2, 1, 3, 1, 5, 2, 8)
#: About one cell of this number is hostile, where that is asked for.
_HOSTILE_EVERY = 12
_HOSTILE_TEXTS = ("", " ", "=1+1", 'a "quoted" one', "a,b", "two\nlines", "x" * 300, "NULL", "﻿ä", " padded ", "0")
_HOSTILE = {
    Number: ("", "nan", "inf", "-inf", "1e300", "-1e300", "n/a", "1,5", "=1+1", "0x10"),
    Date: ("", "2024-02-30", "31.12.2024", "0001-01-01", "9999-12-31", "20240131", "soon"),
    PersonId: ("", " generated 1", "generated 1"),
}


def dummy(
    schema: Schema | Sequence[Column], rows: int = 1000, *, missing: float = 0.02, hostile: bool = False
) -> Table:
    """Return a table of generated rows: declared bounds, steps, labels, dates and persons; no row of any source.

    Every call with the same arguments returns the same rows. A session on them tries out queries, prices and reports
    before the data is touched; the table is called "generated rows", which ledgers and reports show.

    Args:
        schema: The declared columns: a `Schema` or a list of them.
        rows: How many rows, up to a million.
        missing: The share of empty cells in each column but that of the person.
        hostile: Whether one cell of twelve is of a kind that goes wrong elsewhere: infinite, out of bounds, of an
            unknown label or person, no date; and some persons have more rows than count.

    Returns:
        A `Table` in memory.

    >>> import sidelight as sl
    >>> table = sl.dummy([sl.Number("age", lower=0, upper=110, granularity=1), sl.Category("sex", ["F", "M"])], 200)
    >>> table
    Table('generated rows', engine='numpy', columns=['age', 'sex'])
    >>> sl.Count(by="sex", epsilon=1).release(table).value.groups
    (('F',), ('M',), ('other',))
    """
    schema = schema if isinstance(schema, Schema) else Schema(schema)
    texts = _texts(schema, rows, missing=missing, hostile=hostile)
    columns: dict[str, Any] = {name: [text or None for text in cells] for name, cells in texts.items()}
    for column in schema.columns:
        if isinstance(column, Number) and not isinstance(column, Date):
            read = _number if column.reading is None else column.reading.of_text
            columns[column.name] = np.array([read(text) for text in texts[column.name]])
    return Table(columns, schema=schema, name=NAME)


def dummy_csv(
    schema: Schema | Sequence[Column], rows: int = 1000, *, missing: float = 0.02, hostile: bool = False
) -> str:
    """Return the rows of `dummy` as CSV. The last column marks them: "generated", in every row "not real"."""
    schema = schema if isinstance(schema, Schema) else Schema(schema)
    columns = _texts(schema, rows, missing=missing, hostile=hostile)
    lines = ((cell or None for cell in cells) for cells in zip(*columns.values(), strict=True))
    return "".join([csv_line(columns), *map(csv_line, lines)])


def _texts(schema: Schema, rows: int, *, missing: float, hostile: bool) -> dict[str, list[str]]:
    """Return the cells of each column as a CSV file holds them, and the marks."""
    rows = whole(rows, name="rows", most=LARGEST)
    if not 0 <= missing < 1:
        raise RangeError(f"missing is a share of cells, from 0 to below 1, got {missing!r}")
    shapes = generated(schema, rows)
    first, place = _persons(schema, rows, hostile=hostile)
    found: dict[str, list[str]] = {}
    for number, column in enumerate(schema.columns):
        cells = _cells(column, shapes[column.name], first, place)
        scattered = np.mod((np.arange(rows) + 0.5) * (math.pi + math.e * number), 1.0)  # fills 0..1 evenly
        if not isinstance(column, PersonId):
            cells = ["" if spot else cell for cell, spot in zip(cells, scattered < missing, strict=True)]
        if hostile:
            _spoil(cells, _HOSTILE.get(type(column), _HOSTILE_TEXTS), offset=5 * number)
        found[column.name] = cells
    mark = MARK
    while mark in found:
        mark += "_"
    return found | {mark: [MARKED] * rows}


def _persons(schema: Schema, rows: int, *, hostile: bool) -> tuple[Any, Any]:
    """Return for each row the first row of its person, and its place among the rows of that person."""
    cap = schema.rows_per_unit
    cycle = [min(count, cap) for count in _ROWS_OF_PERSON]
    if hostile:
        cycle[-1] = min(3 * cap, 100) if schema.person is not None else 1
    counts = np.resize(cycle, rows)  # each has one row at least
    ends = np.cumsum(counts)
    first = np.repeat(ends - counts, counts)[:rows]
    return first, np.arange(rows) - first


def _cells(column: Column, shape: Any, first: Any, place: Any) -> list[str]:
    if isinstance(column, PersonId):
        return [f"generated {number}" for number in (1 + np.searchsorted(np.unique(first), first)).tolist()]
    if isinstance(column, Date):
        calendar = column.calendar
        known = {value: _as_declared(column, calendar.text(value)) for value in np.unique(np.floor(shape)).tolist()}
        return [known[value] for value in np.floor(shape).tolist()]
    if isinstance(column, Number):
        decimal = column.decimal or "."
        return [text.replace(".", decimal) for text in _on_grid(column, shape)]
    chosen = np.arange(len(first)) if column.per_person is None else first + place % column.per_person
    return [shape[at] for at in chosen.tolist()]


def _as_declared(column: Date, text: str) -> str:
    """Write a date in the first form that its column declares."""
    if not column.formats or column.formats[0] == ISO:
        return text
    return written(datetime.datetime.fromisoformat(text), column.formats[0])


def _on_grid(column: Number, values: Any) -> list[str]:
    """Write numbers as multiples of the declared step, or of one in about ten thousand of the range."""
    step = column.granularity
    if step is None:
        bounded = column.lower is not None and column.upper is not None
        size = float(column.upper - column.lower) if column.lower is not None and column.upper is not None else 10.0
        step = Fraction(10) ** (math.floor(math.log10(size)) - 4 if bounded else -3)
    counts = np.rint(np.asarray(values, np.float64) / float(step))
    known: dict[float, str] = {}
    for count in np.unique(counts).tolist():
        value = Fraction(count) * step
        value = value + step if column.lower is not None and value < column.lower else value
        value = value - step if column.upper is not None and value > column.upper else value
        if column.lower is not None and value < column.lower:  # no multiple lies between the bounds
            value = column.lower
        known[count] = str(value.numerator) if value.denominator == 1 else repr(float(value))
    return [known[count] for count in counts.tolist()]


def _spoil(cells: list[str], with_: Sequence[str], *, offset: int) -> None:
    for turn, at in enumerate(range(offset % _HOSTILE_EVERY, len(cells), _HOSTILE_EVERY)):
        cells[at] = with_[turn % len(with_)]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
