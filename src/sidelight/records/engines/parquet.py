"""Parquet files: the footers are looked at, and DuckDB runs what is asked of the columns.

DuckDB reads the files itself as long as no texts are wanted. Its reader refuses a file for one text that is no UTF-8;
so columns with texts are read by Arrow, which takes them as they are, and DuckDB makes such a cell null.

Several files are one table: the first by name says which types the columns have, and its types are public. A cell of
another file is read by the type of its own file, as the kind of the first: no file changes a cell of another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import Any

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.dataset as dataset
from numpy.typing import NDArray
from pyarrow.fs import LocalFileSystem

from sidelight.errors import SchemaError, SourceError
from sidelight.records.engines.duckdb import RelationRows, connect
from sidelight.records.rows import BATCH_ROWS, Batch, ColumnType, Wanted

#: Rows to a batch that Arrow hands to DuckDB, and how many batches it reads ahead.
_STREAM_ROWS, _AHEAD = 1 << 16, 2


@dataclass(frozen=True)
class Footer:
    """What the footer of a file says: the place and the type of each column."""

    path: str
    places: Mapping[str, int]
    types: Mapping[str, ColumnType]


@dataclass(frozen=True, repr=False)
class ColumnStream:
    """Some columns of files of the same types as an Arrow stream, which DuckDB starts anew for every query."""

    footers: tuple[Footer, ...]
    names: tuple[str, ...]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand a new stream over; no row is read before its first batch is asked for."""
        schema = self.scanner(self.footers[0]).projected_schema
        return pa.RecordBatchReader.from_batches(schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for footer in self.footers:
            yield from self.scanner(footer).to_batches()

    def scanner(self, footer: Footer) -> dataset.Scanner:
        """Return what reads the columns of one file."""
        files = dataset.dataset(footer.path, format="parquet", partitioning=None, filesystem=LocalFileSystem())
        columns = {}
        for at, name in enumerate(self.names):
            place = footer.places[name]
            columns[f"c{at}"] = _for_duckdb(dataset.field(place), files.schema.field(place).type)
        return files.scanner(columns=columns, batch_size=_STREAM_ROWS, batch_readahead=_AHEAD, fragment_readahead=1)


class ParquetRows:
    """The records of one or several Parquet files."""

    name = "duckdb:parquet"
    streams = True
    length = None

    def __init__(self, footers: Sequence[Footer]) -> None:
        self._footers = tuple(footers)

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns and their types, from the footer of the first file."""
        return self._footers[0].types

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Stream the records, those of files with the same types together."""
        for part in self._parts(wanted):
            yield from part.batches(wanted, rows=rows)

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any]:
        """Return the wanted columns as a frame; DuckDB runs what is built on it."""
        relations = [nw.to_native(part.frame(wanted)) for part in self._parts(wanted)]
        frame: nw.LazyFrame[Any] = nw.from_native(reduce(lambda all_, more: all_.union(more), relations))
        return frame

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Run a frame and stream its integer columns."""
        return RelationRows.stream(frame, columns)

    def _parts(self, wanted: Wanted) -> list[RelationRows]:
        """Return one relation for the files of each combination of types, all on one connection."""
        names = tuple(dict.fromkeys([*wanted.numbers, *wanted.texts, *filter(None, [wanted.person])]))
        kinds = {name: self.types[name].kind for name in names}
        connection = connect()
        parts = []
        for _, group in groupby(sorted(self._footers, key=_shape), key=_shape):
            footers = tuple(group)
            types = footers[0].types
            if any(types[name].kind == "text" for name in names):
                read = tuple(name for name in names if types[name].kind != "other")
                columns = {name: f"c{at}" for at, name in enumerate(read)}
                relations = [connection.from_arrow(stream) for stream in _streams(footers, read)]
            else:
                relations = [_read(connection, [footer.path for footer in footers])]
                columns = {name: relations[0].columns[footers[0].places[name]] for name in names}
            parts += [RelationRows(each, name=self.name, columns=columns, kinds=kinds) for each in relations]
        return parts


def open_parquet(paths: Sequence[str], names: Sequence[str]) -> ParquetRows:
    """Look at the footers: all files must have the declared columns that the first one has."""
    for path in paths:
        with open(path, "rb") as file:
            start = file.read(4)
            file.seek(max(0, os.path.getsize(path) - 4))
            end = file.read(4)
        if start != b"PAR1" or end != b"PAR1":
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
    return ParquetRows(footers)


def _streams(footers: Sequence[Footer], names: tuple[str, ...]) -> Iterator[ColumnStream]:
    """Return one stream for the files that Arrow has the same types for: texts may be plain or in a dictionary."""
    whole = ColumnStream(tuple(footers), names)

    def types(footer: Footer) -> str:
        return str(whole.scanner(footer).projected_schema.types)

    for _, group in groupby(sorted(footers, key=types), key=types):
        yield ColumnStream(tuple(group), names)


def _shape(footer: Footer) -> tuple[tuple[str, str], ...]:
    return tuple((name, found.native) for name, found in footer.types.items())


def _for_duckdb(column: dataset.Expression, kind: pa.DataType) -> dataset.Expression:
    """Cast what DuckDB can read from a file and not from Arrow."""
    if kind == pa.float16():
        return column.cast(pa.float32())
    return column.cast(pa.float64(), safe=False) if pa.types.is_decimal256(kind) else column


def _footer_of(path: str, connection: duckdb.DuckDBPyConnection) -> Footer:
    reason = ""
    try:
        relation = _read(connection, [path])
        types = RelationRows(relation).types
        return Footer(path, {name: place for place, name in enumerate(relation.columns)}, types)
    except duckdb.Error as error:
        reason = type(error).__name__
    raise SourceError(f"the footer of {path!r} cannot be read ({reason}); write the file again")


def _read(connection: duckdb.DuckDBPyConnection, paths: list[str]) -> duckdb.DuckDBPyRelation:
    return connection.read_parquet(paths, union_by_name=False, hive_partitioning=False)
