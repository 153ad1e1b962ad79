"""Counts, means and squares of one number by group: one plan of what is spent, one noisy reading in units of -1..1.

Means, proportions and spreads are all read from it. Pure: the pair, or the triple where the spread is wanted. Gaussian:
count, centred sum and the second moment, which is free (summaries proof page, Theorems 2, 3, 6, 7). After the noise
everything is computed for t = (x - centre)/half of -1..1 and mapped back at the end, so that no unit is too large and
a column in cents has the mean of one in euros times 100.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from sidelight.aggregates.bounded import Norm
from sidelight.aggregates.group_sums import GroupStatistics, Kind, group_statistics
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.values import Value, value_of
from sidelight.errors import SchemaError
from sidelight.group_table import GroupTable
from sidelight.guarantees import GDP, Claims, Context, PureDP, native_claims
from sidelight.guarantees.intervals import root_down
from sidelight.mechanisms.budget import Budget, root_below, together
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.records.expressions import Expression
from sidelight.session.query import Answer
from sidelight.summaries.clipping import Clipping, Interval
from sidelight.summaries.count_tables import check_noise, group_labels
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.intervals import Ends, mean_from_count_and_sum, mean_from_pair
from sidelight.summaries.label_selection import LabelPrice, label_price, least_shown
from sidelight.summaries.noise_choice import choose_noise, gaussian_variance, laplace_variance
from sidelight.summaries.predicted import Group, PredictedTable
from sidelight.summaries.ratio import (
    Bounds,
    Floats,
    Moments,
    from_count_and_sums,
    from_pair,
    from_triple,
    mean_noise_variance,
    mean_of,
    variance_of,
)
from sidelight.summaries.shares import count_and_sums

#: The bounds of t.
UNIT = Bounds(lower=-1.0, upper=1.0, levels=1)
#: A group has support if its noisy count exceeds so many standard deviations of its noise.
SUPPORT = 3.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured:
    """A noisy reading of each group in units of t, and the interval that t = -1..1 stands for. All of it is released.

    Args:
        moments: Counts, sums and squares of t.
        interval: Where values were clipped.
        lower, upper: What -1 and 1 stand for.
        pair: The noisy pair and its noise scale, where that is what was released.
        scales: Otherwise the noise scales of the count and of Σt.
        names: The labels of each group.
    """

    moments: Moments
    interval: Interval
    lower: float
    upper: float
    pair: tuple[Any, Any, float] | None = None
    scales: tuple[float, float] = (0.0, 0.0)
    names: tuple[Group, ...] = ()

    @property
    def centre(self) -> float:
        """What t = 0 stands for."""
        return self.lower + self.half

    @property
    def half(self) -> float:
        """What one unit of t is worth."""
        return self.upper / 2 - self.lower / 2

    def number(self, t: Floats) -> Floats:
        """Return the numbers that some t stand for."""
        return np.clip(self.centre + self.half * t, self.lower, self.upper)

    def unit(self, x: Floats) -> Floats:
        """Return the t of some numbers, cut to -1..1; NaN stays."""
        with np.errstate(over="ignore"):  # however far a prediction is off, it is no warning of the data
            return np.clip((x - self.centre) / self.half, -1.0, 1.0)

    @property
    def taus(self) -> Floats:
        """The mean of t in each group, as it was released."""
        return mean_of(self.moments, UNIT)

    @property
    def overall(self) -> float:
        """The mean of t in all groups together."""
        return float(np.clip(self.moments.total.sum() / max(self.moments.count.sum(), 1.0), -1.0, 1.0))

    @property
    def noise_sd(self) -> Floats:
        """The standard deviation of the noise of each mean."""
        return self.half * np.sqrt(mean_noise_variance(self.moments, UNIT))

    @property
    def counts(self) -> dict[str, Floats]:
        """The columns about counts."""
        n = self.moments.count
        return {"count": np.maximum(n, 0.0), "count_unbiased": n}

    @property
    def supported(self) -> Any:
        """Whether the noisy counts say that a group has rows, and all together enough to have found the interval."""
        enough = self.moments.count.sum() >= self.interval.rows_wanted
        return (self.moments.count > SUPPORT * math.sqrt(self.moments.count_variance)) & enough

    def mean_ends(self, confidence: float, *, population: bool = False) -> Ends:
        """Return the interval of each mean; of the table's clipped rows, or of the population that they come from."""
        if self.pair is not None and not population:
            first, second, scale = self.pair
            ends = mean_from_pair(first, second, scale=scale, lower=-1.0, upper=1.0, confidence=confidence)
        else:
            count_scale, sum_scale = self.scales
            ends = mean_from_count_and_sum(
                self.moments.count,
                self.moments.total * 2.0**30,
                levels=2**30,
                count_scale=count_scale,
                sum_scale=sum_scale * 2.0**30,
                lower=-1.0,
                upper=1.0,
                confidence=confidence,
                sampling_variance=variance_of(self.moments, UNIT) if population else 0.0,
            )
        return Ends(low=self.number(ends.low), high=self.number(ends.high))


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
        context: Context = {"neighbours": self.groups.norms.neighbours, "unit": self.groups.unit}
        if self.budget.is_pure:
            reading = native_claims(PureDP(self.budget.amount, **context), mechanism="discrete_laplace")
        else:
            reading = native_claims(GDP(mu_of(self.budget), **context), mechanism="rounded_gaussian")
        return (*self.clipping.parts, (1, reading))

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

    def shown(self, table: Table, source: Source) -> tuple[Group, ...]:
        """Return the labels of all groups that are read: the declared ones, or those that are shown. A release."""
        return self.known if self.labels is None else self.labels.selection.shown(table, source)

    def statistics(
        self, table: Table, names: Sequence[Group], values: Sequence[Value], *, kind: Kind, norm: Norm
    ) -> GroupStatistics:
        """Add up some values in the groups of these names, which are public by now."""
        found = group_statistics(table, self.groups, values, kind=kind, norm=norm)
        return found if self.labels is None else found.only(self.labels.selection.inside(names))

    def answer(self, columns: dict[str, Any], names: Sequence[Group], *, keys: Sequence[str], **notes: Any) -> Answer:
        """Return the answer of a table with these columns; where groups were found it says which were known before."""
        shown = {}
        if self.labels is not None:
            columns = {**columns, "known": np.arange(len(names)) < len(self.known)}
            least = least_shown(self.labels.selection.law)
            shown = {"shown_from": least} if least else {}
        table = GroupTable(keys=keys, groups=names, columns=columns, notes={"noise": self.law, **notes, **shown})
        return Answer(value=table, labels=group_labels(names, table.columns[0]) if self.finds else ())

    def run(self, table: Table, source: Source) -> Measured:
        """Find the groups and the interval, and read all groups in it. Nothing about the rows raises."""
        names = self.shown(table, source)
        return self.read(table, self.clipping.run(table, self.groups, source), source, names=names)

    def read(
        self, table: Table, interval: Interval, source: Source, *, names: tuple[Group, ...] | None = None
    ) -> Measured:
        """Read all groups, or those of these names, in a public or released interval."""
        names = self.known if names is None else names
        value = value_of(self.groups.schema, self.of, lower=interval.lower, upper=interval.upper)
        lower, upper = float_ends(value)
        if not self.budget.is_pure:
            return self._gaussian(table, value, interval, source, names)
        kind: Kind = "triple" if self.spread else "pair"
        statistics = self.statistics(table, names, [value], kind=kind, norm="l1")
        noise = self.budget.on(statistics.values[0])
        noisy = np.asarray(noise.release(source)).reshape(3 if self.spread else 2, len(names)).astype(np.float64)
        variance = laplace_variance(noise.scale)
        if self.spread:
            moments = from_triple(*noisy, levels=value.square_levels, variance=variance)
            sds = (math.sqrt(moments.count_variance), math.sqrt(moments.total_variance))
            return Measured(moments=moments, interval=interval, lower=lower, upper=upper, scales=sds, names=names)
        moments = from_pair(*noisy, levels=value.levels, variance=variance)
        pair = (noisy[0], noisy[1], float(noise.scale))
        return Measured(moments=moments, interval=interval, lower=lower, upper=upper, pair=pair, names=names)

    def _gaussian(
        self, table: Table, value: Value, interval: Interval, source: Source, names: tuple[Group, ...]
    ) -> Measured:
        norms, levels = self.groups.norms, value.square_levels
        statistics = self.statistics(table, names, [value], kind="disc", norm="l2")
        # entries of the disc have signs: replacing a unit would cost twice
        scales = count_and_sums(mu=mu_of(self.budget), l2_squared=norms.l2_squared * norms.times, levels=levels)
        cells = len(names)
        noise = scales.noise(cells, source=source)
        count = np.asarray(statistics.counts.value).reshape(cells) + noise[0]
        disc = np.asarray(statistics.values[0].value).reshape(2, cells)
        moments = from_count_and_sums(
            count.astype(np.float64),
            (disc[0] + noise[1][0]).astype(np.float64),
            (disc[1] + noise[2][0]).astype(np.float64),
            levels=levels,
            count_variance=gaussian_variance(scales.count_scale),
            total_variance=gaussian_variance(scales.sum_scale),
            rest_variance=gaussian_variance(scales.square_scale),
        )
        lower, upper = float_ends(value)
        sds = (float(scales.count_scale), float(scales.sum_scale / levels))
        return Measured(moments=moments, interval=interval, lower=lower, upper=upper, scales=sds, names=names)


