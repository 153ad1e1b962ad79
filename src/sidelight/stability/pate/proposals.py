"""What may be proposed about votes, and the private test of each: the votes are clear, so their labels cost less.

`ClearVotes` counts how many teachers would have to change and is recommended; `SmoothVotes` is the literature's test,
with its constants corrected, and usually costs more (stability proof page, sections 4 and 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, ApproxDP, decimal_text, exact, positive
from sidelight.noise import Source
from sidelight.stability.distance_test import GaussianTest, upper_quantile
from sidelight.stability.pate.smooth_cost import SmoothBound, smooth_noise_renyi
from sidelight.stability.pate.vote_distance import VoteCost, quantiles_of, vote_distance
from sidelight.stability.prices import price_of_certified_chain

#: Noisy votes are compared on a grid of 1/FINE of a vote.
FINE = 1024
#: Sums of floats may be rounded down: budgets are compared a little lower, divergences charged a little higher.
_ROUNDING = 1e-9


class Proposal(Protocol):
    """A proposal about votes: what it costs is public, whether it holds is tested privately."""

    @property
    def budget(self) -> Amount:
        """The Rényi cost that all labels together are proposed to keep."""
        ...

    @property
    def order(self) -> Amount:
        """The Rényi order, public and fixed."""
        ...

    @property
    def delta(self) -> Amount:
        """The delta of test and labels together."""
        ...

    @property
    def numerics(self) -> Literal["exact", "idealized"]:
        """Whether the test's noise is exact."""
        ...

    @property
    def price(self) -> ApproxDP:
        """The guarantee of test and labels together, whatever the votes."""
        ...

    def clear(self, votes: NDArray[np.int64], noise_scale: float, source: Source) -> bool:
        """Test privately whether the votes cost no more than the budget."""
        ...

    def chance(self, votes: NDArray[np.int64], noise_scale: float) -> float:
        """Return how likely these votes pass. As secret as the votes: for public or simulated ones."""
        ...

    def to_json(self) -> dict[str, str]:
        """Return strings only."""
        ...


def _check(budget: Amount, order: Amount, delta: Amount) -> None:
    positive(budget, name="budget")
    if exact(order, name="order") <= 1:
        raise RangeError(f"Renyi orders are above 1, got {order}")
    if not 0 < exact(delta, name="delta") < 1:
        raise RangeError(f"delta must lie strictly between 0 and 1, got {delta}; 1e-5 is usual for labels")


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
    numerics: ClassVar[Literal["exact", "idealized"]] = "exact"

    def __post_init__(self) -> None:
        _check(self.budget, self.order, self.delta)
        positive(self.test_scale, name="test_scale")

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

    def clear(self, votes: NDArray[np.int64], noise_scale: float, source: Source) -> bool:
        """Draw the test's noise and decide."""
        return self.test.passes(self._distance(votes, noise_scale), source)

    def chance(self, votes: NDArray[np.int64], noise_scale: float) -> float:
        """Return how likely these votes pass. As secret as the votes: for public or simulated ones."""
        from scipy.special import ndtr

        ahead = self._distance(votes, noise_scale) - self.test.threshold + 0.5
        return float(ndtr(ahead / float(exact(self.test_scale, name="test_scale"))))

    def _distance(self, votes: NDArray[np.int64], noise_scale: float) -> int:
        cost = _cost(self.order, noise_scale, votes)
        budget = float(exact(self.budget, name="budget")) * (1 - _ROUNDING)
        return vote_distance(quantiles_of(votes, cost, tie_margin=1 / FINE), cost, budget=budget, cap=self.test.cap)

    def to_json(self) -> dict[str, str]:
        """Return strings only."""
        return _strings(self, "budget", "order", "test_scale", "delta")


