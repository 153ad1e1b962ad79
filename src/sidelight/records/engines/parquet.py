"""Parquet files: the footers are looked at, Arrow reads the rows, and DuckDB runs what is asked of the columns.

Batches of plain numbers and texts are read by Arrow alone, one ahead of the work, to the same bits.

DuckDB never reads the rows of a file itself. It would read some cells otherwise than Arrow (a time stamp of 96 bits, a
decimal of more than 38 digits), and how many rows there are decides which of the two is asked: one record more would
move all others. And it fails for one cell, a time that has no microsecond of 64 bits or a text that is no UTF-8. So
Arrow hands over what it read: dates counted, texts as they are, of which DuckDB makes one that is no UTF-8 null. Arrow
takes texts so only as long as it reads plain ones: what type they had in memory, which Arrow's writers note in the
footer, may be a dictionary, and then it checks the texts on the way there and fails for one. That note is left out.

Several files are one table: the first by name says which types the columns have, and its types are public. A cell of
another file is read by the type of its own file, as the kind of the first: no file changes a cell of another. Files of
a folder must agree on the kinds, because nobody named them one by one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import groupby
from threading import Lock
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SchemaError, SourceError
from sidelight.records.cells import number_of, text_of
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrow_cells import KnownTexts, distinct_of_arrow, ids_of_arrow, numbers_of_arrow
from sidelight.records.engines.duckdb import RelationRows, connect, stream_of
from sidelight.records.engines.folders import Member
from sidelight.records.engines.parquet_files import MAGIC, Footer, footer_of, open_plain, streams_of
from sidelight.records.rows import (
    BATCH_ROWS,
    WORKERS,
    Batch,
    ColumnType,
    DistinctTexts,
    TextCells,
    Wanted,
    WholeIds,
    cores,
    quietly,
)

#: Rows to a batch that Arrow reads itself, and the types of DuckDB whose cells both read alike.
_PLAIN_ROWS = 1 << 18
#: So many rows of persons who are named by texts are held at once; more are bounded by DuckDB, which needs no memory.
_FEW_ROWS = 1 << 22
#: So many cells of persons who are named by whole numbers are held at once (256 MB, and about as much again twice while
#: they are put in order); of more, a slice of the persons after the other, each by a pass over the files.
_FEW_CELLS = 1 << 25
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_PLAIN = (
    *("DOUBLE", "FLOAT", *_WHOLE, "VARCHAR"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
)


class ParquetRows:
    """The records of one or several Parquet files."""

    name = "duckdb:parquet"
    streams = True
    length = None

    def __init__(self, footers: Sequence[Footer], *, dates: Mapping[str, Calendar] | None = None) -> None:
        self._footers = tuple(footers)
        self._dates = dict(dates or {})

    def slices_in_memory(self, wanted: Wanted) -> int:
        """Return how often the files are read to bound persons: private, it decides about time and memory only.

        So it must not decide who reads a cell: Arrow reads all of them, whether DuckDB runs the query or not
        (`tests/records/test_readers_agree.py` plants the extremes of every type).
        """
        rows = sum(footer.rows for footer in self._footers)
        names = _names(wanted)
        by_number = wanted.person is not None and all(
            wanted.person in footer.places and footer.types[wanted.person].native in _WHOLE for footer in self._footers
        )
        if by_number and all(_is_plain(footer, names, self.types) for footer in self._footers):
            return max(1, -(-rows * (1 + len(names)) // _FEW_CELLS))
        return 1 if rows <= _FEW_ROWS else 0

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns and their types, from the footer of the first file."""
        return self._footers[0].types

    def fault(self) -> str | None:
        """Return what is wrong with the first file that is not as it was, by looking at it from outside."""
        return next(filter(None, (footer.fault() for footer in self._footers)), None)

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Stream the records, those of files with the same types together; plain columns are read by Arrow alone."""
        names = _names(wanted)
        if all(_is_plain(footer, names, self.types) for footer in self._footers):
            yield from self._plain_batches(wanted, names, rows)
            return
        for part in quietly(lambda: self._parts(wanted), rows=self):
            yield from part.batches(wanted, rows=rows)

    def apart(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Sequence[Iterator[Batch]]:
        """Let each thread take the next part of a file as soon as it is done with one."""
        names = _names(wanted)
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
        parts = quietly(lambda: self._parts(wanted), rows=self)
        relations = [nw.to_native(part.frame(wanted)) for part in parts]
        frame: nw.LazyFrame[Any] = nw.from_native(reduce(lambda all_, more: all_.union(more), relations))
        return frame

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Run a frame and stream its integer columns."""
        return stream_of(frame, columns, rows=self)

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
        columns = [name for name in dict.fromkeys(names) if name not in footer.member.cells]
        columns = columns or [name for name in footer.places if name not in footer.member.cells][:1]
        labels = [name for name in wanted.texts if self.types[name].kind == "text"]
        with quietly(lambda: open_plain(footer.path, read_dictionary=labels), rows=self) as file:
            groups = None if group is None else [group]
            batches = file.iter_batches(_PLAIN_ROWS, row_groups=groups, columns=columns, use_threads=group is None)
            converted = _converted(batches, columns, wanted, known, footer.member.cells, self._dates)
            while (batch := quietly(lambda: next(converted, None), rows=self)) is not None:
                yield batch

    def _parts(self, wanted: Wanted) -> list[RelationRows]:
        """Return one relation for the files of each combination of types, all on one connection."""
        names = tuple(dict.fromkeys([*wanted.numbers, *wanted.texts, *filter(None, [wanted.person])]))
        kinds = {name: self.types[name].kind for name in names}
        # dates in the names of folders are texts, which the calendar reads
        numbers = tuple(name for name in wanted.numbers if name not in self._dates)
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
                RelationRows(
                    connection.from_arrow(each), name=self.name, columns=columns, kinds=kinds, dates=told, within=self
                )
                for each in streams_of(footers, read, numbers, self._dates)
            ]
        return parts


