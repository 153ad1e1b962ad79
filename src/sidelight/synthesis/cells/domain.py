"""The finite public domain of a table: its columns, how many values each has, and which combinations cannot occur.

Everything here is declared or learned from public data; nothing is ever read off private rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, SchemaError, nearest

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Impossible:
    """Combinations of a few columns that are known to have no rows: a public fact such as "no children are widowed".

    `cells` is true where a combination is impossible; one axis a column.
    """

    columns: tuple[str, ...]
    cells: NDArray[np.bool_]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        given = np.array(self.cells, np.bool_)
        given.setflags(write=False)
        object.__setattr__(self, "cells", given)


@dataclass(frozen=True)
class Domain:
    """Column names and sizes; a row is one code in 0..size-1 for each column, a cell one combination of codes.

    Cells are numbered in mixed radix, the last column fastest, as NumPy does it.

    >>> domain = Domain(("sex", "age"), (2, 4))
    >>> domain.cells, domain.shape_of(("age",)), domain.ravel(np.array([[1, 2]])).tolist()
    (8, (4,), [6])
    """

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    impossible: tuple[Impossible, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        object.__setattr__(self, "impossible", tuple(self.impossible))
        if not self.columns or len(self.columns) != len(self.sizes):
            raise SchemaError(f"a domain needs columns, each with a size; got {len(self.columns)}, {len(self.sizes)}")
        if len(set(self.columns)) != len(self.columns):
            raise SchemaError("a domain names each column once")
        small = [name for name, size in zip(self.columns, self.sizes, strict=True) if size < 1]
        if small:
            raise SchemaError(f"column {small[0]!r} has no values; declare at least one category or bin")
        for part in self.impossible:
            if part.cells.shape != self.shape_of(part.columns):
                raise SchemaError(
                    f"the impossible cells of {', '.join(part.columns)} need shape {self.shape_of(part.columns)}, "
                    f"got {part.cells.shape}"
                )
            if part.cells.all():
                raise SchemaError(f"all cells of {', '.join(part.columns)} are declared impossible")

    @cached_property
    def cells(self) -> int:
        """How many combinations there are."""
        return prod(self.sizes)

    def axis(self, column: str) -> int:
        """Return the place of a column."""
        if column not in self.columns:
            raise SchemaError(f"the domain has no column {column!r}; {nearest(column, self.columns)}")
        return self.columns.index(column)

    def axes(self, columns: Iterable[str]) -> tuple[int, ...]:
        """Return the places of columns, in the order given."""
        return tuple(self.axis(column) for column in columns)

    def in_order(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return columns in the domain's order, each once."""
        return tuple(self.columns[place] for place in sorted(set(self.axes(columns))))

    def shape_of(self, columns: Iterable[str]) -> tuple[int, ...]:
        """Return the sizes of columns, in the order given."""
        return tuple(self.sizes[place] for place in self.axes(columns))

    def cells_of(self, columns: Iterable[str]) -> int:
        """Return how many combinations of these columns there are."""
        return prod(self.shape_of(columns))

    def check_codes(self, codes: NDArray[np.integer]) -> Codes:
        """Return an array of rows x columns as int64, or say what is wrong with it. For public rows."""
        given = np.asarray(codes)
        if given.ndim != 2 or given.shape[1] != len(self.columns) or given.dtype.kind not in "iu":
            raise RangeError(
                f"coded rows are integers of shape (rows, {len(self.columns)}), got {given.dtype} {given.shape}"
            )
        if given.size and (given.min() < 0 or bool((given >= np.array(self.sizes)).any())):
            raise RangeError("coded rows have a code outside 0..size-1; code them with the domain's own categories")
        return given.astype(np.int64, copy=False)

    def ravel(self, codes: NDArray[np.integer], columns: Sequence[str] | None = None) -> Codes:
        """Return the cell number of each row among the cells of some columns (all of them, if not said)."""
        names = self.columns if columns is None else columns
        cells = np.zeros(len(codes), np.int64)
        for place, size in zip(self.axes(names), self.shape_of(names), strict=True):
            cells *= size
            cells += codes[:, place]
        return cells

    def unravel(self, cells: NDArray[np.integer]) -> Codes:
        """Return the codes of cells of the whole domain: one row each, one column a column."""
        rest = np.asarray(cells, np.int64).copy()
        codes = np.empty((len(rest), len(self.columns)), np.int64)
        for place in reversed(range(len(self.columns))):
            rest, codes[:, place] = np.divmod(rest, self.sizes[place])
        return codes

    @cached_property
    def possible(self) -> NDArray[np.bool_] | None:
        """Return for each cell whether it can occur, as a flat array; None if nothing was declared impossible."""
        if not self.impossible:
            return None
        mask = np.ones(self.sizes, np.bool_)
        for part in self.impossible:
            order = self.in_order(part.columns)
            cells = np.transpose(part.cells, [part.columns.index(name) for name in order])
            shape = [size if name in order else 1 for name, size in zip(self.columns, self.sizes, strict=True)]
            mask &= ~cells.reshape(shape)
        if not mask.any():
            raise SchemaError("all cells of the domain are declared impossible")
        return mask.ravel()

    def possible_rows(self, codes: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return for each coded row whether it can occur."""
        found = np.ones(len(codes), np.bool_)
        for part in self.impossible:
            found &= ~part.cells.ravel()[self.ravel(codes, part.columns)]
        return found


@dataclass(frozen=True)
class CellNoise:
    """The columns of a measured marginal, none of them grouped, and the standard deviation of the noise of a cell."""

    columns: tuple[str, ...]
    deviation: float


def cell_deviation(columns: tuple[str, ...], domain: Domain, noises: Iterable[CellNoise]) -> float:
    """Return the standard deviation of one cell of some columns; infinite if no measured marginal contains them.

    A cell of the columns S is a sum of cells(T)/cells(S) cells of a measured marginal T that contains them.

    >>> domain = Domain(("a", "b"), (2, 3))
    >>> round(cell_deviation(("a",), domain, [CellNoise(("a", "b"), 2.0)]), 6)
    3.464102
    """
    information = 0.0
    for each in noises:
        if set(columns) <= set(each.columns):
            summed = prod(domain.shape_of(each.columns)) / prod(domain.shape_of(columns))
            information += 1.0 / (each.deviation**2 * summed)
    return 1.0 / sqrt(information) if information else inf
