"""How long the next batch may be: the largest delay whose chance of a missed change of leader is within the tolerance.

Delay B is allowed at time t when the gap is at least `threshold(t, B)`; this replaces a root search by integer
bisection (experts proof page, Theorem 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.experts.leader_change import Bound, Floats, checked_bound, needed_margin


@dataclass(frozen=True, kw_only=True)
class DelayRule:
    """Public parameters of the delays.

    Args:
        actions: n, at least 2.
        noise_scale: η, the standard deviation of each coordinate of one report.
        tolerance: a: the rounds of a run lose at most 2 a c √(T ln n) in expectation over never waiting.
        gain_range: c: gains lie in [0, c].
        bound: "union" or "paper" (`leader_change`).
        largest_batch: No batch is larger than this; None for no limit.

    >>> rule = DelayRule(actions=25, noise_scale=5.0)
    >>> rule.delay([100.0, 300.0], 1000).tolist()
    [9, 62]
    """

    actions: int
    noise_scale: float
    tolerance: float = 0.01
    gain_range: float = 1.0
    bound: Bound = "union"
    largest_batch: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.actions, bool) or not isinstance(self.actions, int) or self.actions < 2:
            raise RangeError(f"actions must be a whole number of at least 2, got {self.actions!r}")
        for name in ("noise_scale", "tolerance", "gain_range"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise RangeError(f"{name} must be positive and finite, got {value}")
        if self.largest_batch is not None and self.largest_batch < 1:
            raise RangeError(f"largest_batch must be at least 1, got {self.largest_batch}")
        checked_bound(self.bound)

    def allowed_probability(self, time: ArrayLike, delay: ArrayLike) -> Floats:
        """Return δ_t(B) = a √(ln n / (t + B))."""
        total = np.asarray(time, dtype=np.float64) + np.asarray(delay, dtype=np.float64)
        return np.asarray(self.tolerance * np.sqrt(math.log(self.actions) / total))

    def threshold(self, time: ArrayLike, delay: ArrayLike) -> Floats:
        """Return the smallest gap at which `delay` is allowed: κ(t, B) = cB + η √(2B) ξ(δ_t(B)), increasing in both.

        >>> DelayRule(actions=25, noise_scale=5.0).threshold([100, 1000, 10_000], [1, 5, 50]).round(6).tolist()
        [29.014218, 71.8501, 274.010603]
        """
        wait = np.asarray(delay, dtype=np.float64)
        margin = needed_margin(self.allowed_probability(time, wait), actions=self.actions, bound=self.bound)
        return np.asarray(self.gain_range * wait + self.noise_scale * np.sqrt(2 * wait) * margin)

    def delay(self, gap: ArrayLike, time: ArrayLike) -> NDArray[np.int64]:
        """Return the largest delay allowed at each gap and time, by bisection on the integers."""
        gaps, times = np.broadcast_arrays(np.asarray(gap, dtype=np.float64), np.asarray(time, dtype=np.float64))
        low, high = self._bracket(np.maximum(gaps, 0.0), times)
        if self.largest_batch is not None:
            low, high = np.minimum(low, self.largest_batch - 1), np.minimum(high, self.largest_batch - 1)
        while True:
            open_ = low < high
            if not open_.any():
                return low
            middle = (low + high + 1) // 2
            fits = gaps >= self.threshold(times, middle)
            low, high = np.where(open_ & fits, middle, low), np.where(open_ & ~fits, middle - 1, high)

    def _bracket(self, gaps: Floats, times: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return delays that are surely allowed and surely enough.

        With the margin ξ held fixed, cB + η √(2B) ξ = k is a quadratic in √B. The margin grows with B: its value at
        B = 0 gives a B that is too large, and its value at that B one that is too small.
        """

        def solved(delay: Floats) -> Floats:
            margin = needed_margin(self.allowed_probability(times, delay), actions=self.actions, bound=self.bound)
            half = self.noise_scale * margin / math.sqrt(2)
            root = gaps / (half + np.sqrt(half * half + self.gain_range * gaps) + 1e-300)
            return np.asarray(np.minimum(root * root, 2.0**52))

        above = solved(np.zeros(gaps.shape))
        below = solved(above)
        # room for rounding: one step, and some of the 1e-16 of large numbers
        low = np.maximum(0.0, np.floor(below * (1 - 1e-9)) - 1)
        return low.astype(np.int64), (np.floor(above * (1 + 1e-9)) + 1).astype(np.int64)
