"""Counts, means and squares of numbers by group: one plan of what is spent on groups, interval and reading.

Means, sums, proportions and spreads are all planned so. What comes out is a `reading.Measured`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from sidelight.aggregates.bounded import Norm
from sidelight.aggregates.collect_ranks import ranks_by_group
from sidelight.aggregates.group_rows import GroupRows, level_value, rows_by_group
from sidelight.aggregates.group_sums import GroupStatistics, Kind, group_statistics
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.ranks import DitheredRanks
from sidelight.aggregates.values import Value, value_of
from sidelight.errors import SchemaError
from sidelight.group_table import GroupTable
from sidelight.guarantees import GDP, Claims, Context, PureDP, native_claims
from sidelight.guarantees.intervals import root_below, root_down
from sidelight.mechanisms.budget import Budget, together
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.records.expressions import Expression
from sidelight.session.query import Answer
from sidelight.summaries.clip_subject import GroupIntervals, Interval, Subject
from sidelight.summaries.clipping import Clipping
from sidelight.summaries.count_tables import check_noise, group_labels
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.intervals import count_and_sum_error, pair_error
from sidelight.summaries.label_selection import LabelPrice, label_price, least_shown
from sidelight.summaries.noise_choice import choose_noise
from sidelight.summaries.predicted import Group, PredictedTable
from sidelight.summaries.reading import Measured, gaussian_readings, pure_readings
from sidelight.summaries.shares import count_and_sums


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement:
    """The plan of a reading: what is clipped how, what is released, and what it costs. All of it is public.

    Args:
        groups: Which rows count, and where.
        of: The number.
        clipping: Where it is clipped; its `measure` pays for the reading.
        spread: Whether the second moment is wanted. Gaussian readings always have it.
        labels: How groups are found that nobody declared, and what finding and reading prove together.
    """

    groups: Groups
    of: str | Expression
    clipping: Clipping
    spread: bool = False
    labels: LabelPrice | None = None

    @property
    def budget(self) -> Budget:
        """What the reading itself may cost."""
        return self.clipping.measure

    @property
    def law(self) -> str:
        """The law of the noise."""
        return "laplace" if self.budget.is_pure else "gaussian"

    @property
    def parts(self) -> tuple[tuple[int, Claims], ...]:
        """What each step costs, and how often it runs."""
        return parts_together([self])

    @property
    def claims(self) -> Claims:
        """What interval and reading prove together; with groups that had to be found, these, too."""
        if self.labels is None or self.labels.claims is None:
            return together(self.parts)
        return self.labels.claims

    @property
    def known(self) -> tuple[Group, ...]:
        """The labels of the groups that are public before any row is read."""
        return group_names(self.groups) if self.labels is None else self.labels.selection.known

    @property
    def finds(self) -> bool:
        """Whether further groups may be found."""
        return self.labels is not None and self.labels.selection.law is not None

    @property
    def adds_up(self) -> bool:
        """Whether rows are only added up: groups are declared, and all have one interval."""
        return self.groups.label is None and not self.clipping.by_group

    def shown(self, table: Table, source: Source) -> tuple[Group, ...]:
        """Return the labels of all groups that are read: the declared ones, or those that are shown. A release."""
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
        """Return the answer of a table with these columns; where groups were found it says which were known before."""
        shown = {}
        if self.labels is not None:
            columns = {**columns, "known": np.arange(len(names)) < len(self.known)}
            least = least_shown(self.labels.selection.law)
            shown = {"shown_from": least} if least else {}
        told = {"noise": self.law, **notes, **shown, **self.groups.notes}
        table = GroupTable(keys=keys, groups=names, columns=columns, notes=told)
        return Answer(value=table, labels=group_labels(names, table.columns[0]) if self.finds else ())

    def run(self, table: Table, source: Source) -> Measured:
        """Find the groups and the interval, and read all groups in it. Nothing about the rows raises."""
        return measure_together([self], table, source, names=self.shown(table, source))[0]

    def read(
        self, table: Table, interval: Interval, source: Source, *, names: tuple[Group, ...] | None = None
    ) -> Measured:
        """Read all groups, or those of these names, in a public or released interval."""
        return read_together([self], table, [interval], source, names=self.known if names is None else names)[0]


def measure_together(
    plans: Sequence[Measurement], table: Table, source: Source, *, names: tuple[Group, ...]
) -> list[Measured]:
    """Find where to clip each of several numbers of the same rows, in all rows or in each group, and read them."""
    first = plans[0]
    if not first.clipping.by_group:
        intervals = [plan.clipping.run(table, plan.groups, source) for plan in plans]
        return read_together(plans, table, intervals, source, names=names)
    rows = first.rows(table, names, [plan.clipping.subject for plan in plans])
    found = [plan.clipping.each_group(rows, place, source) for place, plan in enumerate(plans)]
    values = [level_value(plan.clipping.subject.coding) for plan in plans]
    codes = [
        rows.clipped(place, plan.clipping.subject.grid, value, each.lower, each.upper)
        for place, (plan, value, each) in enumerate(zip(plans, values, found, strict=True))
    ]
    return _noisy(
        plans, lambda kind, norm: rows.statistics(values, codes, kind=kind, norm=norm), values, found, source, names
    )


def read_together(
    plans: Sequence[Measurement],
    table: Table,
    intervals: Sequence[Interval],
    source: Source,
    *,
    names: tuple[Group, ...],
) -> list[Measured]:
    """Read several numbers of the same rows, which pay together: one count under Gaussian noise, a pair each if pure.

    Guarantee: the budgets of all plans added up. A row's vectors stand side by side, so L1 norms add up, and L2²
    (summaries proof page, Theorem 3). Rows that lack one of the numbers are left out.

    Args:
        plans: What is read of each number; groups and noise are the same.
        table: The rows.
        intervals: Where each number is clipped: public or released.
        source: Of the noise.
        names: The groups that are read.
    """
    schema = plans[0].groups.schema
    pairs = zip(plans, intervals, strict=True)
    values = [value_of(schema, plan.of, lower=each.lower, upper=each.upper) for plan, each in pairs]

    def statistics(kind: Kind, norm: Norm) -> GroupStatistics:
        return plans[0].statistics(table, names, values, kind=kind, norm=norm)

    return _noisy(plans, statistics, values, intervals, source, names)


def _noisy(
    plans: Sequence[Measurement],
    statistics: Callable[[Kind, Norm], GroupStatistics],
    values: Sequence[Value],
    intervals: Sequence[Interval | GroupIntervals],
    source: Source,
    names: tuple[Group, ...],
) -> list[Measured]:
    """Add the noise that the budgets of all plans buy together to statistics of values that are clipped."""
    first, budget = plans[0], whole_budget(plans)
    if budget.is_pure:
        found = statistics("triple" if first.spread else "pair", "l1")
        each = budget.part(Fraction(1, len(plans)))
        return pure_readings(found, values, intervals, each, source, spread=first.spread, names=names)
    found = statistics("disc", "l2")
    return gaussian_readings(found, values, intervals, mu_of(budget), first.groups.norms, source, names=names)


def whole_budget(plans: Sequence[Measurement]) -> Budget:
    """Return what the readings of several numbers may cost together."""
    return Budget(plans[0].budget.kind, sum((plan.budget.amount for plan in plans), Fraction(0)))


def parts_together(plans: Sequence[Measurement]) -> tuple[tuple[int, Claims], ...]:
    """Return what each step costs where several numbers are read together, and how often it runs."""
    groups, budget = plans[0].groups, whole_budget(plans)
    context: Context = {"neighbours": groups.norms.neighbours, "unit": groups.unit}
    if budget.is_pure:
        reading = native_claims(PureDP(budget.amount, **context), mechanism="discrete_laplace")
    else:
        reading = native_claims(GDP(mu_of(budget), **context), mechanism="rounded_gaussian")
    return (*(part for plan in plans for part in plan.clipping.parts), (1, reading))


def mean_error(plan: Measurement, rows: float, *, confidence: float) -> float | None:
    """Return how far the mean of a group of so many rows is off at most, as measured, by Theorem 5; reads no row.

    None where the interval has to be found, or the second moment is measured with it under pure noise.
    """
    interval, groups, budget = plan.clipping.interval, plan.groups, plan.budget
    if interval is None or (budget.is_pure and plan.spread):
        return None
    value = value_of(groups.schema, plan.of, lower=interval.lower, upper=interval.upper)
    width = float(value.upper - value.lower)
    if budget.is_pure:
        scale = (groups.norms.total * float(1 / budget.amount) * value.levels + 1) / value.levels
        return width * pair_error(rows, scale=scale, confidence=confidence)
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


def budget_of(query: Grouped, groups: Groups, *, columns: int = 1) -> Budget:
    """Return the price of a query as the budget of the noise that is smaller for its counts (`choose_noise`).

    Of several columns the L1 norm is that of one times their number, and L2² too: d² against d in the variance.
    """
    chosen = check_noise(choose_noise(groups.norms, **query.price, noise=query.noise))
    if columns > 1 and query.delta is not None and query.noise == "auto":
        laplace, gaussian = (choose_noise(groups.norms, **query.price, noise=law) for law in ("laplace", "gaussian"))
        chosen = check_noise(laplace if columns * laplace.variance <= gaussian.variance else gaussian)
    if chosen.kind == "laplace":
        assert chosen.epsilon is not None
        return Budget("epsilon", chosen.epsilon)
    return Budget.of(**query.price)


def labels_and_budget(
    query: Grouped, schema: Schema, groups: Groups, known: Any, *, columns: int = 1
) -> tuple[LabelPrice | None, Budget]:
    """Return how groups are found that nobody declared, if there are any, and what is left to measure in them."""
    whole = budget_of(query, groups, columns=columns)
    if groups.label is not None:
        found = label_price(query, schema, groups, known=known, whole=whole)
        return found, found.measure
    if known is not None:
        raise SchemaError("known= is for labels that nobody declared; by names declared ones, which all are known")
    return None, whole


def check_prediction(table: PredictedTable | None, plan: Measurement) -> None:
    """Refuse a prediction that is about none of the groups; of groups that are yet to be found nobody can tell."""
    if table is not None and not plan.finds:
        table.check(plan.known)


def group_names(groups: Groups) -> tuple[tuple[str, ...], ...]:
    """Return the labels of each cell, in their order."""
    return tuple(product(*groups.keys))