def open_parquet(
    members: Sequence[Member],
    names: Sequence[str],
    *,
    agree: bool = False,
    dates: Mapping[str, Calendar] | None = None,
) -> ParquetRows:
    """Look at the footers: all files must have the declared columns that the first one has, or, with `agree`, any has.

    With `agree` the declared columns must also be of one kind in all of them.
    """
    for member in members:
        with open(member.path, "rb") as file:
            start = file.read(4)
            file.seek(max(0, os.path.getsize(member.path) - 4))
            end = file.read(4)
        if start != MAGIC or end != MAGIC:
            raise SourceError(f"{member.shown!r} is not a Parquet file (or was cut off); name a CSV file .csv")
    connection = connect()
    footers = [footer_of(member, connection) for member in members]
    for name in names:
        having = [footer for footer in footers if name in footer.types]
        own = [footer for footer in having if name in footer.places]
        if own and own != having:
            raise SchemaError(
                f"{own[0].member.shown!r} holds the column {name!r}, which the names of folders say of other files; "
                "write all of them in one way"
            )
        for footer in footers if having and (agree or having[0] is footers[0]) else ():
            if name not in footer.types:
                raise SchemaError(
                    f"{footer.member.shown!r} has no column {name!r}, which {having[0].member.shown!r} has; files of "
                    "one table have the same columns: write it with nulls if nothing is known of it"
                )
            wanted, found = having[0].types[name], footer.types[name]
            if agree and wanted.kind != found.kind:
                raise SchemaError(
                    f"{footer.member.shown!r} holds {found.native} in column {name!r}, and {having[0].member.shown!r} "
                    f"holds {wanted.native}; files of a folder hold the same types: write them again with one type"
                )
    return ParquetRows(footers, dates=dates)


def _names(wanted: Wanted) -> tuple[str, ...]:
    return (*wanted.numbers, *wanted.texts, *filter(None, [wanted.person]))


def _shape(footer: Footer) -> tuple[tuple[str, str], ...]:
    return tuple((name, found.native) for name, found in footer.types.items())


def _converted(
    batches: Iterator[Any],
    columns: Sequence[str],
    wanted: Wanted,
    known: Mapping[str, KnownTexts],
    cells: Mapping[str, str | None],
    dates: Mapping[str, Calendar],
) -> Iterator[Batch]:
    """Make floats and labels of Arrow batches, and of the cells that all rows of a file have."""
    places = {name: place for place, name in enumerate(columns)}
    one = {name: DistinctTexts([text_of(cell)], np.zeros(0, np.int64)) for name, cell in cells.items()}
    for batch in batches:
        rows = batch.num_rows

        def number(name: str, batch: Any = batch) -> NDArray[np.float64]:
            if name in cells:
                read = dates[name].of_cell if name in dates else number_of
                return np.full(batch.num_rows, read(cells[name]))
            return numbers_of_arrow(batch.column(places[name]), dates.get(name))

        def text(name: str, known: KnownTexts | None, batch: Any = batch) -> TextCells:
            if name in cells:
                return one[name].at(np.zeros(batch.num_rows, np.int64))
            return distinct_of_arrow(batch.column(places[name]), known)

        def person(name: str, batch: Any = batch) -> TextCells | WholeIds:
            return text(name, None) if name in cells else ids_of_arrow(batch.column(places[name]))

        yield Batch(
            rows,
            {name: number(name) for name in wanted.numbers},
            {name: text(name, known[name]) for name in wanted.texts},
            None if wanted.person is None else person(wanted.person),
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
    with ThreadPoolExecutor(1, thread_name_prefix=WORKERS) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := quietly(coming.result)) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def _is_plain(footer: Footer, names: Sequence[str], types: Mapping[str, ColumnType]) -> bool:
    """Tell by public types whether the columns are numbers and texts that need no reading of their own."""
    own = [name for name in names if name not in footer.member.cells]
    return all(footer.types[name].native in _PLAIN and footer.types[name] == types[name] for name in own) and (
        footer.unique and footer.places.keys() >= set(own)
    )
