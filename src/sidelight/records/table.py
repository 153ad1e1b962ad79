"""A table: rows somewhere, and their public schema. Making one checks metadata only; aggregates read the rows."""

from __future__ import annotations

import html
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any, Literal

from sidelight.errors import SchemaError, nearest
from sidelight.records.columns import Category, Column, Label, Number
from sidelight.records.dates import Date
from sidelight.records.engines import open_rows
from sidelight.records.engines.arrays import ArrayRows, check_no_texts
from sidelight.records.engines.frames import ColumnRows
from sidelight.records.rows import TWICE, ChecksRecords, ColumnType, ReducesAway, Rows
from sidelight.records.schema import Schema

_FIT = {
    Number: ("integer", "float", "boolean", "any"),
    Date: ("date", "text", "any"),
    Category: ("integer", "boolean", "text", "any"),
    Label: ("integer", "boolean", "text", "any"),
}
_PERSON_FIT = ("integer", "text", "any")

#: What a table is called that has no name of its own.
NAMELESS = "table"


class Table:
    """Hold rows, wherever they are, with their declared schema.

    Making a table reads the header or the footer and never a row: a wrong path, format, column or type is an error
    here, and nothing about the values is one later.

    A CSV file is read as standard writers write it: a field in quotation marks may hold line breaks. Before the first
    charge the file is looked through once, and refused with the number of a line if no standard writer wrote it (a mark
    inside a field without marks, text behind a closing mark, a mark that is never closed).

    Args:
        source: A path (CSV, Parquet, DuckDB), the address of a PostgreSQL database, a pattern, a folder of files (of
            Parquet files also with folders named column=value), a pandas, Polars or Arrow frame, an Arrow dataset, an
            object with `__arrow_c_stream__`, a DuckDB relation or connection, a Spark data frame or session, a mapping
            of names to arrays, lists and columns of frames, a two-dimensional array with its columns in the schema's
            order, or one array, list or column of a frame for one column. Anything else is refused by its type.
        schema: The declared columns: a `Schema` or a list of them.
        name: A public name for ledgers and reports; that of the file, or "table", if left out.
        records: "lines" declares that every line of a CSV file is a record, whatever marks it holds.
        table: The name of a table or view of a DuckDB connection or file, a PostgreSQL database or a Spark session.
        engine: "spark" lets Spark read a path or URL of Parquet files; other engines are found by the source.

    >>> from sidelight.records import Number, Table
    >>> Table({"age": [31, 47]}, schema=[Number("age", granularity=1)], name="people")
    Table('people', engine='numpy', columns=['age'])
    """

    __slots__ = ("_name", "_path", "_rows", "_schema")

    def __init__(
        self,
        source: Any,
        *,
        schema: Schema | Sequence[Column],
        name: str | None = None,
        records: Literal["standard", "lines"] = "standard",
        table: str | None = None,
        engine: Literal["spark"] | None = None,
    ) -> None:
        self._schema = schema if isinstance(schema, Schema) else Schema(schema)
        dates = {column.name: column.calendar for column in self._schema.columns if isinstance(column, Date)}
        self._rows = open_rows(source, self._schema.names, records=records, table=table, engine=engine, dates=dates)
        self._path = fspath(source) if isinstance(source, (str, PathLike)) else None
        self._name = name if name is not None else table if table is not None else _name_of(source)
        types = self._rows.types
        for column in self._schema.columns:
            if column.name not in types:
                raise SchemaError(
                    f"the source has no column {column.name!r}, which the schema declares; "
                    f"{nearest(column.name, types)}{_if_index(source, column.name)}"
                )
            _check_type(column, types[column.name])
            number = isinstance(column, Number) and column.name not in dates
            if number and isinstance(self._rows, (ArrayRows, ColumnRows)):
                cells = self._rows.lists.get(column.name)
                if cells is not None:
                    check_no_texts(column.name, cells)

    @property
    def schema(self) -> Schema:
        """The public declarations."""
        return self._schema

    @property
    def name(self) -> str:
        """A public name for reports and ledgers."""
        return self._name

    @property
    def engine(self) -> str:
        """The public name of the engine that reads the rows."""
        return self._rows.name

    @property
    def in_memory(self) -> bool:
        """Whether the rows are in memory already: public, as the engine is. How many they are is not."""
        return self._rows.length is not None

    @property
    def hands_rows_over(self) -> bool:
        """Whether rows can be looked at one by one here: public. Otherwise they are only added up, where they are."""
        return not isinstance(self._rows, ReducesAway)

    @property
    def rows(self) -> Rows:
        """The private rows, for aggregates."""
        return self._rows

    def is_file(self, path: str) -> bool:
        """Return whether a path names a file of this table. Looks at names and links; reads nothing."""
        if self._path is None:
            return False
        from sidelight.records.engines.files import same_files  # a table in memory loads no file engine

        return same_files(self._path, path)

    def check_records(self) -> None:
        """Refuse a CSV file that no standard writer wrote; for the owner, before a charge. Looks at each file once.

        Raises:
            SourceError: it is not standard, with the number of a line and no cell; or it cannot be read to its end.
        """
        if isinstance(self._rows, ChecksRecords):
            self._rows.check_records()

    def __repr__(self) -> str:
        return f"Table({self.name!r}, engine={self.engine!r}, columns={list(self.schema.names)})"

    def _repr_html_(self) -> str:
        """Return the public declarations for a notebook; nothing of the rows, not even how many they are."""
        rows = "".join(f"<tr><td>{html.escape(repr(column))}</td></tr>" for column in self.schema.columns)
        caption = html.escape(f"{self.name} ({self.engine}): declared columns; the rows are private and not shown")
        return f"<table><caption>{caption}</caption>{rows}</table>"


def _name_of(source: Any) -> str:
    return PurePath(fspath(source)).name.partition(".")[0] if isinstance(source, (str, PathLike)) else NAMELESS


def _if_index(source: Any, name: str) -> str:
    names = getattr(getattr(source, "index", None), "names", None)  # of a pandas frame: public, like its columns
    return "; an index is no column: write frame.reset_index()" if names is not None and name in names else ""


def _check_type(column: Column, found: ColumnType) -> None:
    fit = _FIT.get(type(column), _PERSON_FIT)
    if found.kind in fit:
        return
    kind = type(column).__name__
    advice = {
        "Number": "convert it to numbers, or declare a Category if it holds labels",
        "Category": "convert it to text or whole numbers, or declare a Number",
        "Label": "convert it to text or whole numbers, or declare a Number",
        "PersonId": "convert it to whole numbers or text",
        "Date": "convert it to dates, time stamps or ISO texts; whole numbers may count anything",
    }[kind]
    if found.kind == "date":
        advice = f"declare sl.Date({column.name!r}, start=..., end=...)"
    if found.native == TWICE:
        advice = "rename one of them"
    raise SchemaError(f"column {column.name!r} is declared as {kind} but the source holds {found.native}; {advice}")
