"""Priors with a location and a scale: the robust Cauchy and half-Cauchy, the sharper Laplace and Gaussian; a power law.

A location that is wrong costs a Cauchy the logarithm of the mistake, a Laplace prior the mistake itself, a Gaussian its
square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.grid import Outcomes
from sidelight.guarantees.amounts import whole
from sidelight.predictions.compiled import (
    UNIT,
    UNIT_BITS,
    CompiledPrior,
    Numeric,
    PriorLaw,
    as_decimal,
    exact_positive,
    finite,
    positive,
)
from sidelight.predictions.knots import LawKnots, StandardLaw
from sidelight.predictions.origin import Origin, guess
from sidelight.predictions.pieces import PiecewiseCDF

Floats = NDArray[np.float64]
_ROOT_HALF = math.sqrt(0.5)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
#: Below this width (times the height of z) the Gaussian density is flat to nine digits, and tails cancel.
_NARROW = 1e-5


class LocationScaleLaw(PriorLaw):
    """What these priors share: their parameters, and knots at fixed multiples of the scale."""

    location: float
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", finite(self.location, name="location"))
        object.__setattr__(self, "scale", positive(self.scale, name="scale"))

    def piecewise_cdfs(self, grid: Outcomes, weight: int) -> tuple[PiecewiseCDF, ...]:
        """Return the integer masses at the knots of this prior."""
        law = _STANDARD[self.family]
        return (LawKnots(grid, law, location=as_decimal(self.location), scale=as_decimal(self.scale), weight=weight),)

    def _z(self, x: ArrayLike) -> Floats:
        return np.asarray((np.asarray(x, dtype=np.float64) - self.location) / self.scale)

    def _interval(self, lower: ArrayLike, upper: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the ends of intervals, and both in scales from the location."""
        low, high = np.broadcast_arrays(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))
        return low, high, self._z(low), self._z(high)


@dataclass(frozen=True)
class Cauchy(LocationScaleLaw):
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

    family = "cauchy"
    needs_hedge = False

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return log mu((lower, upper]) from one angle, never from a difference of distribution functions."""
        return np.asarray(_log_angle(*self._interval(lower, upper), self.scale) - math.log(math.pi))

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> Floats:
        """Map uniform v to a draw from mu on (lower, upper]."""
        return _inverse_angle(self, lower, upper, v)

    def cdf(self, x: ArrayLike) -> Floats:
        """Return mu((-inf, x])."""
        return np.asarray(np.arctan2(1.0, -self._z(x)) / math.pi)

    def sf(self, x: ArrayLike) -> Floats:
        """Return mu((x, inf))."""
        return np.asarray(np.arctan2(1.0, self._z(x)) / math.pi)


@dataclass(frozen=True)
class HalfCauchy(LocationScaleLaw):
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

    family = "half_cauchy"
    needs_hedge = False

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return log mu((lower, upper])."""
        return np.asarray(_log_angle(*self._interval(self._from(lower), upper), self.scale) + math.log(2 / math.pi))

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> Floats:
        """Map uniform v to a draw from mu on (lower, upper]."""
        return _inverse_angle(self, self._from(lower), upper, v)

    def cdf(self, x: ArrayLike) -> Floats:
        """Return mu((-inf, x])."""
        return np.asarray(np.arctan(np.maximum(self._z(x), 0.0)) * (2 / math.pi))

    def sf(self, x: ArrayLike) -> Floats:
        """Return mu((x, inf))."""
        return np.asarray(np.arctan2(1.0, np.maximum(self._z(x), 0.0)) * (2 / math.pi))

    def _from(self, lower: ArrayLike) -> Floats:
        return np.maximum(np.asarray(lower, dtype=np.float64), self.location)


