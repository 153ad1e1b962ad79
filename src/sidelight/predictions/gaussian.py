"""The Gaussian prior: the sharpest, and the one that forgives least."""

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

_ROOT_HALF = math.sqrt(0.5)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
#: Below this width (times the height of z) the density is flat to nine digits, and tails cancel.
_NARROW = 1e-5


@dataclass(frozen=True)
class Gaussian:
    """Predict with a normal law.

    Accuracy: wrong by R standard deviations, a release loses up to (Δ/ε) R² ranks; `hedge` it.

    Args:
        location: The guess of the answer.
        scale: The standard deviation.
        origin: Where the prediction came from (`predictions.public`, `released` or `guess`); a guess if left out.

    >>> round(float(Gaussian(0, 1).log_mass(40, 41)), 9)
    -804.608442014
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
        """Return log mu((lower, upper]) from the tail on the nearer side."""
        from scipy.special import log_ndtr, ndtr  # type: ignore[import-untyped,unused-ignore]

        low, high, zl, zu, _ = self._mirrored(lower, upper)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            far, near = log_ndtr(-zu), log_ndtr(-zl)
            aside = near + np.log(-np.expm1(far - near))
            straddling = np.log(1.0 - ndtr(zl) - ndtr(-zu))
            middle = zl + (zu - zl) / 2
            width = (high - low) / self.scale
            flat = -0.5 * middle * middle - _LOG_ROOT_TWO_PI + np.log(width)
            mass = np.where(zl < 0, straddling, aside)
            mass = np.where(width * np.maximum(1.0, np.abs(zl)) < _NARROW, flat, mass)
            # Beyond the reach of floats the nearer tail is log 0, and so is the interval.
            mass = np.where(np.isneginf(near), -np.inf, mass)
        return np.asarray(np.where(high > low, mass, -np.inf))

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> NDArray[np.float64]:
        """Map uniform v to a draw from mu on (lower, upper]."""
        from scipy.special import log_ndtr, ndtri_exp  # type: ignore[import-untyped,unused-ignore]

        low, high, zl, zu, mirrored = self._mirrored(lower, upper)
        share = np.asarray(v, dtype=np.float64)
        log_mass = self.log_mass(low, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # Mass above the draw: the far tail and the share of the interval beyond it.
            beyond = np.where(mirrored, share, 1.0 - share)
            z = -ndtri_exp(np.minimum(np.logaddexp(log_ndtr(-zu), np.log(beyond) + log_mass), -0.0))
            x = self.location + self.scale * np.where(mirrored, -z, z)
            narrow = (high - low) / self.scale * np.maximum(1.0, np.abs(zl)) < _NARROW
            x = np.where(narrow, low + share * (high - low), x)
            return np.clip(x, low, high)

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((-inf, x])."""
        from scipy.special import ndtr  # type: ignore[import-untyped,unused-ignore]

        return np.asarray(ndtr((np.asarray(x, dtype=np.float64) - self.location) / self.scale))

    def sf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((x, inf))."""
        from scipy.special import ndtr  # type: ignore[import-untyped,unused-ignore]

        return np.asarray(ndtr((self.location - np.asarray(x, dtype=np.float64)) / self.scale))

    def staircases(self, grid: Outcomes, weight: int) -> tuple[Staircase, ...]:
        """Return the integer masses at the knots of this prior."""
        location, scale = as_decimal(self.location), as_decimal(self.scale)
        return (Ladder(grid, _GAUSSIAN, location=location, scale=scale, weight=weight),)

    def compile(self, grid: Outcomes) -> CompiledPrior:
        """Return the exact integer masses that a release on this grid uses."""
        return CompiledPrior(grid.fine_first, grid.fine_last, self.staircases(grid, UNIT))

    def to_json(self) -> dict[str, object]:
        """Return strings only."""
        return {
            "family": "gaussian",
            "location": repr(self.location),
            "scale": repr(self.scale),
            "origin": self.origin.to_json(),
        }

    def _mirrored(
        self, lower: ArrayLike, upper: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        """Standardise. An interval mostly left of the location is mirrored: its nearer tail is then the upper one."""
        low, high = np.broadcast_arrays(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))
        a, b = (low - self.location) / self.scale, (high - self.location) / self.scale
        mirrored = np.asarray(np.abs(a) > np.abs(b))
        return low, high, np.where(mirrored, -b, a), np.where(mirrored, -a, b), mirrored


def _gaussian_below(z: float) -> int:
    """Return the standard normal mass below z as an integer of 2**128, from the nearer tail."""
    tail = int(math.ldexp(math.erfc(abs(z) * _ROOT_HALF), UNIT_BITS - 1))
    return tail if z <= 0 else UNIT - tail


#: The upper tail at 14 is below 2**-128. The density bends with z, so the rungs are closer than for the others.
_GAUSSIAN = StandardLaw(_gaussian_below, per_scale=64, linear_until=14)
