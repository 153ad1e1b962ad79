"""The Laplace prior: sharp around its location, and never to be trusted alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.grid import Outcomes
from sidelight.predictions.compiled import UNIT, UNIT_BITS, CompiledPrior, Staircase
from sidelight.predictions.knots import Ladder, StandardLaw
from sidelight.predictions.origin import Origin, guess
from sidelight.predictions.priors import as_decimal, finite, positive


@dataclass(frozen=True)
class Laplace:
    """Predict with density exp(-|x - location| / scale) / (2 scale): what fitting on public data gives.

    Accuracy: wrong by R scales, a release loses up to (2Δ/ε) R ranks; `hedge` it.

    Args:
        location: The guess of the answer.
        scale: The mean distance from it.
        origin: Where the prediction came from (`predictions.public`, `released` or `guess`); a guess if left out.

    >>> round(float(Laplace(0, 1).log_mass(800, 801)), 9)
    -801.151822326
    """

    location: float
    scale: float
    origin: Origin = field(default=guess(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", finite(self.location, name="location"))
        object.__setattr__(self, "scale", positive(self.scale, name="scale"))

    @property
    def needs_hedge(self) -> bool:
        """Return True: the tails are too light to be wrong with."""
        return True

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> NDArray[np.float64]:
        """Return log mu((lower, upper]), stable in both tails."""
        low, high, zl, zu = self._standardise(lower, upper)
        near = np.minimum(np.abs(zl), np.abs(zu))  # distance of the interval from the location, when it lies aside
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # -expm1 of the width, infinite widths included; the width is taken before the location is subtracted.
            aside = -near - math.log(2.0) + np.log(-np.expm1(-(high - low) / self.scale))
            aside = np.where(np.isposinf(near), -np.inf, aside)
            straddling = np.log((-np.expm1(np.minimum(zl, 0.0)) - np.expm1(-np.maximum(zu, 0.0))) / 2.0)
            mass = np.where((zl < 0) & (zu > 0), straddling, aside)
        return np.asarray(np.where(high > low, mass, -np.inf))

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> NDArray[np.float64]:
        """Map uniform v to a draw from mu on (lower, upper]."""
        low, high, zl, zu = self._standardise(lower, upper)
        share = np.asarray(v, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            left_mass, right_mass = -np.expm1(np.minimum(zl, 0.0)), -np.expm1(-np.maximum(zu, 0.0))
            straddles = (zl < 0) & (zu > 0)
            cut = np.where(straddles, left_mass / (left_mass + right_mass), np.where(zl >= 0, 0.0, 1.0))
            # On either side: distances from the location, the nearer end first.
            goes_right = share >= cut
            near = np.where(straddles, 0.0, np.where(goes_right, zl, -zu))
            width = np.where(straddles, np.where(goes_right, zu, -zl), (high - low) / self.scale)
            part = np.where(goes_right, (share - cut) / (1.0 - cut), (cut - share) / cut)
            distance = near - np.log1p(np.clip(part, 0.0, 1.0) * np.expm1(-width))
            x = self.location + self.scale * np.where(goes_right, distance, -distance)
            return np.asarray(np.clip(x, low, high))

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((-inf, x])."""
        z = (np.asarray(x, dtype=np.float64) - self.location) / self.scale
        return np.asarray(np.where(z <= 0, 0.5 * np.exp(-np.abs(z)), 1.0 - 0.5 * np.exp(-np.abs(z))))

    def sf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((x, inf))."""
        return self.cdf(2 * self.location - np.asarray(x, dtype=np.float64))

    def staircases(self, grid: Outcomes, weight: int) -> tuple[Staircase, ...]:
        """Return the integer masses at the knots of this prior."""
        location, scale = as_decimal(self.location), as_decimal(self.scale)
        return (Ladder(grid, _LAPLACE, location=location, scale=scale, weight=weight),)

    def compile(self, grid: Outcomes) -> CompiledPrior:
        """Return the exact integer masses that a release on this grid uses."""
        return CompiledPrior(grid.fine_first, grid.fine_last, self.staircases(grid, UNIT))

    def to_json(self) -> dict[str, object]:
        """Return strings only."""
        return {
            "family": "laplace",
            "location": repr(self.location),
            "scale": repr(self.scale),
            "origin": self.origin.to_json(),
        }

    def _standardise(
        self, lower: ArrayLike, upper: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        low, high = np.broadcast_arrays(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))
        return low, high, (low - self.location) / self.scale, (high - self.location) / self.scale


def _laplace_below(z: float) -> int:
    """Return the standard Laplace mass below z as an integer of 2**128, from the nearer tail."""
    tail = int(math.ldexp(math.exp(-abs(z)), UNIT_BITS - 1))
    return tail if z <= 0 else UNIT - tail


#: exp(-96) < 2**-128: beyond the linear part no mass is left, so the density is followed wherever there is any.
_LAPLACE = StandardLaw(_laplace_below, per_scale=16, linear_until=96)
