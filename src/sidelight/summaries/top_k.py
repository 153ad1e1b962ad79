"""`TopK`: the most frequent labels of a column, by sorted noisy counts or drawn one after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from sidelight.aggregates.bounded import ContributionBounds
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import Groups, declared_max_groups, groups_of
from sidelight.errors import SchemaError, explains_removed
from sidelight.group_table import CHOSEN, GroupTable, check_keys
from sidelight.guarantees import Amount, positive
from sidelight.guarantees.amounts import whole
from sidelight.guarantees.conversions import gdp_within
from sidelight.mechanisms.exponential import Peeling, peeling, popularity
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.records.expressions import Expression
from sidelight.release import TailBound
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.count import CountingQuery, PreparedCounts
from sidelight.summaries.count_centred import PreparedCentred
from sidelight.summaries.count_tables import Whole, table_of
from sidelight.summaries.grouped import group_labels
from sidelight.summaries.intervals import around, published_ends
from sidelight.summaries.label_tables import PreparedLabels
from sidelight.summaries.noise_choice import choose_noise, noise_bound
from sidelight.summaries.predicted import check_single

Route = Literal["auto", "histogram", "peeling"]
_CHOSEN = "for high noisy counts, which are too high on average; intervals hold for all labels together"


@explains_removed
@dataclass(frozen=True, kw_only=True)
class TopK(CountingQuery):
    """Release the k most frequent labels of a column, the most frequent first.

    Where a person has few labels all labels are counted with noise and sorted, and the counts come with them. Where a
    person may have many, labels are drawn one after the other: then no count is released. The choice is public.

    Guarantee: the price, for adding or removing a row, or a person where the schema declares a `PersonId`; it does not
    depend on the prediction. Drawing needs no `max_groups`.

    Accuracy: a label that is chosen for a high noisy count has noise that is too high on average, and `count` and
    `noisy_count` with it: among many labels of about equal size by several times `noise_sd`. So `low` and `high` hold
    with the confidence for all labels together, however they are chosen. A drawn label is passed over for one of c
    fewer with odds exp(-c·epsilon/k).

    Args:
        column: The labels: a column, or a derived label. A `sl.Label` needs `delta`, or `known`.
        k: How many labels.
        route: "histogram" sorts noisy counts, "peeling" draws; "auto" takes what finds more of the right ones.
        where, epsilon, delta, rho, mu, confidence: As for `Count`.
        max_groups: How many labels of a person count at most; without it labels are drawn.
        max_rows_per_group: How many rows of a person count for one label at most; only for rows.
        prediction: How frequent labels are expected to be: a release, a frame or a mapping by label, or `sl.Predicted`.
        of: "persons" counts everybody once for a label, "rows" counts rows; persons where the schema has them.
        known: Of a column of undeclared labels: those that are public.

    >>> import sidelight as sl
    >>> visits = sl.Table(
    ...     {"drug": ["a", "b", "b", "c"] * 200}, schema=[sl.Category("drug", ["a", "b", "c", "d"], other=None)]
    ... )
    >>> sl.TopK("drug", k=1, epsilon=1).release(visits).value["drug"]
    ['b']
    """

    column: str | Expression = field(kw_only=False)
    k: int
    route: Route = "auto"
    by: tuple[()] = field(default=(), init=False, repr=False)  # the list is one for all rows
    known: Any = field(default=None, compare=False, repr=False)
    kind_name: ClassVar[str] = "top_k"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "k", whole(self.k, name="k"))

    @property
    def keys(self) -> tuple[str, ...]:
        """The name of the key column of the table that comes out."""
        return (str(self.column),)

    def prepare(self, schema: Schema) -> SurePrepared:
        """Choose the route, and check column, limits, price and prediction against a schema; no row is read."""
        count = self._count_by(self.column, known=self.known)
        check_keys(self.keys, self.table_columns(self.kind_name))
        counted = self.counted(schema)
        bare = groups_of(schema, by=self.column, max_groups=1)
        if bare.label is not None and self.route == "peeling":
            raise SchemaError("undeclared labels cannot be drawn from; use route='histogram' with a delta")
        limited = schema.person is None or self.max_groups is not None or declared_max_groups(schema, self.column)
        norms = count.groups(schema, per_group=1 if counted == "persons" else None).norms if limited else None
        by_histogram = self.route == "histogram" or bare.label is not None
        if self.route == "auto" and bare.label is None:
            by_histogram = top_by_histogram(norms, min(self.k, bare.cells), **self.price)
        if by_histogram:
            inner = count.prepare(schema)
            request = {**inner.request, "kind": self.kind_name, "k": str(self.k), "route": "histogram"}
            return PreparedTop(
                claims=inner.claims,
                request=request,
                prediction=inner.prediction,
                error=inner.error,
                inner=inner,
                k=self.k,
                confidence=self.confidence,
            )
        return self._drawn(schema, counted)

    def _drawn(self, schema: Schema, counted: str) -> SurePrepared:
        self._check_persons(schema)
        # every label of a person may count: only the largest change of one label matters
        limit = 1 if counted == "persons" else self.max_rows_per_group
        groups = groups_of(
            schema,
            by=self.column,
            where=self.condition,
            max_groups=self.max_groups or schema.rows_per_unit,
            max_rows_per_group=limit,
        )
        (labels,) = groups.keys
        reading = self.reading()
        weights = None
        if reading.prediction is not None:
            reading.prediction.check([(label,) for label in labels])
            check_single(reading.prediction, what="drawing labels")
            predicted = reading.prediction.on([(label,) for label in labels]).values
            weights = popularity(np.nan_to_num(np.maximum(predicted, 0.0)))
        draws = self._draws(min(self.k, len(labels)))
        return PreparedDraws(
            claims=draws.claims(**groups.context),
            request=self.request(self.kind_name, of=counted, k=self.k, route="peeling", **reading.request),
            prediction=reading.described,
            error=_drawn_error(draws, groups, weights, unit=counted),
            groups=groups,
            keys=self.keys,
            draws=draws,
            weights=weights,
        )

    def _draws(self, draws: int) -> Peeling:
        """Return the draws that the price pays; with a delta whichever of ε/k and μ/√k makes sharper ones."""
        if self.delta is None:
            return peeling(draws, epsilon=self.epsilon, rho=self.rho, mu=self.mu)
        assert self.epsilon is not None
        mu = gdp_within(positive(self.epsilon, name="epsilon"), positive(self.delta, name="delta"))
        return max(peeling(draws, epsilon=self.epsilon), peeling(draws, mu=mu), key=lambda each: each.step_epsilon)


def top_by_histogram(
    norms: ContributionBounds | None,
    draws: int,
    *,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    rho: Amount | None = None,
    mu: Amount | None = None,
) -> bool:
    """Return whether sorting noisy counts finds the top `draws` labels better than drawing them one by one (`peeling`).

    Laplace noise of scale L1/ε stands against Gumbel noise of scale draws/ε: L1 <= draws. Gaussian noise is compared
    with it by standard deviation: under ρ that is L2 < 0.641·√draws. `norms` is None where a unit may have any number
    of labels, which only peeling allows.

    >>> from sidelight.aggregates.bounded import persons_in
    >>> tuple(top_by_histogram(persons_in(labels), 10, epsilon=1) for labels in (10, 11))
    (True, False)
    """
    if norms is None:
        return False
    chosen = choose_noise(norms, epsilon=epsilon, delta=delta, rho=rho, mu=mu)
    step = peeling(draws, epsilon=epsilon, rho=rho, mu=mu).step_epsilon
    if chosen.kind == "laplace":
        return chosen.scale * step <= 1
    return float(chosen.scale) < math.pi / math.sqrt(6) / float(step)


def _drawn_error(draws: Peeling, groups: Groups, weights: Whole | None, *, unit: str) -> TailBound:
    """Return how many fewer units than the best label that is left a drawn one has at most.

    A draw takes one of c fewer with probability at most (Σw/min w)·exp(-ε'c/Δ), whatever the counts are, and there are
    k draws.
    """
    scale = float(groups.norms.linf / draws.step_epsilon)
    odds = groups.cells if weights is None else float(weights.sum()) / float(weights.min())
    fixed = scale * math.log(draws.draws * odds)
    return TailBound(unit=unit, assumption="fewer than the best label left", fixed=(fixed,), per_log=(scale,))


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTop(SurePrepared):
    """Noisy counts of all labels, to be sorted."""

    inner: SurePrepared
    k: int
    confidence: float

    @property
    def is_additive(self) -> bool:
        """Whether the query is additive over rows."""
        return self.inner.is_additive

    def run(self, table: Table, source: Source) -> Answer:
        """Count with noise, and keep the k highest; ties as they stand in the public order."""
        found = self.inner.run(table, source)
        counts = found.value
        assert isinstance(counts, GroupTable)
        twins = np.nan_to_num(np.asarray(counts["unbiased"], np.float64), nan=0.0)
        order = np.lexsort((-twins, -np.asarray(counts["count"])))[: self.k]
        groups = tuple(counts.groups[place] for place in order.tolist())
        ends = self._ends(counts)
        own = {name: ends.get(name, counts[name]) for name in counts.columns if name != "unbiased"}
        new = np.isnan(np.asarray(counts["unbiased"], np.float64))  # of these the count is the noisy number
        own = {"count": own.pop("count"), "noisy_count": np.where(new, counts["count"], counts["unbiased"])} | own
        columns = {"rank": np.arange(1, len(groups) + 1), **{name: own[name][order] for name in own}}
        notes = {**counts.notes, CHOSEN: _CHOSEN}
        value = table_of(counts.keys_of_groups, groups, columns, **notes)
        return Answer(value=value, labels=group_labels(groups, "label"), error=found.error)

    def _ends(self, counts: GroupTable) -> dict[str, Any]:
        """Return intervals that hold for all candidates at once, and so for any k of them, however they are chosen.

        The noise of different labels is independent, or jointly Gaussian where `inner` is centred: its error is a bound
        for all at once. Given which new labels were published, the intervals of those hold independently, too.
        """
        inner, cells, noisy = self.inner, max(1, counts.rows), np.asarray(counts["unbiased"], np.float64)
        if isinstance(inner, PreparedCentred):
            assert inner.error is not None
            ends = around(noisy, inner.error.at(self.confidence))
            return {"low": ends.low, "high": ends.high}
        assert isinstance(inner, PreparedCounts | PreparedLabels)
        noise = inner.plan.noise if isinstance(inner, PreparedLabels) else inner.noise
        ends = around(noisy, noise_bound(noise, self.confidence, cells))
        new = np.isnan(noisy)
        if isinstance(inner, PreparedLabels) and (law := inner.plan.law) is not None and new.any():
            known = {"least": inner.plan.least, "reach": inner.plan.reach, "confidence": self.confidence ** (1 / cells)}
            found = published_ends(counts["count"][new], law, **known)
            ends.low[new], ends.high[new] = found.low, found.high
        return {"low": ends.low.astype(np.int64), "high": ends.high.astype(np.int64)}


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedDraws(SurePrepared):
    """Labels to be drawn one after the other."""

    groups: Groups
    keys: tuple[str, ...]
    draws: Peeling
    weights: Whole | None

    @property
    def is_additive(self) -> bool:
        """Whether the query is additive over rows."""
        return self.groups.label is None

    def run(self, table: Table, source: Source) -> Answer:
        """Count exactly, and draw by the counts; the order is that of the draws."""
        scores = group_counts(table, self.groups, norm="linf")
        places = self.draws.release(scores, source=source, weights=self.weights)
        (labels,) = self.groups.keys
        groups = tuple((labels[place],) for place in places.tolist())
        columns: dict[str, Any] = {"rank": np.arange(1, len(groups) + 1)}
        return Answer(
            value=table_of(self.keys, groups, columns, **self.groups.notes), labels=group_labels(groups, "label")
        )
