"""Map and clip rows by matrix products whose every sum is exact: as fast as BLAS, and a row's integers are its own.

Hand-made because a guarantee depends on it. A product over many rows rounds a row's last bits differently when
another row is added, and a last bit can move a truncation. Here rows are put on a grid (a step is about 2^-16 of
a column's standard deviation) and the map has whole numbers too, so that all products and partial sums are whole
numbers below 2^53: nothing is rounded, in whatever order BLAS adds them (Gaussians proof page, section 6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sidelight.aggregates.bounded import VALUE_LIMIT
from sidelight.aggregates.clipped_vector import squared_lengths
from sidelight.aggregates.coding import Keep
from sidelight.aggregates.mapped_vector import RowMap, clean
from sidelight.aggregates.moments import MomentState
from sidelight.gaussians.point_cloud import Floats
from sidelight.records import Number
from sidelight.records.numbers import nearest_float
from sidelight.records.rows import Batch

#: Rows are cut at this many (a power of two) standard deviations; a row that long is clipped to the radius anyway.
_REACH_BITS = 6
_EXACT_BITS = 52

#: A worse conditioned map needs more digits than the grid has.
_CONDITION = 1 << 10

#: Rows that are worked on at once.
_BLOCK_ROWS = 1 << 11

#: Larger numbers are clamped to this by the general path.
_LARGEST = 2.0**400


@dataclass(frozen=True, eq=False)
class ExactMap:
    """x ↦ trunc(M·v/max(‖v‖, reach)), v = matrix · rint(clip((x - centre)·factors)): whole numbers throughout."""

    matrix: Floats
    factors: Floats
    centre: Floats
    largest: float
    reach: float
    levels: int

    @classmethod
    def of(cls, row_map: RowMap, levels: int) -> ExactMap | None:
        """Return the exact form of a map that `rounded` made; None for a map that the grid is too coarse for."""
        units = _units(row_map.matrix)
        if units is None or not (row_map.matrix - np.diag(np.diag(row_map.matrix))).any():
            return None  # a diagonal map needs no product
        left, right = _bits(len(units))
        scaled = row_map.matrix * units
        step = 2.0 ** (np.frexp(np.abs(scaled).max())[1] - left)
        whole = np.rint(scaled / step)
        if not np.array_equal(whole * step, scaled):
            return None
        grid = 2.0 ** (right - _REACH_BITS)
        reach = nearest_float(row_map.radius) * grid / step
        if not (np.isfinite(reach) and 2.0**-200 < reach < 2.0**200):
            return None
        return cls(whole, grid / units, row_map.centre, 2.0**right, reach, levels)

    def centred(self, columns: Sequence[Floats], whole: Floats | None, rows: slice) -> Floats:
        """Copy some rows minus the centre, one column to a row of the result; from `whole`, if there is one array."""
        if whole is not None:
            part = np.empty((len(columns), min(rows.stop, len(whole)) - rows.start))
            return np.subtract(whole[rows].T, self.centre[:, None], out=part)
        part = np.empty((len(columns), min(rows.stop, len(columns[0])) - rows.start))
        for place, column in enumerate(columns):
            np.subtract(column[rows], self.centre[place], out=part[place])
        return part

    def codes(self, part: Floats) -> Floats:
        """Return the clipped codes of centred rows, as whole numbers in floats; `part` is used up.

        Σ code² <= levels² exactly, as in `clipped_vector`: squares, sums, root, quotient and product err by a relative
        2^-53 each, the sum of squares is an integer, and truncation only shortens.
        """
        part *= self.factors[:, None]
        np.clip(part, -self.largest, self.largest, out=part)
        np.rint(part, out=part)
        mapped = self.matrix @ part
        mapped *= float(self.levels) / np.maximum(np.sqrt(squared_lengths(mapped)), self.reach)
        return np.asarray(np.trunc(mapped, out=mapped))


def rounded(matrix: Floats) -> Floats:
    """Return a map next to this one that `ExactMap` can use; itself where that would change it too much.

    Every map here is as good as any near it: what counts is that rows are mapped, and results mapped back, by the same.
    """
    units = _units(matrix)
    if units is None:
        return matrix
    left, _ = _bits(len(units))
    scaled = matrix * units
    # one bit less than the grid has, because the units of the rounded map may be twice as large
    step = 2.0 ** (np.frexp(np.abs(scaled).max())[1] - (left - 1))
    return np.asarray(np.rint(scaled / step) * step / units)


def grid_rounding(size: int) -> float:
    """Return how far the grid moves a number at most, in standard deviations of its column where rows are white.

    Half a step of the grid, whose unit is a power of two within √2 of the deviation.
    """
    return float(np.sqrt(2.0) * 2.0 ** (_REACH_BITS - _bits(size)[1]) / 2)


def _bits(size: int) -> tuple[int, int]:
    """Return the digits of the map and of a row: a sum of `size` products has at most 52."""
    both = _EXACT_BITS - int(np.ceil(np.log2(max(size, 1)))) if size > 1 else _EXACT_BITS
    return both // 2 + 1, both - both // 2 - 1


def _units(matrix: Floats) -> Floats | None:
    """Return powers of two next to the columns' standard deviations, where rows are white after the map."""
    if matrix.shape[0] != matrix.shape[1]:
        return None
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None
    with np.errstate(all="ignore"):
        deviations = np.sqrt((inverse**2).sum(axis=1))
        units = 2.0 ** np.round(np.log2(deviations))
        if not (np.isfinite(units) & (units > 0)).all():
            return None
        scaled = matrix * units
        if not np.isfinite(scaled).all() or np.linalg.cond(scaled) > _CONDITION:
            return None
    return np.asarray(units)


