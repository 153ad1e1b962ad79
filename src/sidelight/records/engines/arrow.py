"""Rows of an Arrow table: read batch by batch without a copy of the whole; DuckDB runs expressions on it in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sidelight.errors import SchemaError
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrow_cells import (
    distinct_of_arrow,
    handed_to_duckdb,
    kind_of,
    numbers_of_arrow,
    type_for_duckdb,
)
from sidelight.records.rows import BATCH_ROWS, TWICE, Batch, ColumnType, Wanted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    from sidelight.records.engines.duckdb import RelationRows


class ArrowRows:
    """The rows of an Arrow table."""

    name = "arrow"
    streams = True

    def __init__(self, table: pa.Table, *, dates: Mapping[str, Calendar] | None = None) -> None:
        self._table = table
        self._dates = dict(dates or {})

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns and their types, from the schema."""
        types: dict[str, ColumnType] = {}
        for field in self._table.schema:
            twice = field.name in types
            found = ColumnType(kind_of(field.type), str(field.type))
            types[field.name] = ColumnType("other", TWICE) if twice else found
        return types

    @property
    def length(self) -> int:
        """The number of rows: private."""
        return int(self._table.num_rows)

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Return all rows in slices of the Arrow batches."""
        needed = {*wanted.numbers, *wanted.texts} | ({wanted.person} if wanted.person is not None else set())
        ids = None if wanted.person is None else distinct_of_arrow(self._table.column(wanted.person))
        start = 0
        for batch in self._table.select(sorted(needed)).to_batches(max_chunksize=rows):
            start, first = start + batch.num_rows, start
            yield Batch(
                batch.num_rows,
                {name: numbers_of_arrow(batch.column(name), self._dates.get(name)) for name in wanted.numbers},
                {name: distinct_of_arrow(batch.column(name)) for name in wanted.texts},
                None if ids is None else ids[first:start],
            )

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any]:
        """Let DuckDB scan the table in place: Arrow itself has no window functions."""
        return self._relation(wanted).frame(wanted)

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Run a frame and stream its integer columns."""
        from sidelight.records.engines.duckdb import RelationRows

        return RelationRows.stream(frame, columns)

    def _relation(self, wanted: Wanted) -> RelationRows:
        from sidelight.records.engines.duckdb import RelationRows, connect

        names = dict.fromkeys([*wanted.numbers, *wanted.texts, *filter(None, [wanted.person])])
        table, told = self._table.select(list(names)), dict(self._dates)
        for place, field in enumerate(table.schema):
            if type_for_duckdb(field.type) != field.type:
                column = handed_to_duckdb(table.column(place), told.pop(field.name, None))
                table = table.set_column(place, field.name, column)
        return RelationRows(connect().from_arrow(table), name=self.name, dates=told)


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
