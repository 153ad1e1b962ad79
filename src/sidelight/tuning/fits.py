"""Tuning of models that are fitted to arrays: the same search as `Selection`, as a function, for estimators.

There is no ledger here: the caller gets the model with what it cost, as from any `fit`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims
from sidelight.noise import Entropy, OSEntropy, Source
from sidelight.tuning.best import select
from sidelight.tuning.pricing import common_price, selection_claims
from sidelight.tuning.runs import Runs, geometric
from sidelight.tuning.scores import check_score, private_rows_of, refuse_private_rows

Model = TypeVar("Model")


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
