"""Which proposal to make, from public things alone: numbers, and votes that are public or simulated.

The votes of the private teachers never come here: a proposal chosen from them would reveal them. A wrong guess costs a
refusal, never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from sidelight.guarantees import GDP, Amount, exact, positive
from sidelight.guarantees.conversions import gdp_epsilon
from sidelight.stability.distance_test import GaussianTest, upper_quantile
from sidelight.stability.pate.noisy_max import checked_votes
from sidelight.stability.pate.proposals import FINE, ClearVotes, Proposal, SmoothVotes
from sidelight.stability.pate.smooth_cost import SmoothBound
from sidelight.stability.pate.vote_distance import VoteCost, quantiles_of

_TEST_SCALES = (2, 3, 4, 5, 7, 10, 14, 20, 28, 40)


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
    simulated, sigma = checked_votes(votes), float(positive(noise_scale, name="noise_scale"))
    best, best_epsilon = None, plain_epsilon(queries, noise_scale, delta=delta)
    scale_up = queries / len(simulated)
    for order in (*range(2, 20, 2), *range(20, 100, 5)):
        cost = VoteCost(noise_scale=sigma, order=order, classes=simulated.shape[1])
        quantiles = quantiles_of(simulated, cost, tie_margin=1 / FINE)
        for test_scale in _TEST_SCALES:
            test = GaussianTest(scale=Fraction(test_scale), false_pass=exact(delta, name="delta") / 2)
            teachers = test.threshold + math.ceil(test_scale * upper_quantile(1 - chance))
            budget = scale_up * float(cost.at(quantiles - teachers * cost.step).sum()) * 1.01
            if not budget < queries * order / sigma**2:
                continue
            found = ClearVotes(budget=_short(budget), order=order, test_scale=test_scale, delta=delta)
            if float(found.price.epsilon) < best_epsilon:
                best, best_epsilon = found, float(found.price.epsilon)
    return best


def cheapest_smooth_proposal(
    queries: int,
    noise_scale: Amount,
    *,
    delta: Amount,
    votes: ArrayLike,
    chance: float = 0.99,
    orders: Iterable[int] = (5, 8, 12, 16, 20, 25, 30, 40, 50, 65, 80),
) -> SmoothVotes | None:
    """The same for the test by smooth sensitivity."""
    simulated, sigma = checked_votes(votes), float(positive(noise_scale, name="noise_scale"))
    failure = float(exact(delta, name="delta") / 2)
    shift, likely = upper_quantile(failure / 2), upper_quantile((1 - chance) / 2)
    best, best_epsilon = None, plain_epsilon(queries, noise_scale, delta=delta)
    scale_up = queries / len(simulated)
    for order in orders:
        cost = VoteCost(noise_scale=sigma, order=order, classes=simulated.shape[1])
        quantiles = quantiles_of(simulated, cost, tie_margin=1 / FINE)
        total = float(cost.at(quantiles).sum())
        for smoothness in (0.1 / order, 0.2 / order, 0.3 / order):
            bound = SmoothBound(cost=cost, smoothness=smoothness, sensitivity_scale=1, sum_scale=1, failure=failure)
            smooth = bound.sensitivity(quantiles)
            for sensitivity_scale in _TEST_SCALES:
                largest = smooth * math.exp(smoothness * sensitivity_scale * (likely + shift))
                for sum_scale in (*_TEST_SCALES, 56, 80):
                    budget = scale_up * (total + sum_scale * (smooth * likely + shift * largest)) * 1.01
                    if not 0 < budget < queries * order / sigma**2:
                        continue
                    found = SmoothVotes(
                        budget=_short(budget),
                        order=order,
                        smoothness=_short(smoothness),
                        sensitivity_scale=sensitivity_scale,
                        sum_scale=sum_scale,
                        delta=delta,
                    )
                    if float(found.price.epsilon) < best_epsilon:
                        best, best_epsilon = found, float(found.price.epsilon)
    return best


def pass_chance(proposal: Proposal, *, noise_scale: Amount, votes: ArrayLike) -> float:
    """Return how likely a proposal passes if the votes are these: public or simulated ones, one row a query.

    >>> votes = [[380, 15, 5]] * 200
    >>> proposal = ClearVotes(budget="0.02", order=25, delta="1e-5")
    >>> round(pass_chance(proposal, noise_scale=40, votes=votes), 3)
    0.995
    """
    return proposal.chance(checked_votes(votes), float(positive(noise_scale, name="noise_scale")))


@dataclass(frozen=True, kw_only=True)
class LabelPrice:
    """What labels will cost, said before any charge; public numbers only.

    `chance` is that of passing the test if the votes are as expected, None if nothing is expected.
    """

    queries: int
    noise_scale: Amount
    delta: Amount
    plain: float
    proposal: Proposal | None
    chance: float | None = None

    @property
    def epsilon(self) -> float:
        """The epsilon that will be charged."""
        return self.plain if self.proposal is None else float(self.proposal.price.epsilon)

    def __str__(self) -> str:
        start = f"labels of {self.queries} queries, noise {self.noise_scale}, delta {self.delta}: "
        if self.proposal is None:
            return f"{start}epsilon {self.plain:.2f}, whatever the votes; nothing is tested, nothing can be refused"
        share = f"{self.epsilon / self.plain:.0%} of the plain {self.plain:.2f}"
        likely = "" if self.chance is None else f", with probability {self.chance:.2f} if the votes are as expected"
        return f"{start}epsilon {self.epsilon:.2f}, {share}; released if the votes are clear{likely}, else refused"


def proposal_table(
    queries: int,
    noise_scale: Amount,
    *,
    delta: Amount,
    budgets: Iterable[Amount],
    order: Amount = 25,
    test_scale: Amount = 10,
    votes: ArrayLike | None = None,
) -> list[LabelPrice]:
    """Return the total epsilon against the proposed budget, with the chance to pass if public `votes` are given.

    >>> for row in proposal_table(200, 40, delta="1e-5", budgets=["0.01", "0.1", "1"], votes=[[380, 15, 5]]):
    ...     print(row.proposal.budget, round(row.epsilon, 2), round(row.epsilon / row.plain, 2), round(row.chance, 2))
    0.01 0.47 0.24 0.98
    0.1 0.56 0.28 1.0
    1 1.46 0.73 1.0
    """
    plain = plain_epsilon(queries, noise_scale, delta=delta)
    stretched = None
    if votes is not None:
        simulated = checked_votes(votes)
        stretched = simulated[np.arange(queries) % len(simulated)]
    table = []
    for budget in budgets:
        proposal = ClearVotes(budget=budget, order=order, test_scale=test_scale, delta=delta)
        chance = None if stretched is None else pass_chance(proposal, noise_scale=noise_scale, votes=stretched)
        table.append(
            LabelPrice(
                queries=queries, noise_scale=noise_scale, delta=delta, plain=plain, proposal=proposal, chance=chance
            )
        )
    return table


def _short(number: float) -> float:
    return float(f"{number:.6g}")
