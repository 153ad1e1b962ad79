"""Cauchy and half-Cauchy priors: the robust choice, a wrong location costs only the logarithm of the mistake."""

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
class Cauchy:
    """Predict with density scale / (pi (scale² + (x - location)²)): where the answer is, and how far off it may be.

    Accuracy: wrong by R scales, a release loses about (2Δ/ε) log(1 + R²) ranks; no bounds on the data are needed.

    Args:
        location: The guess of the answer.
        scale: How far off the guess may well be.
        origin: Where the prediction came from (`predictions.public`, `released` or `guess`); a guess if left out.

    >>> float(Cauchy(40, 10).cdf(50))
    0.75
    """

    location: float
    scale: float
    origin: Origin = field(default=guess(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", finite(self.location, name="location"))
        object.__setattr__(self, "scale", positive(self.scale, name="scale"))

    @property
    def needs_hedge(self) -> bool:
        """Return False: the tails are heavy enough."""
        return False

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> NDArray[np.float64]:
        """Return log mu((lower, upper]) from one angle, never from a difference of distribution functions."""
        return np.asarray(_log_angle(lower, upper, self.location, self.scale) - math.log(math.pi))

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> NDArray[np.float64]:
        """Map uniform v to a draw from mu on (lower, upper]."""
        return _inverse_angle(lower, upper, v, self.location, self.scale)

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((-inf, x])."""
        z = (np.asarray(x, dtype=np.float64) - self.location) / self.scale
        return np.asarray(np.arctan2(1.0, -z) / math.pi)

    def sf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((x, inf))."""
        z = (np.asarray(x, dtype=np.float64) - self.location) / self.scale
        return np.asarray(np.arctan2(1.0, z) / math.pi)

    def staircases(self, grid: Outcomes, weight: int) -> tuple[Staircase, ...]:
        """Return the integer masses at the knots of this prior."""
        location, scale = as_decimal(self.location), as_decimal(self.scale)
        return (Ladder(grid, _CAUCHY, location=location, scale=scale, weight=weight),)

    def compile(self, grid: Outcomes) -> CompiledPrior:
        """Return the exact integer masses that a release on this grid uses."""
        return CompiledPrior(grid.fine_first, grid.fine_last, self.staircases(grid, UNIT))

    def to_json(self) -> dict[str, object]:
        """Return strings only."""
        return {
            "family": "cauchy",
            "location": repr(self.location),
            "scale": repr(self.scale),
            "origin": self.origin.to_json(),
        }


@dataclass(frozen=True)
class HalfCauchy:
    """Predict with the right half of a Cauchy, for data that are never negative.

    Args:
        scale: The guess of the answer: half of the mass lies below location + scale.
        location: The mode, where the data begin.
        origin: Where the prediction came from (`predictions.public`, `released` or `guess`); a guess if left out.

    >>> float(HalfCauchy(40).cdf(40))
    0.5
    """

    scale: float
    location: float = 0.0
    origin: Origin = field(default=guess(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive(self.scale, name="scale"))
        object.__setattr__(self, "location", finite(self.location, name="location"))

    @property
    def needs_hedge(self) -> bool:
        """Return False: the tail is heavy enough."""
        return False

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> NDArray[np.float64]:
        """Return log mu((lower, upper])."""
        low = np.maximum(np.asarray(lower, dtype=np.float64), self.location)
        return np.asarray(_log_angle(low, upper, self.location, self.scale) + math.log(2 / math.pi))

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> NDArray[np.float64]:
        """Map uniform v to a draw from mu on (lower, upper]."""
        low = np.maximum(np.asarray(lower, dtype=np.float64), self.location)
        return _inverse_angle(low, upper, v, self.location, self.scale)

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((-inf, x])."""
        z = np.maximum((np.asarray(x, dtype=np.float64) - self.location) / self.scale, 0.0)
        return np.asarray(np.arctan(z) * (2 / math.pi))

    def sf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((x, inf))."""
        z = np.maximum((np.asarray(x, dtype=np.float64) - self.location) / self.scale, 0.0)
        return np.asarray(np.arctan2(1.0, z) * (2 / math.pi))

    def staircases(self, grid: Outcomes, weight: int) -> tuple[Staircase, ...]:
        """Return the integer masses at the knots of this prior."""
        location, scale = as_decimal(self.location), as_decimal(self.scale)
        return (Ladder(grid, _HALF_CAUCHY, location=location, scale=scale, weight=weight),)

    def compile(self, grid: Outcomes) -> CompiledPrior:
        """Return the exact integer masses that a release on this grid uses."""
        return CompiledPrior(grid.fine_first, grid.fine_last, self.staircases(grid, UNIT))

    def to_json(self) -> dict[str, object]:
        """Return strings only."""
        return {
            "family": "half_cauchy",
            "scale": repr(self.scale),
            "location": repr(self.location),
            "origin": self.origin.to_json(),
        }


def _cauchy_below(z: float) -> int:
    """Return the standard Cauchy mass below z as an integer of 2**128, from the nearer tail."""
    tail = int(math.ldexp(math.atan2(1.0, abs(z)) / math.pi, UNIT_BITS))
    return tail if z <= 0 else UNIT - tail


def _half_cauchy_below(z: float) -> int:
    """Return the standard half-Cauchy mass below z as an integer of 2**128."""
    if z <= 0:
        return 0
    if z <= 1:
        return int(math.ldexp(math.atan(z) / math.pi, UNIT_BITS + 1))
    return UNIT - int(math.ldexp(math.atan2(1.0, z) / math.pi, UNIT_BITS + 1))


_CAUCHY = StandardLaw(_cauchy_below, per_scale=16, linear_until=4)
_HALF_CAUCHY = StandardLaw(_half_cauchy_below, per_scale=16, linear_until=4, two_sided=False)


def _log_angle(lower: ArrayLike, upper: ArrayLike, location: float, scale: float) -> NDArray[np.float64]:
    """Return the log of the angle under which (lower, upper] is seen: atan z_u - atan z_l without cancellation."""
    low, high = np.broadcast_arrays(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))
    zl, zu = (low - location) / scale, (high - location) / scale
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # atan2(w, 1 + z_l z_u), both sides divided by max(1, |z_l|) so that the product cannot overflow.
        shrink = np.maximum(1.0, np.abs(zl))
        angle = np.arctan2((high - low) / scale / shrink, 1.0 / shrink + zl / shrink * zu)
        angle = np.where(np.isposinf(zu), np.arctan2(1.0, zl), angle)
        angle = np.where(np.isneginf(zl), np.arctan2(1.0, -zu), angle)
        angle = np.where(np.isneginf(zl) & np.isposinf(zu), math.pi, angle)
        return np.asarray(np.log(np.where(high > low, angle, 0.0)))


def _inverse_angle(
    lower: ArrayLike, upper: ArrayLike, v: ArrayLike, location: float, scale: float
) -> NDArray[np.float64]:
    """Interpolate the angle: measured from the nearer tail, so that far intervals keep their digits."""
    low, high, share = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (lower, upper, v)))
    zl, zu = (low - location) / scale, (high - location) / scale
    with np.errstate(divide="ignore", over="ignore"):
        right = np.arctan2(1.0, zl) + share * (np.arctan2(1.0, zu) - np.arctan2(1.0, zl))
        left = np.arctan2(1.0, -zl) + share * (np.arctan2(1.0, -zu) - np.arctan2(1.0, -zl))
        middle = np.arctan(zl) + share * (np.arctan(zu) - np.arctan(zl))
        z = np.where(zl > 0, 1.0 / np.tan(right), np.where(zu < 0, -1.0 / np.tan(left), np.tan(middle)))
        return np.asarray(np.clip(location + scale * z, low, high))
