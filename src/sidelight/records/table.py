"""A table: rows somewhere, and their public schema. Making one checks metadata only; aggregates read the rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any, Literal, cast

import numpy as np

from sidelight.errors import SchemaError, nearest
from sidelight.readable import shown_html
from sidelight.records.columns import Category, Column, Label, Number
from sidelight.records.dates import Date
from sidelight.records.engines import open_rows, origin_of, same_files, same_origin
from sidelight.records.engines.arrays import ArrayRows, check_no_texts
from sidelight.records.engines.declared import read_as_declared
from sidelight.records.engines.files import absolute
from sidelight.records.engines.frames import ColumnRows, names_of, refuse_ambiguous_names
from sidelight.records.keys import Link
from sidelight.records.rows import TWICE, ColumnType, Rows
from sidelight.records.schema import Schema
from sidelight.records.source_protocols import ChecksFiles, ChecksRecords, DistributedRows, ReadInTurn

_FIT = {
    Number: ("integer", "float", "boolean", "any"),
    Date: ("date", "text", "any"),
    Category: ("integer", "boolean", "text", "any"),
    Label: ("integer", "boolean", "text", "any"),
}
#: What a declared reading can take besides: numbers from texts, dates from digits.
_READ = {Number: ("text",), Date: ("integer",)}
_PERSON_FIT = ("integer", "text", "any")
#: The texts of whole numbers.
_INTEGER = re.compile("0|-?[1-9][0-9]*")

#: What a table is called that has no name of its own.
NAMELESS = "table"


class Table:
    """Hold rows, wherever they are, with their declared schema.

    Making a table reads the header or the footer and never a row: a wrong path, format, column or type is an error
    here, and nothing about the values is one later. Files must stay as they are while the table is used: a release
    whose files were changed since fails. A file that is reached twice, by a link, is refused.

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
        public: Whether everyone may see the rows: a code list of a database. It has no person and no price.
        engine: "spark" lets Spark read a path or URL of Parquet files; other engines are found by the source.

    >>> from sidelight.records import Number, Table
    >>> Table({"age": [31, 47]}, schema=[Number("age", granularity=1)], name="people")
    Table('people', engine='numpy', columns=['age'])
    """

    __slots__ = ("_database", "_name", "_origin", "_path", "_public", "_rows", "_schema", "_within")

    def __init__(
        self,
        source: Any,
        *,
        schema: Schema | Sequence[Column | Link],
        name: str | None = None,
        records: Literal["standard", "lines"] = "standard",
        table: str | None = None,
        engine: Literal["spark"] | None = None,
        public: bool = False,
    ) -> None:
        self._schema = schema if isinstance(schema, Schema) else Schema(schema)
        columns = self._schema.columns
        readings = {column.name: column.reading for column in columns if column.reading is not None}
        dates = {column.name: column.reading or column.calendar for column in columns if isinstance(column, Date)}
        self._public, self._database = public, cast("str | None", None)
        if public and (self._schema.via is not None or self._schema.person is not None):
            raise SchemaError("a public table has no person: its rows are known to everyone; leave public=True out")
        wanted = self._schema.source_names
        self._rows = open_rows(source, wanted, records=records, table=table, engine=engine, dates=dates)
        self._path = absolute(fspath(source)) if isinstance(source, (str, PathLike)) else None
        self._origin = origin_of(source, self._rows, table=table)
        self._within = table  # its name in a file of several tables
        self._name = name if name is not None else table if table is not None else _name_of(source)
        types = self._rows.types
        for column in columns:
            if column.name not in types:
                raise SchemaError(
                    f"the source has no column {column.name!r}, which the schema declares; "
                    f"{nearest(column.name, types)}{_if_index(source, column.name)}"
                )
            _check_type(column, types[column.name])
            number = isinstance(column, Number) and column.name not in dates and column.reading is None
            if number and isinstance(self._rows, (ArrayRows, ColumnRows)):
                cells = self._rows.lists.get(column.name)
                if cells is not None:
                    check_no_texts(column.name, cells)
        for tied in wanted[len(columns) :]:
            if tied not in types:
                raise SchemaError(f"the source has no column {tied!r}, which a key names; {nearest(tied, types)}")
        person = None if self._schema.via is not None else self._schema.person
        if readings:
            self._rows = read_as_declared(self._rows, readings, person=None if person is None else person.name)

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
        """Whether single rows can be read here: public. Rows of a distributed source are only added up."""
        return not isinstance(self._rows, DistributedRows)

    @property
    def has_typed_records(self) -> bool:
        """Whether no record can change how another parses: public. In a CSV file one can."""
        return not (isinstance(self._rows, ChecksRecords) and self._rows.check_reads_records)

    @property
    def is_public(self) -> bool:
        """Whether everyone may see the rows."""
        return self._public

    @property
    def database(self) -> str | None:
        """The name of the database that the table is part of; its rows are released through that one alone."""
        return self._database

    def join_database(self, name: str) -> None:
        """Hold the name of the database that the table is part of; making the database does it."""
        self._database = name

    @property
    def rows(self) -> Rows:
        """The private rows, for aggregates."""
        return self._rows

    def is_file(self, path: str) -> bool:
        """Return whether a path names a file of this table. Looks at names and links; reads nothing."""
        if self._path is None:
            return False
        return same_files(self._path, path)

    def shares_rows(self, other: Table) -> bool:
        """Return whether another table is seen to have rows of this one: of the same object, file or table of a server.

        Looks at names, links and plans of queries; reads nothing.
        """
        if self is other or same_origin(self._origin, other._origin):
            return True
        if self._path is None or other._path is None:
            return False
        same = self._path == other._path or self.is_file(other._path)
        return same and (self._within == other._within or None in (self._within, other._within))

    def in_turn(self) -> AbstractContextManager[object]:
        """Return what a thread holds while it reads the rows: a lock, if other threads would disturb it."""
        return self._rows.in_turn() if isinstance(self._rows, ReadInTurn) else nullcontext()

    def check_records(self) -> None:
        """Refuse a CSV file that no standard writer wrote; for the owner, before a charge. Looks at each file once.

        Raises:
            SourceError: it is not standard, with the number of a line and no cell; or it cannot be read to its end.
        """
        if isinstance(self._rows, ChecksRecords):
            self._rows.check_records()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Read the rows inside: the files must be those of when the table was made, before and after.

        Every release reads inside of it. Looks at the metadata of files, one call of the operating system each.

        Returns:
            A context manager, around everything that reads the rows.

        Raises:
            SourceError: a file is gone, was changed or replaced, or a folder or pattern has other files.
        """
        self._check_files()
        yield
        self._check_files()

    def _check_files(self) -> None:
        if isinstance(self._rows, ChecksFiles):
            self._rows.check_files()

    def __repr__(self) -> str:
        return f"Table({self.name!r}, engine={self.engine!r}, columns={list(self.schema.names)})"

    def _repr_html_(self) -> str:
        """Return the public declarations for a notebook; nothing of the rows, not even how many they are."""
        rows = "".join(f"<tr><td>{shown_html(repr(column))}</td></tr>" for column in self.schema.columns)
        caption = shown_html(f"{self.name} ({self.engine}): declared columns; the rows are private and not shown")
        return f"<table><caption>{caption}</caption>{rows}</table>"


