"""A private statistic together with how far one neighbour can move it. Noise meets this and never a bare array."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.intervals import root_above, root_down
from sidelight.guarantees.units import Unit

Norm = Literal["l1", "l2", "linf"]
#: Of a symmetric matrix: the sum of the absolute eigenvalues.
TraceNorm = Literal["trace"]
_NORMS = ("l1", "l2", "linf", "trace")

#: Statistics saturate here, so that neither they nor their noisy versions can wrap. Clamping each entry moves no two
#: values further apart in l1, l2 and linf. It may in the trace norm, by a factor below 2: a second moment on the usual
#: grid of 2**14 levels reaches the limit from 2**34 rows on.
VALUE_LIMIT = 2**62


@dataclass(frozen=True, eq=False, repr=False)
class Bounded:
    """An integer statistic, and the largest distance between its values on neighbouring data sets.

    Guarantee: for data sets that `neighbours` relates by one `unit`, the values differ by at most `sensitivity` in
    `norm`. Matrices count as vectors of all their entries, so "l2" is the Frobenius norm; "trace" is for symmetric
    matrices, the sum of the absolute eigenvalues. The code that makes a `Bounded` proves the number; the aggregates of
    this package do, and tests try to refute them.

    >>> from sidelight.guarantees.claims import Neighbours
    >>> from sidelight.guarantees.units import Row
    >>> Bounded(41, sensitivity=Fraction(1), norm="l1", neighbours=Neighbours.ADD_REMOVE, unit=Row())
    Bounded(private, sensitivity=1, norm='l1', neighbours=add or remove one row)
    """

    value: NDArray[np.int64] | int
    sensitivity: Fraction
    norm: Norm | TraceNorm
    neighbours: Neighbours
    unit: Unit

    def __post_init__(self) -> None:
        if self.norm not in _NORMS:
            raise RangeError(f"norm must be one of {', '.join(_NORMS)}, got {self.norm!r}")
        if isinstance(self.sensitivity, float) or self.sensitivity < 0:
            raise RangeError(f"sensitivity must be an exact number of at least 0, got {self.sensitivity!r}")
        object.__setattr__(self, "sensitivity", Fraction(self.sensitivity))
        object.__setattr__(self, "value", _frozen(self.value))

    @property
    def shape(self) -> tuple[int, ...]:
        """The public shape of the value: () for one number."""
        return () if isinstance(self.value, int) else self.value.shape

    def __repr__(self) -> str:
        shape = f", shape={self.shape}" if self.shape else ""
        return (
            f"Bounded(private{shape}, sensitivity={self.sensitivity}, norm={self.norm!r}, "
            f"neighbours={self.neighbours} {self.unit})"
        )


def _frozen(value: Any) -> NDArray[np.int64] | int:
    """Copy to a read-only int64 array or a Python integer, saturated at the limit."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return min(max(int(value), -VALUE_LIMIT), VALUE_LIMIT)
    array = np.asarray(value)
    if array.dtype.kind not in "iuO":
        raise RangeError(f"a bounded statistic holds integers, got dtype {array.dtype}; put it on a public grid first")
    # uint64 and Python integers are compared before the cast, so that nothing wraps.
    wide = array if array.dtype in (object, np.uint64) else array.astype(np.int64, copy=False)
    fixed = np.minimum(wide, VALUE_LIMIT)
    copy = np.array(fixed if wide.dtype == np.uint64 else np.maximum(fixed, -VALUE_LIMIT), np.int64)
    copy.flags.writeable = False
    return copy


# Contribution bounds: a unit has at most k counted rows, in at most g groups, at most m in each.
#
# A unit's counts are at most g whole numbers of at most m each, with sum at most K = min(k, g m). Sums of squares are
# convex, so the largest fills one entry after the other up to m; K <= g m, so g entries suffice. Replacing a unit takes
# one such vector away and adds another. Both are non-negative: u - v has at most twice the entries and twice the sum,
# |u - v|² = u² + v² - 2uv <= 2 max, and no entry of it exceeds that of either.
#
# A statistic that adds a vector of norm at most w for each row to its group moves by at most K w in l1 and
# sqrt(l2_squared) w in l2 (triangle inequality in each group). Where its entries have signs, replacing costs twice
# (`signed`): two vectors may point in opposite directions.


