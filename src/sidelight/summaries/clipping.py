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
from typing import Any, Literal

from sidelight.aggregates.collect_ranks import GroupRows
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import CODE_LIMIT, FloatGrid, Grid, Outcomes
from sidelight.guarantees import Claims, Context, Row, Unit, exact
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.rank_selection import SMALLEST_EPSILON, rows_near, select_radius
from sidelight.noise import Source
from sidelight.predictions import Cauchy, Prior, ScaleFree, hedge
from sidelight.predictions.compiled import CompiledPrior
from sidelight.predictions.location_scale import PowerLaw
from sidelight.quantiles.descend import DepthPrices, descend
from sidelight.quantiles.outcomes import default_prior
from sidelight.quantiles.prepared import by_rows
from sidelight.quantiles.tree import QuantileTree, quantile_tree
from sidelight.records import Number, Table
from sidelight.records.numbers import Real, exact_number
from sidelight.summaries.clip_subject import Distances, GroupIntervals
from sidelight.summaries.clip_subject import Interval as Interval
from sidelight.summaries.clip_subject import Subject as Subject
from sidelight.summaries.clip_subject import subject_of as subject_of
from sidelight.summaries.shares import ClipShares, clip_shares

#: How to clip: by declared bounds where there are two and nothing is predicted, else privately; or at public ends.
Clip = Literal["auto", "declared", "private", "by_group"] | tuple[Real, Real]
Centre = Literal["auto", "private", "predicted"]
Side = Literal["around", "up", "down", "zero"]

#: The weight of knowing nothing beside a predicted centre.
HEDGE = 0.1
#: Below so many expected rows times epsilon a predicted centre is better taken as it is.
_FEW_ROWS = 300
#: Groups that may have a tree of selections each.
_MOST_TREES = 1 << 14
#: No interval reaches further, so that squares of its width stay numbers.
FARTHEST = Fraction(2) ** 500
#: Rows times the epsilon of step A, below which it fails too often: 1000/ε rows at its share of an eighth.
_ROWS_BY_STEP_A = 125.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Clipping:
    """A plan of steps A and B: everything about it is public. Make one with `clipping_of`.

    Guarantee: that of all `parts` together for the interval, whatever the data and the prediction are. Together with
    step C they cost the price.

    Args:
        measure: What is left of the price for step C.
        parts: What A and B cost, each with how often it runs: nothing where the interval is known.
        interval: Where to clip, if that is known before any row is read.
        subject: The number.
        side: On which side of the centre values lie.
        tree: Step A, with slopes for one row; None where the centre is known.
        prior: Of the quantiles of step A, compiled.
        centre: Where the centre is, if that is known.
        anchor: Of the radius, if that is known.
        radius_epsilon: The price of step B for one unit.
        rows_per_unit: K.
        rows_wanted: How many rows it takes where nothing is known.
        by_group: Whether each group has an interval of its own (`each_group`).
        unit: The protected unit.
        rows_of_unit: How many rows it has in all groups, and the largest sum of their squares.
    """

    measure: Budget
    parts: tuple[tuple[int, Claims], ...] = ()
    interval: Interval | None = None
    subject: Subject
    side: Side = "around"
    tree: QuantileTree | None = None
    prior: CompiledPrior | None = None
    centre: float | None = None
    anchor: float | None = None
    radius_epsilon: Fraction = Fraction(0)
    rows_per_unit: int = 1
    rows_wanted: float = 0.0
    by_group: bool = False
    unit: Unit = Row()  # noqa: RUF009  # frozen, without fields
    rows_of_unit: tuple[Fraction, Fraction] | None = None

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

    def run(self, table: Table, groups: Groups, source: Source) -> Interval:
        """Return the interval: the declared one, or a private one. Nothing about the rows raises."""
        if self.interval is not None:
            return self.interval
        return self.reach(self.subject.ranks(table, groups, source), source)

    def reach(self, ranks: Ranks, source: Source) -> Interval:
        """Carry out steps A and B on ranks of the subject."""
        centre, anchor = self._centre(ranks, source)
        return self.widen(ranks, centre, anchor, source)

    def widen(self, ranks: Ranks, centre: float, anchor: float, source: Source) -> Interval:
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
        radius = radii.value(drawn)
        return self._interval(centre, radius)

    def _centre(self, ranks: Ranks, source: Source) -> tuple[float, float]:
        """Return the centre and the anchor of the radius."""
        grid, values = _location_grid(self.subject, self.side), [0.0]
        if self.tree is not None:
            assert self.prior is not None
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

    def _interval(self, centre: float, radius: float) -> Interval:
        middle, reach = Fraction(centre), Fraction(radius)
        low = middle if self.side == "up" else middle - reach
        high = middle if self.side == "down" else middle + reach
        lower, upper = self.subject.lower, self.subject.upper
        low = low if lower is None else min(max(low, lower), high if upper is None else upper)
        high = high if upper is None else max(min(high, upper), low)
        low, high = (min(max(end, -FARTHEST), FARTHEST) for end in (low, high))
        return Interval(lower=low, upper=high, centre=centre, radius=radius, rows_wanted=self.rows_wanted)


