"""The literature's private test of clear votes: noise in proportion to a smooth sensitivity, constants corrected.

For comparison with `ClearVotes`, whose integer distance costs less (stability proof page, section 5). The noise has a
secret scale, so it is drawn in floats: idealized.
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
from sidelight.guarantees import Amount, ApproxDP, exact, positive
from sidelight.mechanisms.tests_and_bounds import upper_quantile
from sidelight.noise import Source, standard_normal
from sidelight.stability.pate.proposals import (
    FINE,
    LARGEST_QUANTILE,
    VoteCost,
    certified_price,
    check_proposal,
    plain_epsilon,
    quantiles_of,
)
from sidelight.stability.pate.votes import checked_votes

Floats = NDArray[np.float64]

#: Divergences in floats are charged a little higher, budgets compared a little lower.
_ROUNDING = 1e-9
_TEST_SCALES = (2, 3, 4, 5, 7, 10, 14, 20, 28, 40)
#: Cells of the table a step of one teacher has.
_CELLS_A_STEP = 64
#: The smooth sensitivity is at least this share of the plain cost: the logarithm of 0 is not wanted. A public constant.
_LEAST_SHARE = 1e-9


@dataclass(frozen=True, kw_only=True)
class SmoothBound:
    """Release an upper bound of Σ cost: ln S with noise β·σ₂, then the sum with noise S·σ_s, both shifted upwards.

    Guarantee: Rényi divergence `divergence(order)` at the cost's order, idealized; the bound is below the true sum with
    probability at most `failure`.
    """

    cost: VoteCost
    smoothness: float  # β
    sensitivity_scale: float  # σ₂, of the noise on ln S in units of β
    sum_scale: float  # σ_s, of the noise on the sum in units of S
    failure: float

    def __post_init__(self) -> None:
        if not (self.smoothness > 0 and self.sensitivity_scale > 0 and self.sum_scale > 0 and 0 < self.failure < 1):
            raise RangeError("a smooth bound wants positive smoothness and scales, and a failure probability in (0, 1)")
        self.divergence()

    def divergence(self) -> float:
        """Return the cost of both noisy numbers at the order of the votes' cost."""
        order = self.cost.order
        noisy_sum = smooth_noise_renyi(order, smoothness=self.smoothness, scale=self.sum_scale)
        return noisy_sum + order / (2 * self.sensitivity_scale**2)

    def release(self, quantiles: Floats, source: Source) -> float:
        """Return the noisy upper bound of the summed cost."""
        smooth = self.sensitivity(quantiles)
        first, second = standard_normal(2, source).tolist()
        shift = upper_quantile(self.failure / 2)
        largest = math.log(smooth) + self.smoothness * self.sensitivity_scale * (first + shift)
        noise = smooth * self.sum_scale * second + self.sum_scale * shift * math.exp(largest)
        return float(self.cost.at(quantiles).sum() + noise)

    def sensitivity(self, quantiles: Floats) -> float:
        """Return S = max over d of exp(-βd) Σ (largest change of a cost within d teachers). Secret; ln S moves by β.

        The cost is constant from `LARGEST_QUANTILE` on, so it is a function of min(w, end), which one teacher moves no
        further than w itself. S is computed of these: every window then begins inside the table, and the last one
        holds all of it. Of w itself it would not be smooth: far beyond the end no window reaches the table.
        """
        table, step = self._table, self.cost.step
        within = np.minimum(quantiles, LARGEST_QUANTILE)
        # from anywhere between the start and the end of the table, the last reach passes both
        reaches = np.arange(math.ceil(table.size * table.width / step) + 2, dtype=np.float64)
        low, high = table.window(within, reaches[:, None] * step)
        sums = table.maximum(low, high).sum(axis=1)
        least = _LEAST_SHARE * self.cost.order / self.cost.noise_scale**2
        return max(least, float((np.exp(-self.smoothness * reaches) * sums).max()))

    @cached_property
    def _table(self) -> _Changes:
        return _Changes.of(self.cost)


