"""Rows that a score holds, compared by content with the private ones: a copy is as private as what it was copied from.

A refusal is for whoever wrote the score and holds the rows; it comes before anything is charged or run. It finds
copies, views, parts, other orders and other number types of the rows or of one of their columns, and parts that were
cut from the same array. What it cannot find stays the writer's word: copies of held-out rows that no fit holds, and
rows that were changed (scaled, rounded).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.records import Number, Table
from sidelight.records.row_prints import Prints, row_prints, same_rows
from sidelight.records.rows import Wanted
from sidelight.tuning.scores import carried_by

#: Cells of a list that is looked at as rows.
_LISTED = 1 << 20
#: Numbers of a column that are looked up in another one first.
_LOOKED_UP = 64


@dataclass(frozen=True, eq=False, repr=False)
class Held:
    """A matrix, a column, or columns side by side, in somebody's hands."""

    cells: Any

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self.cells.shape[1]) if len(self.cells.shape) == 2 else 1

    @cached_property
    def prints(self) -> Prints | None:
        """The rows by content."""
        return row_prints(self.cells)

    @cached_property
    def columns(self) -> tuple[tuple[Prints, Prints], ...]:
        """Each column by content, as it is and sorted; none whose numbers are few, as all of a sparse matrix are."""
        if not isinstance(self.cells, np.ndarray) or self.cells.ndim not in (1, 2):
            return ()
        every = [self.cells] if self.cells.ndim == 1 else list(self.cells.T)
        prints = [found for found in map(row_prints, every) if found is not None and len(found)]
        both = [(found, np.unique(found)) for found in prints]
        return tuple((found, distinct) for found, distinct in both if 2 * len(distinct) >= len(found))


def held_by(function: object) -> list[Held]:
    """Return the matrices, frames and columns that a function visibly carries."""
    return [held for part in carried_by(function) for held in _held(part)]


def rows_of(table: Table) -> list[Held]:
    """Return the number columns of a table that lies in memory, as private rows; nothing of another one."""
    names = tuple(column.name for column in table.schema.columns if isinstance(column, Number))
    if table.rows.length is None or not names:
        return []
    parts = [batch.numbers for batch in table.rows.batches(Wanted(numbers=names))]
    columns = [np.concatenate([np.empty(0), *(part[name] for part in parts)]) for name in names]
    return [Held(np.column_stack(columns))]


def refuse_private_rows(functions: Iterable[object], private: Iterable[Held]) -> None:
    """Refuse functions that hold rows which are, by memory or by content, among the private ones.

    Raises:
        RangeError: a score holds private rows. No count and no cell is told.
    """
    known = list(private)
    for function in functions:
        for held in held_by(function):
            if any(_is_part(held, rows) for rows in known):
                raise RangeError(
                    "the score holds private rows: an array or frame that was cut from the rows that are fitted, or "
                    "has their contents (a copy is as private as they are). Nobody pays for a score on private rows; "
                    "score on public rows, in an array of their own, or ask a PrivateScore"
                )


def _held(part: Any) -> Iterator[Held]:
    if isinstance(part, np.ndarray) or hasattr(part, "tocsr"):
        yield from _numbers(part) if part.dtype == object else [Held(part)]
    elif isinstance(part, list | tuple) and part and all(isinstance(row, list | tuple) for row in part[:2]):
        if len(part) * len(part[0]) <= _LISTED:
            yield from _numbers(part)
    elif isinstance(part, Mapping):
        yield from _named(part, list(part))
    elif type(part).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow"):
        names = getattr(part, "column_names" if hasattr(part, "column_names") else "columns", None)
        if names is not None and not hasattr(part, "collect"):  # a lazy frame holds no rows yet
            yield from _named(part, list(names))
        elif hasattr(part, "to_numpy"):
            yield from _named({"": part}, [""])


def _numbers(part: Any) -> Iterator[Held]:
    try:
        yield Held(np.array(part, np.float64))
    except (TypeError, ValueError):  # not rows of numbers
        return


def _named(part: Any, names: list[Any]) -> Iterator[Held]:
    """Return the number columns of a frame or a mapping, in their order."""
    found: list[NDArray[Any]] = []
    for name in names:
        try:
            column = np.asarray(part[name])
        except Exception:  # a column of no numbers, of which nothing may be said
            continue
        if column.ndim == 1 and column.dtype.kind in "fiub":
            found.append(column)
    if found and len({len(column) for column in found}) == 1:
        yield Held(np.column_stack(found))


def _is_part(held: Held, rows: Held) -> bool:
    """Return whether held rows, or a column of them, are among the private ones: by memory or by content."""
    first, second = held.cells, rows.cells
    arrays = isinstance(first, np.ndarray) and isinstance(second, np.ndarray)
    if arrays and (np.may_share_memory(first, second) or _base(first) is _base(second)):
        return True
    known = held.width == rows.width and held.prints is not None and rows.prints is not None
    if known and same_rows(held.prints, rows.prints, columns=held.width):  # type: ignore[arg-type]  # neither is None
        return True
    # Rows with other columns beside the private ones, or with some of them only.
    return any(_is_column(one, other) for one, _ in held.columns for other in rows.columns)


def _is_column(one: Prints, other: tuple[Prints, Prints]) -> bool:
    """Return whether a column is part of another: a few numbers are looked up before all are compared."""
    whole, distinct = other
    few = one[:: max(1, len(one) // _LOOKED_UP)]
    found = distinct[np.minimum(np.searchsorted(distinct, few), len(distinct) - 1)] == few
    return bool(2 * found.sum() >= len(few)) and same_rows(one, whole, columns=1)


def _base(array: NDArray[Any]) -> Any:
    """Return what owns the memory: two disjoint parts of one array were cut from the same rows."""
    found: Any = array
    while isinstance(found, np.ndarray) and found.base is not None:
        found = found.base
    return found
