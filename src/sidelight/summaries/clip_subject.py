"""The number that is clipped: its declared bounds, priors and ranks, and the intervals it is clipped to."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sidelight.aggregates.coding import Coding, NumberCoding, column_of
from sidelight.aggregates.collect_ranks import collect_codes, encoding_of
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.predicates import ExpressionCoding
from sidelight.aggregates.ranks import DitheredRanks, Ranks
from sidelight.aggregates.values import Value
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import CODE_LIMIT, FloatGrid, Grid, Outcomes
from sidelight.guarantees.amounts import last_where
from sidelight.noise import Source
from sidelight.predictions import Cauchy, Prior, ScaleFree, hedge
from sidelight.quantiles.outcomes import default_prior, outcome_grid
from sidelight.records import Number, Schema, Table
from sidelight.records.expression_shapes import StepShape, TruthShape
from sidelight.records.expressions import Expression, Named

#: On which side of the centre values lie.
Side = Literal["around", "up", "down", "zero"]
#: The weight of the uninformed prior in a mixture with a predicted centre.
HEDGE = 0.1
#: Codes beyond this are ends of the integers, not declared bounds.
_DECLARED = 1 << 53
#: No group's interval is narrower, so that a step of it stays a number.
_NARROWEST = Fraction(1, 2**900)
#: Ends that codes move by less than this share of the width stay as they were declared.
_ROUNDED = Fraction(1, 2**29)


@dataclass(frozen=True, kw_only=True)
class ClipInterval:
    """Where values were clipped: public, because it was declared or released.

    With fewer than `rows_wanted` rows an interval that was found without any hint may lie anywhere.
    """

    lower: Fraction
    upper: Fraction
    centre: float | None = None
    radius: float | None = None
    rows_wanted: float = 0.0
    widened: bool = False  # whether the one that was found is narrower than a step

    def used(self, value: Value) -> ClipInterval:
        """Return where a value that was made for it is clipped in fact: at whole steps, at least one step wide."""
        slack = _ROUNDED * (value.upper - value.lower)
        lower, upper = (
            own if abs(own - end) <= slack else end
            for own, end in ((self.lower, value.lower), (self.upper, value.upper))
        )
        widened = self.centre is not None and self.upper - self.lower < value.step
        return replace(self, lower=lower, upper=upper, widened=widened)

    @property
    def notes(self) -> dict[str, Any]:
        """Its part of the notes of a table."""
        found: dict[str, Any] = {"clip_lower": float(self.lower), "clip_upper": float(self.upper)}
        if self.centre is not None and self.radius is not None:
            found |= {"clip_centre": self.centre, "clip_radius": self.radius}
        if self.rows_wanted:
            found["rows_wanted"] = float(math.ceil(self.rows_wanted))
        if self.widened:
            found["clipped"] = (
                f"nearly all values seem to be equal, so nothing beyond one step counts: {float(self.lower):g} to "
                f"{float(self.upper):g}; values beyond count as the nearer end"
            )
        return found

    @property
    def columns(self) -> dict[str, Any]:
        """Its columns of a table: none, it is the same for all groups."""
        return {}

    def ends(self, value: Value) -> tuple[float, float]:
        """Return the numbers of the first and the last code of a value clipped to it, as two different floats."""
        return _two_floats(value.lower, value.upper)

    def enough(self, counts: Any) -> Any:
        """Return whether there are rows enough to have found it: of all groups together."""
        return counts.sum() >= self.rows_wanted


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupIntervals:
    """The released interval of each group to which its values were clipped."""

    intervals: tuple[ClipInterval, ...]
    bounds: tuple[float, float] = (-math.inf, math.inf)  # the declared bounds of all values

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
    def notes(self) -> dict[str, Any]:
        """Their part of the notes of a table."""
        found: dict[str, Any] = {"rows_wanted": float(math.ceil(self.rows_wanted))} if self.rows_wanted else {}
        if any(each.lower >= each.upper for each in self.intervals):
            found["clipped"] = (
                "in some groups nearly all values seem to be equal: clip_lower and clip_upper are next to each other "
                "there, and nothing beyond counts"
            )
        return found

    @property
    def columns(self) -> dict[str, Any]:
        """Their columns of a table."""
        return {"clip_lower": self.lower, "clip_upper": self.upper}

    def ends(self, value: Value) -> tuple[Any, Any]:
        """Return the numbers of the first and the last code in each group."""
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
    number = column_of(schema, of)
    if isinstance(number, Number):
        outcomes = outcome_grid(number)
        coding = NumberCoding(number.name, encoding_of(number, outcomes))
        return Subject(coding=coding, grid=outcomes, lower=number.lower, upper=number.upper)
    expression = Named(of) if isinstance(of, str) else of
    shape = expression.check(schema)
    if isinstance(shape, TruthShape):
        grid = Grid(resolution=Fraction(1), first=0, last=1, snap="nearest")
        return Subject(coding=ExpressionCoding(expression, schema), grid=grid, lower=Fraction(0), upper=Fraction(1))
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
        return last_where(lambda index: self.below(index) < k, low, high)

    def __repr__(self) -> str:
        return "Ranks(private)"


def middle_and_spread(values: Prior) -> tuple[float, float]:
    """Return where a prediction expects values and how far they spread: a Cauchy's own numbers, else the quartiles."""
    if isinstance(values, Cauchy):
        return values.location, values.scale
    if isinstance(values, ScaleFree):
        raise RangeError("a scale-free prior predicts nothing of the values; leave it out, or give a Cauchy(...)")
    low, middle, high = (float(values.inverse_in(-float("inf"), float("inf"), level)) for level in (0.25, 0.5, 0.75))
    return middle, max(high - low, abs(middle) * 2.0**-40, sys.float_info.min)


def location_grid(subject: Subject, side: Side) -> Outcomes:
    """Return the grid of step A: that of the column, or of distances from 0."""
    if side != "zero":
        return subject.grid
    if isinstance(subject.grid, Grid):
        return Grid(resolution=subject.grid.resolution, first=0, last=CODE_LIMIT, snap=subject.grid.snap)
    return FloatGrid(lowest=0.0)


def location_prior(
    subject: Subject, location: float | None = None, scale: float | None = None, *, side: Side = "around"
) -> Prior:
    """Return the prior of quantiles: that of the declared bounds, nine tenths of it the predicted Cauchy if any."""
    lower, upper = (Fraction(0), None) if side == "zero" else (subject.lower, subject.upper)
    if lower is not None and upper is not None and lower >= upper:
        lower = upper = None
    base = default_prior(Number("value", lower=lower, upper=upper))
    if location is None or scale is None:
        return base
    around = abs(location) if side == "zero" else location
    return hedge(Cauchy(around, scale), with_=base, weight=HEDGE)


def least_anchor(grid: Outcomes, centre: float) -> float:
    """Return the least anchor of a radius: the step of the grid, on floats one relative to the centre."""
    if isinstance(grid, Grid):
        return float(grid.resolution)
    return abs(centre) * 2.0**-40 or 2.0**-20
