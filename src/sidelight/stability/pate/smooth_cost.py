"""The literature's private bound of the votes' cost: noise in proportion to a smooth sensitivity, constants corrected.

Kept for comparison: the integer distance costs less (stability proof page, section 5). The noise has a secret scale, so
it is drawn in floats: idealized.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.noise import Source, standard_normal
from sidelight.stability.distance_test import upper_quantile
from sidelight.stability.pate.vote_distance import LARGEST_QUANTILE, VoteCost

Floats = NDArray[np.float64]

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
