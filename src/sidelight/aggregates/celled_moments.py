"""Moments of each cell of a public partition of the rows, in one pass, each cell by its own affine map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CodeArrays, Keep
from sidelight.aggregates.collect import collect
from sidelight.aggregates.mapped_moments import as_table, mapped_aggregate
from sidelight.aggregates.mapped_vector import Floats, MappedVector, RowMap, Unusable, clean
from sidelight.aggregates.moments import ClippedMoments, Moments, MomentState
from sidelight.errors import RangeError, SourceError
from sidelight.records import Table
from sidelight.records.rows import Batch, Wanted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    from sidelight.aggregates.coding import Frame


class CellRule(Protocol):
    """A public partition of the rows: which of `cells` disjoint cells a row belongs to, by that row alone."""

    @property
    def cells(self) -> int:
        """How many cells there are."""

    def label(self, columns: Sequence[Floats]) -> NDArray[np.int64]:
        """Return each row's cell in 0..cells-1, or -1 for none; columns come clamped, without NaN.

        No row may look at another, in its last bits either: use elementwise steps and `affine`, no matrix product.
        """


@dataclass(frozen=True, kw_only=True)
class CelledVector:
    """A row's cell, and the row as an integer vector by that cell's map. Rows of no cell are left out."""

    parts: tuple[MappedVector, ...]
    rule: CellRule

    def __post_init__(self) -> None:
        if len(self.parts) != self.rule.cells or not self.parts:
            raise RangeError(f"there are {self.rule.cells} cells and {len(self.parts)} maps; each cell needs one")
        if len({part.width for part in self.parts}) != 1:
            raise RangeError("the maps of all cells must have the same number of rows")

    @property
    def numbers(self) -> tuple[str, ...]:
        """The number columns."""
        return self.parts[0].numbers

    @property
    def texts(self) -> tuple[str, ...]:
        """No text columns are read."""
        return ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Those of a vector, and the cells."""
        return (*self.parts[0].ranges, (0, len(self.parts) - 1))

    @property
    def drops(self) -> bool:
        """Rows of no cell are left out."""
        return True

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Name the cells, then map the rows of each."""
        columns, usable = clean(self.parts[0].columns, batch)
        with np.errstate(all="ignore"):
            cells = np.asarray(self.rule.label(columns), np.int64)
        kept: NDArray[np.bool_] = (cells >= 0) & (cells < len(self.parts))
        if usable is not None and self.parts[0].drops:
            kept &= usable
        codes = np.zeros((self.parts[0].width, batch.length), np.int64)
        for cell, part in enumerate(self.parts):
            here = np.flatnonzero(kept & (cells == cell))
            if here.size:
                mapped = part.codes([column[here] for column in columns], None if usable is None else usable[here])
                codes[:, here] = mapped
        return (*codes, cells), kept

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        """Refuse: a rule is a function of arrays."""
        raise SourceError("cells by a rule are found in batches of arrays; load the rows of a table with persons first")


@dataclass(frozen=True, kw_only=True)
class CelledMoments:
    """The moments of each cell.

    Guarantee: adding or removing a unit of at most k rows moves the cells by k_1 + k_2 + ... <= k rows, each as
    `ClippedMoments` says. So mechanisms that release every cell with one price b, each for its k rows, cost b together
    (covariance proof page, Theorem 2). Replacing a row moves two cells, so this is for adding and removing only.
    """

    coding: CelledVector
    cells: tuple[ClippedMoments, ...]

    @property
    def wide(self) -> bool:
        """Batches only."""
        return True

    def empty(self) -> tuple[MomentState, ...]:
        """Return the moments of no rows."""
        return tuple(cell.empty() for cell in self.cells)

    def fold(self, state: tuple[MomentState, ...], codes: CodeArrays) -> tuple[MomentState, ...]:
        """Add each row to its cell."""
        places = [np.flatnonzero(codes[-1] == cell) for cell in range(len(self.cells))]
        return tuple(
            cell.fold(part, tuple(code[here] for code in codes[:-1]))
            for cell, part, here in zip(self.cells, state, places, strict=True)
        )

    def merge(self, first: tuple[MomentState, ...], second: tuple[MomentState, ...]) -> tuple[MomentState, ...]:
        """Add cell by cell."""
        return tuple(cell.merge(a, b) for cell, a, b in zip(self.cells, first, second, strict=True))

    def finish(self, state: tuple[MomentState, ...]) -> tuple[Moments, ...]:
        """Return the moments of each cell."""
        return tuple(cell.finish(part) for cell, part in zip(self.cells, state, strict=True))

    def query(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> tuple[MomentState, ...]:
        """Never asked for: the coding refuses engines."""
        raise SourceError("cells by a rule are found in batches of arrays")


def moments_by_cell(
    rows: Table | NDArray[Any],
    columns: Sequence[str] | None = None,
    *,
    maps: Sequence[RowMap],
    rule: CellRule,
    levels: int = 1 << 14,
    unusable: Unusable = "drop",
) -> tuple[Moments, ...]:
    """Return the moments of every cell of a public partition in one pass, each cell by its own map.

    Guarantee: as `CelledMoments` says, for adding or removing a unit: the cells together cost what one of them costs.
    """
    table = as_table(rows)
    aggregates = tuple(
        mapped_aggregate(table, columns, row_map=row_map, levels=levels, unusable=unusable) for row_map in maps
    )
    parts = tuple(each.coding for each in aggregates if isinstance(each.coding, MappedVector))
    return collect(table, CelledMoments(coding=CelledVector(parts=parts, rule=rule), cells=aggregates))
