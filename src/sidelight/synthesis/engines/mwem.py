"""Multiplicative weights with the exponential mechanism, one query a round, started from a prediction: as published.

Algorithm 2 of Khodak, Amin, Dick and Vassilvitskii (2023) after Hardt, Ligett and McSherry (2012), with each weight
vector normalised, and the sensitivity taken from the class of queries: `engine="mwem"`. Kept because it is what the
literature means; as published it often returns little more than the prediction. `engine="queries"` makes improvements
that cost no privacy (`refit`): the distribution is refitted to all answers, met queries are not asked again, and the
number of rounds follows from the noise. For marginals the default engine is far better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, isqrt, log, sqrt
from typing import Any, Literal

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims, exact
from sidelight.guarantees.claims import Context
from sidelight.mechanisms.budget import Budget, together
from sidelight.mechanisms.exponential import choose
from sidelight.noise import Source
from sidelight.progress import progress
from sidelight.synthesis.cells.domain import Domain
from sidelight.synthesis.cells.query_blocks import MATRIX_STEPS, QueryBlock
from sidelight.synthesis.cells.spaces import DenseSpace, Floats, Space
from sidelight.synthesis.cells.workload import Workload
from sidelight.synthesis.engines.plan import check_sizes
from sidelight.synthesis.fitting.fitted import Fitted
from sidelight.synthesis.fitting.prior import HEDGE, Prior, Setting, UniformPrior, current_weights
from sidelight.synthesis.fitting.refit import QueryRefit
from sidelight.synthesis.measuring.measurement import measured_rows
from sidelight.synthesis.measuring.private_marginals import PrivateMarginals, Protection
from sidelight.synthesis.measuring.selection import RoundRecords
from sidelight.synthesis.measuring.single_queries import AnsweredQuery, QueryRound, QuerySpace

#: A query is open again while its released residual is above so many noise scales.
AGAIN_ABOVE = 2.0
#: With a refit, this share of the rounds that balance the bound on the error, which is pessimistic: measured.
BALANCED_SHARE = 0.2
#: At most so many weights are changed by the refits between rounds: they grow with the square of the rounds.
MOST_REFITTED = 500_000_000


@dataclass(frozen=True, kw_only=True)
class MWEMPlan:
    """The plan of a release by single queries.

    Guarantee: `claims`; selection and noise are exact on the machine (synthesis proof page, Theorem 3). A round costs a
    `rounds`-th of the price, half of it for the selection: ε_s = ε/(2m) and Laplace noise 2mΔ/ε in pure privacy.

    Args:
        rounds: m; None for the number of columns of the workload or, with a refit, for `worthwhile_answers`, which asks
            for the number of rows; that is public or released first.
        sensitivity: "class" takes Δ from the declared bounds of the queries: 1 for counting queries; "printed" takes
            that of queries in [-1, 1] for all, which for counting queries under replacement is twice too noisy.
        refit: Release the weights of a refit to all answers, which replaces the printed update, and leave out queries
            whose released answer they already meet; if not, the average of the weights before each round, as printed.
        selection_share: Of a round's price.

    The other arguments are those of `MarginalPlan`.
    """

    domain: Domain
    workload: Workload
    price: Budget
    protection: Protection = Protection()  # noqa: RUF009  # frozen
    rows: int | None = None
    rounds: int | None = None
    sensitivity: Literal["class", "printed"] = "class"
    refit: bool = False
    selection_share: Amount = Fraction(1, 2)
    size_share: Amount = Fraction(1, 50)

    def __post_init__(self) -> None:
        for name in ("selection_share", "size_share"):
            share = exact(getattr(self, name), name=name)
            if not 0 < share < 1:
                raise RangeError(f"{name} must lie strictly between 0 and 1, got {getattr(self, name)}")
            object.__setattr__(self, name, share)
        check_sizes(self.protection, rows=self.rows, rounds=self.rounds)
        if self.sensitivity not in ("class", "printed"):
            raise RangeError(f"sensitivity must be 'class' or 'printed', got {self.sensitivity!r}")
        _ = self.claims

    @cached_property
    def blocks(self) -> tuple[QueryBlock, ...]:
        """The queries."""
        return self.workload.blocks(self.domain)

    @cached_property
    def total_rounds(self) -> int:
        """How many rounds there are."""
        return self.rounds or len({name for block in self.blocks for name in block.columns})

    @cached_property
    def selection_price(self) -> Budget:
        """For each selection."""
        return self.price.part(self._round_share * exact(self.selection_share, name="share"))

    @cached_property
    def measurement_price(self) -> Budget:
        """For each answer."""
        return self.price.part(self._round_share * (1 - exact(self.selection_share, name="share")))

    @cached_property
    def size_price(self) -> Budget:
        """For the number of rows."""
        return self.price.part(exact(self.size_share, name="share"))

    @property
    def _round_share(self) -> Fraction:
        size = Fraction(0) if self.rows is not None else exact(self.size_share, name="share")
        return (1 - size) / self.total_rounds

    @cached_property
    def query_sensitivity(self) -> Fraction:
        """Δ: how far one unit moves any query of the class."""
        if self.sensitivity == "printed":
            return self.protection.query_sensitivity((-1, 1))
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

    def for_rows(self, rows: float) -> MWEMPlan:
        """Settle the number of rounds of a table of so many rows, a public or released number.

        Guarantee: whatever the number is, the rounds cost at most what `size_share` leaves of the price.
        """
        if self.rounds is not None or not self.refit:
            return self
        return replace(self, rounds=worthwhile_answers(self, rows))

    @cached_property
    def claims(self) -> Claims:
        """What the whole release costs."""
        context: Context = {"neighbours": self.protection.neighbours, "unit": self.protection.unit}
        parts = [
            (self.total_rounds, self.selection_price.selection_claims(**context)),
            (self.total_rounds, self.measurement_price.on(self.bounded(0, 1)).claims),
        ]
        if self.rows is None:
            parts.append((1, self.size_price.on(self.protection.bounded(0, "l1")).claims))
        return together(parts)


def release_by_single_queries(
    counts: PrivateMarginals, plan: MWEMPlan, *, prior: Prior | None = None, space: Space | None = None, source: Source
) -> Fitted:
    """Release a distribution by `rounds` noisy answers to single queries.

    Guarantee: `plan.claims`, exact on the machine.
    """
    where = DenseSpace(plan.domain) if space is None else space
    rows = float(plan.rows) if plan.rows is not None else measured_rows(counts, price=plan.size_price, source=source)
    plan = plan.for_rows(rows)
    cells = float(np.mean([plan.domain.cells_of(block.columns) for block in plan.blocks]))
    setting = Setting(mean_cells=cells, deviation=plan.noise_scale, rows=rows)
    weights = current_weights((prior or UniformPrior()).start(where, setting), setting)
    queries = QuerySpace(plan.blocks, where)
    counts.prepare(block.columns for block in plan.blocks)
    fit: _PrintedSteps | QueryRefit = (
        QueryRefit(queries, weights, rows=rows, deviation=plan.deviation)
        if plan.refit
        else _PrintedSteps(queries, weights, rows=rows)
    )
    answered: list[AnsweredQuery] = []
    records: RoundRecords[QueryRound] = RoundRecords()
    steepness = float(plan.selection_price.spread / (2 * plan.query_sensitivity))
    with progress("measuring queries", total=plan.total_rounds) as step:
        for _ in range(plan.total_rounds):
            fitted = queries.answers(fit.weights)
            places = _open(plan, answered, rows * fitted)
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


class _PrintedSteps:
    """The printed update after each round, and the average of the weights before each."""

    def __init__(self, queries: QuerySpace, weights: Floats, *, rows: float) -> None:
        self.weights = weights
        self._queries, self._rows = queries, rows
        self._total = np.zeros_like(weights)

    def learn(self, answer: AnsweredQuery) -> None:
        """Multiply the weights by exp(q (y - N⟨q, w⟩)/(2N)) and normalise."""
        self._total += self.weights
        apart = answer.value - self._rows * self._queries.answer(self.weights, answer)
        self._queries.tilt(self.weights, answer, float(np.clip(apart / (2 * self._rows), -700.0, 700.0)))

    def finish(self) -> Floats:
        """Return what is released."""
        return np.asarray(self._total / self._total.sum())


def _open(plan: MWEMPlan, answered: Sequence[AnsweredQuery], fitted: Floats) -> Any:
    """Return the places of the queries to choose from: all, or without those met so far, by released numbers alone."""
    places = np.arange(len(fitted))
    if not plan.refit:
        return places
    closed = {each.place for each in answered if abs(each.value - fitted[each.place]) <= AGAIN_ABOVE * plan.noise_scale}
    kept = np.array([place not in closed for place in places])
    return places[kept] if kept.any() else places


def _select(
    counts: PrivateMarginals, queries: QuerySpace, fitted: Floats, plan: MWEMPlan, places: Any, source: Source
) -> int:
    """Draw a query with probability ∝ exp(ε_s |⟨q, x⟩ - N⟨q, w⟩| / (2Δ)): integers on a grid of 2**-20 rows."""
    scores = np.abs(queries.exact(counts) - queries.on_grid(fitted))[places]
    bounded = plan.bounded(scores, MATRIX_STEPS)
    return int(places[choose(bounded, spread=plan.selection_price.spread, source=source)])


def _measure(
    counts: PrivateMarginals, queries: QuerySpace, place: int, plan: MWEMPlan, source: Source
) -> AnsweredQuery:
    block, inside = queries.locate(place)
    value = int(block.answers(counts.exact(block.columns))[inside])
    noisy = plan.measurement_price.on(plan.bounded(value, block.steps)).release(source)
    return AnsweredQuery(
        place=place, block=block, inside=inside, value=int(noisy) / block.steps, scale=plan.noise_scale
    )


def worthwhile_answers(plan: MWEMPlan, rows: float) -> int:
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
