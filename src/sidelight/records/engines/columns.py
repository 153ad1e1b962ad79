"""Columns of several libraries side by side: a mapping of names to arrays, lists, and columns of frames.

Each column is read by the engine of its own library, by its native type. Made an array by NumPy it would get a type
that its cells decide: one null turns whole numbers into floats, and with them the labels and ids of everybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SchemaError
from sidelight.records.engines import library_of
from sidelight.records.engines.arrays import DIFFERENT_LENGTHS, ArrayRows, as_array
from sidelight.records.rows import BATCH_ROWS, Batch, ColumnType, Rows, Wanted


class ColumnRows:
    """Columns in memory, each with an engine of its own."""

    name = "numpy"
    streams = True

    def __init__(self, columns: Mapping[str, Rows]) -> None:
        if len({column.length for column in columns.values()}) > 1:
            raise SchemaError(DIFFERENT_LENGTHS)
        self._columns = dict(columns)

    @property
    def lists(self) -> Mapping[str, NDArray[Any]]:
        """The columns that were given as lists."""
        arrays = [column for column in self._columns.values() if isinstance(column, ArrayRows)]
        return {name: cells for column in arrays for name, cells in column.lists.items()}

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns and their types, as their libraries know them."""
        return {name: column.types[name] for name, column in self._columns.items()}

    @property
    def length(self) -> int:
        """The number of rows: private."""
        return next((column.length or 0 for column in self._columns.values()), 0)

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Give all rows in slices of NumPy arrays; columns that are none are converted as a whole."""
        columns = {name: self._read(name, Wanted(numbers=(name,))) for name in wanted.numbers}
        for name in {*wanted.texts, *([] if wanted.person is None else [wanted.person])} - columns.keys():
            columns[name] = self._read(name, Wanted(texts=(name,)))
        return ArrayRows(columns).batches(wanted, rows=rows)

    def frame(self, wanted: Wanted) -> None:
        """Arrays run no expressions."""
        return

    def stream(self, frame: Any, columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Arrays run no expressions."""
        raise NotImplementedError

    def _read(self, name: str, wanted: Wanted) -> NDArray[Any]:
        column = self._columns[name]
        if isinstance(column, ArrayRows):
            return column.columns[name]
        parts = list(column.batches(wanted))
        found = [part.numbers[name] if wanted.numbers else part.texts[name] for part in parts]
        return np.concatenate([np.empty(0, np.float64 if wanted.numbers else object), *found])


def open_mapping(source: Mapping[Any, Any]) -> ArrayRows | ColumnRows:
    """Take a mapping of names to arrays, lists, and columns of pandas, Polars and Arrow."""
    from sidelight.records.engines.frames import open_frame

    columns: dict[str, Rows] = {}
    for key, column in source.items():
        name = str(key)
        if name in columns:
            raise SchemaError(f"two columns of the mapping are named {name!r}; rename one of them")
        native = column.to_native() if library_of(column) == "narwhals" else column
        if library_of(native) in ("pandas", "polars", "pyarrow"):
            columns[name] = open_frame(native, [name], column=True)
        else:
            listed = isinstance(native, (list, tuple))
            columns[name] = ArrayRows({name: as_array(native)}, listed=[name] if listed else ())
    arrays = {name: column for name, column in columns.items() if isinstance(column, ArrayRows)}
    if len(arrays) < len(columns):
        return ColumnRows(columns)
    listed_names = [name for name, column in arrays.items() if column.lists]
    return ArrayRows({name: column.columns[name] for name, column in arrays.items()}, listed=listed_names)


def column_array(column: Any) -> NDArray[Any]:
    """Return one column as an array of its own type, or of its cells where only its library knows the type.

    For what is compared cell by cell, such as the labels of a model.
    """
    native = column.to_native() if library_of(column) == "narwhals" else column
    if library_of(native) not in ("pandas", "polars", "pyarrow"):
        return as_array(native)
    from sidelight.records.engines.frames import cells_of

    return as_array(cells_of(native))
