"""Rows in pandas, Polars and Arrow frames, or in one of their columns.

In memory they are read as NumPy arrays; a Polars LazyFrame runs expressions itself. Types come from dtypes only: a
pandas object column is read cell by cell, and no dtype is guessed from what it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SchemaError
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrays import DIFFERENT_LENGTHS, ArrayRows, as_array, library_of
from sidelight.records.rows import BATCH_ROWS, Batch, ColumnType, NoExpressions, Rows, Wanted
from sidelight.registry import extras_named


@extras_named("this column or frame")
def open_frame(
    source: Any, names: Sequence[str], *, column: bool = False, dates: Mapping[str, Calendar] | None = None
) -> Rows:
    """Find the engine of a frame or of one of its columns, by the library that it comes from; `column`: no frame."""
    library, kind = library_of(source), type(source).__name__
    if library == "pandas":
        from sidelight.records.engines.pandas import PandasRows, series_of

        if kind == "DataFrame" and not column:
            return PandasRows(source, dates=dates)
        series = series_of(source)
        if series is not None:
            rows = PandasRows(series.to_frame(name=_only(names)), dates=dates)
            if kind == "Series":
                return rows
            return ColumnRows({_only(names): rows})  # an index or an extension array
    if library == "polars":
        from sidelight.records.engines.polars import PolarsRows

        if kind == "Series":
            return PolarsRows(source.to_frame(_only(names)), dates=dates)
        if kind in ("DataFrame", "LazyFrame") and not column:
            return PolarsRows(source, dates=dates)
    if library == "pyarrow" and not (column and hasattr(source, "schema")):
        from sidelight.records.engines.arrow import ArrowRows, table_of

        return ArrowRows(table_of(source, names), dates=dates)
    wanted = "a column in a mapping must be one column" if column else f"a {library} source must be a frame or a column"
    raise SchemaError(f"{wanted}, got {kind}")


@extras_named("this column")
def cells_of(source: Any) -> list[Any]:
    """Return the cells of one column as Python objects, by the native type of the column."""
    if library_of(source) == "pandas":
        from sidelight.records.engines.pandas import cells_of_series, series_of

        series = series_of(source)
        if series is not None:
            return cells_of_series(series)
    if library_of(source) == "polars" and type(source).__name__ == "Series":
        from sidelight.records.engines.polars import cells_of_polars

        return cells_of_polars(source)
    if library_of(source) == "pyarrow" and not hasattr(source, "schema"):
        from sidelight.records.engines.arrow import table_of
        from sidelight.records.engines.arrow_cells import cells_of_arrow

        return cells_of_arrow(table_of(source, ["x"]).column("x"))
    raise SchemaError(f"one column was wanted, an array, a list or a column of a frame, got {type(source).__name__}")


def names_of(source: Any) -> list[str] | None:
    """Return the names of a frame's columns, from metadata; None if it is not a frame."""
    library, kind = library_of(source), type(source).__name__
    if library in ("pandas", "polars") and kind == "DataFrame":
        return [str(name) for name in source.columns]
    if library == "polars" and kind == "LazyFrame":
        return list(source.collect_schema().names())
    if library == "pyarrow" and kind in ("Table", "RecordBatch"):
        return list(source.schema.names)
    return None


def refuse_ambiguous_names(frame: Any) -> None:
    """Refuse a frame whose columns have one name twice, or names of which only some are text.

    Raises:
        SchemaError: a name is ambiguous; names are public.
    """
    names = names_of(frame) or []
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise SchemaError(f"X has two columns called {twice!r}; give each column a name of its own")
    if library_of(frame) == "pandas" and len({isinstance(name, str) for name in frame.columns}) > 1:
        raise SchemaError("X has columns whose names are text, and others; write X.columns = X.columns.astype(str)")


def only_column(source: Any) -> Any:
    """Return the column of a frame that has one, and anything else as it is."""
    if len(names_of(source) or []) != 1 or not hasattr(source, "shape"):
        return source
    if library_of(source) == "pandas":
        return source.iloc[:, 0]
    return source.to_series() if library_of(source) == "polars" else source.column(0)


def types_of(frame: Any) -> list[ColumnType]:
    """Return the types of a frame's columns in their order, whatever their names are."""
    rows, names = _by_place(frame)
    types = rows.types
    return [types[name] for name in names]


def matrix_of(frame: Any) -> NDArray[np.float64]:
    """Return the columns of a frame as a matrix of numbers, each read by its native type, NaN for missing numbers."""
    rows, names = _by_place(frame)
    matrix = np.empty((rows.length or 0, len(names)))
    start = 0
    for batch in rows.batches(Wanted(numbers=names)):
        for place, name in enumerate(names):
            matrix[start : start + batch.length, place] = batch.numbers[name]
        start += batch.length
    return matrix


