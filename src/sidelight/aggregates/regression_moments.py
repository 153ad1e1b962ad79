"""What least squares needs of private rows: Σ x xᵀ and Σ x y of clipped features and a bounded target, in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import CodeArrays, Coding, CombinedCoding, NumberCoding
from sidelight.aggregates.moments import MomentState, check_width
from sidelight.aggregates.sums import engine_products
from sidelight.errors import RangeError
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.intervals import root_above
from sidelight.guarantees.units import Unit

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw


#: Exact sums in float64: rows to a block times the largest product stays within 2**53.
_EXACT = 1 << 53
_BLOCK_ROWS = 1 << 16
_LARGEST_PRODUCT = 1 << 40


@dataclass(frozen=True, kw_only=True)
class RegressionRow(CombinedCoding):
    """Features as an integer vector of bounded length, and a target in fixed point."""

    parts: tuple[Coding, ...] = field(init=False)
    features: ClippedVector
    target: NumberCoding

    def __post_init__(self) -> None:
        if self.target.column in self.features.numbers:
            raise RangeError(f"column {self.target.column!r} is both a feature and the target")
        check_width(len(self.features.numbers))
        object.__setattr__(self, "parts", (self.features, self.target))


@dataclass(frozen=True)
class RegressionMoments:
    """The Gram matrix and the products with the target. One unit moves both: releasing both adds their costs up."""

    gram: Bounded
    cross: Bounded


@dataclass(frozen=True, kw_only=True)
class LeastSquares:
    """Σ z zᵀ and Σ z (y - centre) for z = (x, constant): x of length at most M, |y - centre| at most Y, in codes.

    Guarantee: ‖z‖² <= L = M² + constant², so with at most k rows a unit, adding or removing a unit moves the Gram
    matrix by k L (Frobenius: ‖z zᵀ‖ = ‖z‖²; the triangle inequality) and the products by k √L Y (l2), rounded up.
    """

    coding: RegressionRow
    constant: int
    centre: int
    rows_per_unit: int
    unit: Unit

    def __post_init__(self) -> None:
        if self.constant < 0:
            raise RangeError("the constant column is not negative")
        if max(self.squared_length, self._product) > _LARGEST_PRODUCT:
            raise RangeError("codes are too large for exact sums; use fewer levels, or a smaller intercept value")

    @property
    def squared_length(self) -> int:
        """How long z can be, squared."""
        return self.coding.features.levels**2 + self.constant**2

    @property
    def target_bound(self) -> int:
        """How far y can be from the centre."""
        ((first, last),) = self.coding.target.ranges
        return max(abs(first - self.centre), abs(last - self.centre))

    @property
    def _product(self) -> int:
        ((first, last),) = self.coding.target.ranges
        return (isqrt(self.squared_length) + 1) * max(abs(first), abs(last), self.target_bound)

    @property
    def width(self) -> int:
        return len(self.coding.features.columns) + (self.constant > 0)

    wide = True  # one matrix product per batch costs less than d²/2 sums in an engine

    def empty(self) -> MomentState:
        """Return the sums of no rows: Python integers, which cannot wrap."""
        d = len(self.coding.ranges)
        return MomentState(0, np.zeros(d, object), np.zeros((d, d), object))

    def fold(self, state: MomentState, codes: CodeArrays) -> MomentState:
        """Add a batch: BLAS sums integers exactly while every partial sum is below 2**53."""
        ((first, last),) = self.coding.target.ranges
        largest = max(self.coding.features.levels, abs(first), abs(last)) ** 2
        block = min(_BLOCK_ROWS, _EXACT // largest)
        rows, total, second = state.rows + len(codes[0]), state.total, state.second
        for start in range(0, len(codes[0]), block):
            part = np.stack([code[start : start + block].astype(np.float64) for code in codes])
            total = total + part.sum(axis=1).astype(np.int64).astype(object)
            second = second + (part @ part.T).astype(np.int64).astype(object)
        return MomentState(rows, total, second)

    def merge(self, first: MomentState, second: MomentState) -> MomentState:
        first, second = MomentState(*first), MomentState(*second)  # one that was read from bytes is a plain tuple
        return MomentState(first.rows + second.rows, first.total + second.total, first.second + second.second)

    def finish(self, state: MomentState) -> RegressionMoments:
        """Append the constant column, centre the target, and return both statistics with their sensitivities."""
        d = len(self.coding.features.columns)
        sums, products = state.total[:d], state.second[:d, d] - self.centre * state.total[:d]
        gram: NDArray[Any] = state.second[:d, :d]
        if self.constant:
            side = (self.constant * sums)[:, None]
            corner = np.array([[self.constant**2 * state.rows]], object)
            gram = np.block([[gram, side], [side.T, corner]])
            last = self.constant * (state.total[d] - self.centre * state.rows)
            products = np.append(products, np.array([last], object))
        context = (Neighbours.ADD_REMOVE, self.unit)
        return RegressionMoments(
            gram=Bounded(gram, self.gram_sensitivity, "l2", *context),
            cross=Bounded(products, self.cross_sensitivity, "l2", *context),
        )

    @property
    def gram_sensitivity(self) -> Fraction:
        """How far one unit moves the Gram matrix."""
        return Fraction(self.rows_per_unit * self.squared_length)

    @property
    def cross_sensitivity(self) -> Fraction:
        """How far one unit moves the products with the target."""
        square = self.squared_length * self.target_bound**2
        return self.rows_per_unit * root_above(square, bits=20)

    def query(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> MomentState:
        sizes = [max(abs(first), abs(last)) for first, last in self.coding.ranges]
        return MomentState(*engine_products(frame, columns, sizes))