def float_ends(value: Value) -> tuple[float, float]:
    """Return the ends of an interval as two different floats."""
    lower, upper = float(value.lower), float(value.upper)
    return lower, upper if lower < upper else math.nextafter(lower, math.inf)


def mu_of(budget: Budget) -> Fraction:
    """Return the μ of Gaussian noise that a budget buys: μ itself, or √(2ρ), rounded down."""
    return root_down(2 * budget.amount) if budget.kind == "rho" else root_below(budget.amount)


def budget_of(query: Grouped, groups: Groups) -> Budget:
    """Return the price of a query as the budget of the noise that is smaller for its counts (`choose_noise`)."""
    chosen = check_noise(choose_noise(groups.norms, **query.price, noise=query.noise))
    if chosen.kind == "laplace":
        assert chosen.epsilon is not None
        return Budget("epsilon", chosen.epsilon)
    return Budget.of(**query.price)


def labels_and_budget(query: Grouped, schema: Schema, groups: Groups, known: Any) -> tuple[LabelPrice | None, Budget]:
    """Return how groups are found that nobody declared, if there are any, and what is left to measure in them."""
    whole = budget_of(query, groups)
    if groups.label is not None:
        found = label_price(query, schema, groups, known=known, whole=whole)
        return found, found.measure
    if known is not None:
        raise SchemaError("known= is for labels that nobody declared; by names declared ones, which all are known")
    return None, whole


def check_declared(groups: Groups) -> Groups:
    """Refuse groups of labels that nobody declared: their names would have to be paid for."""
    if groups.label is not None:
        raise SchemaError(
            f"by names {groups.label.name!r}, whose labels nobody declared; release them with sl.Count(by=...) and "
            "declare sl.Category with what comes out"
        )
    return groups


def check_prediction(table: PredictedTable | None, plan: Measurement) -> None:
    """Refuse a prediction that is about none of the groups; of groups that are yet to be found nobody can tell."""
    if table is not None and not plan.finds:
        table.check(plan.known)


def group_names(groups: Groups) -> tuple[tuple[str, ...], ...]:
    """Return the labels of each cell, in their order."""
    return tuple(product(*groups.keys))
