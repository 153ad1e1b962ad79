"""Parquet files: the footers are looked at, Arrow reads the rows, and DuckDB runs what is asked of the columns.

Batches of plain numbers and texts are read by Arrow alone, one ahead of the work, to the same bits.

DuckDB never reads the rows of a file itself. It would read some cells otherwise than Arrow (a time stamp of 96 bits, a
decimal of more than 38 digits), and how many rows there are decides which of the two is asked: one record more would
move all others. And it fails for one cell, a time that has no microsecond of 64 bits or a text that is no UTF-8. So
Arrow hands over what it read: dates counted, texts as they are, of which DuckDB makes one that is no UTF-8 null. Arrow
takes texts so only as long as it reads plain ones: what type they had in memory, which Arrow's writers note in the
footer, may be a dictionary, and then it checks the texts on the way there and fails for one. That note is left out.

Several files are one table: the first by name says which types the columns have, and its types are public. A cell of
another file is read by the type of its own file, as the kind of the first: no file changes a cell of another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from threading import Lock
from typing import Any

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sidelight.errors import SchemaError, SourceError
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrow_cells import (
    KnownTexts,
    distinct_of_arrow,
    handed_to_duckdb,
    numbers_of_arrow,
    type_for_duckdb,
)
from sidelight.records.engines.duckdb import RelationRows, connect
from sidelight.records.rows import BATCH_ROWS, Batch, ColumnType, Wanted, cores, quietly

#: Rows to a batch that Arrow hands to DuckDB.
_STREAM_ROWS = 1 << 16
#: Rows to a batch that Arrow reads itself, and the types of DuckDB whose cells both read alike.
_PLAIN_ROWS = 1 << 18
#: So many rows of persons are held at once, some whole numbers each; more are bounded by DuckDB, which needs no memory.
_FEW_ROWS = 1 << 22
_PLAIN = (
    *("DOUBLE", "FLOAT", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "VARCHAR"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
)
#: What begins and ends a file, and the key of Arrow's note in the footer, with its length before it; a key that nobody
#: knows takes its place.
_MAGIC, _NOTE, _NO_NOTE = b"PAR1", b"\x0cARROW:schema", b"\x0cleft out now"


@dataclass(frozen=True)
class Footer:
    """What the footer of a file says: the place and the type of each column, and how many groups of rows there are."""

    path: str
    places: Mapping[str, int]
    types: Mapping[str, ColumnType]
    unique: bool
    groups: int
    rows: int


@dataclass(frozen=True, repr=False)
class ColumnStream:
    """Some columns of files of the same types as an Arrow stream, which DuckDB starts anew for every query."""

    footers: tuple[Footer, ...]
    names: tuple[str, ...]
    dates: Mapping[str, Calendar]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand a new stream over; no row is read before its first batch is asked for."""
        reader = pa.RecordBatchReader.from_batches(self.schema(self.footers[0]), self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def schema(self, footer: Footer) -> pa.Schema:
        """Return the columns of one file as they are handed over."""
        with _open(footer.path) as file:
            kinds = [file.schema_arrow.field(footer.places[name]).type for name in self.names]
        return pa.schema([(f"c{at}", type_for_duckdb(kind)) for at, kind in enumerate(kinds)])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for footer in self.footers:
            schema = self.schema(footer)
            with _open(footer.path) as file:
                # columns are read by name, and a name may be there twice: which of those, then says the column's place
                own = file.schema_arrow.names
                places = [footer.places[name] for name in self.names]
                for batch in file.iter_batches(_STREAM_ROWS, columns=[own[place] for place in places]):
                    found = [_named(batch, own[place], own[:place].count(own[place])) for place in places]
                    columns = [
                        handed_to_duckdb(column, self.dates.get(name))
                        for name, column in zip(self.names, found, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)


class ParquetRows:
    """The records of one or several Parquet files."""

    name = "duckdb:parquet"
    streams = True
    length = None

    def __init__(self, footers: Sequence[Footer], *, dates: Mapping[str, Calendar] | None = None) -> None:
        self._footers = tuple(footers)
        self._dates = dict(dates or {})

    @property
    def fits_in_memory(self) -> bool:
        """Whether few rows are in all files: private, it decides about time and memory only.

        So it must not decide who reads a cell: Arrow reads all of them, whether DuckDB runs the query or not
        (`tests/records/test_readers_agree.py` plants the extremes of every type).
        """
        return sum(footer.rows for footer in self._footers) <= _FEW_ROWS

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns and their types, from the footer of the first file."""
        return self._footers[0].types

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Stream the records, those of files with the same types together; plain columns are read by Arrow alone."""
        names = (*wanted.numbers, *wanted.texts, *filter(None, [wanted.person]))
        if all(_is_plain(footer, names, self.types) for footer in self._footers):
            yield from self._plain_batches(wanted, names, rows)
            return
        for part in self._parts(wanted):
            yield from part.batches(wanted, rows=rows)

    def apart(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Sequence[Iterator[Batch]]:
        """Let each thread take the next part of a file as soon as it is done with one."""
        names = (*wanted.numbers, *wanted.texts, *filter(None, [wanted.person]))
        parts = [(footer, group) for footer in self._footers for group in range(footer.groups)]
        if len(parts) < 2 or not all(_is_plain(footer, names, self.types) for footer in self._footers):
            return (self.batches(wanted, rows=rows),)
        left, one_at_a_time = iter(parts), Lock()

        def stream() -> Iterator[Batch]:
            known = {name: KnownTexts() for name in wanted.texts}
            while True:
                with one_at_a_time:
                    part = next(left, None)
                if part is None:
                    return
                yield from _pieces(self._part_batches(wanted, names, known, *part), rows)

        return [stream() for _ in range(min(cores(), len(parts)))]

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any]:
        """Return the wanted columns as a frame; DuckDB runs what is built on it."""
        relations = [nw.to_native(part.frame(wanted)) for part in self._parts(wanted)]
        frame: nw.LazyFrame[Any] = nw.from_native(reduce(lambda all_, more: all_.union(more), relations))
        return frame

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Run a frame and stream its integer columns."""
        return RelationRows.stream(frame, columns)

    def _plain_batches(self, wanted: Wanted, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Read columns whose cells Arrow and DuckDB read alike, without a detour through DuckDB."""
        known = {name: KnownTexts() for name in wanted.texts}
        for footer in self._footers:
            yield from _pieces(_ahead(self._part_batches(wanted, names, known, footer)), rows)

    def _part_batches(
        self,
        wanted: Wanted,
        names: Sequence[str],
        known: Mapping[str, KnownTexts],
        footer: Footer,
        group: int | None = None,
    ) -> Iterator[Batch]:
        """Read a file, or one of the groups of rows that it is made of."""
        columns = list(dict.fromkeys(names))
        labels = [name for name in wanted.texts if self.types[name].kind == "text"]
        with quietly(lambda: _open(footer.path, read_dictionary=labels)) as file:
            groups = None if group is None else [group]
            batches = file.iter_batches(_PLAIN_ROWS, row_groups=groups, columns=columns, use_threads=group is None)
            converted = _converted(batches, columns, wanted, known, self._dates)
            while (batch := quietly(lambda: next(converted, None))) is not None:
                yield batch

    def _parts(self, wanted: Wanted) -> list[RelationRows]:
        """Return one relation for the files of each combination of types, all on one connection."""
        names = tuple(dict.fromkeys([*wanted.numbers, *wanted.texts, *filter(None, [wanted.person])]))
        kinds = {name: self.types[name].kind for name in names}
        connection = connect()
        parts = []
        for _, group in groupby(sorted(self._footers, key=_shape), key=_shape):
            footers = tuple(group)
            types = footers[0].types
            read = tuple(name for name in names if types[name].kind != "other")
            columns = {name: f"c{at}" for at, name in enumerate(read)}
            # dates are counted by the stream; texts that say dates are read by DuckDB
            told = {name: calendar for name, calendar in self._dates.items() if types[name].kind != "date"}
            parts += [
                RelationRows(connection.from_arrow(each), name=self.name, columns=columns, kinds=kinds, dates=told)
                for each in _streams(footers, read, self._dates)
            ]
        return parts


def open_parquet(
    paths: Sequence[str], names: Sequence[str], *, dates: Mapping[str, Calendar] | None = None
) -> ParquetRows:
    """Look at the footers: all files must have the declared columns that the first one has."""
    for path in paths:
        with open(path, "rb") as file:
            start = file.read(4)
            file.seek(max(0, os.path.getsize(path) - 4))
            end = file.read(4)
        if start != _MAGIC or end != _MAGIC:
            raise SourceError(f"{path!r} is not a Parquet file (or was cut off); name a CSV file .csv")
    connection = connect()
    footers = [_footer_of(path, connection) for path in paths]
    for footer in footers[1:]:
        for name in names:
            if name in footers[0].types and name not in footer.types:
                raise SchemaError(
                    f"{footer.path!r} has no column {name!r}, which {paths[0]!r} has; files of one table have the same "
                    "columns: write it with nulls if nothing is known of it"
                )
    return ParquetRows(footers, dates=dates)


def _streams(
    footers: Sequence[Footer], names: tuple[str, ...], dates: Mapping[str, Calendar]
) -> Iterator[ColumnStream]:
    """Return one stream for the files that Arrow has the same types for."""
    whole = ColumnStream(tuple(footers), names, dates)

    def types(footer: Footer) -> str:
        return str(whole.schema(footer).types)

    for _, group in groupby(sorted(footers, key=types), key=types):
        yield ColumnStream(tuple(group), names, dates)


def _shape(footer: Footer) -> tuple[tuple[str, str], ...]:
    return tuple((name, found.native) for name, found in footer.types.items())


def _converted(
    batches: Iterator[Any],
    columns: Sequence[str],
    wanted: Wanted,
    known: Mapping[str, KnownTexts],
    dates: Mapping[str, Calendar],
) -> Iterator[Batch]:
    """Make floats and labels of Arrow batches."""
    places = {name: place for place, name in enumerate(columns)}
    for batch in batches:
        yield Batch(
            batch.num_rows,
            {name: numbers_of_arrow(batch.column(places[name]), dates.get(name)) for name in wanted.numbers},
            {name: distinct_of_arrow(batch.column(places[name]), known[name]) for name in wanted.texts},
            None if wanted.person is None else distinct_of_arrow(batch.column(places[wanted.person])),
        )


def _pieces(batches: Iterator[Batch], rows: int) -> Iterator[Batch]:
    """Cut batches into pieces that stay in the cache of a core."""
    for batch in batches:
        for start in range(0, batch.length, rows):
            piece = slice(start, min(start + rows, batch.length))
            yield Batch(
                piece.stop - start,
                {name: column[piece] for name, column in batch.numbers.items()},
                {name: column[piece] for name, column in batch.texts.items()},
                None if batch.person is None else batch.person[piece],
            )


def _ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Read one batch while the one before is worked on."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := quietly(coming.result)) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def _is_plain(footer: Footer, names: Sequence[str], types: Mapping[str, ColumnType]) -> bool:
    """Tell by public types whether the columns are numbers and texts that need no reading of their own."""
    return all(footer.types[name].native in _PLAIN and footer.types[name] == types[name] for name in names) and (
        footer.unique and footer.places.keys() >= set(names)
    )


def _open(path: str, *, read_dictionary: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a file by its footer without Arrow's note; the rows are read as the types that Parquet itself knows."""
    with open(path, "rb") as file:
        file.seek(-8, os.SEEK_END)
        end = file.read(8)
        file.seek(-8 - int.from_bytes(end[:4], "little"), os.SEEK_END)
        footer = file.read()[:-8]
    # a column of that name is called otherwise here, and its own place still finds it
    plain = pq.read_metadata(pa.BufferReader(_MAGIC + footer.replace(_NOTE, _NO_NOTE) + end))
    # time stamps of 96 bits fit into milliseconds; into nanoseconds, years beyond 2262 would not
    return pq.ParquetFile(path, metadata=plain, read_dictionary=list(read_dictionary), coerce_int96_timestamp_unit="ms")


def _named(batch: pa.RecordBatch, name: str, turn: int) -> pa.Array:
    return batch.column([at for at, each in enumerate(batch.schema.names) if each == name][turn])


def _footer_of(path: str, connection: duckdb.DuckDBPyConnection) -> Footer:
    reason = ""
    try:
        relation = _read(connection, [path])
        types = RelationRows(relation).types
        with _open(path) as file:  # names are told apart by capitals here, and by numbers in DuckDB
            own, groups, rows = file.schema_arrow.names, file.num_row_groups, file.metadata.num_rows
        unique = len({name.lower() for name in own}) == len(own) and own == list(relation.columns)
        return Footer(path, {name: place for place, name in enumerate(relation.columns)}, types, unique, groups, rows)
    except duckdb.Error as error:
        reason = type(error).__name__
    raise SourceError(f"the footer of {path!r} cannot be read ({reason}); write the file again")


def _read(connection: duckdb.DuckDBPyConnection, paths: list[str]) -> duckdb.DuckDBPyRelation:
    return connection.read_parquet(paths, union_by_name=False, hive_partitioning=False)
