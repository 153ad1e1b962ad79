"""Rows of an Arrow table: read batch by batch without a copy of the whole; DuckDB runs expressions on it in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sidelight.errors import SchemaError
from sidelight.records.cells import texts_of
from sidelight.records.quiet import quietly
from sidelight.records.rows import BATCH_ROWS, TWICE, Batch, ColumnType, DistinctTexts, TextCells, TypeKind, Wanted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    from sidelight.records.engines.duckdb import RelationRows


class ArrowRows:
    """The rows of an Arrow table."""

    name = "arrow"
    streams = True

    def __init__(self, table: pa.Table) -> None:
        self._table = table

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
        for batch in self._table.select(sorted(needed)).to_batches(max_chunksize=rows):
            yield Batch(
                batch.num_rows,
                {name: numbers_of_arrow(batch.column(name)) for name in wanted.numbers},
                {name: distinct_of_arrow(batch.column(name)) for name in wanted.texts},
                None if wanted.person is None else texts_of(cells_of_arrow(batch.column(wanted.person))),
            )

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any]:
        """Let DuckDB scan the table in place: Arrow itself has no window functions."""
        return self._relation().frame(wanted)

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Run a frame and stream its integer columns."""
        return self._relation().stream(frame, columns)

    def _relation(self) -> RelationRows:
        from sidelight.records.engines.duckdb import RelationRows, connect

        table = self._table
        for place, field in enumerate(table.schema):
            if field.type == pa.float16():  # DuckDB knows no such floats
                table = table.set_column(place, field.name, table.column(place).cast(pa.float32()))
        return RelationRows(connect().from_arrow(table), name=self.name)


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


def numbers_of_arrow(column: Any) -> NDArray[np.float64]:
    """Return an array or chunks of arrays as floats, NaN where nothing is."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    # safe=False: the safe cast raises for an integer beyond 2**53, an error that a value decides.
    floats = column if column.type == pa.float64() else quietly(lambda: pc.cast(column, pa.float64(), safe=False))
    whole = isinstance(floats, pa.ChunkedArray)  # these have no such argument
    return np.asarray(floats.to_numpy() if whole else floats.to_numpy(zero_copy_only=False), np.float64)


def cells_of_arrow(column: Any) -> list[Any]:
    """Return the cells as Python objects; a text that is no UTF-8 is None.

    Nobody checks texts that come in from a file or from another library. Python does, and would refuse all of them for
    one; so each is decoded by itself as soon as one is no text.
    """
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_decoded(cell) for cell in column.cast(pa.large_binary(), safe=False).to_pylist()]


def distinct_of_arrow(column: Any) -> TextCells:
    """Return a column as its different texts and their places, or cell by cell where Arrow cannot tell them apart."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray) or kind_of(column.type) not in ("integer", "boolean", "text"):
        return texts_of(cells_of_arrow(column))
    if getattr(pa.types, "is_string_view", bool)(column.type):
        column = column.cast(pa.binary_view(), safe=False).cast(pa.large_binary()).view(pa.large_string())
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    places = encoded.indices.fill_null(-1) if encoded.indices.null_count else encoded.indices
    cells = texts_of(cells_of_arrow(encoded.dictionary)).tolist()
    return DistinctTexts([*cells, None], places.to_numpy(zero_copy_only=False))  # the place -1 is the last: missing


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def kind_of(kind: Any) -> TypeKind:
    """Return what columns of an Arrow type hold."""
    if pa.types.is_dictionary(kind):
        return kind_of(kind.value_type)
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "float"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_null(kind):
        return "any"
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or getattr(pa.types, "is_string_view", bool)(kind)
    return "text" if text else "other"
