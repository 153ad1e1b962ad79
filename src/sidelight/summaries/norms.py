"""How far one unit moves a table by group: the norms of counts, and of sums that go with them, from the bounds on rows.

A unit keeps at most k rows, in at most g groups, at most m rows in each; each bound is a function of its own rows
(summaries proof page, Theorem 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sidelight.errors import RangeError
from sidelight.guarantees import Neighbours
from sidelight.guarantees.intervals import root_up


@dataclass(frozen=True, kw_only=True)
class Norms:
    """How far one neighbour moves a vector: changed entries, sum, sum of squares and largest of the changes."""

    l0: int
    l1: Fraction
    l2_squared: Fraction
    linf: Fraction

    @property
    def l2(self) -> Fraction:
        """The root of `l2_squared`, rounded up where it is irrational."""
        return root_up(self.l2_squared)


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What one unit keeps of its rows: at most `rows` in all, in at most `groups` groups, `rows_per_group` in each.

    None stands for no bound of that kind; together they must bound the rows. The row unit is the default.

    >>> Contribution(rows=10, groups=3, rows_per_group=4).counts()
    Norms(l0=3, l1=Fraction(10, 1), l2_squared=Fraction(36, 1), linf=Fraction(4, 1))
    """

    rows: int | None = 1
    groups: int | None = 1
    rows_per_group: int | None = 1

    def __post_init__(self) -> None:
        for name in ("rows", "groups", "rows_per_group"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise RangeError(f"{name} must be a whole number of at least 1, or None for no bound, got {value!r}")
        if self.rows is None and (self.groups is None or self.rows_per_group is None):
            raise RangeError(
                "the rows of a unit have no bound; give max_rows, or max_groups together with max_rows_per_group"
            )

    @property
    def most_rows(self) -> int:
        """K = min(k, g m), the most rows that a unit has in the whole table."""
        if self.groups is None or self.rows_per_group is None:
            assert self.rows is not None
            return self.rows
        product = self.groups * self.rows_per_group
        return product if self.rows is None else min(self.rows, product)

    @property
    def most_groups(self) -> int:
        """The most groups that a unit has rows in."""
        return self.most_rows if self.groups is None else min(self.groups, self.most_rows)

    @property
    def most_in_a_group(self) -> int:
        """The most rows that a unit has in one group."""
        return self.most_rows if self.rows_per_group is None else min(self.rows_per_group, self.most_rows)

    def counts(self, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Norms:
        """Return the norms of the vector of counts by group."""
        return self.vectors(Fraction(1), Fraction(1), neighbours=neighbours)

    def vectors(
        self,
        row_l1: Fraction | int,
        row_l2_squared: Fraction | int,
        *,
        signed: bool = False,
        entries: int = 1,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
    ) -> Norms:
        """Return the norms of sums by group of a vector that each row has.

        Args:
            row_l1: The largest L1 norm of one row's vector: M for a pair, M² for a triple.
            row_l2_squared: The largest squared L2 norm of one row's vector.
            signed: Whether entries may be negative, as in a centred sum: then replacing a row may move it twice as far,
                not √2 times (summaries proof page, Theorem 1).
            entries: Numbers in one row's vector.
            neighbours: Add or remove a unit, or replace one.
        """
        k, m = self.most_rows, self.most_in_a_group
        squares = m * m * (k // m) + (k % m) ** 2
        replaced = _replaced(neighbours)
        return Norms(
            l0=entries * self.most_groups * (2 if replaced else 1),
            l1=k * Fraction(row_l1) * (2 if replaced else 1),
            l2_squared=squares * Fraction(row_l2_squared) * ((4 if signed else 2) if replaced else 1),
            # an entry is at most the vector's own norm; two vectors of entries of one sign differ by one of them
            linf=m * Fraction(row_l1) * (2 if replaced and signed else 1),
        )

    def margin(self, *, cells: int, cells_apart: int) -> Contribution:
        """Return the contribution to a coarser table, made of the rows that the finest one kept.

        A unit's cells fall together there: with 10 rows in 10 cells it moves the total by 10.

        Args:
            cells: The number of cells of the coarser table, 1 for the total.
            cells_apart: How many cells of the finest table fall into one of its cells.
        """
        k, g, m = self.most_rows, self.most_groups, self.most_in_a_group
        return Contribution(rows=k, groups=min(g, cells), rows_per_group=min(k, m * min(g, cells_apart)))


def per_person(groups: int = 1) -> Contribution:
    """Return the contribution of one total a person and group, in at most `groups` groups a person."""
    return Contribution(rows=groups, groups=groups, rows_per_group=1)


def _replaced(neighbours: Neighbours) -> bool:
    if neighbours not in (Neighbours.ADD_REMOVE, Neighbours.REPLACE):
        raise RangeError(f"tables by group are for adding, removing or replacing a unit, got {neighbours}")
    return neighbours is Neighbours.REPLACE
