"""Where to clip: the interval on which a mean, a sum or a spread is measured, found privately where it is not declared.

Three steps share a price (summaries proof page, section 3). A finds a centre and a spread from quartiles; B draws how
far to reach, by the one-sided score of `mechanisms.one_sided`; C measures in the interval with what is left. With
declared bounds nothing is spent. A and B see all rows that count, in whatever group, so that a person with K of them
pays K times: slopes are ε/K under every price.

With `clip="by_group"` A and B run in every group by itself. A person's rows in different groups meet different trees:
c_g rows in group g cost c_g²ρ there for ρ a row, together L2² times it, the norm of counts by group; ε still adds up
over all K rows. Rows of the row unit are in one group, where the whole price holds.

Step A for a person. The nodes of one depth of the tree hold disjoint rows; r_i of the person's K rows are in node i.
Each row moves the log-weights of its node within a range of e, so the outcomes of a depth together have range
Σ r_i e <= K e, whatever was released above. Depths follow one another adaptively: BoundedRange(K e) for each.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sidelight.aggregates.collect_ranks import GroupRows
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Claims, Row, Unit
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.rank_selection import SMALLEST_EPSILON, rows_near, select_radius
from sidelight.noise import Source
from sidelight.predictions import Prior
from sidelight.predictions.compiled import CompiledPrior
from sidelight.predictions.location_scale import PowerLaw
from sidelight.quantiles.descend import DepthPrices, descend
from sidelight.quantiles.prepared import by_rows
from sidelight.quantiles.tree import QuantileTree, quantile_tree
from sidelight.records import Table
from sidelight.records.numbers import Real, exact_number
from sidelight.summaries.clip_subject import (
    ClipInterval,
    Distances,
    GroupIntervals,
    Side,
    Subject,
    least_anchor,
    location_grid,
    location_prior,
    middle_and_spread,
)

#: How to clip: by declared bounds where there are two and nothing is predicted, else privately; or at public ends.
Clip = Literal["auto", "declared", "private", "by_group"] | tuple[Real, Real]

#: Groups that may have a tree of selections each.
_MOST_TREES = 1 << 14
#: No interval reaches further, so that squares of its width stay numbers.
FARTHEST = Fraction(2) ** 500
#: Rows times the epsilon of step A, below which it fails too often: 1000/ε rows at its share of an eighth.
_ROWS_BY_STEP_A = 125.0


@dataclass(frozen=True, kw_only=True)
class ClipShares:
    """Shares of a price: for centre and spread, for the radius, and for the measurement in the interval."""

    centre: Fraction
    radius: Fraction
    measure: Fraction


def clip_shares(price: str, *, predicted: bool = False) -> ClipShares:
    """Return the shares of a price when bounds are not declared.

    Args:
        price: "epsilon", "rho", or "mu" (of μ²). Selections of bounded range are cheap in ρ and μ²: half the shares.
        predicted: Whether centre and spread are predicted: only the median is measured.

    >>> clip_shares("epsilon")
    ClipShares(centre=Fraction(1, 8), radius=Fraction(1, 8), measure=Fraction(3, 4))
    """
    centre, radius = (Fraction(6, 100), Fraction(1, 10)) if predicted else (Fraction(1, 8), Fraction(1, 8))
    if price != "epsilon":
        centre, radius = centre / 2, radius / 2
    return ClipShares(centre=centre, radius=radius, measure=1 - centre - radius)


@dataclass(frozen=True, kw_only=True, eq=False)
class Clipping:
    """A public plan of steps A and B. Make one with `clipping_of`.

    Guarantee: that of all `parts` together for the interval, whatever the data and the prediction are. Together with
    step C they cost the price.
    """

    measure: Budget  # what is left of the price for step C
    parts: tuple[tuple[int, Claims], ...] = ()  # what A and B cost, each with how often it runs
    interval: ClipInterval | None = None  # if it is known before any row is read
    subject: Subject
    side: Side = "around"  # on which side of the centre values lie
    tree: QuantileTree | None = None  # step A, with slopes for one row; None where the interval is known
    prior: CompiledPrior | None = None  # of the quantiles of step A
    centre: float | None = None  # if it is known
    anchor: float | None = None  # of the radius, if it is known
    radius_epsilon: Fraction = Fraction(0)  # the price of step B for one unit
    rows_per_unit: int = 1  # K
    rows_wanted: float = 0.0  # how many rows step A needs where nothing is known
    by_group: bool = False  # whether each group has its own interval (`each_group`)
    unit: Unit = Row()  # noqa: RUF009  # frozen, without fields
    rows_of_unit: tuple[Fraction, Fraction] | None = None  # in all groups, and the largest sum of their squares

    def each_group(self, rows: GroupRows, of: int, source: Source) -> GroupIntervals:
        """Carry out steps A and B in every group by itself, on one of the numbers of some rows."""
        ranks = rows.ranks(of, self.subject.grid, source)
        lower, upper = self.subject.lower, self.subject.upper
        bounds = (-math.inf if lower is None else float(lower), math.inf if upper is None else float(upper))
        intervals, partition = [], source.partition()
        for place, each in enumerate(ranks):
            with source.over(partition=partition, group=place, rows_of_unit=self.rows_of_unit):
                intervals.append(self.reach(each, source))
        return GroupIntervals(intervals=tuple(intervals), bounds=bounds)

    def run(self, table: Table, groups: Groups, source: Source) -> ClipInterval:
        """Return the interval: the declared one, or a private one. Nothing about the rows raises."""
        if self.interval is not None:
            return self.interval
        return self.reach(self.subject.ranks(table, groups, source), source)

    def reach(self, ranks: Ranks, source: Source) -> ClipInterval:
        """Carry out steps A and B on ranks of the subject."""
        centre, anchor = self._centre(ranks, source)
        return self.widen(ranks, centre, anchor, source)

    def widen(self, ranks: Ranks, centre: float, anchor: float, source: Source) -> ClipInterval:
        """Carry out step B: draw the radius around a centre, from a prior around an anchor."""
        radii = self.subject.radii
        anchor = min(max(anchor, least_anchor(self.subject.grid, centre)), 1e300)
        prior = PowerLaw(anchor).compile(radii)
        inside = rows_near(ranks, self.subject.grid, centre, radii)
        drawn = select_radius(
            inside,
            prior,
            epsilon=self.radius_epsilon,
            source=source,
            rows_per_unit=self.rows_per_unit,
            unit=Row() if self.by_group else self.unit,
        )
        return self._interval(centre, radii.value(drawn))

    def _centre(self, ranks: Ranks, source: Source) -> tuple[float, float]:
        """Return the centre and the anchor of the radius."""
        assert self.tree is not None
        assert self.prior is not None
        grid = location_grid(self.subject, self.side)
        seen = Distances(ranks) if self.side == "zero" else ranks
        depths = None if self.by_group else DepthPrices(self.unit, self.rows_per_unit)
        found = descend(self.tree, seen, priors=self.prior, source=source, depths=depths)
        values = [grid.value(index) for index in found]
        middle = values[len(values) // 2]
        centre = middle if self.centre is None else self.centre
        if self.anchor is not None:
            return centre, self.anchor
        spread = values[-1] - values[0] if len(values) > 1 else abs(middle - centre)
        return centre, min(spread, sys.float_info.max)

    def _interval(self, centre: float, radius: float) -> ClipInterval:
        middle, reach = Fraction(centre), Fraction(radius)
        low = middle if self.side == "up" else middle - reach
        high = middle if self.side == "down" else middle + reach
        lower, upper = self.subject.lower, self.subject.upper
        low = low if lower is None else min(max(low, lower), high if upper is None else upper)
        high = high if upper is None else max(min(high, upper), low)
        low, high = (min(max(end, -FARTHEST), FARTHEST) for end in (low, high))
        return ClipInterval(lower=low, upper=high, centre=centre, radius=radius, rows_wanted=self.rows_wanted)


def clipping_of(
    subject: Subject,
    groups: Groups,
    budget: Budget,
    *,
    clip: Clip = "auto",
    values: Prior | None = None,
    around_zero: bool = False,
) -> Clipping:
    """Plan where to clip. Reads no row.

    Args:
        subject: The number, from `subject_of`.
        groups: Which rows count; their groups do not matter here.
        budget: The price of all three steps.
        clip: "auto" takes both declared bounds if nothing is predicted of the values; "declared" insists on them;
            "private" looks for an interval within them, "by_group" for one in each group; a pair of public numbers is
            the interval.
        values: A prediction of the values: its middle, and how far they spread.
        around_zero: For sums, whose sensitivity is the farther end: the centre is 0.
    """
    check_bounds(subject)
    if isinstance(clip, tuple):
        return Clipping(measure=budget, subject=subject, interval=_asked(subject, clip))
    if clip not in ("auto", "declared", "private", "by_group"):
        raise RangeError(f"clip must be 'auto', 'declared', 'private', 'by_group' or (lower, upper), got {clip!r}")
    if clip == "by_group" and not groups.axes and groups.label is None:
        raise SchemaError("clip='by_group' finds an interval in each group, and there are none; give by=...")
    if clip == "by_group":
        check_trees(groups)
    if clip == "declared" or (clip == "auto" and values is None):
        if subject.lower is not None and subject.upper is not None:
            return Clipping(
                measure=budget, subject=subject, interval=ClipInterval(lower=subject.lower, upper=subject.upper)
            )
        if clip == "declared":
            raise SchemaError("clip='declared' needs both bounds; declare Number(..., lower=..., upper=...)")
    by_group, predicted = clip == "by_group", values is not None
    given = clip_shares(budget.kind, predicted=predicted)
    side = _side(subject, around_zero=around_zero)
    location, scale = (None, None) if values is None else middle_and_spread(values)
    start = {"around": None, "up": subject.lower, "down": subject.upper, "zero": Fraction(0)}[side]
    levels = _levels(side, predicted=predicted)
    depth = 2 if len(levels) > 1 else 1
    slope, of_centre = _of_a_row(budget.part(given.centre / depth), groups, by_group=by_group)
    tree = quantile_tree(levels, epsilon=depth * slope)
    slope, of_radius = _of_a_row(budget.part(given.radius), groups, by_group=by_group)
    if slope < SMALLEST_EPSILON:
        raise RangeError("this price is too small to find where to clip; declare both bounds, or pay more")
    return Clipping(
        measure=budget.part(given.measure),
        parts=((depth, of_centre), (1, of_radius)),
        subject=subject,
        side=side,
        tree=tree,
        prior=location_prior(subject, location, scale, side=side).compile(location_grid(subject, side)),
        centre=None if start is None else float(start),
        anchor=scale if side == "around" else None,
        radius_epsilon=slope * (1 if by_group else groups.norms.total),
        rows_per_unit=1 if by_group else groups.norms.total,
        by_group=by_group,
        unit=groups.unit,
        rows_of_unit=(Fraction(groups.norms.total), Fraction(groups.norms.l2_squared)),
        rows_wanted=0.0 if predicted else _ROWS_BY_STEP_A / float(tree.epsilon),
    )


def check_bounds(subject: Subject) -> None:
    """Refuse declared bounds that no interval reaches: their rows would all count as its end."""
    for bound in (subject.lower, subject.upper):
        if bound is not None and abs(bound) > FARTHEST:
            raise RangeError("bounds beyond 2**500 (about 3e150) cannot be measured in; change the unit of the column")


def check_trees(groups: Groups) -> None:
    """Refuse more groups than can have a tree of selections each: a release takes minutes, no more."""
    if groups.cells > _MOST_TREES:
        raise RangeError(
            f"at most {_MOST_TREES} groups can have quantiles or an interval of their own, got {groups.cells}; use "
            "fewer columns or labels, or ask for means with one interval"
        )


def _of_a_row(part: Budget, groups: Groups, *, by_group: bool) -> tuple[Fraction, Claims]:
    """Return the slope for one row of selections that a part of the price pays, and what they cost a unit.

    All rows are in one selection: a unit's K rows move its exponents by K slopes. By group: see the head of this file.
    """
    norms = groups.norms
    if not by_group:
        return part.spread / norms.total, part.selection_claims(**groups.context)
    row = Budget(part.kind, part.amount / (norms.total if part.is_pure else norms.l2_squared))
    return row.spread, by_rows(row.selection_claims(**groups.context), groups)


def _asked(subject: Subject, clip: tuple[Real, Real]) -> ClipInterval:
    """Return a public interval within the declared bounds."""
    if len(clip) != 2:
        raise RangeError(f"clip takes two numbers, (lower, upper), got {len(clip)}")
    low, high = (exact_number(end, name="an end of clip") for end in clip)
    if not low < high:
        raise RangeError(f"clip needs lower < upper, got {clip[0]} and {clip[1]}")
    low = low if subject.lower is None else max(low, subject.lower)
    high = high if subject.upper is None else min(high, subject.upper)
    if not low < high:
        raise RangeError(f"clip=({clip[0]}, {clip[1]}) lies outside the declared bounds; no value could be in it")
    if max(abs(low), abs(high)) > FARTHEST:
        raise RangeError("clip must lie within 2**500 (about 3e150) of 0; change the unit of the column")
    return ClipInterval(lower=low, upper=high)


def _side(subject: Subject, *, around_zero: bool) -> Side:
    """Return where values lie as seen from what is declared."""
    if around_zero:
        if subject.lower is not None and subject.lower >= 0:
            return "up" if subject.lower == 0 else "zero"
        return "down" if subject.upper == 0 else "zero"
    if subject.lower is not None and subject.upper is None:
        return "up"
    return "down" if subject.upper is not None and subject.lower is None else "around"


def _levels(side: Side, *, predicted: bool) -> tuple[Fraction, ...]:
    """Return the quantiles of step A: three quartiles, the median where the spread is predicted, or an outer one."""
    if side == "around":
        return (Fraction(1, 2),) if predicted else (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
    return (Fraction(1, 4),) if side == "down" else (Fraction(3, 4),)
