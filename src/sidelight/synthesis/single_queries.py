"""Engine "queries": one query a round, chosen where the fit is worst, answered, and refitted with all answers so far.

Selection and noise are those of MWEM (`published.mwem`; Hardt, Ligett and McSherry 2012) with three improvements that
cost no privacy: a refit to all answers, met queries are not asked again, and the number of rounds follows from the
noise. For marginals the default engine is far better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, isqrt, log, sqrt
from typing import Any, Protocol

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.mechanisms.exponential import choose
from sidelight.noise import Source
from sidelight.progress import progress
from sidelight.synthesis.engine_plan import EnginePlan
from sidelight.synthesis.measurement import PrivateMarginals, noisy_rows
from sidelight.synthesis.prior import HEDGE, DistributionPrior, FitSetting, UniformPrior, current_weights
from sidelight.synthesis.query_blocks import MATRIX_STEPS, QueryBlock
from sidelight.synthesis.refit import Fitted, QueryRefit
from sidelight.synthesis.selection import AnsweredQuery, QueryRound, QuerySpace, RoundRecords
from sidelight.synthesis.spaces import DenseSpace, Floats

#: A query is open again while its released residual is above this many noise scales.
AGAIN_ABOVE = 2.0
#: This share of the rounds that balance the bound on the error, which is pessimistic: measured.
BALANCED_SHARE = 0.2
#: The most weights that are changed by the refits between rounds: they grow with the square of the rounds.
MOST_REFITTED = 500_000_000


class QueryFit(Protocol):
    """Weights that learn from one answer after the other; they see released numbers only."""

    weights: Floats

    def learn(self, answer: AnsweredQuery) -> None:
        """Take an answer in."""
        ...

    def finish(self) -> Floats:
        """Return what is released."""
        ...


@dataclass(frozen=True, kw_only=True)
class SingleQueryPlan(EnginePlan):
    """The plan of a release by single queries: ε_s = ε/(2m) for a selection, Laplace noise 2mΔ/ε in pure privacy.

    Without `rounds` (m) their number is `worthwhile_answers`, which asks for the number of rows; that is public or
    released first.
    """

    @cached_property
    def blocks(self) -> tuple[QueryBlock, ...]:
        """The queries."""
        return self.workload.blocks(self.domain)

    @cached_property
    def total_rounds(self) -> int:
        """How many rounds there are."""
        return self.rounds or len({name for block in self.blocks for name in block.columns})

    @cached_property
    def query_sensitivity(self) -> Fraction:
        """Δ: how far one unit moves any query, by their declared bounds: 1 for counting queries."""
        return max(self.protection.query_sensitivity(block.bounds) / block.steps for block in self.blocks)

    def bounded(self, value: Any, steps: int) -> Bounded:
        """Join an answer, or scores that move with it, in steps of 1/steps with its sensitivity."""
        protection = self.protection
        return Bounded(value, self.query_sensitivity * steps, "l1", protection.neighbours, protection.unit)

    @cached_property
    def noise_scale(self) -> float:
        """The Laplace scale, or the Gaussian's standard deviation, of an answer in rows."""
        return self.integer_noise_scale(1)

    def integer_noise_scale(self, steps: int) -> float:
        """The same for an answer in steps of 1/steps: the scale of the integer noise that is added."""
        return float(self.measurement_price.on(self.bounded(0, steps)).scale)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of an answer, in rows."""
        return self.noise_scale * (sqrt(2) if self.price.kind == "epsilon" else 1.0)

    def for_rows(self, rows: float) -> SingleQueryPlan:
        """Settle the number of rounds of a table with this number of rows, public or released.

        Guarantee: whatever the number is, the rounds cost at most what `size_share` leaves of the price.
        """
        return self if self.rounds is not None else replace(self, rounds=worthwhile_answers(self, rows))

    def start(self, queries: QuerySpace, weights: Floats, *, rows: float) -> QueryFit:
        """Return what is fitted to the answers, from the weights of the prior."""
        return QueryRefit(queries, weights, rows=rows, deviation=self.deviation)

    def open_places(self, answered: Sequence[AnsweredQuery], fitted: Floats) -> Any:
        """Return the places of the queries to choose from: those not met so far, by released numbers alone."""
        places = np.arange(len(fitted))
        near = AGAIN_ABOVE * self.noise_scale
        closed = {each.place for each in answered if abs(each.value - fitted[each.place]) <= near}
        kept = np.array([place not in closed for place in places])
        return places[kept] if kept.any() else places

    @property
    def measured(self) -> Bounded:
        """An answer of no rows."""
        return self.bounded(0, 1)


def release_by_single_queries(
    counts: PrivateMarginals,
    plan: SingleQueryPlan,
    *,
    prior: DistributionPrior | None = None,
    source: Source,
) -> Fitted:
    """Release a distribution by `rounds` noisy answers to single queries.

    Guarantee: `plan.claims`, exact on the machine.
    """
    where = DenseSpace(plan.domain)
    rows = float(plan.rows) if plan.rows is not None else noisy_rows(counts, price=plan.size_price, source=source).rows
    plan = plan.for_rows(rows)
    cells = float(np.mean([plan.domain.cells_of(block.columns) for block in plan.blocks]))
    setting = FitSetting(mean_cells=cells, deviation=plan.noise_scale, rows=rows)
    weights = current_weights((prior or UniformPrior()).start(where, setting), setting)
    queries = QuerySpace(plan.blocks, where)
    counts.prepare(block.columns for block in plan.blocks)
    fit = plan.start(queries, weights, rows=rows)
    answered: list[AnsweredQuery] = []
    records: RoundRecords[QueryRound] = RoundRecords()
    steepness = float(plan.selection_price.spread / (2 * plan.query_sensitivity))
    with progress("measuring queries", total=plan.total_rounds) as step:
        for _ in range(plan.total_rounds):
            fitted = queries.answers(fit.weights)
            places = plan.open_places(answered, rows * fitted)
            place = _select(counts, queries, rows * fitted, plan, places, source)
            answered.append(_measure(counts, queries, place, plan, source))
            records.add(
                QueryRound(
                    places=places,
                    expected=queries.on_grid(rows * fitted) / MATRIX_STEPS,
                    steepness=steepness,
                    answered=answered[-1],
                    noise_scale=plan.integer_noise_scale(answered[-1].block.steps),
                )
            )
            fit.learn(answered[-1])
            step()
    return Fitted(
        domain=plan.domain,
        rows=rows,
        space=where,
        weights=fit.finish(),
        measurements=(),
        answered=tuple(answered),
        query_rounds=records.kept,
    )


def _select(
    counts: PrivateMarginals, queries: QuerySpace, fitted: Floats, plan: SingleQueryPlan, places: Any, source: Source
) -> int:
    """Draw a query with probability ∝ exp(ε_s |⟨q, x⟩ - N⟨q, w⟩| / (2Δ)): integers on a grid of 2**-20 rows."""
    scores = np.abs(queries.exact(counts) - queries.on_grid(fitted))[places]
    bounded = plan.bounded(scores, MATRIX_STEPS)
    return int(places[choose(bounded, spread=plan.selection_price.spread, source=source)])


def _measure(
    counts: PrivateMarginals, queries: QuerySpace, place: int, plan: SingleQueryPlan, source: Source
) -> AnsweredQuery:
    block, inside = queries.locate(place)
    value = int(block.answers(counts.exact(block.columns))[inside])
    noisy = plan.measurement_price.on(plan.bounded(value, block.steps)).release(source)
    return AnsweredQuery(
        place=place, block=block, inside=inside, value=int(noisy) / block.steps, scale=plan.noise_scale
    )


def worthwhile_answers(plan: SingleQueryPlan, rows: float) -> int:
    """Return how many answers to ask for: what balances the fit's error n√(KL/m) and the noise s(m)·log|Q| of m rounds.

    At least one for each column; never more than queries, than cells that decide them all, or than the refits can take.
    Public and released numbers only.
    """
    columns = {block.columns for block in plan.blocks}
    queries = sum(block.count for block in plan.blocks)
    most = min(queries, sum(plan.domain.cells_of(each) for each in columns))
    most = max(1, min(most, isqrt(MOST_REFITTED // plan.domain.cells)))
    least = len({name for names in columns for name in names})
    divergence = log(plan.domain.cells / HEDGE)
    noise_of_one = replace(plan, rounds=1).deviation * log(max(queries, 2))
    # the noise of m rounds is m times (Laplace) or √m times (Gaussian) that of one
    power = 2 / 3 if plan.price.kind == "epsilon" else 1.0
    balanced = (max(rows, 1.0) * sqrt(divergence) / noise_of_one) ** power
    return int(min(max(ceil(BALANCED_SHARE * balanced), least), most))
