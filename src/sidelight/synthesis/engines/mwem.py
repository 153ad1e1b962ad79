"""Multiplicative weights with the exponential mechanism, one query a round, started from a prediction: as published.

Algorithm 2 of Khodak, Amin, Dick and Vassilvitskii (2023) after Hardt, Ligett and McSherry (2012), with each weight
vector normalised, and the sensitivity taken from the class of queries: `engine="mwem"`. Kept because it is what the
literature means; as published it often returns little more than the prediction. Improvements that cost no privacy are
options, and `engine="queries"` takes them: the distribution is refitted to all answers, met queries are not asked
again, and the number of rounds follows from the noise. For marginals the default engine is far better.
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
from sidelight.guarantees import Amount, Claims, Neighbours, exact
from sidelight.noise import Categorical, Source
from sidelight.progress import progress
from sidelight.synthesis.cells.domain import Domain
from sidelight.synthesis.cells.query_blocks import MATRIX_STEPS, QueryBlock
from sidelight.synthesis.cells.spaces import DenseSpace, Floats, Space
from sidelight.synthesis.cells.workload import Workload
from sidelight.synthesis.fitting.fitted import Fitted
from sidelight.synthesis.fitting.prior import HEDGE, Prior, Setting, UniformPrior, current_weights
from sidelight.synthesis.fitting.query_refit import QueryRefit
from sidelight.synthesis.measuring.measurement import MOST_ROWS, measured_rows
from sidelight.synthesis.measuring.price import Price, together
from sidelight.synthesis.measuring.private_marginals import PrivateMarginals, Protection
from sidelight.synthesis.measuring.round_records import QueryRound, RoundRecords
from sidelight.synthesis.measuring.single_queries import AnsweredQuery, QuerySpace

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
        output: "average" of the weights before each round, as printed; the "last" weights; or those of a "refit" to all
            answers after each round, which replaces the printed update.
        replay: After each round, cycle this many times through all answers so far, with the printed update.
        thrifty: Leave out queries whose released answer the weights already meet, and do not update on those.
        selection_share: Of a round's price.

    The other arguments are those of `MarginalPlan`.
    """

    domain: Domain
    workload: Workload
    price: Price
    protection: Protection = Protection()  # noqa: RUF009  # frozen
    rows: int | None = None
    rounds: int | None = None
    sensitivity: Literal["class", "printed"] = "class"
    output: Literal["average", "last", "refit"] = "average"
    replay: int = 0
    thrifty: bool = False
    selection_share: Amount = Fraction(1, 2)
    size_share: Amount = Fraction(1, 50)

    def __post_init__(self) -> None:
        for name in ("selection_share", "size_share"):
            share = exact(getattr(self, name), name=name)
            if not 0 < share < 1:
                raise RangeError(f"{name} must lie strictly between 0 and 1, got {getattr(self, name)}")
            object.__setattr__(self, name, share)
        if (self.protection.neighbours is Neighbours.REPLACE) != (self.rows is not None):
            raise RangeError("the number of rows is public exactly where a row is replaced: give rows, or neither")
        if self.rows is not None and (isinstance(self.rows, bool) or not 1 <= self.rows <= MOST_ROWS):
            raise RangeError(f"rows must be a whole number from 1 to 2**40, got {self.rows!r}")
        if self.rounds is not None and (isinstance(self.rounds, bool) or self.rounds < 1):
            raise RangeError(f"rounds must be a whole number of at least 1, got {self.rounds!r}")
        if self.sensitivity not in ("class", "printed") or self.output not in ("average", "last", "refit"):
            raise RangeError("sensitivity is 'class' or 'printed', output is 'average', 'last' or 'refit'")
        if isinstance(self.replay, bool) or self.replay < 0:
            raise RangeError(f"replay must be a whole number of at least 0, got {self.replay!r}")
        if self.replay and self.output == "refit":
            raise RangeError("replay repeats the printed update, which a refit replaces; leave replay out")
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
    def selection_price(self) -> Price:
        """For each selection."""
        return self.price.part(self._round_share * exact(self.selection_share, name="share"))

    @cached_property
    def measurement_price(self) -> Price:
        """For each answer."""
        return self.price.part(self._round_share * (1 - exact(self.selection_share, name="share")))

    @cached_property
    def size_price(self) -> Price:
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

    def bounded(self, value: int, steps: int) -> Bounded:
        """Join an answer in steps of 1/steps with its sensitivity."""
        protection = self.protection
        return Bounded(value, self.query_sensitivity * steps, "l1", protection.neighbours, protection.unit)

    @cached_property
    def noise_scale(self) -> float:
        """The Laplace scale, or the Gaussian's standard deviation, of an answer in rows."""
        return self.integer_noise_scale(1)

    def integer_noise_scale(self, steps: int) -> float:
        """The same for an answer in steps of 1/steps: the scale of the integer noise that is added."""
        return float(self.measurement_price.noise_scale(self.bounded(0, steps)))

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of an answer, in rows."""
        return self.noise_scale * (sqrt(2) if self.price.kind == "epsilon" else 1.0)

    def for_rows(self, rows: float) -> MWEMPlan:
        """Settle the number of rounds of a table of so many rows, a public or released number.

        Guarantee: whatever the number is, the rounds cost at most what `size_share` leaves of the price.
        """
        if self.rounds is not None or self.output != "refit":
            return self
        return replace(self, rounds=worthwhile_answers(self, rows))

    @cached_property
    def claims(self) -> Claims:
        """What the whole release costs."""
        context = {"neighbours": self.protection.neighbours, "unit": self.protection.unit}
        parts = [
            (self.total_rounds, self.selection_price.selection_claims(**context)),
            (self.total_rounds, self.measurement_price.measurement_claims(self.bounded(0, 1))),
        ]
        if self.rows is None:
            parts.append((1, self.size_price.measurement_claims(self.protection.bounded(0, "l1"))))
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
        if plan.output == "refit"
        else _PrintedSteps(queries, weights, rows, plan)
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
    """The printed update after each round, then replays; the average of the weights before each, or the last ones."""

    def __init__(self, queries: QuerySpace, weights: Floats, rows: float, plan: MWEMPlan) -> None:
        self.weights = weights
        self._queries, self._rows, self._plan = queries, rows, plan
        self._total = np.zeros_like(weights)
        self._answered: list[AnsweredQuery] = []

    def learn(self, answer: AnsweredQuery) -> None:
        """Move the weights towards an answer."""
        self._total += self.weights
        self._answered.append(answer)
        _update(self._queries, self.weights, [answer], self._rows, self._plan)
        for _ in range(self._plan.replay):
            _update(self._queries, self.weights, self._answered, self._rows, self._plan)

    def finish(self) -> Floats:
        """Return what is released."""
        return self._total / self._total.sum() if self._plan.output == "average" else self.weights


def _open(plan: MWEMPlan, answered: Sequence[AnsweredQuery], fitted: Floats) -> Any:
    """Return the places of the queries to choose from: all, or without those met so far, by released numbers alone."""
    places = np.arange(len(fitted))
    if not plan.thrifty:
        return places
    closed = {each.place for each in answered if abs(each.value - fitted[each.place]) <= AGAIN_ABOVE * plan.noise_scale}
    kept = np.array([place not in closed for place in places])
    return places[kept] if kept.any() else places


def _select(
    counts: PrivateMarginals, queries: QuerySpace, fitted: Floats, plan: MWEMPlan, places: Any, source: Source
) -> int:
    """Draw a query with probability ∝ exp(ε_s |⟨q, x⟩ - N⟨q, w⟩| / (2Δ)): integers on a grid of 2**-20 rows."""
    scores = np.abs(queries.exact(counts) - queries.on_grid(fitted))[places]
    unit = plan.selection_price.spread / (2 * plan.query_sensitivity * MATRIX_STEPS)
    return int(places[Categorical(scores, unit).draw(source)])


def _measure(
    counts: PrivateMarginals, queries: QuerySpace, place: int, plan: MWEMPlan, source: Source
) -> AnsweredQuery:
    block, inside = queries.locate(place)
    value = int(block.answers(counts.exact(block.columns))[inside])
    noisy = plan.measurement_price.measure(plan.bounded(value, block.steps), source=source)
    return AnsweredQuery(
        place=place, block=block, inside=inside, value=int(noisy) / block.steps, scale=plan.noise_scale
    )


def _update(
    queries: QuerySpace, weights: Floats, answers: Sequence[AnsweredQuery], rows: float, plan: MWEMPlan
) -> None:
    """Multiply by exp(q (y - N⟨q, w⟩)/(2N)) and normalise, for each answer in turn."""
    for each in answers:
        apart = each.value - rows * queries.answer(weights, each)
        if plan.thrifty and abs(apart) <= plan.noise_scale:
            continue
        queries.tilt(weights, each, float(np.clip(apart / (2 * rows), -700.0, 700.0)))


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


def utility_rounds(*, epsilon: float, rows: float, queries: int, divergence: float) -> int:
    """Return the m that minimises the bound on the error, (ε²n²·KL/(32 log²|Q|))^(1/3) rounded up: public numbers.

    `divergence` bounds KL(x/n ‖ prior): log(cells/λ) for a hedge λ.
    """
    if queries < 2:
        return 1
    return min(max(1, int(np.ceil((epsilon**2 * rows**2 * divergence / (32 * log(queries) ** 2)) ** (1 / 3)))), queries)


def error_bound(
    *, epsilon: float, rows: float, queries: int, rounds: int, divergence: float, failure_probability: float
) -> float:
    """Bound max_q |⟨q, x - x̂⟩| of the average output for queries in [-1, 1] under replacement, pure privacy.

    2n√(KL/m) + (4m/ε)(2 log|Q| + 3 log(2m/β)), with probability 1 - β (synthesis proof page, Theorem 6).
    """
    tail = 2 * log(queries) + 3 * log(2 * rounds / failure_probability)
    return 2 * rows * sqrt(divergence / rounds) + 4 * rounds / epsilon * tail
