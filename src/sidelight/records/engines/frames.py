"""Rows in pandas, Polars and Arrow frames, or in one of their columns.

In memory they are read as NumPy arrays; a Polars LazyFrame runs expressions itself. Types come from dtypes only: a
pandas object column is read cell by cell, and no dtype is guessed from what it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SchemaError
from sidelight.records.engines import library_of
from sidelight.records.rows import ColumnType, Rows, Wanted


def open_frame(source: Any, names: Sequence[str], *, column: bool = False) -> Rows:
    """Find the engine of a frame or of one of its columns, by the library that it comes from; `column`: no frame."""
    library, kind = library_of(source), type(source).__name__
    if library == "pandas":
        from sidelight.records.engines.pandas import PandasRows, series_of

        if kind == "DataFrame" and not column:
            return PandasRows(source)
        series = series_of(source)
        if series is not None:
            rows = PandasRows(series.to_frame(name=_only(names)))
            if kind == "Series":
                return rows
            from sidelight.records.engines.columns import ColumnRows

            return ColumnRows({_only(names): rows})  # an index or an extension array
    if library == "polars":
        from sidelight.records.engines.polars import PolarsRows

        if kind == "Series":
            return PolarsRows(source.to_frame(_only(names)))
        if kind in ("DataFrame", "LazyFrame") and not column:
            return PolarsRows(source)
    if library == "pyarrow" and not (column and hasattr(source, "schema")):
        from sidelight.records.engines.arrow import ArrowRows, table_of

        return ArrowRows(table_of(source, names))
    wanted = "a column in a mapping must be one column" if column else f"a {library} source must be a frame or a column"
    raise SchemaError(f"{wanted}, got {kind}")


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
        from sidelight.records.engines.arrow import cells_of_arrow, table_of

        return cells_of_arrow(table_of(source, ["x"]).column("x"))
    raise SchemaError(f"one column was wanted, an array, a list or a column of a frame, got {type(source).__name__}")


def names_of(source: Any) -> list[str] | None:
    """Return the names of a frame's columns, from metadata; None if it is no frame."""
    library, kind = library_of(source), type(source).__name__
    if library in ("pandas", "polars") and kind == "DataFrame":
        return [str(name) for name in source.columns]
    if library == "polars" and kind == "LazyFrame":
        return list(source.collect_schema().names())
    if library == "pyarrow" and kind in ("Table", "RecordBatch"):
        return list(source.schema.names)
    return None


def types_of(frame: Any) -> list[ColumnType]:
    """Return the types of a frame's columns in their order, whatever their names are."""
    rows, names = _by_place(frame)
    types = rows.types
    return [types[name] for name in names]


def matrix_of(frame: Any) -> NDArray[np.float64]:
    """Return the columns of a frame as a matrix of numbers, each read by its native type, NaN for what is none."""
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
