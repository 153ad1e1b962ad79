"""Rows in pandas, Polars and Arrow frames, or in one of their columns.

In memory they are read as NumPy arrays; a Polars LazyFrame runs expressions itself. Types come from dtypes only: a
pandas object column is read cell by cell, and no dtype is guessed from what it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sidelight.errors import SchemaError
from sidelight.records.rows import Rows


def open_frame(source: Any, names: Sequence[str]) -> Rows:
    """Find the engine of a frame or of one of its columns, by the library that it comes from."""
    library = type(source).__module__.partition(".")[0]
    kind = type(source).__name__
    if library == "pandas":
        from sidelight.records.engines.pandas import PandasRows

        if kind == "Series":
            return PandasRows(source.to_frame(name=_only(names)))
        if kind == "DataFrame":
            return PandasRows(source)
        from sidelight.records.engines.arrays import open_arrays

        return open_arrays(source, names)  # an index or an extension array
    if library == "polars":
        from sidelight.records.engines.polars import PolarsRows

        if kind == "Series":
            return PolarsRows(source.to_frame(_only(names)))
        if kind in ("DataFrame", "LazyFrame"):
            return PolarsRows(source)
    if library == "pyarrow":
        from sidelight.records.engines.arrow import ArrowRows, table_of

        return ArrowRows(table_of(source, names))
    raise SchemaError(f"a {library} source must be a frame or a column, got {kind}")


def _only(names: Sequence[str]) -> str:
    if len(names) != 1:
        raise SchemaError(f"the schema declares {len(names)} columns, the source is one column; give a frame")
    return names[0]
