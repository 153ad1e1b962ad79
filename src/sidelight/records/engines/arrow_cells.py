"""The cells of Arrow columns: as floats, one by one, or as the different texts and their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sidelight.records.cells import texts_of
from sidelight.records.engines.arrays import as_distinct
from sidelight.records.rows import DistinctTexts, TextCells, TypeKind, quietly


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
    if pa.types.is_integer(column.type) and not column.null_count:
        return as_distinct(column.to_numpy(zero_copy_only=False))  # counts where Arrow would hash
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