@dataclass(frozen=True)
class Laplace(LocationScaleLaw):
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

    family = "laplace"
    needs_hedge = True

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return log mu((lower, upper]), stable in both tails."""
        low, high, zl, zu = self._interval(lower, upper)
        near = np.minimum(np.abs(zl), np.abs(zu))  # distance of the interval from the location, when it lies aside
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # -expm1 of the width, infinite widths included; the width is taken before the location is subtracted.
            aside = -near - math.log(2.0) + np.log(-np.expm1(-(high - low) / self.scale))
            aside = np.where(np.isposinf(near), -np.inf, aside)
            straddling = np.log((-np.expm1(np.minimum(zl, 0.0)) - np.expm1(-np.maximum(zu, 0.0))) / 2.0)
            mass = np.where((zl < 0) & (zu > 0), straddling, aside)
        return np.asarray(np.where(high > low, mass, -np.inf))

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> Floats:
        """Map uniform v to a draw from mu on (lower, upper]."""
        low, high, zl, zu = self._interval(lower, upper)
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

    def cdf(self, x: ArrayLike) -> Floats:
        """Return mu((-inf, x])."""
        z = self._z(x)
        return np.asarray(np.where(z <= 0, 0.5 * np.exp(-np.abs(z)), 1.0 - 0.5 * np.exp(-np.abs(z))))

    def sf(self, x: ArrayLike) -> Floats:
        """Return mu((x, inf))."""
        return self.cdf(2 * self.location - np.asarray(x, dtype=np.float64))


@dataclass(frozen=True)
class Gaussian(LocationScaleLaw):
    """Predict with a normal law: the sharpest prior, and the one that forgives least.

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

    family = "gaussian"
    needs_hedge = True

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
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

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> Floats:
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

    def cdf(self, x: ArrayLike) -> Floats:
        """Return mu((-inf, x])."""
        from scipy.special import ndtr  # type: ignore[import-untyped,unused-ignore]

        return np.asarray(ndtr(self._z(x)))

    def sf(self, x: ArrayLike) -> Floats:
        """Return mu((x, inf))."""
        from scipy.special import ndtr  # type: ignore[import-untyped,unused-ignore]

        return np.asarray(ndtr(-self._z(x)))

    def _mirrored(self, lower: ArrayLike, upper: ArrayLike) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.bool_]]:
        """Standardise. An interval mostly left of the location is mirrored: its nearer tail is then the upper one."""
        low, high, a, b = self._interval(lower, upper)
        mirrored = np.asarray(np.abs(a) > np.abs(b))
        return low, high, np.where(mirrored, -b, a), np.where(mirrored, -a, b), mirrored


# The mass below z of each standard law as an integer of 2**128, from the nearer tail.


def _cauchy_below(z: float) -> int:
    tail = int(math.ldexp(math.atan2(1.0, abs(z)) / math.pi, UNIT_BITS))
    return tail if z <= 0 else UNIT - tail


def _half_cauchy_below(z: float) -> int:
    if z <= 0:
        return 0
    if z <= 1:
        return int(math.ldexp(math.atan(z) / math.pi, UNIT_BITS + 1))
    return UNIT - int(math.ldexp(math.atan2(1.0, z) / math.pi, UNIT_BITS + 1))


def _laplace_below(z: float) -> int:
    tail = int(math.ldexp(math.exp(-abs(z)), UNIT_BITS - 1))
    return tail if z <= 0 else UNIT - tail


def _gaussian_below(z: float) -> int:
    tail = int(math.ldexp(math.erfc(abs(z) * _ROOT_HALF), UNIT_BITS - 1))
    return tail if z <= 0 else UNIT - tail


_STANDARD = {
    "cauchy": StandardLaw(_cauchy_below, per_scale=16, linear_until=4),
    "half_cauchy": StandardLaw(_half_cauchy_below, per_scale=16, linear_until=4, two_sided=False),
    # exp(-96) < 2**-128: beyond the linear part no mass is left, so the density is followed wherever there is any.
    "laplace": StandardLaw(_laplace_below, per_scale=16, linear_until=96),
    # The upper tail at 14 is below 2**-128. The log-density is curved, so the knots are closer than for the others.
    "gaussian": StandardLaw(_gaussian_below, per_scale=64, linear_until=14),
}


