"""Counts, sums and second moments of length-clipped rows, in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import CodeArrays
from sidelight.aggregates.collect import Lowering, collect
from sidelight.aggregates.counts import SQRT2
from sidelight.aggregates.engine_sums import engine_sums
from sidelight.errors import RangeError, nearest
from sidelight.guarantees.neighbours import Neighbours, Unit
from sidelight.records import Table
from sidelight.records.numbers import Real, exact_number

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

#: Exact products in float64: rows to a block times levels**2 stays within 2**53.
_EXACT = 1 << 53
_BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class Moments:
    """What one pass over clipped rows gives, in units of radius/levels (total) and its square (second).

    One unit moves all three at once: a mechanism that releases more than one of them adds their costs up.
    """

    count: Bounded
    total: Bounded
    second: Bounded
    scale: Fraction


@dataclass(frozen=True)
class MomentState:
    """Rows, sums and products as Python integers (object arrays), which cannot wrap."""

    rows: int
    total: NDArray[Any]
    second: NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class ClippedMoments:
    """Σ 1, Σ x and Σ x xᵀ over integer vectors x of length at most M.

    Guarantee: with at most k rows a unit, adding or removing a unit moves the count by k, the sum by kM (l2) and the
    second moment by kM² (Frobenius: ‖x xᵀ‖ = ‖x‖²; the triangle inequality). Replacing one moves them by k (a row may
    be dropped), 2kM and √2 kM² (both matrices are positive semidefinite, so their inner product is not negative).
    """

    coding: ClippedVector
    rows_per_unit: int
    unit: Unit
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    @property
    def wide(self) -> bool:
        """One matrix product a batch costs less than d²/2 sums in an engine."""
        return True

    def empty(self) -> MomentState:
        """Return the moments of no rows."""
        d = len(self.coding.columns)
        return MomentState(0, np.zeros(d, object), np.zeros((d, d), object))

    def fold(self, state: MomentState, codes: CodeArrays) -> MomentState:
        """Add a batch: BLAS sums integers exactly while every partial sum is below 2**53."""
        block = min(_BLOCK_ROWS, _EXACT // self.coding.levels**2)
        rows, total, second = state.rows + len(codes[0]), state.total, state.second
        for start in range(0, len(codes[0]), block):
            part = np.stack([code[start : start + block].astype(np.float64) for code in codes])
            total = total + part.sum(axis=1).astype(np.int64).astype(object)
            second = second + (part @ part.T).astype(np.int64).astype(object)
        return MomentState(rows, total, second)

    def merge(self, first: MomentState, second: MomentState) -> MomentState:
        """Add the moments of two sets of rows."""
        return MomentState(first.rows + second.rows, first.total + second.total, first.second + second.second)

    def finish(self, state: MomentState) -> Moments:
        """Return the moments with their sensitivities."""
        k, length = Fraction(self.rows_per_unit), self.coding.levels
        replaced = self.neighbours is not Neighbours.ADD_REMOVE
        return Moments(
            count=Bounded(state.rows, k, "l1", self.neighbours, self.unit),
            total=Bounded(state.total, (2 if replaced else 1) * k * length, "l2", self.neighbours, self.unit),
            second=Bounded(state.second, (SQRT2 if replaced else 1) * k * length**2, "l2", self.neighbours, self.unit),
            scale=self.coding.radius / length,
        )

    def query(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> MomentState:
        """Let the engine sum every product."""
        import narwhals.stable.v2 as nw

        length = self.coding.levels
        terms = {f"s{i}": (nw.col(name), -length, length) for i, name in enumerate(columns)}
        for i, first in enumerate(columns):
            for j, second in enumerate(columns[: i + 1]):
                terms[f"p{i}_{j}"] = (nw.col(first) * nw.col(second), -(length**2), length**2)
        rows, sums = engine_sums(frame, terms)
        state = self.empty()
        for i in range(len(columns)):
            state.total[i] = sums[f"s{i}"]
            for j in range(i + 1):
                state.second[i, j] = state.second[j, i] = sums[f"p{i}_{j}"]
        return MomentState(rows, state.total, state.second)


def clipped_moments(
    table: Table,
    columns: Sequence[str],
    *,
    radius: Real,
    levels: int = 1 << 14,
    centres: Mapping[str, Real] | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    lowering: Lowering = "auto",
) -> Moments:
    """Count, sum and second moment of rows clipped to a public Euclidean length.

    Guarantee: as `ClippedMoments` proves, exactly. Accuracy: entries are truncated to radius/levels.

    Args:
        table: the rows and their schema.
        columns: declared `Number` columns; their bounds, if any, clamp first.
        radius: the public length that centred rows are clipped to.
        levels: how many integer steps the radius has.
        centres: public numbers to subtract, by column; 0 where none is given.
        neighbours: which data sets count as neighbours.
        lowering: for tests: "batches" or "engine".

    >>> from sidelight.records import Number
    >>> points = Table(np.array([[3.0, 4.0], [0.3, 0.4]]), schema=[Number("a"), Number("b")])
    >>> clipped_moments(points, ["a", "b"], radius=1, levels=10).second.value.tolist()
    [[45, 60], [60, 80]]
    """
    middle = {name: exact_number(value, name=f"centre of {name!r}") for name, value in (centres or {}).items()}
    for name in middle:
        if name not in columns:
            raise RangeError(f"there is a centre for {name!r}, which is not summed; {nearest(name, columns)}")
    length = exact_number(radius, name="radius")
    if length <= 0:
        raise RangeError(f"radius must be positive, got {radius}")
    moments = ClippedMoments(
        coding=ClippedVector(
            columns=tuple(table.schema.number(name) for name in columns),
            radius=length,
            levels=levels,
            centres=tuple(middle.get(name, Fraction(0)) for name in columns),
        ),
        rows_per_unit=table.schema.rows_per_unit,
        unit=table.schema.unit,
        neighbours=neighbours,
    )
    return collect(table, moments, lowering=lowering)
