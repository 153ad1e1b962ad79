"""How many teachers would have to change before the votes cost more than a proposed budget.

An integer of sensitivity 1, 0 exactly where the budget is exceeded already: what `GaussianTest` wants. Not in the
literature's test, which smooths a sensitivity instead and pays more (stability proof page, Theorem 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.stability.pate.noisy_max import log_error_probability, log_q_at, noisy_max_renyi, vote_quantile

Floats = NDArray[np.float64]

#: Quantiles are computed in floats: a step is made this much longer, and the start this much lower, so that rounding
#: can hide neither a movement nor an excess.
_SLACK = 1e-9
#: Points at which the cost is checked to fall with the quantile.
_CHECKED = 4096
#: Beyond, error probabilities leave the range of floats; the cost there is taken to be the cost here, from above.
LARGEST_QUANTILE = 35.0


@dataclass(frozen=True, kw_only=True)
class VoteCost:
    """The cost of a vote as a function of its quantile w: Rényi divergence at one public order."""

    noise_scale: float
    order: float
    classes: int

    @property
    def step(self) -> float:
        """How far one teacher moves a quantile."""
        return math.sqrt(2) / self.noise_scale * (1 + _SLACK) + _SLACK

    def at(self, quantile: ArrayLike) -> Floats:
        """Return the cost, or if it does not always fall with the quantile, its least value on a grid up to there.

        A q that is too large bounds the error probability as well, so the cost at a smaller quantile is always valid.
        """
        wanted = np.asarray(quantile, np.float64)
        if self._falls:
            return self._raw(wanted)
        places = np.clip(np.searchsorted(self._grid, wanted, side="right") - 1, 0, _CHECKED - 1)
        return np.asarray(self._least_so_far[places])

    def _raw(self, quantile: Floats) -> Floats:
        logs = log_q_at(np.minimum(quantile, LARGEST_QUANTILE), classes=self.classes)
        return noisy_max_renyi(logs, noise_scale=self.noise_scale, order=self.order)

    @cached_property
    def _grid(self) -> Floats:
        lowest = float(vote_quantile(math.log1p(-1 / self.classes), classes=self.classes))
        return np.linspace(lowest, LARGEST_QUANTILE, _CHECKED)

    @cached_property
    def _least_so_far(self) -> Floats:
        return np.minimum.accumulate(self._raw(self._grid))

    @cached_property
    def _falls(self) -> bool:
        values = self._raw(self._grid)
        return bool(np.all(np.diff(values) <= 1e-12 * values[:-1]))


def quantiles_of(votes: ArrayLike, cost: VoteCost, *, tie_margin: float) -> Floats:
    """Return the quantile of every query's vote. Secret."""
    logs = log_error_probability(votes, noise_scale=cost.noise_scale, tie_margin=tie_margin)
    return vote_quantile(logs, classes=cost.classes)


def vote_distance(quantiles: Floats, cost: VoteCost, *, budget: float, cap: int) -> int:
    """Return how many teachers must change until the summed cost exceeds the budget, at most `cap`; 0 if it does now.

    >>> cost = VoteCost(noise_scale=40, order=10, classes=10)
    >>> votes = [[390, 4, 2, 1, 1, 1, 1, 0, 0, 0], [300, 60, 20, 5, 5, 5, 2, 1, 1, 1]]
    >>> w = quantiles_of(votes, cost, tie_margin=0.0)
    >>> [vote_distance(w, cost, budget=budget, cap=1000) for budget in (0.001, 0.005, 0.01, 0.012)]
    [37, 52, 111, 116]
    """

    def within(teachers: int) -> bool:
        # written so that NaN is not within
        return bool(cost.at(quantiles - _SLACK - teachers * cost.step).sum() <= budget)

    if not within(0):
        return 0
    low, high = 0, cap  # within(low); distances of `cap` and beyond are alike
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return min(cap, low + 1)
