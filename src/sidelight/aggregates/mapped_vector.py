"""Rows through a fixed affine map as integer vectors of bounded length, clip(A(x - c), radius), and their moments.

The map and the centre are public, or were released before. A row's integers depend on no other row: the map is applied
column by column (one matrix product over all rows would change last bits of rows when another is added, and a last bit
can move a truncation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.aggregates.clipped_vector import clipped_codes, limits, lower_clipped
from sidelight.aggregates.coding import CodeArrays, Coding, Keep
from sidelight.aggregates.collect import collect
from sidelight.aggregates.fixed_point import is_missing
from sidelight.aggregates.moments import ClippedMoments, Moments, MomentState
from sidelight.errors import RangeError, SourceError
from sidelight.guarantees.claims import Neighbours
from sidelight.records import Number, Table
from sidelight.records.numbers import LARGEST_FLOAT, Real, exact_number, nearest_float
from sidelight.records.rows import Batch, Wanted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    from sidelight.aggregates.coding import Frame

Floats = NDArray[np.float64]

#: Products of a number below 2**400 with an entry of the map stay far from overflow.
_ENTRY_LIMIT = 2.0**200
#: Entries of a working array: it stays in the cache.
_BLOCK_CELLS = 1 << 15


def affine(columns: Sequence[Floats], matrix: Floats, centre: Floats) -> Floats:
    """Return A(x - c) with one row an output and one column a record, so that each record's bits are its own.

    >>> affine([np.array([1.0, 2.0])], np.array([[2.0], [-1.0]]), np.array([1.0])).tolist()
    [[0.0, 2.0], [0.0, -1.0]]
    """
    rows = len(columns[0])
    if matrix.shape[0] == matrix.shape[1] and not (matrix - np.diag(np.diag(matrix))).any():
        # the other terms are zeros, which change no number
        return np.stack([(column - centre[i]) * matrix[i, i] for i, column in enumerate(columns)])
    out = np.zeros((len(matrix), rows))
    step = max(1, _BLOCK_CELLS // len(matrix))
    for start in range(0, rows, step):
        part = out[:, start : start + step]
        term = np.empty_like(part)
        for place, column in enumerate(columns):
            shifted = column[start : start + step] - centre[place]
            np.multiply(matrix[:, place, None], shifted, out=term)
            part += term
    return out


@dataclass(frozen=True, eq=False)
class RowMap:
    """The map x ↦ A(x - centre) and the length that its results are clipped to; all public."""

    centre: Floats
    matrix: Floats
    radius: Fraction

    @classmethod
    def of(cls, width: int, *, centre: ArrayLike | None, matrix: ArrayLike | None, radius: Real) -> RowMap:
        """Check and freeze a map of `width` columns; without a matrix nothing is turned, without a centre it is 0."""
        middle = np.zeros(width) if centre is None else np.array(centre, np.float64)
        turn = np.eye(width) if matrix is None else np.array(matrix, np.float64)
        if middle.shape != (width,) or not np.isfinite(middle).all() or (np.abs(middle) > _ENTRY_LIMIT).any():
            raise RangeError(f"the centre must be {width} finite numbers within 2**200 of 0, got shape {middle.shape}")
        if turn.ndim != 2 or turn.shape[1] != width or not len(turn):
            raise RangeError(f"the map must be a matrix with {width} columns, got shape {turn.shape}")
        if not np.isfinite(turn).all() or (np.abs(turn) > _ENTRY_LIMIT).any():
            raise RangeError("the map must hold finite numbers within 2**200 of 0")
        length = exact_number(radius, name="radius")
        if not Fraction(2) ** -100 < length < Fraction(2) ** 100:
            raise RangeError(f"radius must be positive, between 2**-100 and 2**100, got {radius}")
        middle.flags.writeable = turn.flags.writeable = False
        return cls(middle, turn, length)


@dataclass(frozen=True, kw_only=True)
class MappedVector(Coding):
    """Number columns as one integer vector: map, scale by the radius, clip the length, truncate."""

    columns: tuple[Number, ...]
    row_map: RowMap
    levels: int

    def __post_init__(self) -> None:
        if not self.columns or len({column.name for column in self.columns}) != len(self.columns):
            raise RangeError("a mapped vector needs at least one column, and each column once")
        if self.levels < 1 or self.levels**2 * (self.width + 16) > 2**52:
            raise RangeError(
                f"levels must be at least 1, and levels**2 * (entries + 16) at most 2**52, got {self.levels} levels "
                f"and {self.width} entries"
            )

    @property
    def width(self) -> int:
        return len(self.row_map.matrix)

    @property
    def radius(self) -> Fraction:
        """The length that mapped rows are clipped to."""
        return self.row_map.radius

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return ((-self.levels, self.levels),) * self.width

    @property
    def drops(self) -> bool:
        """A row that cannot be used is left out."""
        return True

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        columns, usable = clean(self.columns, batch)
        return self.codes(columns, usable), usable

    def codes(self, columns: Sequence[Floats], usable: Keep) -> CodeArrays:
        """Code clean columns; rows that cannot be used are zero."""
        with np.errstate(all="ignore"):  # no warning that a value decides
            mapped = affine(columns, self.row_map.matrix, self.row_map.centre)
            mapped *= nearest_float(1 / self.radius)
            codes = clipped_codes(list(mapped), self.levels)
        return codes if usable is None else tuple(code * usable for code in codes)

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        import narwhals.stable.v2 as nw

        usable: Any = None
        shifted = []
        for place, column in enumerate(self.columns):
            values = nw.col(wanted.number_alias(column.name))
            missing = is_missing(values)
            low, high, stand_in = limits(column)
            part = nw.when(missing).then(nw.lit(stand_in)).otherwise(values)
            bad = missing if column.fill is None else None
            for beyond, bound in ((part > LARGEST_FLOAT, column.upper), (part < -LARGEST_FLOAT, column.lower)):
                if bound is None:
                    bad = beyond if bad is None else bad | beyond
            if bad is not None:
                usable = ~bad if usable is None else usable & ~bad
            centre = float(self.row_map.centre[place])
            shifted.append((part.clip(low, high) - centre).alias(f"shifted{place}"))
        frame = frame.with_columns(*shifted)
        mapped = []
        for row, name in zip(self.row_map.matrix, names, strict=True):
            total: Any = nw.lit(0.0)
            for place, entry in enumerate(row):
                total = total + nw.col(f"shifted{place}") * float(entry)
            mapped.append((total * nearest_float(1 / self.radius)).alias(name))
        if usable is not None:
            frame = frame.with_columns(usable.alias("usable"))
        return lower_clipped(frame.with_columns(*mapped), names, self.levels), usable


def clean(columns: Sequence[Number], batch: Batch) -> tuple[list[Floats], Keep]:
    """Return the columns clamped and filled, without NaN, and which rows can be used (None: all)."""
    usable: Keep = None
    cleaned = []
    for column in columns:
        values = batch.numbers[column.name]
        low, high, stand_in = limits(column)
        bad = np.isnan(values)
        values = np.where(bad, stand_in, values)
        if column.fill is not None:
            bad = np.zeros(len(values), bool)
        if column.upper is None:
            bad |= values > LARGEST_FLOAT
        if column.lower is None:
            bad |= values < -LARGEST_FLOAT
        if bad.any():
            usable = ~bad if usable is None else usable & ~bad
        cleaned.append(np.minimum(np.maximum(values, low), high))
    return cleaned, usable


def mapped_aggregate(
    table: Table,
    columns: Sequence[str] | None,
    *,
    row_map: RowMap,
    levels: int = 1 << 14,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> ClippedMoments:
    """Return the aggregate of moments of mapped rows; `finish(empty())` tells sensitivities without any row."""
    coding = MappedVector(columns=_chosen(table, columns), row_map=row_map, levels=levels)
    schema = table.schema
    return ClippedMoments(coding=coding, rows_per_unit=schema.rows_per_unit, unit=schema.unit, neighbours=neighbours)


def as_table(rows: Table | NDArray[Any]) -> Table:
    """Make a table of an array, with columns x0, x1, ... and the row as its unit; return a table unchanged."""
    if isinstance(rows, Table):
        return rows
    if not isinstance(rows, np.ndarray):  # the type of an array made of a list would be what one cell says
        raise RangeError(
            f"rows must be a NumPy array or an sl.Table, got {type(rows).__name__}; write np.array(rows, dtype=float), "
            "or sl.Table(rows, schema=[...])"
        )
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise RangeError(f"rows must be an array with one row a record and at least one column, got {rows.ndim} axes")
    return Table(rows, schema=[Number(f"x{place}") for place in range(rows.shape[1])])


def _chosen(table: Table, columns: Sequence[str] | None) -> tuple[Number, ...]:
    if columns is None:
        return tuple(column for column in table.schema.columns if isinstance(column, Number))
    return tuple(table.schema.number(name) for name in columns)


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
class CelledVector(Coding):
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
        return self.parts[0].numbers

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return (*self.parts[0].ranges, (0, len(self.parts) - 1))

    drops = True  # rows of no cell

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

    @property
    def mark_ranges(self) -> tuple[tuple[int, int], ...]:
        return ((-(2**31), 2**31 - 1), (0, 2**32 - 1)) * len(self.numbers)

    def marks(self, batch: Batch) -> CodeArrays:
        """Return the bits of the numbers: maps differ from pass to pass, and the rows that count must not."""
        columns, _ = clean(self.parts[0].columns, batch)
        bits = [(column + 0.0).view(np.int64) for column in columns]  # 0 for -0
        return tuple(half for each in bits for half in (each >> 32, each & 0xFFFFFFFF))

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        raise SourceError("cells by a rule are found in batches of arrays; load the rows of a table with persons first")


@dataclass(frozen=True, kw_only=True)
class CelledMoments:
    """The moments of each cell.

    Guarantee: adding or removing a unit of at most k rows moves the cells by k_1 + k_2 + ... <= k rows, each as
    `ClippedMoments` says. So mechanisms that release every cell with one price b, each for its k rows, cost b together
    (covariance proof page, Theorem 2), over several passes, too: which rows of a unit count does not depend on maps.
    Replacing a row moves two cells, so this is for adding and removing only.
    """

    coding: CelledVector
    cells: tuple[ClippedMoments, ...]

    wide = True

    def empty(self) -> tuple[MomentState, ...]:
        return tuple(cell.empty() for cell in self.cells)

    def fold(self, state: tuple[MomentState, ...], codes: CodeArrays) -> tuple[MomentState, ...]:
        places = [np.flatnonzero(codes[-1] == cell) for cell in range(len(self.cells))]
        return tuple(
            cell.fold(part, tuple(code[here] for code in codes[:-1]))
            for cell, part, here in zip(self.cells, state, places, strict=True)
        )

    def merge(self, first: tuple[MomentState, ...], second: tuple[MomentState, ...]) -> tuple[MomentState, ...]:
        return tuple(cell.merge(a, b) for cell, a, b in zip(self.cells, first, second, strict=True))

    def finish(self, state: tuple[MomentState, ...]) -> tuple[Moments, ...]:
        return tuple(cell.finish(part) for cell, part in zip(self.cells, state, strict=True))

    def query(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> tuple[MomentState, ...]:
        raise SourceError("cells by a rule are found in batches of arrays")


def moments_by_cell(
    rows: Table | NDArray[Any],
    columns: Sequence[str] | None = None,
    *,
    maps: Sequence[RowMap],
    rule: CellRule,
    levels: int = 1 << 14,
) -> tuple[Moments, ...]:
    """Return the moments of every cell of a public partition in one pass, each cell by its own map.

    Guarantee: as `CelledMoments` says, for adding or removing a unit: the cells together cost what one of them costs.
    """
    table = as_table(rows)
    aggregates = tuple(mapped_aggregate(table, columns, row_map=row_map, levels=levels) for row_map in maps)
    parts = tuple(each.coding for each in aggregates if isinstance(each.coding, MappedVector))
    return collect(table, CelledMoments(coding=CelledVector(parts=parts, rule=rule), cells=aggregates))
