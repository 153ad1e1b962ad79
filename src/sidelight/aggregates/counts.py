"""How many rows fall into each cell of a public partition: histograms, category counts, marginals, all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.coding import (
    CategoryCoding,
    CodeArrays,
    Coding,
    CombinedCoding,
    NumberCoding,
    cells_of,
)
from sidelight.aggregates.collect import Lowering, collect
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.errors import RangeError
from sidelight.grid import Grid
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.intervals import root_above
from sidelight.guarantees.units import Unit
from sidelight.records import Table
from sidelight.records.rows import collected

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

#: The most cells of a dense table of counts (128 MB), and the most groups of a released table: with names and intervals
#: a group takes up to a kilobyte. What runs after a charge must fit into the memory of a small machine.
MAX_CELLS = 1 << 24
MOST_GROUPS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class CellCounts:
    """Counts of the cells that the ranges of a coding span, as an array with one axis a range.

    Guarantee: a row lies in one cell or in none. With at most k rows a unit, adding or removing a unit moves the counts
    by at most k in l1.
    """

    coding: Coding
    rows_per_unit: int
    unit: Unit

    def __post_init__(self) -> None:
        if prod(self.shape) > MAX_CELLS:
            raise RangeError(
                f"the counts would have {prod(self.shape)} cells, at most {MAX_CELLS} fit; "
                "use fewer columns, fewer categories or a coarser grid"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(last - first + 1 for first, last in self.coding.ranges)

    wide = False  # engines group faster than they hand rows over
    counts_rows = True

    @property
    def folds_in_parallel(self) -> bool:
        """Whether a state is small enough for every thread to have its own."""
        return prod(self.shape) <= 1 << 20

    def empty(self) -> NDArray[np.int64]:
        return np.zeros(prod(self.shape), np.int64)

    def fold_repeated(self, state: NDArray[np.int64], codes: CodeArrays, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count rows that each stand for several equal ones."""
        np.add.at(state, self._cells(codes), times)
        return state

    def _cells(self, codes: CodeArrays) -> NDArray[np.int64]:
        shifted = (code - first for code, (first, _) in zip(codes, self.coding.ranges, strict=True))
        return cells_of(shifted, self.shape, len(codes[0]))

    def fold(self, state: NDArray[np.int64], codes: CodeArrays) -> NDArray[np.int64]:
        cells = self._cells(codes)
        if len(state) <= 4 * len(cells):
            state += np.bincount(cells, minlength=len(state))
        else:
            places, counts = np.unique(cells, return_counts=True)
            state[places] += counts
        return state

    def merge(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
        return first + second

    def finish(self, state: NDArray[np.int64]) -> Bounded:
        moved = Fraction(self.rows_per_unit)
        return Bounded(state.reshape(self.shape), moved, "l1", Neighbours.ADD_REMOVE, self.unit)

    def query(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> NDArray[np.int64]:
        import narwhals.stable.v2 as nw

        cell: Any = nw.lit(0, nw.Int64)
        for column, (first, _), size in zip(columns, self.coding.ranges, self.shape, strict=True):
            cell = cell * size + (nw.col(column) - first)
        found = collected(frame.select(cell.alias("cell")).group_by("cell").agg(nw.len().alias("rows")))
        state = self.empty()
        state[found["cell"].to_numpy()] = found["rows"].to_numpy()
        return state


#: The smallest multiple of 2**-40 above √2: irrational sensitivities are rounded up.
SQRT2 = root_above(2, bits=40)


def cell_counts(
    table: Table,
    columns: Sequence[str],
    *,
    grids: Mapping[str, Grid] | None = None,
    lowering: Lowering = "auto",
) -> Bounded:
    """Count the rows of each combination of cells: one axis a column.

    A category's axis has its labels in order (`Category.labels`), a number's the cells of its public grid.

    >>> from sidelight.records import Category, Number
    >>> people = Table({"sex": ["F", "M", "F", None]}, schema=[Category("sex", ["F", "M"])])
    >>> cell_counts(people, ["sex"]).value.tolist()
    [2, 1, 1]
    """
    schema, steps = table.schema, dict(grids or {})
    parts: list[Coding] = [
        NumberCoding(name, FixedPoint.on_grid(schema.number(name), steps[name]))
        if name in steps
        else CategoryCoding(schema.category(name))
        for name in columns
    ]
    if not parts:
        raise RangeError("counts need at least one column; `group_counts` counts all rows")
    counts = CellCounts(
        coding=parts[0] if len(parts) == 1 else CombinedCoding(tuple(parts)),
        rows_per_unit=schema.rows_per_unit,
        unit=schema.unit,
    )
    return collect(table, counts, lowering=lowering)