@dataclass(frozen=True, kw_only=True)
class SmoothVotes:
    """The same proposal, tested by a noisy upper bound of the votes' cost, with noise in proportion to its sensitivity.

    Guarantee: Rényi divergence of the two noisy numbers plus `budget` at the public order, converted once; idealized,
    because the noise has a secret scale and is drawn in floats. Kept for comparison: `ClearVotes` costs less.

    `smoothness` is how fast the sensitivity may change from one teacher to the next (0.2/order is usual),
    `sensitivity_scale` the noise on its logarithm in units of `smoothness`, `sum_scale` that on the cost in units of
    the sensitivity.

    >>> proposal = SmoothVotes(budget="0.05", order=20, smoothness="0.01", delta="1e-5")
    >>> round(float(proposal.price.epsilon), 2)
    0.6
    """

    budget: Amount
    order: Amount = 25
    smoothness: Amount = Fraction(1, 125)
    sensitivity_scale: Amount = 15
    sum_scale: Amount = 15
    delta: Amount
    numerics: ClassVar[Literal["exact", "idealized"]] = "idealized"

    def __post_init__(self) -> None:
        _check(self.budget, self.order, self.delta)
        for name in ("smoothness", "sensitivity_scale", "sum_scale"):
            positive(getattr(self, name), name=name)
        _ = self.price  # an order that the smoothness does not cover is found now

    @cached_property
    def price(self) -> ApproxDP:
        """The guarantee of test and labels together: half of delta for a bound too low, half for the conversion."""
        order, scale = exact(self.order, name="order"), exact(self.sensitivity_scale, name="sensitivity_scale")
        noisy_sum = smooth_noise_renyi(
            float(order),
            smoothness=float(exact(self.smoothness, name="smoothness")),
            scale=float(exact(self.sum_scale, name="sum_scale")),
        )
        return price_of_certified_chain(
            lambda a: [a / (2 * scale**2), noisy_sum * (1 + _ROUNDING), exact(self.budget, name="budget")],
            orders=[order],
            conversion_delta=exact(self.delta, name="delta") / 2,
            failure=exact(self.delta, name="delta") / 2,
        )

    def clear(self, votes: NDArray[np.int64], noise_scale: float, source: Source) -> bool:
        """Draw the noisy bound and compare it with the budget; NaN does not pass."""
        bound = self._bound(votes, noise_scale)
        noisy = bound.release(quantiles_of(votes, bound.cost, tie_margin=1 / FINE), source)
        return bool(noisy <= float(exact(self.budget, name="budget")) * (1 - _ROUNDING))

    def chance(self, votes: NDArray[np.int64], noise_scale: float) -> float:
        """Return how likely these votes pass. As secret as the votes: for public or simulated ones."""
        from scipy.special import ndtr

        bound = self._bound(votes, noise_scale)
        quantiles = quantiles_of(votes, bound.cost, tie_margin=1 / FINE)
        smooth, total = bound.sensitivity(quantiles), float(bound.cost.at(quantiles).sum())
        shift = upper_quantile(bound.failure / 2)
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        factors = np.exp(bound.smoothness * bound.sensitivity_scale * (nodes + shift))  # e^m / S
        room = (float(exact(self.budget, name="budget")) - total) / (smooth * bound.sum_scale) - shift * factors
        return float((weights / weights.sum()) @ ndtr(room))

    def _bound(self, votes: NDArray[np.int64], noise_scale: float) -> SmoothBound:
        return SmoothBound(
            cost=_cost(self.order, noise_scale, votes),
            smoothness=float(exact(self.smoothness, name="smoothness")),
            sensitivity_scale=float(exact(self.sensitivity_scale, name="sensitivity_scale")),
            sum_scale=float(exact(self.sum_scale, name="sum_scale")),
            failure=float(exact(self.delta, name="delta") / 2),
        )

    def to_json(self) -> dict[str, str]:
        """Return strings only."""
        names = ("budget", "order", "smoothness", "sensitivity_scale", "sum_scale", "delta")
        return {"test": "smooth_sensitivity", **_strings(self, *names)}


def _cost(order: Amount, noise_scale: float, votes: ArrayLike) -> VoteCost:
    return VoteCost(
        noise_scale=noise_scale, order=float(exact(order, name="order")), classes=int(np.asarray(votes).shape[1])
    )


def _strings(proposal: object, *names: str) -> dict[str, str]:
    return {name: decimal_text(exact(getattr(proposal, name), name=name)) for name in names}
