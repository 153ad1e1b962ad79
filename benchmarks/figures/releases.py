"""Simulated releases for the figures: the float simulator on dithered records. NOT PRIVATE, on public data only.

A release dithers every record inside its step of the granularity (half a step to either side), so that ties do not bias
the tree, and rounds what it releases to the nearest step; so does this. All methods see the same
records, dither and random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.baselines.quantile_simulation import simulate_quantiles
from sidelight.predictions import Prior
from sidelight.quantiles import nonprivate_gap
from sidelight.quantiles.bounds import Adaptation
from sidelight.quantiles.tree import QuantileTree, Score


@dataclass(frozen=True)
class Records:
    """One data set: the values on their steps for the evaluation, and dithered for the mechanism."""

    codes: np.ndarray
    dithered: np.ndarray
    step: float | None
    seed: tuple[int, ...]

    @classmethod
    def of(cls, values: np.ndarray, *, step: float | None, seed: tuple[int, ...]) -> Records:
        """Dither the values; without a step they are continuous and stay as they are."""
        if step is None:
            return cls(values, values, None, seed)
        codes = np.rint(values / step)
        dither = np.random.default_rng((*seed, 1)).random(len(codes)) - 0.5
        return cls(codes, (codes + dither) * step, step, seed)

    def release(
        self,
        tree: QuantileTree,
        priors: Prior | Sequence[Prior],
        *,
        score: Score = "exact",
        adaptation: Adaptation = "conditional",
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return simulated quantiles and the gap of each."""
        rng = np.random.default_rng((*self.seed, 2))
        drawn = simulate_quantiles(self.dithered, tree, priors=priors, rng=rng, score=score, adaptation=adaptation)[0]
        if self.step is None:
            return drawn, nonprivate_gap(self.codes, tree.levels, drawn)
        steps = np.floor(drawn / self.step + 0.5)
        return steps * self.step, nonprivate_gap(self.codes, tree.levels, steps)
