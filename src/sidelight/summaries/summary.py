"""`Summary`: count, mean, standard deviation and quartiles of one number in one release, by group."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sidelight.aggregates.collect_ranks import is_additive_by_group
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError, SchemaError, explains_removed
from sidelight.guarantees import Claims
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.predictions import Cauchy, hedge, is_prior, own_prior
from sidelight.predictions.compiled import CompiledPrior
from sidelight.quantiles.descend import DepthPrices, descend
from sidelight.quantiles.tree import QuantileTree, quantile_tree
from sidelight.records import Schema, Table
from sidelight.records.expressions import Expression
from sidelight.session import Answer
from sidelight.summaries.clip_subject import (
    HEDGE,
    ClipInterval,
    least_anchor,
    location_prior,
    middle_and_spread,
    subject_of,
)
from sidelight.summaries.clipping import Clipping, check_bounds, check_trees
from sidelight.summaries.measurement import Measurement, PreparedMeasurement, labels_and_budget, measure_together
from sidelight.summaries.of_number import OfNumber, number_of
from sidelight.summaries.predicted import Group

_QUARTILES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
_NAMES = ("q25", "q50", "q75")


@dataclass(frozen=True, kw_only=True)
class SummaryShares:
    """Shares of a price: quartiles of all rows, quartiles of each group, the clipping radius, moments by group."""

    quartiles: Fraction
    group_quartiles: Fraction
    radius: Fraction
    moments: Fraction


def summary_shares(*, by_groups: bool, bounded: bool) -> SummaryShares:
    """Return how a summary shares its price; with both bounds declared the radius's share goes to the moments.

    >>> summary_shares(by_groups=False, bounded=True).moments
    Fraction(3, 5)
    """
    radius = Fraction(1, 10)
    if by_groups:
        total, groups, moments = Fraction(1, 10), Fraction(35, 100), Fraction(45, 100)
    else:
        total, groups, moments = Fraction(4, 10), Fraction(0), Fraction(5, 10)
    if bounded:
        radius, moments = Fraction(0), moments + radius
    return SummaryShares(quartiles=total, group_quartiles=groups, radius=radius, moments=moments)


@explains_removed
@dataclass(frozen=True)
class Summary(OfNumber):
    """Release what a number looks like: count, mean, standard deviation and quartiles, of all rows or by group.

    The quartiles of all rows are where values are clipped, too, so that a column without bounds costs little more. By
    group they are the prior of each group's quartiles, and stand in the notes. Smallest and largest values are no
    private statistics: each is one person's own.

    Guarantee: the price, for the schema's unit under adding or removing one; exact on the machine and whatever data and
    prediction are (summaries proof page, Theorems 4, 6, 7; quantiles proof page, Theorem 4).

    Accuracy: `low` and `high` hold the mean of the clipped rows with the confidence, up to the normal approximation of
    the noise; quartiles are off by a number of ranks that does not grow with the rows.

    Args:
        column: The column, a derived number, or its text.
        by, where, epsilon, delta, rho, mu, max_groups, max_rows_per_group, confidence: As for `Mean`.
        prediction: Of the values: `sl.priors.Cauchy(40_000, 15_000)`, centre and spread.
        clip: "auto" clips at declared bounds if there are two; "private" finds an interval; "declared" insists.
        known: Of groups by a `sl.Label`: labels that are public, as for `Mean`.

    >>> import sidelight as sl
    >>> table = sl.Table({"age": list(range(20, 80)) * 100}, schema=[sl.Number("age", granularity=1)])
    >>> found = sl.Summary("age", epsilon=2).release(table).value
    >>> bool(45 < found.q50 < 55), bool(45 < found.mean < 55)
    (True, True)
    """

    column: str | Expression = field(compare=False)
    kind: ClassVar[str] = "summary"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prediction is not None and not is_prior(self.prediction):
            raise RangeError(
                "a summary takes a prediction of the values, such as sl.priors.Cauchy(centre, spread), or none"
            )
        if self.clip not in ("auto", "declared", "private"):
            raise RangeError(f"clip must be 'auto', 'declared' or 'private' in a summary, got {self.clip!r}")

    def prepare(self, schema: Schema) -> PreparedSummary:
        """Check the query against the schema, share the price, and say what it costs. Opens no data."""
        of = number_of(schema, self.column)
        groups = self.groups(schema)
        labels, budget = labels_and_budget(self, schema, groups, self.known)
        subject, by_groups = subject_of(schema, of), bool(groups.axes) or groups.label is not None
        check_bounds(subject)
        declared = None
        if self.clip != "private" and subject.lower is not None and subject.upper is not None:
            declared = ClipInterval(lower=subject.lower, upper=subject.upper)
        elif self.clip == "declared":
            raise SchemaError("clip='declared' needs both bounds; declare Number(..., lower=..., upper=...)")
        shares = summary_shares(by_groups=by_groups, bounded=declared is not None)
        tree, parts = _quartiles(budget.part(shares.quartiles), groups)
        group_tree = None
        if by_groups:
            check_trees(groups)
            group_tree, more = _quartiles(budget.part(shares.group_quartiles), groups)
            parts = (*parts, *more)
        radius = Fraction(0)
        if declared is None:
            part = budget.part(shares.radius)
            radius, parts = part.spread, (*parts, (1, part.selection_claims(**groups.context)))
        predicted = () if self.prediction is None else middle_and_spread(own_prior(self.prediction))
        clipping = Clipping(
            measure=budget.part(shares.moments),
            parts=parts,
            interval=declared,
            subject=subject,
            tree=tree,
            prior=location_prior(subject, *predicted).compile(subject.grid),
            radius_epsilon=radius,
            rows_per_unit=groups.norms.total,
            unit=groups.unit,
        )
        plan = Measurement(groups=groups, of=of, clipping=clipping, spread=True, labels=labels)
        return PreparedSummary(**self._shared(plan), query=self, group_tree=group_tree)


def _quartiles(budget: Budget, groups: Groups) -> tuple[QuantileTree, tuple[tuple[int, Claims], ...]]:
    """Return the tree of quartiles for one row, and its two depths: all K rows of a unit share each (`clipping`)."""
    node = budget.part(Fraction(1, 2))
    tree = quantile_tree(_QUARTILES, epsilon=2 * node.spread / groups.norms.total)
    return tree, ((2, node.selection_claims(**groups.context)),)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedSummary(PreparedMeasurement):
    """A `Summary` fitted to a schema."""

    query: Summary
    group_tree: QuantileTree | None

    @property
    def is_additive(self) -> bool:
        """Whether the query is additive over rows."""
        coding = self.plan.clipping.subject.coding
        return super().is_additive and (self.group_tree is None or is_additive_by_group(coding, self.plan.groups))

    def run(self, table: Table, source: Source) -> Answer:
        """Find the quartiles, where to clip, and the moments of each group."""
        clipping, groups = self.plan.clipping, self.plan.groups
        names = self.plan.shown(table, source)
        ranks = clipping.subject.ranks(table, groups, source)
        assert clipping.tree is not None
        assert clipping.prior is not None
        grid = clipping.subject.grid
        of_all = DepthPrices(groups.unit, groups.norms.total)
        found = descend(clipping.tree, ranks, priors=clipping.prior, source=source, depths=of_all)
        overall = [grid.value(index) for index in found]
        interval = clipping.interval
        if interval is None:
            interval = clipping.widen(ranks, overall[1], min(overall[2] - overall[0], 1e300), source)
        quartiles = np.array([overall])
        if self.group_tree is not None:
            quartiles = self._by_group(table, names, overall, source)
        (measured,) = measure_together([self.plan], table, source, names=names, intervals=[interval])
        ends = measured.mean_ends(self.query.confidence)
        columns: dict[str, Any] = {
            **measured.counts,
            "mean": measured.means,
            "sd": measured.half * np.sqrt(measured.moments.variances()),
            **dict(zip(_NAMES, quartiles.T, strict=True)),
            "noise_sd": measured.noise_sd,
            "low": ends.low,
            "high": ends.high,
            "supported": measured.supported,
        }
        notes: dict[str, Any] = {**measured.interval.notes}
        if self.group_tree is not None:
            notes |= {f"all_{name}": value for name, value in zip(_NAMES, overall, strict=True)}
        return self.plan.answer(columns, names, keys=self.query.keys, **notes)

    def _by_group(self, table: Table, names: tuple[Group, ...], overall: list[float], source: Source) -> Any:
        """Return the quartiles of each group: those of all rows are their prior, next to knowing nothing."""
        assert self.group_tree is not None
        subject = self.plan.clipping.subject
        spread = min(max((overall[2] - overall[0]) / 2, least_anchor(subject.grid, overall[1])), 1e300)
        nothing = location_prior(subject)
        priors: list[CompiledPrior] = [
            hedge(Cauchy(value, spread), with_=nothing, weight=HEDGE).compile(subject.grid) for value in overall
        ]

        together = DepthPrices(self.plan.groups.unit, self.plan.groups.norms.total)

        def quartiles(ranks: Ranks) -> list[float]:
            assert self.group_tree is not None
            found = descend(self.group_tree, ranks, priors=priors, source=source, depths=together)
            return [subject.grid.value(index) for index in found]

        by_group = self.plan.ranks(table, names, source)
        return np.array([quartiles(ranks) for ranks in by_group]).reshape(-1, len(_NAMES))
