"""What is proposed about votes, how it is tested privately, and which proposal to make: clear votes cost less.

The number of teachers who would have to change is tested (stability proof page, section 4). Proposals are chosen from
public things alone: numbers, and votes that are public or simulated. The votes of the private teachers never come here:
a proposal chosen from them would reveal them. A wrong guess costs a refusal, never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Amount, ApproxDP, decimal_text, exact, positive
from sidelight.guarantees.conversions import gdp_epsilon, renyi_epsilon
from sidelight.mechanisms.tests_and_bounds import GaussianTest, upper_quantile
from sidelight.noise import Source
from sidelight.stability.pate.vote_cost import VoteCost, checked_votes, quantiles_of, vote_distance

#: Noisy votes are compared on a grid of 1/FINE of a vote.
FINE = 1024

#: Sums of floats may be rounded down: budgets are compared a little lower, divergences charged a little higher.
_ROUNDING = 1e-9


_TEST_SCALES = (2, 3, 4, 5, 7, 10, 14, 20, 28, 40)


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
        check_proposal(self.budget, self.order, self.delta)
        positive(self.test_scale, name="test_scale")

    @cached_property
    def price(self) -> ApproxDP:
        """The guarantee of test and labels together: half of delta for a false pass, half for the conversion."""
        order, scale = exact(self.order, name="order"), exact(self.test_scale, name="test_scale")
        return certified_price(order / (2 * scale**2) + exact(self.budget, name="budget"), order, delta=self.delta)

    @cached_property
    def test(self) -> GaussianTest:
        """The test of the distance."""
        return GaussianTest(
            scale=exact(self.test_scale, name="test_scale"), false_pass=exact(self.delta, name="delta") / 2
        )

    def clear(self, votes: NDArray[np.int64], noise_scale: float, source: Source) -> bool:
        """Draw the test's noise and decide."""
        return self.test.passes(self._distance(votes, noise_scale), source)

    def chance(self, votes: NDArray[np.int64], noise_scale: float) -> float:
        """Return how likely these votes pass. As secret as the votes: for public or simulated ones."""
        from scipy.special import ndtr

        ahead = self._distance(votes, noise_scale) - self.test.threshold + 0.5
        return float(ndtr(ahead / float(exact(self.test_scale, name="test_scale"))))

    def _distance(self, votes: NDArray[np.int64], noise_scale: float) -> int:
        cost = VoteCost.of(self.order, noise_scale, votes)
        budget = float(exact(self.budget, name="budget")) * (1 - _ROUNDING)
        return vote_distance(quantiles_of(votes, cost, tie_margin=1 / FINE), cost, budget=budget, cap=self.test.cap)

    def to_json(self) -> dict[str, str]:
        """Return strings only."""
        names = ("budget", "order", "test_scale", "delta")
        return {name: decimal_text(exact(getattr(self, name), name=name)) for name in names}


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


def pass_chance(proposal: ClearVotes, *, noise_scale: Amount, votes: ArrayLike) -> float:
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
    proposal: ClearVotes | None
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


def certified_price(divergence: Fraction, order: Fraction, *, delta: Amount) -> ApproxDP:
    """Return the price of a test and a release within this Renyi divergence but for a rare event (Theorem 2).

    Half of delta is for the rare event, half for the conversion; here the two probabilities add up.
    """
    failure = exact(delta, name="delta")
    return ApproxDP(max(renyi_epsilon(divergence, order - 1, failure / 2), Fraction(0)), failure)


def check_proposal(budget: Amount, order: Amount, delta: Amount) -> None:
    """Refuse numbers that propose nothing."""
    positive(budget, name="budget")
    if exact(order, name="order") <= 1:
        raise RangeError(f"Renyi orders are above 1, got {order}")
    if not 0 < exact(delta, name="delta") < 1:
        raise RangeError(f"delta must lie strictly between 0 and 1, got {delta}; 1e-5 is usual for labels")


def _short(number: float) -> float:
    return float(f"{number:.6g}")
