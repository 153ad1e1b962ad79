"""DuckDB on connections of our own: it runs expressions on Arrow columns, out of core.

Cells are converted by TRY_CAST, which gives null where a cast would raise: no value is an error. No statement of ours
runs on a connection of the user (`duckdb_sources`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from sidelight.records.dates import ISO_PATTERN, OFFSET_PATTERN, Calendar
from sidelight.records.engines.arrow_cells import distinct_of_arrow, ids_of_arrow
from sidelight.records.person_key import person_key_sql
from sidelight.records.rows import BATCH_ROWS, Batch, ColumnType, TypeKind, Wanted, hide_engine_errors, types_by_name

_INTEGERS = [f"{sign}{size}" for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")]
_INTEGERS_OF_64_BITS = [name for name in _INTEGERS if "HUGE" not in name and name != "UBIGINT"]
#: Rows to an Arrow batch: large enough that the hand-over is cheap.
_STREAM_ROWS = 1 << 17


class RowsByDuckDB:
    """Rows that are handed to DuckDB, on a connection of our own, whenever they are read."""

    streams = True
    length: int | None = None

    def relation(self, wanted: Wanted) -> Any:
        """Return the rows of the wanted columns alone, as DuckDB reads them."""
        raise NotImplementedError

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Stream the wanted columns."""
        found: Iterator[Batch] = self.relation(wanted).batches(wanted, rows=rows)
        return found

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any]:
        """Return the wanted columns as a frame; DuckDB runs what is built on it."""
        frame: nw.LazyFrame[Any] = self.relation(wanted).frame(wanted)
        return frame

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Run a frame and stream its integer columns as Arrow batches."""
        return stream_of(frame, columns, rows=self)


class RelationRows(RowsByDuckDB):
    """The rows of a DuckDB relation. `untyped` relations hold text cells that are read one by one (CSV)."""

    def __init__(
        self,
        relation: duckdb.DuckDBPyRelation,
        *,
        name: str,
        columns: Mapping[str, str],
        untyped: bool = False,
        kinds: Mapping[str, TypeKind] | None = None,
        dates: Mapping[str, Calendar],
        within: object = None,
    ) -> None:
        self._relation = relation
        self.name = name
        # The user's name of a column -> its name in the relation.
        self._columns = dict(columns)
        self._untyped = untyped
        # What the columns are read as, where the relation is a part of a table that others have typed.
        self._kinds = kinds
        self._dates = dict(dates)
        # The table that it is a part of, which is asked why it cannot be read.
        self._within = within

    @property
    def types(self) -> Mapping[str, ColumnType]:
        if self._untyped:
            return {name: ColumnType("any", "text cells") for name in self._columns}
        own = types_of(self._relation)
        return {name: own[column] for name, column in self._columns.items()}

    def _own_kind(self, name: str) -> TypeKind:
        """Return what the relation holds; a part of a table may lack a column of no use."""
        return self.types[name].kind if name in self._columns else "other"

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any]:
        """Return the typed projection as a narwhals frame; DuckDB runs what is built on it."""
        parts = [f"{self._number(name)} AS {wanted.number_alias(name)}" for name in wanted.numbers]
        parts += [f"{self._text(name)} AS {wanted.text_alias(name)}" for name in wanted.texts]
        if wanted.person is not None:
            text = self._text(wanted.person)
            parts += [f"{text} AS person", f"{self._person_key(wanted.person)} AS person_key"]
        parts += [f"{self._key(name)} AS {wanted.key_alias(name)}" for name in wanted.keys]
        frame: nw.LazyFrame[Any] = nw.from_native(self._relation.project(", ".join(parts)))
        return frame

    def hands_keys(self, wanted: Wanted) -> bool:
        """Return True: whole numbers stay what they are."""
        return True

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Stream the typed projection as Arrow batches; what is missing is decided by NumPy, not by DuckDB."""
        for batch in _read(self.frame(wanted), self._within):
            yield Batch(
                batch.num_rows,
                {name: _numbers(batch.column(wanted.number_alias(name))) for name in wanted.numbers},
                {name: distinct_of_arrow(batch.column(wanted.text_alias(name))) for name in wanted.texts},
                None if wanted.person is None else distinct_of_arrow(batch.column("person")),
                keys={name: ids_of_arrow(batch.column(wanted.key_alias(name))) for name in wanted.keys},
            )

    def _number(self, name: str) -> str:
        """Read a cell as a number; null if it is not one, or of a type without numbers."""
        own = "any" if self._untyped else self._own_kind(name)
        if name in self._dates:
            return self._date(name, own)
        if own in ("other", "date"):
            return "CAST(NULL AS DOUBLE)"
        cell = quoted(self._columns[name])
        if own in ("any", "text"):  # DuckDB alone reads "+-5" as -5
            return f"CASE WHEN NOT contains(CAST({cell} AS VARCHAR), '+-') THEN TRY_CAST({cell} AS DOUBLE) END"
        return f"TRY_CAST({cell} AS DOUBLE)"

    def _date(self, name: str, own: TypeKind) -> str:
        """Count the days or hours to a text; null if it is not a date. Other dates come counted (`arrow_cells`)."""
        if own == "text" or self._untyped:
            return _of_text(self._text(name), self._dates[name])
        return "CAST(NULL AS DOUBLE)"

    def _key(self, name: str) -> str:
        """Read a cell as a key: whole numbers of 64 bits as they are, others as texts."""
        whole = not self._untyped and name in self._columns and self.types[name].native in _INTEGERS_OF_64_BITS
        as_whole = whole and (self._kinds is None or self._kinds[name] == "integer")
        return f"CAST({quoted(self._columns[name])} AS BIGINT)" if as_whole else self._text(name)

    def _person_key(self, name: str) -> str:
        own = "any" if self._untyped else self._own_kind(name)
        return person_key_sql(self._text(name), whole=own == "integer")

    def _text(self, name: str) -> str:
        """Read a cell as a label or an id; null if it is missing."""
        own = "any" if self._untyped else self._own_kind(name)
        if own in ("other", "date"):
            return "CAST(NULL AS VARCHAR)"
        cell = quoted(self._columns[name])
        text = f"TRY_CAST({cell} AS VARCHAR)"
        if own == "text":
            # DuckDB takes texts of Arrow as they are; one that is not UTF-8 is null after this, and would raise later
            text = f"TRY(decode(encode({text})))"
        wanted = own if self._kinds is None or name in self._dates else self._kinds[name]
        if own == "float":  # of a part of a table: a column of floats alone is refused
            text = f"CASE WHEN abs({cell}) <= {_EXACT} AND {cell} = floor({cell}) THEN {_whole(cell)} END"
        elif own == "text" and wanted == "integer":
            text = f"CASE WHEN regexp_full_match({text}, '-?[0-9]{{1,38}}') THEN {_whole(text)} END"
        return f"NULLIF({text}, '')"


