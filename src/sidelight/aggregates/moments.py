"""Counts, sums and second moments of length-clipped rows, in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import VALUE_LIMIT, Bounded, Norm, TraceNorm
from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import CodeArrays, Coding
from sidelight.aggregates.collect import Lowering, collect
from sidelight.aggregates.counts import SQRT2
from sidelight.aggregates.sums import engine_products
from sidelight.errors import RangeError, nearest
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.units import Unit
from sidelight.records import Table
from sidelight.records.numbers import Real, exact_number
from sidelight.records.rows import BATCH_ROWS, Batch

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

#: Exact products in float64: rows to a block times levels**2 stays within 2**53.
_EXACT = 1 << 53
#: A matrix of this many columns has 32 MB, and its release as text 90 MB; several are held at a time.
MOST_COLUMNS = 2000
#: Entries of a block of rows, and rows at least; entries of the work space of whole batches, which is used again and
#: again (threads of a BLAS wait busily for the next product, so few large ones cost less); rows of the matrix that are
#: added at once.
_BLOCK_CELLS = 1 << 22
_LEAST_ROWS = 1 << 12
_WORK_CELLS = 1 << 25
_ROWS_AT_ONCE = 64
#: Columns up to which each thread has its own moments: 2 MB of sums, and a work space of at most 128 MB.
_NARROW = 512


class LengthBounded(Coding, Protocol):
    """A coding whose first `width` integers are a vector of Euclidean length at most `levels`, worth `radius`."""

    @property
    def width(self) -> int:
        """How many entries the vector has."""

    @property
    def levels(self) -> int:
        """The length that no vector exceeds, in integers."""

    @property
    def radius(self) -> Fraction:
        """What that length is worth in the user's units."""


