"""Rows in memory as NumPy arrays: a mapping of names to arrays, one array, or a Python list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SchemaError
from sidelight.records.cells import numbers_of, texts_of
from sidelight.records.rows import BATCH_ROWS, Batch, ColumnType, TypeKind, Wanted

_KINDS: dict[str, TypeKind] = {
    "i": "integer",
    "u": "integer",
    "f": "float",
    "b": "boolean",
    "U": "text",
    "T": "text",
    "O": "any",
}


class ArrayRows:
    """Columns as one-dimensional arrays of one length."""

    name = "numpy"
    streams = True

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        if any(column.ndim != 1 for column in columns.values()):
            raise SchemaError("every column must be a one-dimensional array; a two-dimensional one is given by itself")
        if len({column.shape[0] for column in columns.values()}) > 1:
            raise SchemaError("the columns must have one length: row i of each belongs to the same record")
        self._columns = dict(columns)

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns and their types, from the arrays' dtypes."""
        return {name: _type_of(column.dtype) for name, column in self._columns.items()}

    @property
    def length(self) -> int:
        """The number of rows: private."""
        return next((column.shape[0] for column in self._columns.values()), 0)

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Give all rows in slices; float64 columns are views, others are converted slice by slice."""
        for start in range(0, self.length, rows):
            stop = min(start + rows, self.length)
            yield Batch(
                stop - start,
                {name: as_numbers(self._columns[name][start:stop]) for name in wanted.numbers},
                {name: as_texts(self._columns[name][start:stop]) for name in wanted.texts},
                None if wanted.person is None else as_texts(self._columns[wanted.person][start:stop]),
            )

    def frame(self, wanted: Wanted) -> None:
        """Arrays run no expressions."""
        return

    def stream(self, frame: Any, columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Arrays run no expressions."""
        raise NotImplementedError


def open_arrays(source: Any, names: Sequence[str]) -> ArrayRows:
    """Take a mapping of arrays, a one- or two-dimensional array, or a list as the named columns."""
    if isinstance(source, Mapping):
        return ArrayRows({str(name): as_array(column) for name, column in source.items()})
    array = as_array(source)
    if array.ndim == 1 and len(names) == 1:
        return ArrayRows({names[0]: array})
    if array.ndim == 2 and array.shape[1] == len(names):
        return ArrayRows({name: array[:, place] for place, name in enumerate(names)})
    shape = f"{array.shape[1]} columns" if array.ndim == 2 else f"{array.ndim} dimension(s)"
    raise SchemaError(
        f"the schema declares {len(names)} column(s), the array has {shape}; "
        "give a one-dimensional array for one column, or a two-dimensional one with its columns in the schema's order"
    )


def as_array(column: Any) -> NDArray[Any]:
    """Return arrays as they are; lists and tuples cell by cell, so that no value can raise."""
    if isinstance(column, np.ndarray):
        return column
    if isinstance(column, (list, tuple)):
        # Always untyped, whatever the cells are: a type guessed from cells would be a type learned from rows.
        array = np.empty(len(column), object)
        for place, cell in enumerate(column):
            array[place] = cell
        return array
    if hasattr(column, "__array__"):
        return np.asarray(column)
    raise SchemaError(
        f"a column must be an array or a list, got {type(column).__name__}; "
        "a table is a path, a frame, a DuckDB relation, a mapping of arrays or one array"
    )


def as_numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return a slice as float64, with NaN where a value is missing."""
    if isinstance(values, np.ma.MaskedArray):
        filled = as_numbers(np.asarray(values.data)).copy()
        filled[np.ma.getmaskarray(values)] = np.nan
        return filled
    if values.dtype == np.float64 and values.dtype.isnative:
        return values
    if values.dtype.kind in "OUT":
        return numbers_of(values.tolist())
    with np.errstate(all="ignore"):  # a warning about a value would be one that rows decide
        return values.astype(np.float64)


def as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Return a slice as texts, with None where a value is missing."""
    if isinstance(values, np.ma.MaskedArray):
        texts = as_texts(np.asarray(values.data))
        texts[np.ma.getmaskarray(values)] = None
        return texts
    return texts_of(values.tolist())


def _type_of(dtype: np.dtype[Any]) -> ColumnType:
    return ColumnType(_KINDS.get(dtype.kind, "other"), str(dtype))