def quoted(name: str) -> str:
    """Write a name in SQL."""
    return '"' + name.replace('"', '""') + '"'


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

    Texts leave by 64-bit offsets: with shorter ones, a batch whose texts reach 2**31 bytes would raise.
    """
    connection = duckdb.connect(
        ":memory:" if path is None else path,
        read_only=path is not None,
        config={
            "arrow_large_buffer_size": "true",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "disabled_optimizers": "statistics_propagation,filter_pushdown",
            "preserve_insertion_order": "false",
            "enable_external_access": "true" if path is None else "false",
        },
    )
    # It would be printed, also into a pipe, with the seconds that the rows took: those depend on the rows.
    connection.execute("SET enable_progress_bar = false")
    # A copy of the file in memory would not help: passes are rare. New in DuckDB 1.3.
    with suppress(duckdb.CatalogException):
        connection.execute("SET enable_external_file_cache = false")
    return connection


def stream_of(
    frame: nw.LazyFrame[Any], columns: tuple[str, ...], *, rows: object = None
) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Run a frame on DuckDB and stream its integer columns as Arrow batches; `rows` finds faults."""
    for batch in _read(frame.select(*columns), rows):
        yield tuple(batch.column(column).to_numpy(zero_copy_only=False) for column in columns)


def reader_of(relation: duckdb.DuckDBPyRelation, *, rows: int = _STREAM_ROWS) -> Any:
    """Run a relation and return the reader of its Arrow batches."""
    # `to_arrow_reader` is new in DuckDB 1.4; `fetch_record_batch` is its older name.
    start = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return start(rows)


def _read(frame: nw.LazyFrame[Any], rows: object) -> Iterator[Any]:
    reader = hide_engine_errors(lambda: reader_of(nw.to_native(frame)), rows=rows)
    while (batch := hide_engine_errors(lambda: next(reader, None), rows=rows)) is not None:
        yield batch


def _numbers(column: Any) -> NDArray[np.float64]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def types_of(relation: duckdb.DuckDBPyRelation, names: Sequence[str] | None = None) -> dict[str, ColumnType]:
    """Return the columns of a relation and their types, by these names or its own; nothing is run."""
    types = [ColumnType(_kind_of(native), native) for native in map(str, relation.types)]
    return types_by_name(zip(relation.columns if names is None else names, types, strict=True))


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
