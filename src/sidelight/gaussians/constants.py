"""The constants of CoinPress's steps: those that were measured to work, and those that are proven to.

The choice is about accuracy only. Every step is private for any constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Literal

from sidelight.gaussians.tails import norm_bound

Version = Literal["practical", "proven"]


@dataclass(frozen=True)
class Constants:
    """Radii and corrections of the steps, as functions of public numbers and of the released number of rows."""

    version: Version = "practical"
    #: β of the proven version: each of its steps fails with at most this probability.
    chance: float = 0.05

    def mean_clip(self, size: int, radius: float, rows: float) -> float:
        """Return the length τ to clip whitened rows about c to, where ‖μ - c‖ <= radius."""
        if self.version == "proven":
            return radius + norm_bound(size, self.chance / rows)
        length = norm_bound(size, 0.01)
        return min(sqrt(radius**2 + 6 * radius + length**2), radius + length)

    def mean_radius(self, size: int, deviation: float, rows: float) -> float:
        """Return the new radius after a step with this noise on each coordinate of the mean."""
        chance = self.chance if self.version == "proven" else 0.01
        return norm_bound(size, chance) * sqrt(1 / rows + deviation**2)

    def covariance_clip(self, size: int, rows: float) -> float:
        """Return the length γ to clip preconditioned rows to."""
        if self.version == "proven":
            return norm_bound(size, self.chance / rows) + 1
        return norm_bound(size, 0.1)

    def final_clip(self, size: int, rows: float) -> float:
        """Return the length to clip whitened, re-centred rows to."""
        return self.covariance_clip(size, rows) if self.version == "proven" else norm_bound(size, 0.05)

    def sampling_error(self, size: int, rows: float) -> float:
        """Return η: what is added to eigenvalues for the rows being a sample."""
        if self.version == "proven":
            share = sqrt(size / rows) + sqrt(2 * log(2 / self.chance) / rows)
            return 2 * share + share**2
        return sqrt(size / rows) + size / (2 * rows)

    def noise_error(self, size: int, noise_scale: float) -> float:
        """Return ν: what is added to eigenvalues for the noise."""
        if self.version == "proven":
            return noise_scale * (sqrt(2 * size) + sqrt(2 * log(2 / self.chance)))
        return noise_scale * sqrt(2 * size) / 2