def _by_place(frame: Any) -> tuple[Rows, tuple[str, ...]]:
    names = tuple(f"x{place}" for place in range(len(names_of(frame) or ())))
    library = library_of(frame)
    if library == "pandas":
        renamed = frame.set_axis(list(names), axis=1)
    elif library == "polars":
        renamed = frame.rename(dict(zip(frame.columns, names, strict=True)))
    else:
        renamed = frame.rename_columns(list(names))
    return open_frame(renamed, names), names


def _only(names: Sequence[str]) -> str:
    if len(names) != 1:
        raise SchemaError(f"the schema declares {len(names)} columns, the source is one column; give a frame")
    return names[0]


# Each column of a mapping is read by its own library, by its native type. As an array of NumPy its type would depend on
# its cells: one null turns integers into floats, and with them the labels and ids of all records.


class ColumnRows(NoExpressions):
    """Columns in memory, each with an engine of its own."""

    name = "numpy"
    streams = True

    def __init__(self, columns: Mapping[str, Rows], *, dates: Mapping[str, Calendar] | None = None) -> None:
        if len({column.length for column in columns.values()}) > 1:
            raise SchemaError(DIFFERENT_LENGTHS)
        self._columns = dict(columns)
        # others than arrays count their dates themselves
        self._dates = {name: each for name, each in (dates or {}).items() if isinstance(columns.get(name), ArrayRows)}

    @property
    def lists(self) -> Mapping[str, NDArray[Any]]:
        """The columns that were given as lists."""
        arrays = [column for column in self._columns.values() if isinstance(column, ArrayRows)]
        return {name: cells for column in arrays for name, cells in column.lists.items()}

    def objects(self, name: str) -> list[Any]:
        """Return the cells of an untyped column as they were given; other libraries have none but of nulls."""
        column: Any = self._columns[name]
        return list(column.objects(name)) if hasattr(column, "objects") else [None] * self.length

    @property
    def types(self) -> Mapping[str, ColumnType]:
        return {name: column.types[name] for name, column in self._columns.items()}

    @property
    def length(self) -> int:
        return next((column.length or 0 for column in self._columns.values()), 0)

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Return all rows in slices of NumPy arrays; other columns are converted as a whole."""
        texts = {*wanted.texts, *wanted.keys, *([] if wanted.person is None else [wanted.person])}
        columns = {name: self._read(name, Wanted(numbers=(name,))) for name in wanted.numbers}
        labels = {name: self._read(name, Wanted(texts=(name,))) for name in texts}
        return ArrayRows(columns, labels=labels, dates=self._dates).batches(wanted, rows=rows)

    def _read(self, name: str, wanted: Wanted) -> NDArray[Any]:
        column = self._columns[name]
        if isinstance(column, ArrayRows):
            return column.columns[name]
        parts = list(column.batches(wanted))
        found = [part.numbers[name] if wanted.numbers else part.texts[name] for part in parts]
        return np.concatenate([np.empty(0, np.float64 if wanted.numbers else object), *found])


def open_mapping(source: Mapping[Any, Any], *, dates: Mapping[str, Calendar] | None = None) -> ArrayRows | ColumnRows:
    """Take a mapping of names to arrays, lists, and columns of pandas, Polars and Arrow."""
    columns: dict[str, Rows] = {}
    for key, column in source.items():
        name = str(key)
        if name in columns:
            raise SchemaError(f"two columns of the mapping are named {name!r}; rename one of them")
        native = column.to_native() if library_of(column) == "narwhals" else column
        if library_of(native) in ("pandas", "polars", "pyarrow"):
            columns[name] = open_frame(native, [name], column=True, dates=dates)
        else:
            listed = isinstance(native, (list, tuple))
            columns[name] = ArrayRows({name: as_array(native)}, listed=[name] if listed else ())
    arrays = {name: column for name, column in columns.items() if isinstance(column, ArrayRows)}
    if len(arrays) < len(columns):
        return ColumnRows(columns, dates=dates)
    listed_names = [name for name, column in arrays.items() if column.lists]
    return ArrayRows({name: column.columns[name] for name, column in arrays.items()}, listed=listed_names, dates=dates)


def column_array(column: Any) -> NDArray[Any]:
    """Return one column as an array of its own type, or of its cells where only its library knows the type.

    For what is compared cell by cell, such as the labels of a model.
    """
    native = column.to_native() if library_of(column) == "narwhals" else column
    if library_of(native) not in ("pandas", "polars", "pyarrow"):
        return as_array(native)
    return as_array(cells_of(native))
