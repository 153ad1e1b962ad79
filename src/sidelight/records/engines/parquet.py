"""Parquet files: footers are read first, Arrow reads the rows, and DuckDB runs expressions on the columns.

Batches of plain numbers and texts are read by Arrow alone, one batch ahead, to the same bits.

DuckDB never reads the rows of a file itself. It reads some cells otherwise than Arrow (96-bit time stamps, decimals of
more than 38 digits), and the number of rows decides which of the two is used: one record more would change all others.
It also fails for a time without a 64-bit microsecond, or a text that is not UTF-8. So Arrow hands over dates already
counted and texts as they are, of which DuckDB makes null of those that are not UTF-8. Arrow does so only while it reads
plain texts: the in-memory type that its writers note in the footer may be a dictionary, for which it checks the texts
and fails for one. That note is removed.

Several files are one table: the first by name defines the types of the columns, which are public. A cell of another
file is read by the type of its own file, as the kind of the first: no file changes a cell of another. Files of a folder
must agree on the kinds, because they were not named one by one.
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

from sidelight.errors import SchemaError, SourceError
from sidelight.records.cells import number_of, text_of
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrow_cells import KnownTexts, batch_of_arrow
from sidelight.records.engines.duckdb import RelationRows, RowsByDuckDB, connect
from sidelight.records.engines.files import Files
from sidelight.records.engines.folders import Member
from sidelight.records.engines.parquet_files import (
    MAGIC,
    PLAIN_ROWS,
    Footer,
    footer_of,
    open_plain,
    streams_of,
    with_texts,
)
from sidelight.records.rows import (
    BATCH_ROWS,
    WORKERS,
    Batch,
    ColumnType,
    DistinctTexts,
    TypeKind,
    Wanted,
    cores,
    hide_engine_errors,
)

#: The most rows of persons with text ids that are held at once; more are bounded by DuckDB, out of core.
_FEW_ROWS = 1 << 22
#: The most cells of persons with integer ids that are held at once (256 MB, and up to six times that while they are
#: sorted); more are read in slices of the persons, one pass over the files each.
_FEW_CELLS = 1 << 25
#: The types of DuckDB whose cells Arrow reads equally.
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_PLAIN = (
    *("DOUBLE", "FLOAT", *_WHOLE, "VARCHAR"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
)


class ParquetRows(RowsByDuckDB):
    """The records of one or several Parquet files."""

    name = "duckdb:parquet"

    def __init__(self, footers: Sequence[Footer], files: Files, *, dates: Mapping[str, Calendar] | None = None) -> None:
        self._footers = tuple(footers)
        self._files = files
        self._dates = dict(dates or {})

    def slices_in_memory(self, wanted: Wanted) -> int:
        """Return the number of passes to bound persons: private, it decides about time and memory only.

        It must not decide which library reads a cell: Arrow reads all of them (`tests/records/test_readers_agree.py`).
        """
        rows = sum(footer.rows for footer in self._footers)
        names = wanted.names
        by_number = wanted.person is not None and all(
            wanted.person in footer.places and footer.types[wanted.person].native in _WHOLE for footer in self._footers
        )
        if by_number and all(_is_plain(footer, wanted, self.types) for footer in self._footers):
            return max(1, -(-rows * (1 + len(names)) // _FEW_CELLS))
        return 1 if rows <= _FEW_ROWS else 0

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns and their types, from the footer of the first file."""
        return self._footers[0].types

    def kinds_of(self, name: str) -> set[TypeKind]:
        """Return what the files hold in a column."""
        return {footer.types[name].kind for footer in self._footers}

    def fault(self) -> str | None:
        """Return what is wrong with the first changed file, from its metadata."""
        return self._files.fault()

    def check_files(self) -> None:
        """Refuse files that are not those of when the table was made."""
        self._files.check()

    def hands_keys(self, wanted: Wanted) -> bool:
        """Return whether no folder is named after a key."""
        return not any(name in footer.member.cells for footer in self._footers for name in wanted.keys)

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Stream the records, those of files with the same types together; plain columns are read by Arrow alone."""
        names = wanted.names
        if all(_is_plain(footer, wanted, self.types) for footer in self._footers):
            yield from self._plain_batches(wanted, names, rows)
            return
        for part in hide_engine_errors(lambda: self._parts(wanted), rows=self):
            yield from part.batches(wanted, rows=rows)

    def in_parallel(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Sequence[Iterator[Batch]]:
        """Let each thread take the next part of a file when it has finished one."""
        names = wanted.names
        parts = [(footer, group) for footer in self._footers for group in range(footer.groups)]
        if len(parts) < 2 or not all(_is_plain(footer, wanted, self.types) for footer in self._footers):
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
        parts = hide_engine_errors(lambda: self._parts(wanted), rows=self)
        relations = [nw.to_native(part.frame(wanted)) for part in parts]
        frame: nw.LazyFrame[Any] = nw.from_native(reduce(lambda all_, more: all_.union(more), relations))
        return frame

    def _plain_batches(self, wanted: Wanted, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Read columns whose cells Arrow and DuckDB read equally, without DuckDB."""
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
        columns = [name for name in names if name not in footer.member.cells]
        columns = columns or [name for name in footer.places if name not in footer.member.cells][:1]
        labels = [name for name in wanted.texts if self.types[name].kind == "text"]
        with hide_engine_errors(lambda: open_plain(footer.path, labels=labels, group=group), rows=self) as file:
            groups = None if group is None else [group]
            batches = file.iter_batches(PLAIN_ROWS, row_groups=groups, columns=columns, use_threads=group is None)
            converted = _converted(batches, wanted, known, footer.member.cells, self._dates)
            while (batch := hide_engine_errors(lambda: next(converted, None), rows=self)) is not None:
                yield batch

    def _parts(self, wanted: Wanted) -> list[RelationRows]:
        """Return one relation for the files of each combination of types, all on one connection."""
        names = wanted.names
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
            days = {name: calendar for name, calendar in self._dates.items() if types[name].kind != "date"}
            parts += [
                RelationRows(
                    connection.from_arrow(each), name=self.name, columns=columns, kinds=kinds, dates=days, within=self
                )
                for each in streams_of(footers, read, numbers, self._dates)
            ]
        return parts