@dataclass(frozen=True)
class CleanRows:
    """Columns as they are added up: clamped and filled as declared, without missing numbers."""

    columns: tuple[Number, ...]

    def __call__(self, batches: Iterator[Batch]) -> Iterator[tuple[list[Floats], Keep]]:
        """Return columns without missing numbers, and which rows stay (None: all)."""
        plain = all(each.lower is None and each.upper is None and each.fill is None for each in self.columns)
        for batch in batches:
            columns = [batch.numbers[each.name] for each in self.columns]
            if plain and _all_finite(columns):
                yield columns, None
            else:
                yield clean(self.columns, batch)


def folded(state: MomentState, exact: ExactMap, columns: list[Floats], usable: Keep, *, second: bool) -> MomentState:
    """Add a batch; all sums are whole numbers below 2^53, so no order of adding them changes any."""
    rows = len(columns[0]) if usable is None else int(usable.sum())
    total, products = state.total, state.second
    whole = together(columns)
    if (state.rows + rows) * exact.levels**2 >= VALUE_LIMIT:  # the same numbers, in a type that cannot wrap
        total, products = total.astype(object), products.astype(object)
    for start in range(0, len(columns[0]), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        codes = exact.codes(exact.centred(columns, whole, block))
        if usable is not None:
            codes = codes[:, usable[block]]
        total = total + codes.sum(axis=1).astype(np.int64)
        if second:
            products = products + (codes @ codes.T).astype(np.int64)
    return MomentState(state.rows + rows, total, products)


def _all_finite(columns: list[Floats]) -> bool:
    """Whether no number of a batch is missing, infinite or so large that a product with it could overflow."""
    whole = together(columns)
    parts = columns if whole is None else [whole]
    # NaN compares as False
    return all(bool(part.max(initial=0.0) <= _LARGEST and part.min(initial=0.0) >= -_LARGEST) for part in parts)


def together(columns: list[Floats]) -> Floats | None:
    """Return the array whose columns these are, if they are neighbours in memory: it is read line by line."""
    first = columns[0]
    base, line = first.base, 8 * len(columns)
    if base is None or first.strides != (line,) or not len(first):
        return None
    address = first.__array_interface__["data"][0]
    for place, column in enumerate(columns):
        if column.strides != (line,) or column.__array_interface__["data"][0] != address + 8 * place:
            return None
    return np.lib.stride_tricks.as_strided(first, (len(first), len(columns)), (line, 8), writeable=False)
