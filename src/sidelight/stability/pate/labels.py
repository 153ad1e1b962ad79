"""`NoisyLabels`: labels of public inputs from the votes of teachers, with an (epsilon, delta) that is real.

The votes come from models, so the query brings them along, and looks at them after the charge. Noise is drawn for all
labels at once, on a grid fine enough that ties do not matter, and is exact. What is promised is either the plain cost
of that noise, whatever the votes (`proposal=None`), or the smaller cost of clear votes, after a private test that they
are clear; if they are not, the answer is a refusal, which costs the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Amount, ApproxDP, Claims, decimal_text, exact, native_claims, positive
from sidelight.guarantees.conversions import gdp_epsilon
from sidelight.noise import OSEntropy, Source, rounded_gaussian
from sidelight.records import Number, Schema, Table
from sidelight.release import Outcome
from sidelight.session import Answer
from sidelight.session.accounts import OneOffAccount
from sidelight.session.door import release_through
from sidelight.session.query import Refusal
from sidelight.stability.distance_test import GaussianTest
from sidelight.stability.pate.noisy_max import checked_votes
from sidelight.stability.pate.vote_distance import VoteCost, quantiles_of, vote_distance
from sidelight.stability.prices import price_of_certified_chain

#: Noisy votes are compared on a grid of 1/_FINE of a vote.
_FINE = 1024


@dataclass(frozen=True, kw_only=True)
class ClearVotes:
    """The proposal that the votes are clear: their Rényi cost at a public `order` is at most `budget`.

    The test adds noise of `test_scale` to the number of teachers who would have to change before that is false. All
    four numbers are public and fixed before the votes are looked at.
    """

    budget: Amount
    order: Amount = 25
    test_scale: Amount = 10
    delta: Amount

    def __post_init__(self) -> None:
        positive(self.budget, name="budget")
        positive(self.test_scale, name="test_scale")
        if exact(self.order, name="order") <= 1:
            raise RangeError(f"Renyi orders are above 1, got {self.order}")
        if not 0 < exact(self.delta, name="delta") < 1:
            raise RangeError(f"delta must lie strictly between 0 and 1, got {self.delta}; 1e-5 is usual for labels")

    @cached_property
    def price(self) -> ApproxDP:
        """The guarantee of test and labels together: half of delta for a false pass, half for the conversion."""
        order, scale = exact(self.order, name="order"), exact(self.test_scale, name="test_scale")
        return price_of_certified_chain(
            lambda a: [a / (2 * scale**2), exact(self.budget, name="budget")],
            orders=[order],
            conversion_delta=exact(self.delta, name="delta") / 2,
            failure=exact(self.delta, name="delta") / 2,
        )

    @cached_property
    def test(self) -> GaussianTest:
        """The test of the distance."""
        return GaussianTest(
            scale=exact(self.test_scale, name="test_scale"), false_pass=exact(self.delta, name="delta") / 2
        )

    def to_json(self) -> dict[str, str]:
        """Return strings only."""
        return {
            name: decimal_text(exact(getattr(self, name), name=name))
            for name in ("budget", "order", "test_scale", "delta")
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyLabels:
    """Release the noisy winner of every query's vote.

    Guarantee: for adding or removing one record (one person, if all rows of a person taught the same teacher), because
    every record taught one teacher only. Without a `proposal` GDP(√(2T)/noise_scale) for T queries, exact. With one,
    ApproxDP of `proposal.price`, by a private test (stability proof page, Theorems 2 and 8), exact noise; or a refusal.

    Accuracy: the true winner, up to noise of `noise_scale` votes on each count.

    >>> votes = [[190, 7, 3], [4, 2, 194]] * 10
    >>> NoisyLabels(votes=votes, noise_scale=20).release().value[:2].tolist()
    [0, 2]
    """

    votes: ArrayLike = field(repr=False)  # private
    noise_scale: Amount
    proposal: ClearVotes | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "votes", checked_votes(self.votes))
        positive(self.noise_scale, name="noise_scale")

    def prepare(self, schema: Schema) -> PreparedLabels:
        """Price the labels. Looks at the shape of the votes only."""
        votes = np.asarray(self.votes)
        return PreparedLabels(
            votes=votes,
            noise_scale=positive(self.noise_scale, name="noise_scale"),
            proposal=self.proposal,
            unit_claims=label_claims(len(votes), self.noise_scale, self.proposal).with_unit(schema.unit),
        )

    def release(self, *, entropy: Any = None) -> Outcome:
        """Release with exactly this query's budget and no ledger."""
        table = Table({"row": np.empty(0)}, schema=[Number("row")], name="votes")
        return release_through(self, table, OneOffAccount(), entropy=OSEntropy() if entropy is None else entropy)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedLabels:
    """Priced labels; everything but `run` is public."""

    votes: NDArray[np.int64] = field(repr=False)
    noise_scale: Fraction
    proposal: ClearVotes | None
    unit_claims: Claims
    numerics: Literal["exact"] = "exact"
    prediction: None = None

    @property
    def claims(self) -> Claims:
        """The price."""
        return self.unit_claims

    @property
    def request(self) -> Mapping[str, Any]:
        """The public description for ledger and report, in strings."""
        queries, classes = self.votes.shape
        return {
            "kind": "labels",
            "queries": str(queries),
            "classes": str(classes),
            "noise_scale": decimal_text(self.noise_scale),
            "proposal": "none" if self.proposal is None else self.proposal.to_json(),
        }

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        """Test if there is something to test, then draw all labels."""
        del table  # the votes were derived from it
        if self.proposal is not None and not self._clear(self.proposal, source):
            return Refusal(reason="the votes are not clear enough for the budget that was proposed")
        noise = rounded_gaussian(self.votes.size, self.noise_scale * _FINE, source).reshape(self.votes.shape)
        return Answer(value=np.argmax(self.votes * _FINE + noise, axis=1))

    def _clear(self, proposal: ClearVotes, source: Source) -> bool:
        order, budget = float(exact(proposal.order, name="order")), float(exact(proposal.budget, name="budget"))
        sigma = float(self.noise_scale)
        cost = VoteCost(noise_scale=sigma, order=order, classes=self.votes.shape[1])
        quantiles = quantiles_of(self.votes, cost, tie_margin=1 / _FINE)
        # 1e-9 below: the sum of floats may be rounded down
        distance = vote_distance(quantiles, cost, budget=budget * (1 - 1e-9), cap=proposal.test.cap)
        return proposal.test.passes(distance, source)