#: Irrational norms are rounded up to a multiple of 2**-40.
_PLACES = 40


@dataclass(frozen=True, kw_only=True)
class ContributionBounds:
    """How far one unit moves counts by group: k rows, g groups, m rows in each, all at least 1.

    >>> norms = ContributionBounds(rows=10, groups=3, per_group=4)
    >>> norms.l0, norms.l1, norms.l2_squared, norms.linf
    (3, 10, 36, 4)
    """

    rows: int
    groups: int
    per_group: int
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    @property
    def total(self) -> int:
        """The rows of one unit that count in all groups together: K = min(k, g m)."""
        return min(self.rows, self.groups * self.per_group)

    @property
    def times(self) -> int:
        """How many units one step moves: 2 if one is replaced by another."""
        return 1 if self.neighbours is Neighbours.ADD_REMOVE else 2

    @property
    def l0(self) -> int:
        """How many groups move."""
        return self.times * min(self.groups, self.rows)

    @property
    def l1(self) -> int:
        """The sum of the moves."""
        return self.times * self.total

    @property
    def l2_squared(self) -> int:
        """The sum of the squares of the moves."""
        most = min(self.per_group, self.rows)
        full, rest = divmod(self.total, most)
        return self.times * (full * most**2 + rest**2)

    @property
    def linf(self) -> int:
        """The largest move of one group."""
        return min(self.per_group, self.rows)

    def sensitivity(self, norm: Norm, width: Fraction | int = 1, *, signed: bool = False) -> Fraction:
        """Return how far a statistic moves whose rows each add a vector of norm at most `width`; l2 is rounded up."""
        twice = self.times if signed else 1
        if norm == "l1":
            return Fraction(self.l1) * width
        if norm == "linf":
            return Fraction(self.linf * twice) * width
        return sqrt_up(Fraction(self.l2_squared * twice) * width * width)

    def bounded(
        self, value: Any, norm: Norm, unit: Unit, width: Fraction | int = 1, *, signed: bool = False
    ) -> Bounded:
        """Return a statistic whose rows each add a vector of norm at most `width`, with its sensitivity."""
        return Bounded(value, self.sensitivity(norm, width, signed=signed), norm, self.neighbours, unit)

    @property
    def l2(self) -> Fraction:
        """The root of `l2_squared`, rounded up where it is irrational."""
        return sqrt_up(self.l2_squared)

    def margin(self, *, cells: int, cells_apart: int) -> ContributionBounds:
        """Return the bounds of a coarser table, made of the rows that the finest one kept.

        A unit's cells fall together there: with 10 rows in 10 cells it moves the total by 10.

        Args:
            cells: The number of cells of the coarser table, 1 for the total.
            cells_apart: How many cells of the finest table fall into one of its cells.
        """
        k, g, m = self.total, min(self.groups, self.total), min(self.per_group, self.total)
        most = min(k, m * min(g, cells_apart))
        return ContributionBounds(rows=k, groups=min(g, cells), per_group=most, neighbours=self.neighbours)


def persons_in(groups: int) -> ContributionBounds:
    """Return the bounds of counts of persons, or of one total per person and group, in at most `groups` groups.

    >>> persons_in(10).l1, persons_in(10).l2_squared
    (10, 10)
    """
    return ContributionBounds(rows=groups, groups=groups, per_group=1)


def sqrt_up(square: Fraction | int) -> Fraction:
    """Return the square root where it is rational, else the next multiple of 2**-40 above it.

    >>> sqrt_up(Fraction(9, 4)), float(sqrt_up(2))
    (Fraction(3, 2), 1.4142135623733338)
    """
    exact = Fraction(square)
    low = root_down(exact)
    return low if low * low == exact else root_above(exact, bits=_PLACES)
