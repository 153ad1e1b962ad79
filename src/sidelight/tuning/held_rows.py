"""Rows that a score holds, compared by content with the private ones: a copy is as private as what it was copied from.

A refusal is for whoever wrote the score and holds the rows; it comes before anything is charged or run. It finds
copies, views, parts, other orders and other number types of the rows, and parts that were cut from the same array. What
it cannot find stays the writer's word: copies of held-out rows that no fit holds, and rows that were changed (scaled,
other columns).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.records import Number, Table
from sidelight.records.row_prints import row_prints, same_rows
from sidelight.records.rows import Wanted
from sidelight.tuning.scores import carried_by

#: Cells of a list that is looked at as rows.
_LISTED = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Held:
    """A matrix, or columns with names, in somebody's hands."""

    cells: Any
    names: tuple[str, ...] | None = None

    def matrix(self, names: tuple[str, ...] | None) -> Any:
        """Return the matrix, or the named columns of it side by side."""
        if names is None or self.names is None:
            return self.cells
        return np.column_stack([self.cells[name] for name in names])


def held_by(function: object) -> list[Held]:
    """Return the matrices, frames and columns that a function visibly carries."""
    return [held for part in carried_by(function) for held in _held(part)]


def rows_of(table: Table) -> list[Held]:
    """Return the number columns of a table that lies in memory, as private rows; nothing of another one."""
    names = tuple(column.name for column in table.schema.columns if isinstance(column, Number))
    if table.rows.length is None or not names:
        return []
    parts = [batch.numbers for batch in table.rows.batches(Wanted(numbers=names))]
    columns = {name: np.concatenate([np.empty(0), *(part[name] for part in parts)]) for name in names}
    return [Held(columns, names), Held(np.column_stack(list(columns.values())))]


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
        yield Held(part)
    elif isinstance(part, list | tuple) and part and all(isinstance(row, list | tuple) for row in part[:2]):
        yield from _listed(part)
    elif isinstance(part, Mapping):
        yield from _named(part, [name for name in part if isinstance(name, str)])
    elif type(part).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow"):
        names = getattr(part, "column_names" if hasattr(part, "column_names") else "columns", None)
        if names is not None and not hasattr(part, "collect"):  # a lazy frame holds no rows yet
            yield from _named(part, [name for name in names if isinstance(name, str)])
        elif hasattr(part, "to_numpy"):
            yield from _named({"": part}, [""])


def _listed(part: Any) -> Iterator[Held]:
    if len(part) * len(part[0]) <= _LISTED:
        try:
            yield Held(np.array(part, np.float64))
        except (TypeError, ValueError):  # not rows of numbers
            return


def _named(part: Any, names: list[str]) -> Iterator[Held]:
    """Give the number columns of a frame or a mapping, by name and as a matrix in their order."""
    found: dict[str, NDArray[Any]] = {}
    for name in names:
        try:
            column = np.asarray(part[name])
        except Exception:  # a column of no numbers, of which nothing may be said
            continue
        if column.ndim == 1 and column.dtype.kind in "fiub":
            found[name] = column
    if not found or len({len(column) for column in found.values()}) != 1:
        return
    yield Held(found, tuple(found))
    yield Held(np.column_stack(list(found.values())))


def _is_part(held: Held, rows: Held) -> bool:
    """Return whether held rows are rows of the private ones."""
    if (held.names is None) != (rows.names is None):
        return False
    if held.names is not None and rows.names is not None:
        common = tuple(name for name in rows.names if name in held.names)
        return bool(common) and _same(held.matrix(common), rows.matrix(common))
    first, second = held.cells, rows.cells
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        if np.may_share_memory(first, second) or _base(first) is _base(second):
            return True
        width = second.shape[1] if second.ndim == 2 else 1
        if (first.ndim == 1 or first.shape[1:] == (1,)) and width > 1:
            return any(_same(first, second[:, place]) for place in range(width))
    return _same(first, second)


def _same(first: Any, second: Any) -> bool:
    columns = [each.shape[1] if len(each.shape) == 2 else 1 for each in (first, second)]
    if columns[0] != columns[1]:
        return False
    part, whole = row_prints(first), row_prints(second)
    return part is not None and whole is not None and same_rows(part, whole, columns=columns[0])


def _base(array: NDArray[Any]) -> Any:
    """Return what owns the memory: two disjoint parts of one array were cut from the same rows."""
    found: Any = array
    while isinstance(found, np.ndarray) and found.base is not None:
        found = found.base
    return found
