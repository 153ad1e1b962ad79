"""DuckDB on connections of our own: it runs expressions on columns that others hand over as Arrow, out of core.

Cells are converted by TRY_CAST, which gives null where a cast would raise: nothing about a value is an error. No
statement of ours runs on a connection of the user (`duckdb_sources`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from sidelight.records.dates import ISO_PATTERN, OFFSET_PATTERN, Calendar
from sidelight.records.engines.arrow_cells import distinct_of_arrow
from sidelight.records.rows import BATCH_ROWS, TWICE, Batch, ColumnType, TypeKind, Wanted, quietly

_INTEGERS = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "UHUGEINT",
)
#: Rows to an Arrow batch: large enough that the hand-over is cheap.
_STREAM_ROWS = 1 << 17


class RelationRows:
    """The rows of a DuckDB relation. `untyped` relations hold text cells that are read one by one (CSV)."""

    streams = True

    def __init__(
        self,
        relation: duckdb.DuckDBPyRelation,
        *,
        name: str = "duckdb",
        columns: Mapping[str, str] | None = None,
        untyped: bool = False,
        kinds: Mapping[str, TypeKind] | None = None,
        dates: Mapping[str, Calendar] | None = None,
        within: object = None,
    ) -> None:
        self._relation = relation
        self._name = name
        # The user's name of a column -> its name in the relation.
        self._columns = dict(columns) if columns is not None else {column: column for column in relation.columns}
        self._untyped = untyped
        # What the columns are read as, where the relation is a part of a table that others have typed.
        self._kinds = kinds
        self._dates = dict(dates or {})
        # The table that it is a part of, which is asked why it cannot be read.
        self._within = within

    @property
    def name(self) -> str:
        """The public name of the engine."""
        return self._name

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns and their types, as DuckDB's binder knows them."""
        if self._untyped:
            return {name: ColumnType("any", "text cells") for name in self._columns}
        own = types_of(self._relation)
        return {name: own[column] for name, column in self._columns.items()}

    def _own_kind(self, name: str) -> TypeKind:
        """Return what the relation holds; a part of a table may lack a column of no use."""
        return self.types[name].kind if name in self._columns else "other"

    @property
    def length(self) -> None:
        """Not known before the rows are read."""
        return

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any]:
        """Return the typed projection as a narwhals frame; DuckDB runs what is built on it."""
        parts = [f"{self._number(name)} AS {wanted.number_alias(name)}" for name in wanted.numbers]
        parts += [f"{self._text(name)} AS {wanted.text_alias(name)}" for name in wanted.texts]
        if wanted.person is not None:
            text = self._text(wanted.person)
            parts += [f"{text} AS person", f"CAST('0x' || substr(md5({text}), 1, 15) AS BIGINT) AS person_key"]
        frame: nw.LazyFrame[Any] = nw.from_native(self._relation.project(", ".join(parts)))
        return frame

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Stream the typed projection as Arrow batches; what is missing is decided by NumPy, not by DuckDB."""
        for batch in _read(self.frame(wanted), self._within):
            yield Batch(
                batch.num_rows,
                {name: _numbers(batch.column(wanted.number_alias(name))) for name in wanted.numbers},
                {name: distinct_of_arrow(batch.column(wanted.text_alias(name))) for name in wanted.texts},
                None if wanted.person is None else distinct_of_arrow(batch.column("person")),
            )

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Run a frame and stream its integer columns as Arrow batches."""
        return stream_of(frame, columns)

    def _quoted(self, name: str) -> str:
        return '"' + self._columns[name].replace('"', '""') + '"'

    def _number(self, name: str) -> str:
        """Read a cell as a number; null where it is none, or of a type that no number is read from."""
        own = "any" if self._untyped else self._own_kind(name)
        if name in self._dates:
            return self._date(name, own)
        if own in ("other", "date"):
            return "CAST(NULL AS DOUBLE)"
        cell = self._quoted(name)
        if own in ("any", "text"):  # of which DuckDB takes "+-5" for -5, and nobody else does
            return f"CASE WHEN NOT contains(CAST({cell} AS VARCHAR), '+-') THEN TRY_CAST({cell} AS DOUBLE) END"
        return f"TRY_CAST({cell} AS DOUBLE)"

    def _date(self, name: str, own: TypeKind) -> str:
        """Count the days or hours to a text; null where it is no date. Other dates come counted (`arrow_cells`)."""
        if own == "text" or self._untyped:
            return _of_text(self._text(name), self._dates[name])
        return "CAST(NULL AS DOUBLE)"

    def _text(self, name: str) -> str:
        """Read a cell as a label or an id; null where it is none."""
        own = "any" if self._untyped else self._own_kind(name)
        if own in ("other", "date"):
            return "CAST(NULL AS VARCHAR)"
        cell = self._quoted(name)
        text = f"TRY_CAST({cell} AS VARCHAR)"
        if own == "text":
            # DuckDB takes texts of Arrow as they are; one that is no UTF-8 is null after this, and would raise later
            text = f"TRY(decode(encode({text})))"
        wanted = own if self._kinds is None or name in self._dates else self._kinds[name]
        if own == "float":  # of a part of a table: a column of floats alone is refused
            text = f"CASE WHEN abs({cell}) <= {_EXACT} AND {cell} = floor({cell}) THEN {_whole(cell)} END"
        elif own == "text" and wanted == "integer":
            text = f"CASE WHEN regexp_full_match({text}, '-?[0-9]{{1,38}}') THEN {_whole(text)} END"
        return f"NULLIF({text}, '')"