def _name_of(source: Any) -> str:
    return PurePath(fspath(source)).name.partition(".")[0] if isinstance(source, (str, PathLike)) else NAMELESS


def _if_index(source: Any, name: str) -> str:
    names = getattr(getattr(source, "index", None), "names", None)  # of a pandas frame: public, like its columns
    return "; an index is no column: write frame.reset_index()" if names is not None and name in names else ""


def _check_type(column: Column, found: ColumnType) -> None:
    fit = _FIT.get(type(column), _PERSON_FIT)
    if found.kind in fit or (column.reading is not None and found.kind in _READ.get(type(column), ())):
        _check_labels(column, found)
        return
    kind = type(column).__name__
    advice = {
        "Number": "convert it to numbers, or declare a Category if it holds labels; where numbers are written as texts "
        'declare their sign, decimal = "."',
        "Category": "convert it to text or whole numbers, or declare a Number",
        "Label": "convert it to text or whole numbers, or declare a Number",
        "PersonId": "convert it to whole numbers or text",
        "Date": "convert it to dates, time stamps or ISO texts; whole numbers may count anything",
    }[kind]
    if found.kind == "date" and kind != "PersonId":
        advice = f"declare sl.Date({column.name!r}, start=..., end=...)"
    if found.native == TWICE:
        advice = "rename one of them"
    raise SchemaError(f"column {column.name!r} is declared as {kind} but the source holds {found.native}; {advice}")


