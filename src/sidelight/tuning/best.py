"""Run a random number of times and keep the best: the loop that the selection theorem is about, and tuning with it.

`tune` is the search of `Selection` for models that are fitted to arrays. There is no ledger here: the caller gets the
model with what it cost, as from any `fit`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sidelight.errors import NoiseError, RangeError, StrictError
from sidelight.guarantees import Amount, Claims
from sidelight.noise import Entropy, OSEntropy, Source, below
from sidelight.tuning.pricing import common_price, selection_claims
from sidelight.tuning.runs import Runs, geometric
from sidelight.tuning.scores import check_score, private_rows_of, refuse_private_rows

T = TypeVar("T")
Model = TypeVar("Model")


def best_of(run: Callable[[Source], tuple[T, float] | None], runs: Runs, *, source: Source) -> T | None:
    """Run K times with K drawn from `runs`, and return the result with the highest score; None where no run gave one.

    Guarantee: with `run` private **including its score**, the price is `selection_claims` (tuning proof page). The
    result alone may be published: not K, not the other results, not how long it took.

    A run that fails, or whose score is NaN or minus infinity, counts as a run without a result: an exception that
    passed through would tell of all runs at once, which nothing pays for. Of equal scores the first wins; runs are
    exchangeable, so this has the law of a tie broken by chance.
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
    try:
        return run(source)
    except (NoiseError, StrictError):  # no data decides these: the whole release is at fault
        raise
    except Exception:
        if source.branding != "os":  # a test on data that is not private: show the cause
            raise
        return None


@dataclass(frozen=True, kw_only=True)
class Fit(Generic[Model]):
    """One way to fit a model: a function of a noise source, and what one call of it costs.

    `run` holds the private rows; `claims` is its price, known before it runs: `plan.claims` of a linear model,
    `prepare(schema).claims` of a query. A `run` that draws its noise from somewhere else may ignore the source.
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
