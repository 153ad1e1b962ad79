"""Rows by group, held in memory: the place of each row's group and its codes. For what looks at every group by itself.

Ranks of a number in each group, and sums of numbers that are clipped to an interval of the group's own. Codes of such
intervals all have the same number of levels, so that one sensitivity fits the sums of all groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Norm
from sidelight.aggregates.coding import Coding
from sidelight.aggregates.collect import coded_rows
from sidelight.aggregates.group_sums import GroupStatistics, Kind, Whole, chunk_sums, statistics_of
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.label_groups import labelled_rows, present_groups
from sidelight.aggregates.ranks import DitheredRanks, order_codes
from sidelight.aggregates.values import LEVELS, Value
from sidelight.grid import DROPPED_BITS, Grid, Outcomes
from sidelight.noise import Source
from sidelight.records import Table

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class GroupRows:
    """The rows that count: where each row's group stands among those that are asked for, and its codes. Private.

    Guarantee: one unit adds or takes away rows as `groups.norms` says.
    """

    groups: Groups
    size: int
    places: Whole
    codes: tuple[Whole, ...]

    @cached_property
    def _order(self) -> tuple[NDArray[np.intp], list[int]]:
        """The rows by group, and where each group begins."""
        order = np.argsort(self.places, kind="stable")
        return order, np.searchsorted(self.places[order], np.arange(self.size + 1)).tolist()

    def ranks(self, of: int, grid: Outcomes, source: Source) -> tuple[DitheredRanks, ...]:
        """Return the ranks of one of the numbers in each group."""
        order, ends = self._order
        codes = self.codes[of]
        return tuple(DitheredRanks(order_codes(codes[order[start:end]]), grid, source) for start, end in pairwise(ends))

    def clipped(self, of: int, grid: Outcomes, value: Value, lower: Floats, upper: Floats) -> Whole:
        """Return the code of each row in the interval of its group: 0..M, whatever the row holds.

        Args:
            of: Which of the numbers.
            grid: Of its codes.
            value: Levels: those of the interval (`level_value`), or of -farthest..farthest where it has a sign.
            lower: Where each group's interval begins, public or released.
            upper: Where it ends, above that.
        """
        low, high = lower[self.places], upper[self.places]
        numbers = np.minimum(np.maximum(numbers_of(grid, self.codes[of]), low), high)
        if value.first == 0:
            share = (numbers - low) / (high - low)
        else:
            share = numbers / np.maximum(np.abs(low), np.abs(high)) / 2 + 0.5
        found: Whole = np.floor(share * value.levels + 0.5).astype(np.int64)
        return np.minimum(np.maximum(found, 0), value.levels)

    def statistics(
        self, values: Sequence[Value], codes: Sequence[Whole], *, kind: Kind, norm: Norm = "l1"
    ) -> GroupStatistics:
        """Add up statistics of codes of 0..M by group, as `group_statistics` does.

        Guarantee: that of `group_statistics`: a row has the norm of its value's levels in whichever group it is.
        """
        state = chunk_sums(self.groups, values, kind, self.size, self.places, codes)
        return statistics_of(self.groups, state, values, kind=kind, norm=norm)

    def __repr__(self) -> str:
        return "GroupRows(private)"


def rows_by_group(
    table: Table, groups: Groups, codings: Sequence[Coding], *, only: Sequence[tuple[str, ...]] | None = None
) -> GroupRows:
    """Read the rows that count in one pass: all declared groups, or some by their keys.

    Args:
        table: The rows.
        groups: Which rows count, where, and how many of a unit.
        codings: Of the numbers.
        only: The keys of the groups, of labels that nobody declared: public by now.
    """
    whole = groups.coding(*codings)
    width = len(groups.axes)
    if groups.label is None:
        parts = list(coded_rows(table, whole, cap=groups.cap, totals=groups.totals))
        none = np.empty(0, np.int64)
        columns = [np.concatenate([none, *(part[at] for part in parts)]) for at in range(width + len(codings))]
        places = np.zeros(len(columns[-1]), np.int64)
        for code, size in zip(columns, groups.shape, strict=False):
            places = places * size + code
        return GroupRows(groups, groups.cells, places, tuple(columns[width:]))
    assert only is not None
    names, rows = labelled_rows(table, groups, whole)
    keys, found = present_groups(groups, names, rows)
    at = {tuple(key): place for place, key in enumerate(only)}
    places = np.array([at.get(key, -1) for key in keys], np.int64)[found] if keys else found
    shown = places >= 0
    return GroupRows(groups, len(only), places[shown], tuple(code[shown] for code in rows[width + 1 :]))


def level_value(coding: Coding, *, signed: bool = False) -> Value:
    """Return a number clipped to an interval of each group as codes of that interval: 0..2**30.

    Args:
        coding: Of the number.
        signed: Codes stand for -farthest..farthest instead, 2**29 levels each way.
    """
    first, last = (-LEVELS // 2, LEVELS // 2) if signed else (0, LEVELS)
    return Value(coding=coding, step=Fraction(1), first=first, last=last)


def numbers_of(grid: Outcomes, codes: Whole) -> Floats:
    """Return the numbers that codes of rows stand for; of a grid of floats the double of a code with zeros at the end.

    >>> from sidelight.grid import FloatGrid, float_code
    >>> numbers_of(FloatGrid(), np.array([float_code(x) for x in (-2.5, 0.0, 1.5, 1024.0)])).tolist()
    [-2.5, 0.0, 1.5, 1024.0]
    """
    if isinstance(grid, Grid):
        return np.asarray(codes * float(grid.resolution))
    sizes = np.ascontiguousarray(np.abs(codes) << DROPPED_BITS).view(np.float64)
    return np.asarray(np.where(codes < 0, -sizes, sizes))
