"""How far one unit moves counts by group: at most k rows of it count, in at most g groups, at most m in each.

A unit's counts are at most g whole numbers of at most m each, with sum at most K = min(k, g m). Sums of squares are
convex, so the largest fills one entry after the other up to m; K <= g m, so g entries suffice. Replacing a unit takes
one such vector away and adds another. Both are non-negative: u - v has at most twice the entries and twice the sum,
|u - v|² = u² + v² - 2uv <= 2 max, and no entry of it exceeds that of either.

A statistic that adds a vector of norm at most w for each row to its group moves by at most K w in l1 and
sqrt(l2_squared) w in l2 (triangle inequality in each group). Where its entries have signs, replacing costs twice
(`signed`): two vectors may point in opposite directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from sidelight.aggregates.bounded import Norm
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.intervals import root_above

#: Irrational norms are rounded up to a multiple of 2**-40.
_PLACES = 40


@dataclass(frozen=True, kw_only=True)
class UnitNorms:
    """The norms of the counts by group; k rows, g groups, m rows in each, all at least 1.

    >>> norms = UnitNorms(rows=10, groups=3, per_group=4)
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

    @property
    def l2(self) -> Fraction:
        """The root of `l2_squared`, rounded up where it is irrational."""
        return sqrt_up(self.l2_squared)

    def margin(self, *, cells: int, cells_apart: int) -> UnitNorms:
        """Return the norms of a coarser table, made of the rows that the finest one kept.

        A unit's cells fall together there: with 10 rows in 10 cells it moves the total by 10.

        Args:
            cells: The number of cells of the coarser table, 1 for the total.
            cells_apart: How many cells of the finest table fall into one of its cells.
        """
        k, g, m = self.total, min(self.groups, self.total), min(self.per_group, self.total)
        most = min(k, m * min(g, cells_apart))
        return UnitNorms(rows=k, groups=min(g, cells), per_group=most, neighbours=self.neighbours)


def persons_in(groups: int) -> UnitNorms:
    """Return the norms of counts of persons, or of one total a person and group, in at most so many groups a person.

    >>> persons_in(10).l1, persons_in(10).l2_squared
    (10, 10)
    """
    return UnitNorms(rows=groups, groups=groups, per_group=1)


def sqrt_up(square: Fraction | int) -> Fraction:
    """Return the square root where it is rational, else the next multiple of 2**-40 above it.

    >>> sqrt_up(Fraction(9, 4)), float(sqrt_up(2))
    (Fraction(3, 2), 1.4142135623733338)
    """
    exact = Fraction(square)
    p, q = isqrt(exact.numerator), isqrt(exact.denominator)
    if p * p == exact.numerator and q * q == exact.denominator:
        return Fraction(p, q)
    return root_above(exact, bits=_PLACES)
