"""`Selection`: try several queries privately and release the best, at the price of the random search and no less.

It runs a random number of times and keeps the best: the loop that the selection theorem is about. `tune` is the search
of `Selection` for models that are fitted to arrays. There is no ledger here: the caller gets the model with what it
cost, as from any `fit`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import log
from typing import Any, Generic, TypeVar

from sidelight.accounting import batch
from sidelight.errors import ClaimError, NoiseError, RangeError, SchemaError, StrictError
from sidelight.guarantees import Amount, Claims, decimal_text, exact
from sidelight.guarantees.intervals import round_up
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Entropy, OSEntropy, Source, below
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.records import Number, Schema, Table
from sidelight.release import Outcome, TailBound
from sidelight.session import Answer, Prepared, Query, Refusal, release_once
from sidelight.session.printed_output import suppress_all_output
from sidelight.session.query import PublicSource, brands_of, metered
from sidelight.tuning.pricing import common_price, selection_claims
from sidelight.tuning.runs import Poisson, Runs, TruncatedNegativeBinomial, geometric
from sidelight.tuning.scores import (
    PrivateScore,
    PublicScore,
    Score,
    check_score,
    private_rows_of,
    refuse_private_rows,
    rows_of,
    tables_reachable_from,
)

T = TypeVar("T")
Model = TypeVar("Model")


def best_of(run: Callable[[Source], tuple[T, float] | None], runs: Runs, *, source: Source) -> T | None:
    """Run K times with K drawn from `runs`, and return the result with the highest score; None where no run gave one.

    Guarantee: with `run` private **including its score**, the price is `selection_claims` (tuning proof page). The
    result alone may be published: not K, not the other results, not how long it took.

    A run that fails or ends the program, or whose score is NaN or minus infinity, counts as a run without a result: an
    exception that passed through would tell of all runs at once, which nothing pays for. Of equal scores the first
    wins; runs are exchangeable, so this has the law of a tie broken by chance.

    Lines of runs would count them. So a run's warnings, log records and what it writes to `sys.stdout` and `sys.stderr`
    are discarded, also those of threads that it starts. What it writes by other means is not: to a stream that was
    taken before, to a file descriptor, from another process or a library in C, or after it has returned (`atexit`,
    `__del__`).
    """
    best: tuple[T, float] | None = None
    for _ in range(runs.draw(source)):
        result = _attempt(run, source)
        if result is not None and result[1] > -math.inf and (best is None or result[1] > best[1]):
            best = result
    return None if best is None else best[0]


def select(
    candidates: Sequence[Callable[[Source], T | None]],
    score: Callable[[T], float],
    *,
    runs: Runs,
    source: Source,
) -> tuple[int, T] | None:
    """Try candidates picked by chance, a random number of times, and return the best as (position, result).

    Guarantee: if every candidate has the claims `base` and `score` reads nothing private but its argument, the pair has
    `selection_claims(base, runs, ...)`. For queries and tables use `Selection`, which checks and charges all of it.

    >>> from sidelight.noise import OSEntropy, Source
    >>> from sidelight.tuning import geometric
    >>> with Source(OSEntropy()) as source:
    ...     select([lambda source: 7], score=float, runs=geometric(5), source=source)
    (0, 7)
    """
    if not candidates:
        raise RangeError("a selection wants at least one candidate, got none")

    def run(source: Source) -> tuple[tuple[int, T], float] | None:
        place = below(len(candidates), source)
        result = candidates[place](source)
        return None if result is None else ((place, result), float(score(result)))

    return best_of(run, runs, source=source)


def _attempt(run: Callable[[Source], tuple[T, float] | None], source: Source) -> tuple[T, float] | None:
    if source.branding != "os":  # a test on data that is not private: show the cause
        return run(source)
    try:
        with suppress_all_output():  # each line would tell of a run
            return run(source)
    except (NoiseError, StrictError):  # no data decides these: the whole release is at fault
        raise
    except (Exception, SystemExit):
        return None


@dataclass(frozen=True, kw_only=True)
class Fit(Generic[Model]):
    """One way to fit a model: a function of a noise source, and what one call of it costs.

    `run` holds the private rows; `claims` is its price, known before it runs: `plan.claims` of a linear model,
    `prepare(schema).claims` of a query. A `run` that draws its noise from somewhere else may ignore the source. It
    leaves nothing behind for the next one, in a cache or in a global random state: each run is priced by itself.
    """

    run: Callable[[Source], Model]
    claims: Claims
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelScore(Generic[Model]):
    """A number computed from a fitted model and public data; higher is better. See `PublicScore`."""

    function: Callable[[Model], float] = field(repr=False)
    description: str

    def __post_init__(self) -> None:
        check_score(self.function, self.description)


@dataclass(frozen=True, kw_only=True)
class Tuned(Generic[Model]):
    """The winner of a search: its model, its place among the candidates, and what the whole search cost."""

    model: Model
    candidate: int
    claims: Claims


def tune(
    fits: Sequence[Fit[Model]],
    *,
    score: ModelScore[Model],
    runs: Runs | None = None,
    delta: Amount | None = None,
    entropy: Entropy | None = None,
) -> Tuned[Model] | None:
    """Fit candidates picked by chance, a random and secret number of times, and return the best with its price.

    Guarantee: `Tuned.claims`, the price of the whole search (tuning proof page), also when None comes back because no
    run gave a model. Without `runs` a geometric number with mean 15 is used. A score that holds rows which one of the
    fits holds too, or a copy or a part of them, is refused: it would judge on private rows.

    >>> from sidelight.guarantees import PureDP
    >>> from sidelight.noise import bernoulli
    >>> fair = Fit(run=lambda source: bernoulli(1, 2, source), claims=Claims.of(PureDP(1)))
    >>> best = tune([fair], score=ModelScore(function=float, description="the coin itself"))
    >>> print(best.claims)
    PureDP(ε = 2.71537)
    """
    if not fits:
        raise RangeError("a search wants at least one fit, got none")
    refuse_private_rows([score.function], [held for fit in fits for held in private_rows_of(fit.run)])
    law = geometric(15) if runs is None else runs
    claims = selection_claims(common_price([fit.claims for fit in fits]), law, delta=delta)
    with Source(entropy or OSEntropy(), declared=claims.numerics) as source:
        winner = select([fit.run for fit in fits], score.function, runs=law, source=source)
    return None if winner is None else Tuned(model=winner[1], candidate=winner[0], claims=claims)


NO_RESULT = "no run of the selection gave a result"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Try candidates picked by chance, a random and secret number of times, and release the one that scored best.

    Guarantee: `selection_claims` of one run's claims (tuning proof page): at most (2 + η) times a pure ε (of a Poisson
    number more, 6 times where its mean is 10), and (ε, δ) that is linear in δ. The charge covers the whole search:
    nothing of the runs that lost, of their number, or of the scores is released, and the time a release took should not
    be published either.

    Accuracy: K runs of n candidates; with a geometric number of mean m a given candidate is tried with probability m/(n
    + m - 1). An error bound of a candidate holds for the winner with E[K | K >= 1] times its failure probability.

    Args:
        candidates: Queries with the same budget; where their profiles differ, the larger one counts.
        score: A `PublicScore` (a function of the candidate's answer and public data) or a `PrivateScore` (a second
            release, paid for in every run).
        runs: The law of the number of runs.
        delta: Where the (ε, δ) claim is made; may be left out when the candidates are pure.

    >>> from sidelight.quantiles import Quantiles
    >>> guesses = [Quantiles([0.5], epsilon=0.2, granularity=1, bounds=(0, top)) for top in (100, 1000)]
    >>> search = Selection(candidates=guesses, score=PublicScore(lambda a: -abs(a.value[0] - 40), "published median"))
    >>> print(search.claims(Schema([Number("value", granularity=1)])).pure())
    PureDP(ε = 0.435702)
    """

    candidates: Sequence[Query]
    score: Score
    runs: Runs = field(default_factory=lambda: geometric(15))
    delta: Amount | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", tuple(self.candidates))
        if not self.candidates:
            raise RangeError("a selection wants at least one candidate, got none")
        if not isinstance(self.score, PublicScore | PrivateScore):
            raise RangeError(
                f"score must be a PublicScore or a PrivateScore, got {type(self.score).__name__}; a bare function "
                "would not say whether it reads private data"
            )
        if not isinstance(self.runs, TruncatedNegativeBinomial | Poisson):
            raise RangeError(
                f"runs must be the law of a random number such as geometric(15), got {self.runs!r}; a fixed number of "
                "runs costs as much as releasing all of them"
            )

    def claims(self, schema: Schema) -> Claims:
        """Return the price against a schema."""
        return self.prepare(schema).claims

    def prepare(self, schema: Schema) -> PreparedSelection:
        """Prepare every candidate, check that all have the same budget, and price the search. Opens no data."""
        prepared = tuple(candidate.prepare(schema) for candidate in self.candidates)
        price = common_price([each.claims for each in prepared])
        scored = None
        delta = None if self.delta is None else exact(self.delta, name="delta")
        if isinstance(self.score, PrivateScore):
            scored = self.score.like.prepare(schema)
            price = _together(price, scored.claims, runs=self.runs, delta=delta)
        claims = selection_claims(price, self.runs, delta=delta)
        if any(each.numerics == "idealized" for each in (*prepared, *(() if scored is None else (scored,)))):
            claims = claims.with_numerics("idealized")
        score = {"kind": type(self.score).__name__, "description": self.score.description}
        return PreparedSelection(
            claims=claims,
            request={
                "kind": "selection",
                "candidates": [dict(candidate.request) for candidate in prepared],
                "score": score | ({} if scored is None else {"release": dict(scored.request)}),
                "runs": self.runs.to_json(),
            }
            | ({} if delta is None else {"delta": decimal_text(delta)}),
            prediction=_predictions(prepared, scored),
            candidates=prepared,
            score=self.score,
            scored=scored,
            schema=schema,
            runs=self.runs,
        )

    def declare(self) -> Number:
        """Return the declaration of a bare array, on which all candidates must agree."""
        found = [candidate.declare() for candidate in self.candidates if hasattr(candidate, "declare")]
        if len(found) != len(self.candidates) or any(number != found[0] for number in found):
            raise SchemaError(
                "the candidates describe a bare array differently; pass sl.Table(data, schema=[...]) and leave what "
                "describes the column out of the candidates"
            )
        number: Number = found[0]
        return number

    def release(self, data: Any) -> Outcome:
        """Release from a table, or from a bare array on which the candidates agree, with no ledger."""
        return release_once(self, data)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedSelection(Prepared):
    """A `Selection` fitted to a schema; everything but `run` is public."""

    candidates: tuple[Prepared, ...]
    score: Score
    scored: Prepared | None
    schema: Schema
    runs: Runs

    @property
    def _parts(self) -> tuple[Prepared, ...]:
        """Every candidate, and the release of the score: any of them may run."""
        return (*self.candidates, *(() if self.scored is None else (self.scored,)))

    @property
    def brings_private_data(self) -> bool:
        """Whether a part of it does."""
        return any(each.brings_private_data for each in self._parts)

    def check_source(self, source: PublicSource) -> None:
        """Ask every part."""
        for each in self._parts:
            each.check_source(source)

    def check_rows(self, table: Table) -> None:
        """Ask every part, and refuse a score that holds the table's rows or a copy of them: they are not paid for.

        For the owner alone.
        """
        for each in self._parts:
            each.check_rows(table)
        judges = (self.score.function,) if isinstance(self.score, PublicScore) else (self.score.ask, self.score.read)
        if any(tables_reachable_from(judge) for judge in judges):  # without rows in a score no row is read
            refuse_private_rows(judges, rows_of(table))

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        """Try and keep the best. The winner's place and answer leave; nothing else does."""

        def attempt(source: Source) -> tuple[tuple[int, Answer], float] | None:
            place = below(len(self.candidates), source)
            answer = metered(self.candidates[place], table, source)
            if isinstance(answer, Refusal):
                return None
            score = self._judge(answer, table, source)
            return None if score is None else ((place, answer), score)

        price = DrawPrice(
            law="the best of a random number of runs",
            claims=self.claims,
            statistic=f"{len(self.candidates)} candidates, each run within a budget of its own",
            theorem="tuning proof page",
        )
        with source.paying(price):
            winner = best_of(attempt, self.runs, source=source)
        if winner is None:
            return Refusal(reason=NO_RESULT)
        place, answer = winner
        winning = self.candidates[place]
        return Answer(
            value={"candidate": place, "value": answer.value},
            labels=answer.labels or winning.labels,
            error=self._error(answer.error or winning.error),
        )

    def _judge(self, answer: Answer, table: Table, source: Source) -> float | None:
        if isinstance(self.score, PublicScore):
            return float(self.score.function(answer))
        assert self.scored is not None
        asked = self.score.ask(answer).prepare(self.schema)
        # not what was charged, not about this table's rows, or with a prediction that is not private: no score
        if asked.claims != self.scored.claims or asked.brings_private_data > self.scored.brings_private_data:
            return None
        if not brands_of(asked.prediction) <= {source.branding}:
            return None
        measured = metered(asked, table, source)
        return None if isinstance(measured, Refusal) else float(self.score.read(measured))

    def _error(self, error: TailBound | None) -> TailBound | None:
        """Each run exceeds its bound with probability β, so the winner does with at most E[K | K >= 1]·β."""
        if error is None:
            return None
        more = log(self.runs.mean_of_some())
        return error.changed(
            lambda fixed, per_log: (tuple(a + b * more for a, b in zip(fixed, per_log, strict=True)), per_log)
        )


def _predictions(candidates: Sequence[Prepared], scored: Prepared | None) -> Mapping[str, Any] | None:
    """Return the description of what a search predicts with; seeded noise in any part of it brands all."""
    described = [each.prediction for each in candidates]
    brands = brands_of([*described, None if scored is None else scored.prediction])
    seeded = {"entropy": SEEDED_BRANDING} if brands else {}
    if all(each == described[0] for each in described):
        return {**(described[0] or {"description": "the score's own"}), **seeded} if seeded else described[0]
    return {"description": f"one of {len(described)} candidates, each with its own", **seeded}


def _together(first: Claims, second: Claims, *, runs: Runs, delta: Fraction | None) -> Claims:
    """Compose a candidate with the release of its score, which may depend on the candidate's answer.

    Sums of ε, ρ or μ² where both have them; otherwise one (ε, δ) whose δ uses half of what the selection may spend.
    """
    try:
        return batch([first, second])
    except ClaimError:
        if delta is None:
            raise
        return batch([first, second], delta=delta / (2 * round_up(runs.mean().upper)))
