"""Columns of labels and record ids: which containers and types there can be, and their cells, each by itself.

What is refused is refused by its container and its declared type, before anything is charged and whatever its cells
are: a column of durations, say, has no id in any of its cells, so that one teacher would get all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np

from sidelight.errors import SchemaError
from sidelight.records.engines import frames
from sidelight.records.engines.arrays import library_of

#: How the types of NumPy, pandas, Polars and Arrow begin of which no cell is a number, a text, a date or an identifier.
_NO_CELLS = (
    *("timedelta", "period", "interval", "duration", "month_day_nano_interval", "list", "large_list"),
    *("fixed_size_list", "array(", "struct", "map<"),
)
#: How the other types of dates and times begin, of which no cell is a number.
_DATED = ("date", "time")
#: Times of NumPy that Python has no type for: they come as huge whole numbers, thousands of which are one float.
_FINE = ("ns", "ps", "fs", "as")


def one_column(column: Any, *, name: str) -> Any:
    """Return a column of labels or ids, or that of a frame that has one; looks at containers and types alone.

    Raises:
        SchemaError: It is no column, or no cell of its type can be a label or an id.
    """
    column = frames.only_column(column)
    readable = hasattr(column, "__len__") and (hasattr(column, "__iter__") or hasattr(column, "__getitem__"))
    if not readable or isinstance(column, str | bytes | bytearray | Mapping | Set):
        raise SchemaError(
            f"{name} must be a list, an array or a column of a frame, one cell for each row of X and in their order; "
            f"got {type(column).__name__}"
        )
    if len(getattr(column, "shape", (0,))) != 1:
        raise SchemaError(f"{name} must be one column; write {name}.ravel()")
    refuse_types_without_cells(column, name=name)
    return column


def refuse_types_without_cells(column: Any, *, name: str, numbers: bool = False) -> None:
    """Refuse a column by its declared type, if no cell of that type can be what a cell here must be.

    Args:
        column: A column of any library.
        name: What the message calls it.
        numbers: Whether cells must be numbers, so that dates are none either.

    Raises:
        SchemaError: Its type, or that of the values that it encodes, is one of durations, lists and the like.
    """
    wanted = "numbers, as that of queries does" if numbers else "numbers, texts, dates or identifiers"
    for declared in _types_within(getattr(column, "dtype", getattr(column, "type", None))):
        if str(declared).lower().startswith(_NO_CELLS + _DATED * numbers) or _is_fine(column):
            raise SchemaError(
                f"{name} must hold {wanted}, got a column of type {declared}; make {'numbers' if numbers else 'texts'} "
                "of its cells first"
            )


def _types_within(dtype: Any) -> Iterator[Any]:
    """Yield a type and what it encodes: categories of pandas, dictionaries, runs and extensions of Arrow."""
    yield dtype
    for inner in ("pyarrow_dtype", "categories", "value_type", "storage_type", "subtype"):
        found = getattr(dtype, inner, None)
        if found is not None:
            yield from _types_within(getattr(found, "dtype", found))


def _is_fine(column: Any) -> bool:
    kind = column.dtype if isinstance(column, np.ndarray) else None
    return kind is not None and kind.kind == "M" and np.datetime_data(kind)[0] in _FINE


def cells_of(column: Any) -> list[Any]:
    """Return the cells of a column as Python values, each as it is: no cell decides about the type of another.

    A cell that its library cannot make a value of, such as a text that is not UTF-8 or a date after the year 9999, is
    None, and no other is.
    """
    ways = (getattr(column, name, None) for name in ("tolist", "to_pylist", "to_list"))
    whole = next((way for way in ways if way is not None), None)
    try:
        if library_of(column) == "polars":  # whose panics are printed before they can be caught
            return frames.cells_of(column)
        return list(column if whole is None else whole())
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic of Polars is no Exception
        return [_cell(column, place) for place in range(len(column))]


def _cell(column: Any, place: int) -> Any:
    try:
        cell = getattr(column, "iloc", column)[place]
        return cell.as_py() if hasattr(cell, "as_py") else cell
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