def clipping_of(
    subject: Subject,
    groups: Groups,
    budget: Budget,
    *,
    clip: Clip = "auto",
    values: Prior | None = None,
    centre: Centre = "auto",
    expected_rows: float | None = None,
    location_share: Any = None,
    around_zero: bool = False,
    shares: ClipShares | None = None,
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
        centre: "predicted" takes the predicted centre as it is; "auto" does so where few rows are expected.
        expected_rows: How many rows are expected, a public guess.
        location_share: The share of the price for step A; more helps where rows are few.
        around_zero: For sums, whose sensitivity is the farther end: the centre is 0.
        shares: Of the steps, where a caller has its own.

    Raises:
        SchemaError: `clip="declared"` without two bounds, `clip="by_group"` without groups.
        RangeError: an interval without a number in it, a share that is none, bounds too far away.
    """
    for bound in (subject.lower, subject.upper):
        if bound is not None and abs(bound) > FARTHEST:
            raise RangeError("bounds beyond 2**500 (about 3e150) cannot be measured in; change the unit of the column")
    if isinstance(clip, tuple):
        return Clipping(measure=budget, subject=subject, interval=_asked(subject, clip))
    if clip not in ("auto", "declared", "private", "by_group"):
        raise RangeError(f"clip must be 'auto', 'declared', 'private', 'by_group' or (lower, upper), got {clip!r}")
    if clip == "by_group" and not groups.axes and groups.label is None:
        raise SchemaError("clip='by_group' finds an interval in each group, and there are none; give by=...")
    if clip == "by_group":
        check_trees(groups)
    if centre not in ("auto", "private", "predicted"):
        raise RangeError(f"centre must be 'auto', 'private' or 'predicted', got {centre!r}")
    if clip == "declared" or (clip == "auto" and values is None):
        if subject.lower is not None and subject.upper is not None:
            return Clipping(
                measure=budget, subject=subject, interval=Interval(lower=subject.lower, upper=subject.upper)
            )
        if clip == "declared":
            raise SchemaError("clip='declared' needs both bounds; declare Number(..., lower=..., upper=...)")
    return _private(
        subject,
        groups,
        budget,
        values=values,
        trusted=_trusted(centre, values, expected_rows, budget),
        location_share=location_share,
        around_zero=around_zero,
        shares=shares,
        by_group=clip == "by_group",
    )


def _private(
    subject: Subject,
    groups: Groups,
    budget: Budget,
    *,
    values: Prior | None,
    trusted: bool,
    location_share: Any,
    around_zero: bool,
    shares: ClipShares | None,
    by_group: bool,
) -> Clipping:
    known: Literal["nothing", "values", "centre"] = (
        "centre" if trusted else "values" if values is not None else "nothing"
    )
    given = clip_shares(budget.kind, known=known) if shares is None else shares
    if location_share is not None and not trusted:
        part = exact(location_share, name="location_share")
        if not 0 < part < 1 - given.radius:
            raise RangeError(f"location_share must lie between 0 and {1 - given.radius}, got {location_share}")
        given = ClipShares(centre=part, radius=given.radius, measure=1 - part - given.radius)
    side = _side(subject, around_zero=around_zero)
    location, scale = (None, None) if values is None else middle_and_spread(values)
    start = {"around": None, "up": subject.lower, "down": subject.upper, "zero": Fraction(0)}[side]
    fixed = None if start is None else float(start)
    parts: list[tuple[int, Claims]] = []
    tree = prior = anchor = None
    if trusted:
        assert location is not None
        assert scale is not None
        anchor = 2 * scale if fixed is None else abs(location - fixed) + 2 * scale
        fixed = location if fixed is None else fixed
    else:
        levels = _levels(side, predicted=values is not None)
        depth = 2 if len(levels) > 1 else 1
        if given.centre > 0:
            slope, claims = _of_a_row(budget.part(given.centre / depth), groups, by_group=by_group)
            tree = quantile_tree(levels, epsilon=depth * slope)
            parts.append((depth, claims))
        prior = _location_prior(subject, side, location, scale).compile(_location_grid(subject, side))
        anchor = scale if side == "around" and scale is not None else None
    slope, claims = _of_a_row(budget.part(given.radius), groups, by_group=by_group)
    if slope < SMALLEST_EPSILON:
        raise RangeError("this price is too small to find where to clip; declare both bounds, or pay more")
    parts.append((1, claims))
    return Clipping(
        measure=budget.part(given.measure),
        parts=tuple(parts),
        subject=subject,
        side=side,
        tree=tree,
        prior=prior,
        centre=fixed,
        anchor=anchor,
        radius_epsilon=slope * (1 if by_group else groups.norms.total),
        rows_per_unit=1 if by_group else groups.norms.total,
        by_group=by_group,
        unit=groups.unit,
        rows_of_unit=(Fraction(groups.norms.total), Fraction(groups.norms.l2_squared)),
        rows_wanted=_ROWS_BY_STEP_A / float(tree.epsilon) if known == "nothing" and tree is not None else 0.0,
    )


def check_trees(groups: Groups) -> None:
    """Refuse more groups than can have a tree of selections each: what runs after a charge takes minutes, no more."""
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
    context: Context = {"neighbours": norms.neighbours, "unit": groups.unit}
    if not by_group:
        return part.spread / norms.total, part.selection_claims(**context)
    row = Budget(part.kind, part.amount / (norms.total if part.is_pure else norms.l2_squared))
    return row.spread, by_rows(row.selection_claims(**context), groups)


def middle_and_spread(values: Prior) -> tuple[float, float]:
    """Return where a prediction expects values and how far they spread: a Cauchy's own numbers, else the quartiles."""
    if isinstance(values, Cauchy):
        return values.location, values.scale
    if isinstance(values, ScaleFree):
        raise RangeError("a scale-free prior predicts nothing of the values; leave it out, or give a Cauchy(...)")
    low, middle, high = (float(values.inverse_in(-float("inf"), float("inf"), level)) for level in (0.25, 0.5, 0.75))
    return middle, max(high - low, abs(middle) * 2.0**-40, sys.float_info.min)


def _asked(subject: Subject, clip: tuple[Real, Real]) -> Interval:
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
    return Interval(lower=low, upper=high)


def _trusted(centre: Centre, values: Prior | None, expected_rows: float | None, budget: Budget) -> bool:
    """Return whether the predicted centre is taken as it is."""
    if expected_rows is not None and not expected_rows >= 0:
        raise RangeError(f"expected_rows must be a number of at least 0, got {expected_rows}")
    if centre == "predicted" and values is None:
        raise RangeError(
            "centre='predicted' needs a prediction of the values, such as sl.priors.Cauchy(40_000, 15_000)"
        )
    if centre != "auto" or values is None:
        return centre == "predicted"
    epsilon = float(budget.amount if budget.is_pure else budget.spread / 2)
    return expected_rows is not None and expected_rows * epsilon < _FEW_ROWS


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


def _location_grid(subject: Subject, side: Side) -> Outcomes:
    """Return the grid of step A: that of the column, or of distances from 0."""
    if side != "zero":
        return subject.grid
    if isinstance(subject.grid, Grid):
        return Grid(resolution=subject.grid.resolution, first=0, last=CODE_LIMIT, snap=subject.grid.snap)
    return FloatGrid(lowest=0.0)


def _location_prior(subject: Subject, side: Side, location: float | None, scale: float | None) -> Prior:
    """Return the prior of step A: of someone who knows the bounds only, nine tenths of it the prediction if any."""
    lower, upper = (Fraction(0), None) if side == "zero" else (subject.lower, subject.upper)
    if lower is not None and upper is not None and lower >= upper:
        lower = upper = None
    base = default_prior(Number("value", lower=lower, upper=upper))
    if location is None or scale is None:
        return base
    around = abs(location) if side == "zero" else location
    return hedge(Cauchy(around, scale), with_=base, weight=HEDGE)


def location_prior(subject: Subject, values: Prior | None) -> Prior:
    """Return the prior of quantiles of a subject: of its bounds, and of predicted values if there are any."""
    location, scale = (None, None) if values is None else middle_and_spread(values)
    return _location_prior(subject, "around", location, scale)


def least_anchor(grid: Outcomes, centre: float) -> float:
    """Return the least anchor of a radius: the step of the grid, on floats one relative to the centre."""
    if isinstance(grid, Grid):
        return float(grid.resolution)
    return abs(centre) * 2.0**-40 or 2.0**-20
