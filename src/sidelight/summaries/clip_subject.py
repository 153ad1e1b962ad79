"""The number that is clipped: what is declared of it, the ranks of its rows, and the interval where it was clipped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sidelight.aggregates.coding import Coding, NumberCoding
from sidelight.aggregates.collect_ranks import collect_codes, encoding_of
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.predicates import ExpressionCoding
from sidelight.aggregates.ranks import DitheredRanks, Ranks
from sidelight.aggregates.values import Value
from sidelight.errors import SchemaError
from sidelight.grid import CODE_LIMIT, FloatGrid, Grid, Outcomes
from sidelight.noise import Source
from sidelight.quantiles.outcomes import outcome_grid
from sidelight.records import Schema, Table
from sidelight.records.expression_shapes import RealShape, StepShape, TruthShape
from sidelight.records.expressions import Expression, Named

#: Codes beyond this are ends of the integers, not declared bounds.
_DECLARED = 1 << 53
#: No group's interval is narrower, so that a step of it stays a number.
_NARROWEST = Fraction(1, 2**900)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Where values were clipped: public, because it was declared or released.

    With fewer than `rows_wanted` rows an interval that was found without any hint may lie anywhere.
    """

    lower: Fraction
    upper: Fraction
    centre: float | None = None
    radius: float | None = None
    rows_wanted: float = 0.0

    @property
    def notes(self) -> dict[str, float]:
        """What a table says of it."""
        found = {"clip_lower": float(self.lower), "clip_upper": float(self.upper)}
        if self.centre is not None and self.radius is not None:
            found |= {"clip_centre": self.centre, "clip_radius": self.radius}
        if self.rows_wanted:
            found["rows_wanted"] = float(math.ceil(self.rows_wanted))
        return found

    @property
    def columns(self) -> dict[str, Any]:
        """What each group's row says of it: nothing, it is the same for all."""
        return {}

    def ends(self, value: Value) -> tuple[float, float]:
        """Return what the first and the last code of a value clipped to it stand for, as two different floats."""
        return _two_floats(value.lower, value.upper)

    def enough(self, counts: Any) -> Any:
        """Return whether there are rows enough to have found it: of all groups together."""
        return counts.sum() >= self.rows_wanted


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupIntervals:
    """Where the values of each group were clipped, found in each by itself: released.

    Args:
        intervals: One a group.
        bounds: What was declared of all values.
    """

    intervals: tuple[Interval, ...]
    bounds: tuple[float, float] = (-math.inf, math.inf)

    @cached_property
    def _ends(self) -> Any:
        pairs = [_two_floats(each.lower, max(each.upper, each.lower + _NARROWEST)) for each in self.intervals]
        return np.array(pairs).reshape(-1, 2).T

    @property
    def lower(self) -> Any:
        """Where each group's interval begins."""
        return self._ends[0]

    @property
    def upper(self) -> Any:
        """Where each group's interval ends, above that."""
        return self._ends[1]

    @property
    def rows_wanted(self) -> float:
        """How many rows a group needs where nothing is known."""
        return max((each.rows_wanted for each in self.intervals), default=0.0)

    @property
    def notes(self) -> dict[str, float]:
        """What a table says of all of them."""
        return {"rows_wanted": float(math.ceil(self.rows_wanted))} if self.rows_wanted else {}

    @property
    def columns(self) -> dict[str, Any]:
        """What each group's row says of its own."""
        return {"clip_lower": self.lower, "clip_upper": self.upper}

    def ends(self, value: Value) -> tuple[Any, Any]:
        """Return what the first and the last code stand for in each group."""
        return self.lower, self.upper

    def enough(self, counts: Any) -> Any:
        """Return of each group whether it has rows enough to have found its interval."""
        return counts >= self.rows_wanted


def _two_floats(lower: Fraction, upper: Fraction) -> tuple[float, float]:
    low, high = float(lower), float(upper)
    return low, high if low < high else math.nextafter(low, math.inf)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The number that is clipped: how rows become codes, on which grid, and what is declared of it."""

    coding: Coding
    grid: Outcomes
    lower: Fraction | None
    upper: Fraction | None

    @property
    def radii(self) -> Outcomes:
        """The grid of distances from the centre."""
        if isinstance(self.grid, Grid):
            return Grid(resolution=self.grid.resolution, first=0, last=CODE_LIMIT, dither_bits=0)
        return FloatGrid(lowest=0.0, dither_bits=0)

    def ranks(self, table: Table, groups: Groups, source: Source) -> DitheredRanks:
        """Read all rows that count, in one pass. Private."""
        return DitheredRanks(collect_codes(table, self.coding, groups), self.grid, source)


def subject_of(schema: Schema, of: str | Expression, *, total: Value | None = None) -> Subject:
    """Return what is known of a column, a derived number, a condition, or the totals of persons (`total_of`)."""
    if total is not None:
        first, last = max(total.first, -CODE_LIMIT), min(total.last, CODE_LIMIT)
        grid = Grid(resolution=total.step, first=first, last=last, snap="nearest")
        return Subject(coding=total.coding, grid=grid, lower=None, upper=None)
    expression = Named(of) if isinstance(of, str) else of
    shape = expression.check(schema)
    if isinstance(shape, TruthShape):
        grid = Grid(resolution=Fraction(1), first=0, last=1, snap="nearest")
        return Subject(coding=ExpressionCoding(expression, schema), grid=grid, lower=Fraction(0), upper=Fraction(1))
    if isinstance(expression, Named) and isinstance(shape, (RealShape, StepShape)):
        number = schema.number(expression.name)
        outcomes = outcome_grid(number)
        coding = NumberCoding(number.name, encoding_of(number, outcomes))
        return Subject(coding=coding, grid=outcomes, lower=number.lower, upper=number.upper)
    if not isinstance(shape, StepShape):
        raise SchemaError(f"{expression} gives labels, and a number is needed")
    ends = [None if abs(code) >= _DECLARED else code * shape.step for code in (shape.first, shape.last)]
    first, last = max(shape.first, -CODE_LIMIT), min(shape.last, CODE_LIMIT)
    grid = Grid(resolution=shape.step, first=first, last=last, snap="nearest")
    return Subject(coding=ExpressionCoding(expression, schema), grid=grid, lower=ends[0], upper=ends[1])


class Distances:
    """Ranks of the distances from 0: a row at index i >= 0 stays there, one at i < 0 goes to -1 - i."""

    __slots__ = ("_ranks",)

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks

    @property
    def size(self) -> int:
        """The number of records."""
        return self._ranks.size

    def below(self, index: int) -> int:
        """Return the number of records nearer to 0 than an index."""
        return self._ranks.below(index) - self._ranks.below(-index) if index > 0 else 0

    def order(self, k: int) -> int:
        """Return the k-th smallest distance: the largest index with fewer than k records below it."""
        low, high = 0, 1  # below(low) < k <= below(high)
        while self.below(high) < k:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.below(middle) < k else (low, middle)
        return low

    def __repr__(self) -> str:
        return "Ranks(private)"