def _check_labels(column: Column, found: ColumnType) -> None:
    """Refuse labels of which not one can occur, by the type of the column alone: every row would be `other`."""
    if type(column) is not Category or column.reading is not None:
        return
    if found.kind == "integer" and not any(_INTEGER.fullmatch(label) for label in column.categories):
        wanted = "a whole number is its digits, never '007'; read the column as text, or declare such labels"
    elif found.kind == "boolean" and not {"true", "false"} & {*column.categories}:
        wanted = "its labels are 'true' and 'false'; declare these"
    else:
        return
    raise SchemaError(
        f"no label of column {column.name!r}, {column.categories[0]!r} first, can occur: the source holds "
        f"{found.native}, and {wanted}"
    )


# Bare data of a query or an estimator becomes a table of number columns, each row a unit. No cell is read.


def bare_number(names: Sequence[str] | None) -> Number:
    """Return the declaration of a bare one-dimensional array; a query of several columns wants a table."""
    if names is not None and len(names) != 1:
        raise SchemaError(f"the query has {len(names)} columns; pass sl.Table(data, schema=[...])")
    return Number("x0" if names is None else names[0])


def bare_numbers(data: Any, names: Sequence[str] | None) -> Table:
    """Declare the columns of an array or a frame: numbers, and every row one protected unit. No cell is read.

    >>> import numpy as np
    >>> bare_numbers(np.zeros((3, 2)), None).schema.names
    ('x0', 'x1')
    """
    if names is None:
        names = names_of(data)
    if names is None:
        if not isinstance(data, np.ndarray) or data.ndim != 2:
            raise SchemaError(
                "which columns? Pass a two-dimensional array, name them, or pass sl.Table(data, schema=[...])"
            )
        names = [f"x{place}" for place in range(data.shape[1])]
    return Table(data, schema=[Number(name) for name in names])


_NO_COLUMNS = "X must have columns: 0 feature(s) (shape=(., 0)) while a minimum of 1 is required"


def bare_rows(rows: Any, *, taker: str) -> Table:
    """Declare the columns of an array or a frame as numbers, every row one protected unit; a table stays what it is.

    `taker` is the name of the estimator, for its messages.

    >>> bare_rows(np.zeros((3, 2)), taker="PCA")
    Table('arrays', engine='numpy', columns=['x0', 'x1'])
    """
    if isinstance(rows, Table):
        return rows
    if hasattr(rows, "toarray") or hasattr(rows, "tocsr"):
        raise TypeError(f"{taker} takes no sparse matrix: centring would fill it; pass X.toarray()")
    names = names_of(rows)
    if names is not None:
        if not names:
            raise SchemaError(_NO_COLUMNS)
        refuse_ambiguous_names(rows)
        return Table(rows, schema=[Number(name) for name in names], name="arrays")
    if not isinstance(rows, np.ndarray):
        raise SchemaError(
            f"X must be a two-dimensional array or a frame, got {type(rows).__name__}: its shape must be known before "
            "the data is opened; write np.asarray(X, dtype=float)"
        )
    if rows.ndim != 2:
        raise SchemaError(
            f"Expected 2D array, rows and columns, got {rows.ndim} dimension(s). Reshape your data either using "
            "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it contains a single sample"
        )
    if rows.shape[1] == 0:
        raise SchemaError(_NO_COLUMNS)
    if rows.dtype.kind == "c":
        raise SchemaError("Complex data not supported; give real numbers, for example two columns")
    return Table(rows, schema=[Number(f"x{place}") for place in range(rows.shape[1])], name="arrays")