@dataclass(frozen=True, eq=False)
class _Changes:
    """By how much one teacher can change the cost, from above, in cells of the quantile; with range maxima.

    Outside the table nothing changes: below its start the cost is that of the cap, one step further still, and from
    `LARGEST_QUANTILE` on it is constant, which the last cells show with a 0.
    """

    start: float
    width: float
    levels: list[Floats]  # levels[k][i] is the maximum of 2**k cells from i on

    @classmethod
    def of(cls, cost: VoteCost) -> _Changes:
        step = cost.step
        width = step / _CELLS_A_STEP
        start = -8.0 - step  # below every quantile that the cap allows
        left = np.arange(start, LARGEST_QUANTILE + 2 * step, width)
        right = left + width
        # the cost falls, so a change within the cell is at most that between its outer ends
        values = np.maximum(cost.at(left - step) - cost.at(right), cost.at(left) - cost.at(right + step))
        levels = [values]
        while 2 ** len(levels) <= len(values):
            half = levels[-1]
            span = 2 ** (len(levels) - 1)
            levels.append(np.maximum(half[:-span], half[span:]))
        return cls(start, width, levels)

    @property
    def size(self) -> int:
        return len(self.levels[0])

    def window(self, quantiles: Floats, reach: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the cells that meet [w - reach, w + reach], as half-open ranges, one cell wider for rounding.

        The quantiles lie inside the table; only their windows may be cut off at its ends, where nothing changes.
        """
        low = np.floor((quantiles - reach - self.start) / self.width).astype(np.int64) - 1
        high = np.floor((quantiles + reach - self.start) / self.width).astype(np.int64) + 2
        return np.clip(low, 0, self.size - 1), np.clip(high, 1, self.size)

    def maximum(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> Floats:
        """Return the maxima of the ranges."""
        exponents = np.log2(high - low).astype(np.int64)
        found = np.empty(low.shape)
        for exponent in np.unique(exponents):
            here = exponents == exponent
            level = self.levels[exponent]
            found[here] = np.maximum(level[low[here]], level[high[here] - 2**exponent])
        return found


def smooth_noise_renyi(order: float, *, smoothness: float, scale: float) -> float:
    """Return the Rényi divergence of f + S·scale·Z for |ln S'/S| <= smoothness and |f' - f| <= min(S, S').

    The exact supremum: two Gaussians whose variances have the ratio u, largest at an end of u or where they agree.
    Published simpler forms are false near order·smoothness = 1/2.

    >>> round(smooth_noise_renyi(20, smoothness=0.01, scale=10), 8)
    0.16503444
    """
    if not order > 1:
        raise RangeError(f"Renyi orders are above 1, got {order}")

    if math.expm1(2 * smoothness) > order**-0.5:  # only then is the sum convex, and largest at an end
        raise RangeError(f"smoothness {smoothness} is too large for order {order}; 0.2 / order is usual")

    def at(ratio: float) -> float:
        left = order * ratio + 1 - order
        if left <= 0:
            raise RangeError(
                f"order {order} is too large for smoothness {smoothness}: they want order < 1/(1 - exp(-2 smoothness))"
            )
        spread = math.log(ratio) / 2 + math.log(ratio / left) / (2 * (order - 1))
        return spread + order * min(1.0, ratio) / (2 * scale**2 * left)

    return max(at(math.exp(-2 * smoothness)), at(1.0), at(math.exp(2 * smoothness)))


@dataclass(frozen=True, kw_only=True)
class SmoothVotes:
    """The same proposal, tested by a noisy upper bound of the votes' cost, with noise in proportion to its sensitivity.

    Guarantee: Rényi divergence of the two noisy numbers plus `budget` at the public order, converted once; idealized,
    because the noise has a secret scale and is drawn in floats. `ClearVotes` costs less.

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

    def __post_init__(self) -> None:
        check_proposal(self.budget, self.order, self.delta)
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
        divergence = order / (2 * scale**2) + Fraction(noisy_sum * (1 + _ROUNDING)) + exact(self.budget, name="budget")
        return certified_price(divergence, order, delta=self.delta)

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
            cost=VoteCost.of(self.order, noise_scale, votes),
            smoothness=float(exact(self.smoothness, name="smoothness")),
            sensitivity_scale=float(exact(self.sensitivity_scale, name="sensitivity_scale")),
            sum_scale=float(exact(self.sum_scale, name="sum_scale")),
            failure=float(exact(self.delta, name="delta") / 2),
        )


def cheapest_smooth_proposal(
    queries: int,
    noise_scale: Amount,
    *,
    delta: Amount,
    votes: ArrayLike,
    chance: float = 0.99,
    orders: Iterable[int] = (5, 8, 12, 16, 20, 25, 30, 40, 50, 65, 80),
) -> SmoothVotes | None:
    """Choose a proposal from public votes, as `cheapest_proposal` does, for the test by smooth sensitivity."""
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
                        budget=float(f"{budget:.6g}"),
                        order=order,
                        smoothness=float(f"{smoothness:.6g}"),
                        sensitivity_scale=sensitivity_scale,
                        sum_scale=sum_scale,
                        delta=delta,
                    )
                    if float(found.price.epsilon) < best_epsilon:
                        best, best_epsilon = found, float(found.price.epsilon)
    return best