def _log_angle(low: Floats, high: Floats, zl: Floats, zu: Floats, scale: float) -> Floats:
    """Return the log of the angle under which (low, high] is seen: atan z_u - atan z_l without cancellation."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # atan2(w, 1 + z_l z_u), both sides divided by max(1, |z_l|) so that the product cannot overflow.
        shrink = np.maximum(1.0, np.abs(zl))
        angle = np.arctan2((high - low) / scale / shrink, 1.0 / shrink + zl / shrink * zu)
        angle = np.where(np.isposinf(zu), np.arctan2(1.0, zl), angle)
        angle = np.where(np.isneginf(zl), np.arctan2(1.0, -zu), angle)
        angle = np.where(np.isneginf(zl) & np.isposinf(zu), math.pi, angle)
        return np.asarray(np.log(np.where(high > low, angle, 0.0)))


def _inverse_angle(law: LocationScaleLaw, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> Floats:
    """Interpolate the angle: measured from the nearer tail, so that far intervals keep their digits."""
    low, high, zl, zu = law._interval(lower, upper)
    share = np.asarray(v, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        right = np.arctan2(1.0, zl) + share * (np.arctan2(1.0, zu) - np.arctan2(1.0, zl))
        left = np.arctan2(1.0, -zl) + share * (np.arctan2(1.0, -zu) - np.arctan2(1.0, -zl))
        middle = np.arctan(zl) + share * (np.arctan(zu) - np.arctan(zl))
        z = np.where(zl > 0, 1.0 / np.tan(right), np.where(zu < 0, -1.0 / np.tan(left), np.tan(middle)))
        return np.asarray(np.clip(law.location + law.scale * z, low, high))


@dataclass(frozen=True)
class PowerLaw:
    """The law of a clipping radius: flat up to an anchor s, P(R > t) in proportion to t^-p beyond, continuous at s.

    Knots lie at s i/16 and s 2^(i/16). Compiled on a grid of distances, whose first outcome is 0.

    Accuracy: beyond the largest row R / max is Pareto(p), so E R² = max² p / (p - 2): the noise of a clipped sum grows
    with the radius, and p must exceed 2 for its expected square to be finite (summaries proof page, section 3).

    Args:
        anchor: s, in the unit of the grid; a quartile range of the data that was released before, or a prediction.
        exponent: p, a whole number from 3 to 16.

    >>> float(PowerLaw(10).cdf(10)), float(PowerLaw(10).sf(20))
    (0.8, 0.0125)
    """

    anchor: Numeric
    exponent: int = 4

    def __post_init__(self) -> None:
        advice = "the resolution of the column is a good least value"
        exact = exact_positive(self.anchor, name="anchor", advice=advice)
        advice = "with 2 or less the expected noise variance is infinite"
        object.__setattr__(self, "exponent", whole(self.exponent, name="exponent", least=3, most=16, advice=advice))
        object.__setattr__(self, "anchor", exact)

    def cdf(self, t: ArrayLike) -> Floats:
        """Return the mass of radii up to t."""
        return 1.0 - self.sf(t)

    def sf(self, t: ArrayLike) -> Floats:
        """Return the mass of radii beyond t."""
        z = np.maximum(np.asarray(t, dtype=np.float64) / float(Fraction(self.anchor)), 0.0)
        p = self.exponent
        near = 1.0 - np.minimum(z, 1.0) * p / (p + 1)
        return np.asarray(np.where(z <= 1, near, np.maximum(z, 1.0) ** -float(p) / (p + 1)))

    def compile(self, grid: Outcomes) -> CompiledPrior:
        """Return the exact integer masses that a selection on this grid uses."""
        knots = LawKnots(
            grid, _power_law(self.exponent), location=Fraction(0), scale=Fraction(self.anchor), weight=UNIT
        )
        return CompiledPrior(grid.fine_first, grid.fine_last, [knots]).rehearsed()


@lru_cache(maxsize=16)
def _power_law(exponent: int) -> StandardLaw:
    """Return the law of R/s. From knot to knot the tail falls by 2^(-p/16), 12 % or more: no rounding reorders it."""

    def below(z: float) -> int:
        if z <= 1:
            return int(math.ldexp(z, UNIT_BITS)) * exponent // (exponent + 1)
        return UNIT - int(math.ldexp(z**-exponent, UNIT_BITS)) // (exponent + 1)

    return StandardLaw(below, per_scale=16, linear_until=1, two_sided=False)
