"""`Selection`: try several queries privately and release the best, at the price of the random search and no less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import log
from typing import Any

from sidelight.accounting import batch
from sidelight.errors import ClaimError, RangeError, SchemaError
from sidelight.guarantees import Amount, Claims, decimal_text, exact
from sidelight.guarantees.intervals import round_up
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Source, below
from sidelight.records import Number, Schema, Table
from sidelight.release import Outcome, TailBound
from sidelight.session import Answer, Prepared, Query, Refusal, release_once
from sidelight.session.query import PublicSource, metered
from sidelight.tuning.best import best_of
from sidelight.tuning.pricing import common_price, selection_claims
from sidelight.tuning.runs import Poisson, Runs, TruncatedNegativeBinomial, geometric
from sidelight.tuning.scores import (
    PrivateScore,
    PublicScore,
    Score,
    refuse_private_rows,
    rows_of,
    tables_reachable_from,
)

NO_RESULT = "no run of the selection gave a result"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Try candidates picked by chance, a random and secret number of times, and release the one that scored best.

    Guarantee: `selection_claims` of one run's claims (tuning proof page): at most (2 + η) times a pure ε, and (ε, δ)
    that is linear in δ. The charge covers the whole search: nothing of the runs that lost, of their number, or of the
    scores is released, and the time a release took should not be published either.

    Accuracy: K runs of n candidates; with a geometric number of mean m a given candidate is tried with probability m/(n
    + m - 1). An error bound of a candidate holds for the winner with E[K] times its failure probability.

    Args:
        candidates: Queries with the same budget; where their profiles differ, the larger one counts.
        score: A `PublicScore` (a function of the candidate's answer and public data) or a `PrivateScore` (a second
            release, paid for in every run).
        runs: The law of the number of runs.
        delta: Where the (ε, δ) claim is made; may be left out when the candidates are pure.

    >>> from sidelight.quantiles import Quantiles
    >>> guesses = [Quantiles([0.5], epsilon=0.2, granularity=1, lower=0, upper=top) for top in (100, 1000)]
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
        first = prepared[0].prediction
        shared = all(candidate.prediction == first for candidate in prepared)
        several: dict[str, Any] = {"description": f"one of {len(prepared)} candidates, each with its own"}
        for each in prepared:  # one with seeded noise brands all
            several |= {key: value for key, value in (each.prediction or {}).items() if key == "entropy"}
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
            prediction=first if shared else several,
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
        """Refuse a score that holds the table's rows or a copy of them: that is not paid for. For the owner alone."""
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
        # not what was charged, or not about this table's rows: the candidate gets no score
        if asked.claims != self.scored.claims or asked.brings_private_data > self.scored.brings_private_data:
            return None
        measured = metered(asked, table, source)
        return None if isinstance(measured, Refusal) else float(self.score.read(measured))

    def _error(self, error: TailBound | None) -> TailBound | None:
        """Each run exceeds its bound with probability β, so the winner does with at most E[K]·β: log(E[K]/β)."""
        if error is None:
            return None
        more = log(max(1.0, float(self.runs.mean().upper)))
        return error.changed(
            lambda fixed, per_log: (tuple(a + b * more for a, b in zip(fixed, per_log, strict=True)), per_log)
        )


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