#: Whole numbers up to here are floats of their own.
_EXACT = 2**53


def _whole(cell: str) -> str:
    """Write a whole number in the one way that all engines write it."""
    return f"TRY_CAST(TRY_CAST({cell} AS HUGEINT) AS VARCHAR)"


def _of_text(text: str, calendar: Calendar) -> str:
    """Count the units to an ISO text, as `dates.minutes_of_text` does."""
    trimmed = f"trim({text}, ' ')"
    days = f"date_diff('day', DATE '1970-01-01', TRY_CAST(substr({trimmed}, 1, 10) AS DATE))"
    hour, minute = (f"TRY_CAST(substr({trimmed}, {place}, 2) AS INTEGER)" for place in (12, 15))
    time = f"coalesce(60 * {hour} + {minute}, 0)"

    def part(place: int) -> str:
        return f"regexp_extract(substr({trimmed}, 17), '{OFFSET_PATTERN}', {place})"

    size = f"(60 * coalesce(TRY_CAST({part(2)} AS INTEGER), 0) + coalesce(TRY_CAST({part(3)} AS INTEGER), 0))"
    offset = f"(CASE WHEN {part(1)} = '-' THEN -{size} ELSE {size} END)"
    known = f"regexp_full_match({text}, '{ISO_PATTERN}') AND substr({trimmed}, 1, 4) <> '0000'"
    minutes = f"(1440 * {days} + {time} - {offset})"
    return f"(CASE WHEN {known} THEN floor({minutes} / CAST({calendar.minutes} AS DOUBLE)) - {calendar.start} END)"


def connect(path: str | None = None) -> duckdb.DuckDBPyConnection:
    """Open a connection of our own, in memory or to a file that is only read.

    Nothing is installed or loaded, and rows need no order.

    DuckDB may not decide by statistics what an expression gives or which rows a filter can pass over: both go wrong
    where NaN is, which the least and largest value in a Parquet file's metadata leave out.
    """
    connection = duckdb.connect(
        ":memory:" if path is None else path,
        read_only=path is not None,
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "disabled_optimizers": "statistics_propagation,filter_pushdown",
            "preserve_insertion_order": "false",
            "enable_external_access": "true" if path is None else "false",
        },
    )
    # It would be printed, also into a pipe, with the seconds that the rows took: those depend on the rows.
    connection.execute("SET enable_progress_bar = false")
    # Rows are read once, or by passes that are far apart: a copy of the file in memory is of no use. New in DuckDB 1.3.
    with suppress(duckdb.CatalogException):
        connection.execute("SET enable_external_file_cache = false")
    return connection


def stream_of(
    frame: nw.LazyFrame[Any], columns: tuple[str, ...], *, rows: object = None
) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Run a frame on DuckDB and stream its integer columns as Arrow batches; `rows` finds faults (`quietly`)."""
    for batch in _read(frame.select(*columns), rows):
        yield tuple(batch.column(column).to_numpy(zero_copy_only=False) for column in columns)


def reader_of(relation: duckdb.DuckDBPyRelation) -> Any:
    """Run a relation and return the reader of its Arrow batches."""
    # `to_arrow_reader` is new in DuckDB 1.4; `fetch_record_batch` is its older name.
    start = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return start(_STREAM_ROWS)


def _read(frame: nw.LazyFrame[Any], rows: object) -> Iterator[Any]:
    reader = quietly(lambda: reader_of(nw.to_native(frame)), rows=rows)
    while (batch := quietly(lambda: next(reader, None), rows=rows)) is not None:
        yield batch


def _numbers(column: Any) -> NDArray[np.float64]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def types_of(relation: duckdb.DuckDBPyRelation) -> dict[str, ColumnType]:
    """Return the columns of a relation and their types; nothing is run."""
    types: dict[str, ColumnType] = {}
    for name, native in zip(relation.columns, map(str, relation.types), strict=True):
        types[name] = ColumnType("other", TWICE) if name in types else ColumnType(_kind_of(native), native)
    return types


#: DuckDB's types of dates and times, besides DATE.
_STAMPS = (
    *("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    *("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
)


def _kind_of(native: str) -> TypeKind:
    if native in _INTEGERS:
        return "integer"
    if native in ("FLOAT", "DOUBLE") or native.startswith("DECIMAL"):
        return "float"
    if native == "BOOLEAN":
        return "boolean"
    if native == "DATE" or native in _STAMPS:
        return "date"
    if native == '"NULL"':
        return "any"
    return "text" if native == "VARCHAR" or native.startswith("ENUM") else "other"
