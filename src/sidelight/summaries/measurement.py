"""Counts, means and squares of a number by group: choose the clipping interval, measure, add noise.

Means, sums, proportions, spreads and summaries are all measured this way; `moments.MeasuredGroups` is read from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from sidelight.aggregates.bounded import Bounded, ContributionBounds, Norm
from sidelight.aggregates.collect_ranks import GroupRows, level_value, ranks_by_group, rows_by_group
from sidelight.aggregates.group_sums import GroupStatistics, Kind, group_statistics
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.ranks import DitheredRanks
from sidelight.aggregates.values import Value, value_of
from sidelight.errors import SchemaError
from sidelight.group_table import GroupTable
from sidelight.guarantees import GDP, Claims, PureDP, native_claims
from sidelight.guarantees.intervals import root_below, root_down
from sidelight.mechanisms.additive import SeveralGaussians
from sidelight.mechanisms.budget import Budget, together
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.records.expressions import Expression
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.clip_subject import ClipInterval, GroupIntervals, Subject
from sidelight.summaries.clipping import Clipping
from sidelight.summaries.grouped import Grouped, group_labels
from sidelight.summaries.intervals import count_and_sum_error, pair_error
from sidelight.summaries.label_selection import LabelPrice, label_price, least_shown
from sidelight.summaries.moments import MeasuredGroups, from_count_and_sums, from_pair, from_sizes, from_triple
from sidelight.summaries.noise_choice import (
    check_noise,
    choose_noise,
    count_and_sums,
    gaussian_variance,
    laplace_variance,
)
from sidelight.summaries.predicted import Group, PredictedTable


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement:
    """A public plan of a measurement: its groups, where the number is clipped, and what it costs."""

    groups: Groups
    of: str | Expression
    clipping: Clipping  # its `measure` pays for the measurement
    spread: bool = False  # whether the second moment is wanted; Gaussian measurements always have it
    labels: LabelPrice | None = None  # how undeclared groups are found, and what all of it proves together
    sizes: tuple[int, ...] | None = None  # public numbers of rows of the groups, where the owner declares them

    @property
    def budget(self) -> Budget:
        """What the measurement itself may cost."""
        return self.clipping.measure

    @property
    def law(self) -> str:
        """The law of the noise."""
        return "laplace" if self.budget.is_pure else "gaussian"

    @property
    def claims(self) -> Claims:
        """What interval and measurement prove together; with undeclared groups, finding these, too."""
        if self.labels is None or self.labels.claims is None:
            return together(parts_together([self]))
        return self.labels.claims

    @property
    def known(self) -> tuple[Group, ...]:
        """The labels of the groups that are public before any row is read."""
        return tuple(product(*self.groups.keys)) if self.labels is None else self.labels.selection.known

    @property
    def finds(self) -> bool:
        """Whether further groups may be found."""
        return self.labels is not None and self.labels.selection.law is not None

    @property
    def is_additive(self) -> bool:
        """Whether the query is additive over rows: groups are declared, and all share one interval."""
        return self.groups.label is None and not self.clipping.by_group

    def shown(self, table: Table, source: Source) -> tuple[Group, ...]:
        """Return the labels of all groups that are measured: the declared ones, or those released. A release."""
        return self.known if self.labels is None else self.labels.selection.shown(table, source)

    def statistics(
        self, table: Table, names: Sequence[Group], values: Sequence[Value], *, kind: Kind, norm: Norm
    ) -> GroupStatistics:
        """Add up some values in the groups of these names, which are public by now."""
        found = group_statistics(table, self.groups, values, kind=kind, norm=norm)
        return found if self.labels is None else found.only(self.labels.selection.inside(names))

    def rows(self, table: Table, names: Sequence[Group], subjects: Sequence[Subject]) -> GroupRows:
        """Read the rows of the groups of these names into memory, with some numbers of them. Private."""
        only = None if self.labels is None else self.labels.selection.inside(names)
        return rows_by_group(table, self.groups, [subject.coding for subject in subjects], only=only)

    def ranks(self, table: Table, names: Sequence[Group], source: Source) -> tuple[DitheredRanks, ...]:
        """Return the ranks of the number in each of the groups of these names. Private."""
        subject = self.clipping.subject
        if self.labels is None:
            return ranks_by_group(table, subject.coding, subject.grid, source, groups=self.groups)
        return self.rows(table, names, [subject]).ranks(0, subject.grid, source)

    def answer(self, columns: dict[str, Any], names: Sequence[Group], *, keys: Sequence[str], **notes: Any) -> Answer:
        """Return the answer with these columns; where groups were found it says which were known before."""
        shown = {}
        if self.labels is not None:
            columns = {**columns, "known": np.arange(len(names)) < len(self.known)}
            least = least_shown(self.labels.selection.law)
            shown = {"shown_from": least} if least else {}
        all_notes = {"noise": self.law, **notes, **shown, **self.groups.notes}
        table = GroupTable(keys=keys, groups=names, columns=columns, notes=all_notes)
        return Answer(value=table, labels=group_labels(names, table.columns[0]) if self.finds else ())

    def run(self, table: Table, source: Source) -> MeasuredGroups:
        """Find the groups and the interval, and measure all groups in it. Nothing about the rows raises."""
        return measure_together([self], table, source, names=self.shown(table, source))[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedMeasurement(SurePrepared):
    """A query of a number fitted to a schema, with the plan of its measurement."""

    plan: Measurement

    @property
    def is_additive(self) -> bool:
        """Whether the query is additive over rows."""
        return self.plan.is_additive


def measure_together(
    plans: Sequence[Measurement],
    table: Table,
    source: Source,
    *,
    names: tuple[Group, ...],
    intervals: Sequence[ClipInterval] | None = None,
) -> list[MeasuredGroups]:
    """Clip and measure several numbers of the same rows: one count under Gaussian noise, a pair each if pure.

    Guarantee: the budgets of all plans added up. A row's vectors stand side by side, so L1 norms are additive, and L2²
    (summaries proof page, Theorem 3). Rows that lack one of the numbers are left out.

    Args:
        plans: What is measured of each number; groups and noise are the same.
        table: The rows.
        source: Of the noise.
        names: The groups that are measured.
        intervals: Where each number is clipped, if that is declared or released already.
    """
    first, budget = plans[0], whole_budget(plans)
    kind: Kind = "disc" if not budget.is_pure else "triple" if first.spread else "pair"
    norm: Norm = "l1" if budget.is_pure else "l2"
    clipped: Sequence[ClipInterval | GroupIntervals]
    if first.clipping.by_group:
        rows = first.rows(table, names, [plan.clipping.subject for plan in plans])
        own = [plan.clipping.each_group(rows, place, source) for place, plan in enumerate(plans)]
        values = [level_value(plan.clipping.subject.coding) for plan in plans]
        codes = [
            rows.clipped(place, plan.clipping.subject.grid, value, each.lower, each.upper)
            for place, (plan, value, each) in enumerate(zip(plans, values, own, strict=True))
        ]
        clipped, found = own, rows.statistics(values, codes, kind=kind, norm=norm)
    else:
        shared = intervals or [plan.clipping.run(table, plan.groups, source) for plan in plans]
        values = [
            value_of(plan.groups.schema, plan.of, lower=each.lower, upper=each.upper)
            for plan, each in zip(plans, shared, strict=True)
        ]
        clipped = [each.used(value) for each, value in zip(shared, values, strict=True)]
        found = first.statistics(table, names, values, kind=kind, norm=norm)
    if first.sizes is not None:
        return [_sized(found.values[0], values[0], clipped[0], budget, source, sizes=first.sizes, names=names)]
    if budget.is_pure:
        each_budget = budget.part(Fraction(1, len(plans)))
        return _laplace(found, values, clipped, each_budget, source, spread=first.spread, names=names)
    return _gaussian(found, values, clipped, mu_of(budget), first.groups.norms, source, names=names)


def _laplace(
    found: GroupStatistics,
    values: Sequence[Value],
    intervals: Sequence[ClipInterval | GroupIntervals],
    budget: Budget,
    source: Source,
    *,
    spread: bool,
    names: tuple[Group, ...],
) -> list[MeasuredGroups]:
    """Add Laplace noise to the pair or the triple of each number, each for this budget."""
    measured = []
    for value, interval, statistic in zip(values, intervals, found.values, strict=True):
        lower, upper = interval.ends(value)
        noise = budget.on(statistic)
        noisy = np.asarray(noise.release(source)).reshape(3 if spread else 2, len(names)).astype(np.float64)
        variance = laplace_variance(noise.scale)
        if spread:
            moments = from_triple(*noisy, levels=value.square_levels, variance=variance)
            sds = (math.sqrt(moments.count_variance), math.sqrt(moments.total_variance))
            each = MeasuredGroups(moments=moments, interval=interval, lower=lower, upper=upper, scales=sds, names=names)
            step = 1 / value.square_levels
        else:
            moments = from_pair(*noisy, levels=value.levels, variance=variance)
            pair = (noisy[0], noisy[1], float(noise.scale))
            each = MeasuredGroups(moments=moments, interval=interval, lower=lower, upper=upper, pair=pair, names=names)
            step = 1 / value.levels
        measured.append(replace(each, laplace=float(noise.scale) * step, step=step))
    return measured


def _sized(
    pair: Bounded,
    value: Value,
    interval: ClipInterval | GroupIntervals,
    budget: Budget,
    source: Source,
    *,
    sizes: tuple[int, ...],
    names: tuple[Group, ...],
) -> MeasuredGroups:
    """Add Laplace noise to the difference of each pair, Σ(2c-M), and divide by public sizes.

    Guarantee: that of the pair, whatever the sizes are: |ΔA - ΔB| <= |ΔA| + |ΔB| (summaries proof page, Theorem 3).
    """
    first, second = np.asarray(pair.value).reshape(2, len(names))
    noise = budget.on(replace(pair, value=first - second))
    noisy = np.asarray(noise.release(source)).reshape(len(names))
    moments = from_sizes(noisy, sizes, levels=value.levels, variance=laplace_variance(noise.scale))
    lower, upper = interval.ends(value)
    scale, step = float(noise.scale) / value.levels, 1 / value.levels
    return MeasuredGroups(
        moments=moments,
        interval=interval,
        lower=lower,
        upper=upper,
        laplace=scale,
        step=step,
        sized=True,
        names=names,
    )


def _gaussian(
    found: GroupStatistics,
    values: Sequence[Value],
    intervals: Sequence[ClipInterval | GroupIntervals],
    mu: Fraction,
    norms: ContributionBounds,
    source: Source,
    *,
    names: tuple[Group, ...],
) -> list[MeasuredGroups]:
    """Add Gaussian noise to one count and to the disc of each number, GDP(mu) for all of them together."""
    cells, columns = len(names), len(values)
    # entries of the disc have signs: replacing a unit would cost twice
    l2_squared = norms.l2_squared * norms.times
    scales = [
        count_and_sums(mu=mu, l2_squared=l2_squared, levels=value.square_levels, columns=columns) for value in values
    ]
    # the second moments have the noise scale of the sums
    every = [scales[0].count_scale, *(each.sum_scale for each in scales), *(each.sum_scale for each in scales)]
    # a row's entries of one disc are at most T long together, whichever of the two it moves
    count_moved, squares = Fraction(l2_squared), [Fraction(each.square_levels**2 * l2_squared) for each in values]
    noise = SeveralGaussians(
        scales=tuple(every),
        corners=((count_moved, *squares, *[Fraction(0)] * columns), (count_moved, *[Fraction(0)] * columns, *squares)),
        neighbours=norms.neighbours,
        unit=found.counts.unit,
        theorem="summaries proof page, Theorem 7",
    )
    discs = [np.asarray(each.value).reshape(2, cells) for each in found.values]
    exact = [np.asarray(found.counts.value).reshape(cells), *(each[0] for each in discs), *(each[1] for each in discs)]
    noisy = [each.astype(np.float64) for each in noise.release(exact, source)]
    measured = []
    for place, (value, interval) in enumerate(zip(values, intervals, strict=True)):
        levels, own = value.square_levels, scales[place]
        moments = from_count_and_sums(
            noisy[0],
            noisy[1 + place],
            noisy[1 + columns + place],
            levels=levels,
            count_variance=gaussian_variance(own.count_scale),
            total_variance=gaussian_variance(own.sum_scale),
            rest_variance=gaussian_variance(own.sum_scale),
        )
        lower, upper = interval.ends(value)
        sds = (float(own.count_scale), float(own.sum_scale / levels))
        each = MeasuredGroups(moments=moments, interval=interval, lower=lower, upper=upper, scales=sds, names=names)
        measured.append(replace(each, step=1 / levels))
    return measured


def whole_budget(plans: Sequence[Measurement]) -> Budget:
    """Return what the measurements of several numbers may cost together."""
    return Budget(plans[0].budget.kind, sum((plan.budget.amount for plan in plans), Fraction(0)))


def parts_together(plans: Sequence[Measurement]) -> tuple[tuple[int, Claims], ...]:
    """Return what each step costs where several numbers are measured together, and how often it runs."""
    groups, budget = plans[0].groups, whole_budget(plans)
    if budget.is_pure:
        reading = native_claims(PureDP(budget.amount, **groups.context), mechanism="discrete_laplace")
    else:
        reading = native_claims(GDP(mu_of(budget), **groups.context), mechanism="rounded_gaussian")
    return (*(part for plan in plans for part in plan.clipping.parts), (1, reading))


def mean_error(plan: Measurement, rows: float, *, confidence: float) -> float | None:
    """Return the largest likely error of a measured mean of this many rows, by Theorem 5; reads no row.

    None where the interval has to be found, or the second moment is measured with it under pure noise.
    """
    interval, groups, budget = plan.clipping.interval, plan.groups, plan.budget
    if interval is None or (budget.is_pure and plan.spread):
        return None
    value = value_of(groups.schema, plan.of, lower=interval.lower, upper=interval.upper)
    width = float(value.upper - value.lower)
    if budget.is_pure:
        scale = groups.norms.total * float(1 / budget.amount) * value.levels
        return width * pair_error(rows, scale=scale, levels=value.levels, confidence=confidence)
    levels = value.square_levels
    scales = count_and_sums(mu=mu_of(budget), l2_squared=groups.norms.l2_squared * groups.norms.times, levels=levels)
    return width * count_and_sum_error(
        rows,
        count_scale=float(scales.count_scale),
        sum_scale=float(scales.sum_scale / levels),
        rounding=1 / levels,
        confidence=confidence,
    )


def mu_of(budget: Budget) -> Fraction:
    """Return the μ of Gaussian noise that a budget buys: μ itself, or √(2ρ), rounded down."""
    return root_down(2 * budget.amount) if budget.kind == "rho" else root_below(budget.amount)


def labels_and_budget(
    query: Grouped, schema: Schema, groups: Groups, known: Any, *, columns: int = 1
) -> tuple[LabelPrice | None, Budget]:
    """Return how undeclared groups are found, if there are any, and the budget that is left to measure in them."""
    whole = _budget_of(query, groups, columns=columns)
    if groups.label is not None:
        found = label_price(query, schema, groups, known=known, whole=whole)
        return found, found.measure
    if known is not None:
        raise SchemaError("known= is for undeclared labels; by names declared ones, which all are known")
    return None, whole


def _budget_of(query: Grouped, groups: Groups, *, columns: int) -> Budget:
    """Return the price of a query as the budget of the noise that is smaller for its counts (`choose_noise`).

    Of several columns the L1 norm is that of one times their number, and L2² too: d² against d in the variance.
    """
    chosen = check_noise(choose_noise(groups.norms, **query.price))
    if columns > 1 and query.delta is not None:
        laplace, gaussian = (
            choose_noise(groups.norms, "laplace", **query.price),
            choose_noise(groups.norms, "gaussian", **query.price),
        )
        chosen = check_noise(laplace if columns * laplace.variance <= gaussian.variance else gaussian)
    if chosen.kind == "laplace":
        assert chosen.epsilon is not None
        return Budget("epsilon", chosen.epsilon)
    return Budget.of(**query.price)


def check_prediction(table: PredictedTable | None, plan: Measurement) -> None:
    """Refuse a prediction that has none of the groups; groups that are yet to be found cannot be checked."""
    if table is not None and not plan.finds:
        table.check(plan.known)