def open_parquet(
    members: Sequence[Member],
    names: Sequence[str],
    files: Files,
    *,
    agree: bool = False,
    dates: Mapping[str, Calendar] | None = None,
) -> ParquetRows:
    """Look at the footers: all files must have the declared columns that the first one has, or, with `agree`, any has.

    With `agree` the declared columns must also be of one kind in all of them. `files` are those of the members.
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
    return ParquetRows(footers, files, dates=dates)


def _shape(footer: Footer) -> tuple[tuple[str, str], ...]:
    return tuple((name, found.native) for name, found in footer.types.items())


def _converted(
    batches: Iterator[Any],
    wanted: Wanted,
    known: Mapping[str, KnownTexts],
    cells: Mapping[str, str | None],
    dates: Mapping[str, Calendar],
) -> Iterator[Batch]:
    """Make floats and labels of Arrow batches, and of the cells that all rows of a file have."""
    numbers = {name: (dates[name].of_cell if name in dates else number_of)(cell) for name, cell in cells.items()}
    texts = {name: DistinctTexts([text_of(cell)], np.zeros(0, np.int64)) for name, cell in cells.items()}
    own = Wanted(
        numbers=tuple(name for name in wanted.numbers if name not in cells),
        texts=tuple(name for name in wanted.texts if name not in cells),
        person=None if wanted.person in cells else wanted.person,
        keys=wanted.keys,
    )
    for batch in map(with_texts, batches):
        # by name: for "patient.id" Arrow also reads that field of a column "patient", and for "patient" both of them
        places = {name: place for place, name in enumerate(batch.schema.names)}
        found, first = batch_of_arrow(batch, own, places, dates=dates, known=known), np.zeros(batch.num_rows, np.int64)
        yield Batch(
            batch.num_rows,
            {**found.numbers, **{name: np.full(len(first), numbers[name]) for name in wanted.numbers if name in cells}},
            {**found.texts, **{name: texts[name].at(first) for name in wanted.texts if name in cells}},
            texts[wanted.person].at(first) if wanted.person in texts else found.person,
            keys=found.keys,
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
                keys={name: column[piece] for name, column in batch.keys.items()},
            )


def _ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Read one batch while the one before is worked on."""
    with ThreadPoolExecutor(1, thread_name_prefix=WORKERS) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := hide_engine_errors(coming.result)) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def _is_plain(footer: Footer, wanted: Wanted, types: Mapping[str, ColumnType]) -> bool:
    """Return, by public types, whether Arrow alone can read the columns."""
    own = [name for name in wanted.names if name not in footer.member.cells]
    labels = {*wanted.texts, *wanted.keys, wanted.person}
    # decimals as numbers are floats before DuckDB gets them (`handed_to_duckdb`)
    return (
        footer.unique
        and footer.places.keys() >= set(own)
        and all(
            footer.types[name] == types[name]
            and (types[name].native in _PLAIN or (types[name].native.startswith("DECIMAL") and name not in labels))
            for name in own
        )
    )