def label_claims(queries: int, noise_scale: Amount, proposal: ClearVotes | None) -> Claims:
    """Return what labels of so many queries promise; public parameters only.

    A proposal whose budget covers every vote anyway needs no test: it is refused, because it would only add a price.
    """
    sigma = positive(noise_scale, name="noise_scale")
    if proposal is None:
        return native_claims(GDP.from_squares(2 * queries / sigma**2), mechanism="rounded_gaussian")
    if exact(proposal.budget, name="budget") >= queries * exact(proposal.order, name="order") / sigma**2:
        raise RangeError(
            f"a budget of {proposal.budget} at order {proposal.order} covers {queries} votes however close they are; "
            "leave the proposal out, the plain guarantee is smaller"
        )
    return native_claims(proposal.price, mechanism="propose_test_release")


def plain_epsilon(queries: int, noise_scale: Amount, *, delta: Amount) -> float:
    """Return the epsilon of labels without a proposal: what a proposal has to beat.

    >>> round(plain_epsilon(200, 40, delta="1e-5"), 2)
    1.99
    """
    square = 2 * queries / positive(noise_scale, name="noise_scale") ** 2
    return float(gdp_epsilon(GDP.from_squares(square).mu, exact(delta, name="delta")))


def cheapest_proposal(
    queries: int, noise_scale: Amount, *, delta: Amount, votes: ArrayLike, chance: float = 0.99
) -> ClearVotes | None:
    """Choose a proposal from public votes that look like the private ones; None if the plain price is lower.

    `votes` are public or simulated: a guess of what the teachers will say. They decide what is proposed, never what is
    promised. The test of such votes passes with at least the given `chance`.
    """
    from sidelight.stability.distance_test import upper_quantile

    simulated, sigma = checked_votes(votes), float(positive(noise_scale, name="noise_scale"))
    best, best_epsilon = None, plain_epsilon(queries, noise_scale, delta=delta)
    scale_up = queries / len(simulated)
    for order in (*range(2, 20, 2), *range(20, 100, 5)):
        cost = VoteCost(noise_scale=sigma, order=order, classes=simulated.shape[1])
        quantiles = quantiles_of(simulated, cost, tie_margin=1 / _FINE)
        for test_scale in (5, 7, 10, 14, 20, 28, 40):
            test = GaussianTest(scale=Fraction(test_scale), false_pass=exact(delta, name="delta") / 2)
            teachers = test.threshold + math.ceil(test_scale * upper_quantile(1 - chance))
            budget = scale_up * float(cost.at(quantiles - teachers * cost.step).sum()) * 1.01
            if not budget < queries * order / sigma**2:
                continue
            found = ClearVotes(budget=float(f"{budget:.6g}"), order=order, test_scale=test_scale, delta=delta)
            if float(found.price.epsilon) < best_epsilon:
                best, best_epsilon = found, float(found.price.epsilon)
    return best