@dataclass(frozen=True)
class Moments:
    """What one pass over clipped rows gives, in units of radius/levels (total) and its square (second).

    One unit moves all three at once: a mechanism that releases more than one of them adds their costs up. The
    properties give the same statistics with their sensitivities in other norms (covariance proof page, Theorem 1).
    """

    count: Bounded
    total: Bounded
    second: Bounded
    scale: Fraction
    levels: int
    rows_per_unit: int

    @property
    def total_in_l1(self) -> Bounded:
        """The sum with its sensitivity in l1: ‖x‖₁ <= √d ‖x‖₂, for integers rounded down."""
        width = self.total.shape[0]
        return self._again(self.total, (2 if self._replaced else 1) * isqrt(width * self.levels**2), "l1")

    @property
    def second_in_trace(self) -> Bounded:
        """The second moment with its sensitivity in trace norm: kM² for an addition, and for a replacement two of them.

        One column is a number between 0 and kM², whatever is replaced.
        """
        replaced = self._replaced and self.second.shape[0] > 1
        return self._again(self.second, (2 if replaced else 1) * self.levels**2, "trace")

    @property
    def upper_triangle(self) -> Bounded:
        """The upper triangle, row by row, with its sensitivity in l1.

        An addition: Σ_{i<=j} |x_i x_j| = (‖x‖₁² + ‖x‖₂²)/2 <= (d + 1) M²/2. A replacement: √(d + d(d-1)/4) times the
        Frobenius norm (Cauchy and Schwarz), or two additions if that is less. Integers: rounded down.
        """
        width = self.second.shape[0]
        added = (width + 1) * self.levels**2 // 2
        swapped = min(2 * added, isqrt(width * (width + 3) // 2 * self.levels**4)) if width > 1 else added
        assert not isinstance(self.second.value, int)
        upper = self.second.value[np.triu_indices(width)]
        bound = self.rows_per_unit * (swapped if self._replaced else added)
        return Bounded(upper, Fraction(bound), "l1", self.second.neighbours, self.second.unit)

    @property
    def _replaced(self) -> bool:
        return self.second.neighbours is not Neighbours.ADD_REMOVE

    def _again(self, statistic: Bounded, for_a_row: int, norm: Norm | TraceNorm) -> Bounded:
        sensitivity = Fraction(self.rows_per_unit * for_a_row)
        return Bounded(statistic.value, sensitivity, norm, statistic.neighbours, statistic.unit)


def check_width(columns: int) -> None:
    """Refuse more columns than matrices of them fit into memory, several at a time."""
    if columns > MOST_COLUMNS:
        raise RangeError(
            f"a matrix of at most {MOST_COLUMNS} columns can be measured, got {columns}; choose fewer columns"
        )


class MomentState(NamedTuple):
    """Rows, sums and products: int64 while no sum can leave it, then Python integers (object arrays)."""

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

    coding: LengthBounded
    rows_per_unit: int
    unit: Unit
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        check_width(self.coding.width)

    wide = True  # one matrix product per batch costs less than d²/2 sums in an engine

    def empty(self) -> MomentState:
        d = self.coding.width
        return MomentState(0, np.zeros(d, np.int64), np.zeros((d, d), np.int64))

    def fold(self, state: MomentState, codes: CodeArrays) -> MomentState:
        """Add a batch: BLAS sums integers exactly while every partial sum is below 2**53."""
        width = self.coding.width
        block = max(_LEAST_ROWS, _BLOCK_CELLS // width)
        for start in range(0, len(codes[0]), block):
            part = np.empty((width, min(block, len(codes[0]) - start)))
            for place, code in enumerate(codes[:width]):
                part[place] = code[start : start + block]
            state = self._folded(state, part)
        return state

    def fold_batches(self, state: MomentState, batches: Iterator[Batch]) -> MomentState:
        """Add the rows of batches as they come: the integers of `fold`, as floats from the coding to the product.

        One work space for all batches: fresh memory took as long as the coding.
        """
        assert isinstance(self.coding, ClippedVector)
        work: NDArray[np.float64] | None = None
        for batch in batches:
            if work is None or work.shape[1] < batch.length:
                # an odd number of cache lines to a row: with a power of two all rows would share a few places in caches
                work = np.empty((self.coding.width, batch.length + 8 * (1 + (batch.length // 8) % 2)))
            codes, kept = self.coding.whole_floats(batch, out=work)
            state = self._folded(state, codes if kept is None else codes[:, kept])
        return state

    @property
    def folds_batches(self) -> bool:
        """Whether the coding gives floats without integers in between."""
        return isinstance(self.coding, ClippedVector)

    @property
    def batch_rows(self) -> int:
        """How many rows `fold_batches` wants at once: a batch, or fewer of very wide ones."""
        return min(BATCH_ROWS, max(_LEAST_ROWS, _WORK_CELLS // self.coding.width))

    def _folded(self, state: MomentState, whole: NDArray[np.float64]) -> MomentState:
        """Add rows that are given as floats, one column to a row."""
        width, levels, block = self.coding.width, self.coding.levels, _EXACT // self.coding.levels**2
        rows, total, second = state.rows + whole.shape[1], state.total, state.second
        if rows * levels**2 >= VALUE_LIMIT:  # the same numbers, in a type that cannot wrap
            total, second = total.astype(object), second.astype(object)
        for start in range(0, whole.shape[1], block):
            part = whole[:, start : start + block]
            total += part.sum(axis=1).astype(np.int64)
            products = part @ part.T
            for row in range(0, width, _ROWS_AT_ONCE):  # without a second whole matrix
                some = slice(row, row + _ROWS_AT_ONCE)
                second[some] += products[some].astype(np.int64)
        return MomentState(rows, total, second)

    @property
    def folds_in_parallel(self) -> bool:
        """Whether a state and a work space are small enough for every thread to have its own."""
        return self.coding.width <= _NARROW

    def merge(self, first: MomentState, second: MomentState) -> MomentState:
        """Add the moments of two sets of rows: in 64 bits while no sum can leave them, as Python integers beyond."""
        first, second = MomentState(*first), MomentState(*second)  # a state that was read from bytes is a plain tuple
        rows = first.rows + second.rows
        wide = object in (first.second.dtype, second.second.dtype)
        kind = object if wide or rows * self.coding.levels**2 >= VALUE_LIMIT else np.int64
        return MomentState(
            rows,
            first.total.astype(kind) + second.total.astype(kind),
            first.second.astype(kind) + second.second.astype(kind),
        )

    def finish(self, state: MomentState) -> Moments:
        """Return the moments with their sensitivities; `finish(empty())` has all that is public about them."""
        k, length = Fraction(self.rows_per_unit), self.coding.levels
        replaced = self.neighbours is not Neighbours.ADD_REMOVE
        frobenius = SQRT2 if replaced and self.coding.width > 1 else 1  # one column: a number between 0 and kM²
        return Moments(
            count=Bounded(state.rows, k, "l1", self.neighbours, self.unit),
            total=Bounded(state.total, (2 if replaced else 1) * k * length, "l2", self.neighbours, self.unit),
            second=Bounded(state.second, frobenius * k * length**2, "l2", self.neighbours, self.unit),
            scale=self.coding.radius / length,
            levels=length,
            rows_per_unit=self.rows_per_unit,
        )

    def query(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> MomentState:
        return MomentState(*engine_products(frame, columns, [self.coding.levels] * len(columns)))


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
    """Return count, sum and second moment of rows clipped to a public Euclidean length.

    Guarantee: as `ClippedMoments` proves, exactly. Accuracy: entries are truncated to radius/levels.

    Args:
        table: The rows and their schema.
        columns: Declared `Number` columns; their bounds, if any, clamp first.
        radius: The public length that centred rows are clipped to, in `levels` integer steps.
        centres: Public numbers to subtract, by column; 0 by default.

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
