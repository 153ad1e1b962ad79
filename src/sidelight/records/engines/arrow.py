"""Rows of Arrow tables and datasets, and of other libraries that have `__arrow_c_stream__`.

A dataset of local Parquet files is read as those files. Other objects hand over a new stream of batches for each pass;
their types are those of the stream's schema, which comes before any row. A stream that can be read only once is refused
before a charge, because many statistics read the rows several times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from sidelight.errors import SchemaError, SourceError
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrow_cells import (
    KnownTexts,
    batch_of_arrow,
    handed_to_duckdb,
    ids_of_arrow,
    kind_of,
    type_for_duckdb,
)
from sidelight.records.engines.duckdb import RelationRows, RowsByDuckDB, connect
from sidelight.records.engines.files import absolute, files_of
from sidelight.records.engines.folders import Member, cells_in
from sidelight.records.engines.parquet import ParquetRows, open_parquet
from sidelight.records.rows import BATCH_ROWS, Batch, ColumnType, Wanted, hide_engine_errors, types_by_name


def table_of(source: Any, names: Sequence[str]) -> pa.Table:
    """Take a table, a record batch, or one array as a table."""
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if isinstance(source, (pa.Array, pa.ChunkedArray)):
        if len(names) != 1:
            raise SchemaError(f"the schema declares {len(names)} columns, the source is one column; give a table")
        return pa.table({names[0]: source})
    raise SchemaError(
        f"an Arrow source must be a table, a record batch or an array, got {type(source).__name__}; "
        "a reader can be read only once: call read_all() on it"
    )


_ONCE = (
    "it can be read only once, and statistics read the rows several times; give a table, as pyarrow's "
    "reader.read_all() makes one"
)


@dataclass(frozen=True, repr=False)
class SomeColumns:
    """Some columns of a foreign stream under other names, for DuckDB, which starts it anew for every query."""

    source: Any
    places: tuple[int, ...]
    calendars: tuple[Calendar | None, ...]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand a new stream over; no row is read before its first batch is asked for."""
        reader = pa.RecordBatchReader.from_stream(self.source)
        kinds = [reader.schema.field(place).type for place in self.places]
        schema = pa.schema([(f"c{at}", type_for_duckdb(kind)) for at, kind in enumerate(kinds)])

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in reader:
                found = [batch.column(place) for place in self.places]
                columns = [handed_to_duckdb(*pair) for pair in zip(found, self.calendars, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__(requested_schema)


class StreamRows(RowsByDuckDB):
    """The rows of an object that hands Arrow streams over, a new one each time."""

    name = "arrow:stream"
    #: Whether every pass starts anew, so that a pass without rows does not mean an exhausted stream.
    starts_anew = False

    def __init__(self, source: Any, schema: pa.Schema, *, dates: Mapping[str, Calendar] | None = None) -> None:
        self._source, self._schema = source, schema
        self._dates = dict(dates or {})
        self._gave_rows = False

    @property
    def types(self) -> Mapping[str, ColumnType]:
        return types_by_name((field.name, ColumnType(kind_of(field.type), str(field.type))) for field in self._schema)

    def hands_keys(self, wanted: Wanted) -> bool:
        """Return True: Arrow says which columns are whole numbers."""
        return True

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        places = {name: self._schema.get_field_index(name) for name in wanted.names}
        known = {name: KnownTexts() for name in wanted.texts}
        reader = hide_engine_errors(self._reader, rows=self)
        gave_rows = False
        while (whole := hide_engine_errors(lambda: next(reader, None), rows=self)) is not None:
            for start in range(0, whole.num_rows, rows):
                gave_rows = True
                yield batch_of_arrow(whole.slice(start, rows), wanted, places, dates=self._dates, known=known)
        if self._gave_rows and not gave_rows and not self.starts_anew:
            raise SourceError(f"the source handed over nothing the second time: {_ONCE}")
        self._gave_rows |= gave_rows

    def relation(self, wanted: Wanted) -> RelationRows:
        """Hand the wanted columns over as a stream that counts dates; DuckDB reads texts that say dates."""
        names = wanted.names
        places = tuple(self._schema.get_field_index(name) for name in names)
        stream = SomeColumns(self._source, places, tuple(self._dates.get(name) for name in names))
        dates = {name: calendar for name, calendar in self._dates.items() if self.types[name].kind != "date"}
        columns = {name: f"c{at}" for at, name in enumerate(names)}
        return RelationRows(connect().from_arrow(stream), name=self.name, columns=columns, dates=dates)

    def _reader(self) -> Any:
        reader = pa.RecordBatchReader.from_stream(self._source)
        if not reader.schema.equals(self._schema):
            raise SourceError(
                "the source hands over other columns or types than when the table was made; make the table again"
            )
        return reader


class ArrowRows(StreamRows):
    """The rows of an Arrow table in memory."""

    name = "arrow"
    starts_anew = True

    def __init__(self, table: pa.Table, *, dates: Mapping[str, Calendar] | None = None) -> None:
        super().__init__(table, _handed_over(table), dates=dates)

    @property
    def length(self) -> int:  # type: ignore[override]
        return int(self._source.num_rows)

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Return all rows in slices; ids are numbered once, in the whole column."""
        ids = None if wanted.person is None else ids_of_arrow(self._source.column(wanted.person))
        start = 0
        for batch in super().batches(replace(wanted, person=None), rows=rows):
            start, first = start + batch.length, start
            yield batch if ids is None else replace(batch, person=ids[first:start])


def _handed_over(table: pa.Table) -> pa.Schema:
    """Return the schema of a table as its streams have it, and refuse a table whose streams have another."""
    schema = hide_engine_errors(lambda: pa.RecordBatchReader.from_stream(table).schema)
    for field, handed in zip(table.schema, schema, strict=True):
        if not field.equals(handed):
            raise SchemaError(
                f"Arrow hands column {field.name!r} ({field.type}) over as {handed.name!r} ({handed.type}); rename the "
                "column or its fields: a name ends before the character NUL"
            )
    return schema


def open_stream(source: Any, *, dates: Mapping[str, Calendar] | None = None) -> StreamRows:
    """Ask for the schema twice, and for no batch: what can be read once fails the second time."""
    kind = type(source).__name__
    schemas = []
    for words in ("hands no Arrow stream over; give a frame, a mapping of columns or a path", f"is refused: {_ONCE}"):
        try:
            schemas.append(pa.RecordBatchReader.from_stream(source).schema)
            continue
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # whatever a foreign library raises; its text may be of rows
            pass
        raise SourceError(f"the source, a {kind}, {words}")
    if not schemas[0].equals(schemas[1]):
        raise SourceError(f"the source, a {kind}, has other columns or types each time it is asked; give a table")
    return StreamRows(source, schemas[0], dates=dates)


def open_dataset(
    source: Any, names: Sequence[str], *, dates: Mapping[str, Calendar] | None = None
) -> ArrowRows | ParquetRows:
    """Take a dataset in memory, or one of Parquet files on this machine, as what it is made of.

    What the names of folders say is read by the declaration: Arrow guesses types from all names together.
    """
    if getattr(source, "_scan_options", None):
        raise SourceError("the Arrow dataset has a filter; give it without one, and say where=... in the query")
    if isinstance(source, ds.InMemoryDataset):
        return ArrowRows(hide_engine_errors(source.to_table), dates=dates)
    if not isinstance(source, ds.FileSystemDataset):
        raise SourceError(
            f"an Arrow dataset must be of Parquet files or in memory, got {type(source).__name__}; give the folder, "
            "or a pattern such as 'visits-*.parquet'"
        )
    if not isinstance(source.format, ds.ParquetFileFormat):
        raise SourceError(
            f"the Arrow dataset is of {source.format.default_extname} files, whose types Arrow guesses from rows or "
            "converts for all of them; give the path of CSV files themselves, or write Parquet"
        )
    if type(source.filesystem).__name__ != "LocalFileSystem":
        raise SourceError(
            f"the Arrow dataset is on a {type(source.filesystem).__name__}; read it by a DuckDB connection on which "
            "you allowed that, sl.Table(connection.read_parquet('...'), ...), or copy the files to this machine"
        )
    members = []
    for fragment in source.get_fragments():
        if len(fragment.row_groups) != fragment.metadata.num_row_groups:
            raise SourceError(
                "the Arrow dataset has parts of files (row groups), and a record would be read once for each part; "
                "give whole files, and say where=... in the query"
            )
        keys = ds.get_partition_keys(fragment.partition_expression)
        cells = {key: cell for key, cell in cells_in(fragment.path).items() if key in keys}
        if cells.keys() != keys.keys():
            raise SourceError(
                "the Arrow dataset has columns in the names of its folders that are not written column=value; write it "
                'with partitioning flavor="hive"'
            )
        members.append(Member(absolute(fragment.path), cells))
    if not members:
        raise SourceError("the Arrow dataset has no files; give a table without rows instead")
    members.sort(key=lambda member: member.path)
    files = files_of([member.path for member in members])
    rows = open_parquet(members, names, files, agree=True, dates=dates)
    for name in names:
        if name in source.schema.names and name in rows.types and name not in members[0].cells:
            declared, held = source.schema.field(name).type, rows.types[name]
            if kind_of(declared) != held.kind:
                raise SchemaError(
                    f"the Arrow dataset says that column {name!r} is {declared}, and its files hold {held.native}; "
                    "leave the schema of the dataset out, or write the files with it"
                )
    return rows
