"""One Parquet file: what its footer says, and its columns as Arrow hands them to DuckDB.

Texts are handed over as they are, also those that are no UTF-8 (`parquet` says why).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sidelight.errors import SourceError
from sidelight.records.cells import number_of, text_of
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrow_cells import handed_to_duckdb, type_for_duckdb
from sidelight.records.engines.duckdb import types_of
from sidelight.records.engines.folders import FOLDERS, Member
from sidelight.records.rows import ColumnType

#: Rows to a batch that Arrow hands to DuckDB.
_STREAM_ROWS = 1 << 16
#: Rows per batch that Arrow reads itself.
PLAIN_ROWS = 1 << 18
#: How the names of encodings begin that Arrow cannot read as dictionaries.
_BY_DIFFERENCES = "DELTA_"
#: The first and last bytes of a file; the key of Arrow's note in the footer, with its length; an unknown key instead.
MAGIC, _NOTE, _NO_NOTE = b"PAR1", b"\x0cARROW:schema", b"\x0cleft out now"


@dataclass(frozen=True, repr=False)
class Footer:
    """The footer of a file: the position and type of each column, and the number of row groups."""

    member: Member
    places: Mapping[str, int]
    types: Mapping[str, ColumnType]
    unique: bool
    groups: int
    rows: int

    @property
    def path(self) -> str:
        """Where the file is."""
        return self.member.path


@dataclass(frozen=True, repr=False)
class ColumnStream:
    """Some columns of files of the same types as an Arrow stream, which DuckDB starts anew for every query.

    What the names of folders say comes as floats for the columns in `numbers`, and as texts for others.
    """

    footers: tuple[Footer, ...]
    names: tuple[str, ...]
    numbers: tuple[str, ...]
    dates: Mapping[str, Calendar]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand a new stream over; no row is read before its first batch is asked for."""
        reader = pa.RecordBatchReader.from_batches(self.schema(self.footers[0]), self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def schema(self, footer: Footer) -> pa.Schema:
        """Return the columns of one file as they are handed over."""
        with open_plain(footer.path) as file:
            kinds = [
                (pa.float64() if name in self.numbers else pa.string())
                if name in footer.member.cells
                else file.schema_arrow.field(footer.places[name]).type
                for name in self.names
            ]
        texts = [pa.string() if pa.types.is_binary(kind) else kind for kind in kinds]
        return pa.schema([(f"c{at}", type_for_duckdb(kind)) for at, kind in enumerate(texts)])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for footer in self.footers:
            schema = self.schema(footer)
            with open_plain(footer.path) as file:
                own = file.schema_arrow.names
                places = [footer.places.get(name) for name in self.names]
                read = [own[place] for place in places if place is not None] or own[:1]
                for batch in map(with_texts, file.iter_batches(_STREAM_ROWS, columns=read)):
                    found = [
                        self._fixed(footer, name, batch.num_rows) if place is None else batch.column(own[place])
                        for name, place in zip(self.names, places, strict=True)
                    ]
                    columns = [
                        handed_to_duckdb(column, self.dates.get(name))
                        for name, column in zip(self.names, found, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _fixed(self, footer: Footer, name: str, rows: int) -> pa.Array:
        cell = footer.member.cells[name]
        number = name in self.numbers
        scalar = pa.scalar(number_of(cell), pa.float64()) if number else pa.scalar(text_of(cell), pa.string())
        return pa.repeat(scalar, rows)


def streams_of(
    footers: Sequence[Footer], names: tuple[str, ...], numbers: tuple[str, ...], dates: Mapping[str, Calendar]
) -> Iterator[ColumnStream]:
    """Return one stream for the files that Arrow has the same types for."""
    whole = ColumnStream(tuple(footers), names, numbers, dates)

    def types(footer: Footer) -> str:
        return str(whole.schema(footer).types)

    for _, group in groupby(sorted(footers, key=types), key=types):
        yield replace(whole, footers=tuple(group))


def open_plain(path: str, *, labels: Sequence[str] = (), group: int | None = None) -> pq.ParquetFile:
    """Open a file by its footer without Arrow's note; the rows are read as the types that Parquet itself knows.

    Columns of `labels` come as dictionaries where Arrow can read all row groups so, or the one `group` that is wanted.
    """
    with open(path, "rb") as file:
        file.seek(-8, os.SEEK_END)
        end = file.read(8)
        file.seek(-8 - int.from_bytes(end[:4], "little"), os.SEEK_END)
        footer = file.read()[:-8]
    # a column of that name is renamed here, and still found by its position
    plain = pq.read_metadata(pa.BufferReader(MAGIC + footer.replace(_NOTE, _NO_NOTE) + end))
    # time stamps of 96 bits fit into milliseconds; into nanoseconds, years beyond 2262 would not
    # no buffer of the whole file beforehand, which is the default of newer versions of Arrow
    return pq.ParquetFile(
        path,
        metadata=plain,
        read_dictionary=[name for name in labels if _has_dictionary(plain, name, group)],
        coerce_int96_timestamp_unit="ms",
        pre_buffer=False,
    )


def _has_dictionary(footer: pq.FileMetaData, name: str, group: int | None) -> bool:
    """Return whether Arrow can read a column as dictionaries, by its encodings and sizes.

    Arrow fails on encodings by differences, and on a batch whose distinct texts reach 2**31 bytes. A batch may span
    several row groups, whose sizes bound their texts.
    """
    columns = [footer.schema.column(at) for at in range(footer.num_columns)]
    places = [at for at, column in enumerate(columns) if column.path == name]  # several: a field of a struct, too
    if not places or any(columns[at].logical_type.type != "STRING" for at in places):
        return False
    groups = [footer.row_group(at) for at in (range(footer.num_row_groups) if group is None else [group])]
    chunks = [[each.column(at) for at in places] for each in groups]
    if any(encoding.startswith(_BY_DIFFERENCES) for part in chunks for chunk in part for encoding in chunk.encodings):
        return False
    rows = np.array([each.num_rows for each in groups], np.int64)
    size = np.array([max(chunk.total_uncompressed_size for chunk in part) for part in chunks], np.int64)
    ends, sizes = np.cumsum(rows), np.append(0, np.cumsum(size))
    behind = np.searchsorted(ends - rows, ends + PLAIN_ROWS)  # the groups up to this may share a batch with each
    return bool((sizes[behind] - sizes[:-1] < 2**31 - 1).all())


def with_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the texts of a batch as such: those that other writers mark as ENUM are bytes for Arrow."""
    for at, column in enumerate(batch.columns):
        if pa.types.is_binary(column.type):
            batch = batch.set_column(at, batch.schema.names[at], column.view(pa.string()))
    return batch


def footer_of(member: Member, connection: duckdb.DuckDBPyConnection) -> Footer:
    reason, path = "", member.path
    try:
        relation = connection.read_parquet([path], union_by_name=False, hive_partitioning=False)
        # DuckDB gives columns other names where two are equal regardless of case; their positions stay
        names = pq.read_metadata(path).schema.to_arrow_schema().names
        for name in names:
            member = member.holding(name) if name in member.cells else member
        types = {**types_of(relation, names), **dict.fromkeys(member.cells, FOLDERS)}
        with open_plain(path) as file:
            own, groups, rows = file.schema_arrow.names, file.num_row_groups, file.metadata.num_rows
        unique = len({*own}) == len(own) and own == names
        places = {name: place for place, name in enumerate(names)}
        return Footer(member, places, types, unique, groups, rows)
    except (duckdb.Error, OSError, pa.ArrowException) as error:
        reason = type(error).__name__
    raise SourceError(f"the footer of {member.shown!r} cannot be read ({reason}); write the file again")
