"""Privacy loss distributions by dp_accounting: numerical composition of a fixed batch, and releases in its words.

Composition is always on the pessimistic side, per direction, never mixed. A curve becomes a distribution on a common
grid by connecting the dots; its values are first made non-increasing and convex in e^x (the true profile is convex, so
it lies below the lower hull of any upper bound). The error of the Fourier transforms is bounded and taken off delta
before epsilon is read (accounting proof page, section 4).

Releases are always exported as add-or-remove events with our own scaling: that library's accountants do not agree on
what replace means (a Gaussian of noise 2 at delta 1e-6 is 4.8866 for one and 2.4191 for another). A generic pure
mechanism is never exported as a Laplace event: the Laplace profile is smaller. dp_accounting is imported lazily.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import (
    GDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Claim,
    Claims,
    HingedGaussianCurve,
    Neighbours,
    Profile,
    ProfileCurve,
    PureDP,
)
from sidelight.guarantees.amounts import grid_ceil
from sidelight.guarantees.implications import curves_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_BYTES = 10**9
_TAIL = 1e-15
_FURTHEST = 500.0


@dataclass(frozen=True)
class LossDistribution:
    """Composed privacy loss distributions, one per direction, and a bound of what rounding took from their deltas."""

    directions: tuple[Any, ...]
    slack: float

    def epsilon(self, at: Fraction) -> Fraction | None:
        """Read epsilon at a delta less the slack, the larger direction's, rounded up; None where there is none."""
        rest = float(at) * (1 - 1e-12) - self.slack
        if rest <= 0:
            return None
        found = max(float(direction.get_epsilon_for_delta(rest)) for direction in self.directions)
        if not math.isfinite(found):
            return None
        return grid_ceil(Fraction(found * (1 + 1e-9)), digits=12) if found > 0 else Fraction(0)

    def delta(self, x: float) -> float:
        """Read delta at an epsilon, the larger of the directions, with the slack."""
        return max(float(direction.get_delta_for_epsilon(x)) for direction in self.directions) + self.slack


def interval_for(total_epsilon: float) -> float:
    """Return the grid step: 1e-4 for a total epsilon below 20, else 1e-3."""
    return 1e-4 if total_epsilon < 20 else 1e-3


def compose(items: Sequence[tuple[ProfileCurve, ProfileCurve]], *, step: float) -> LossDistribution:
    """Compose profiles (remove, add) numerically; equal ones together, Gaussians as one Gaussian beforehand.

    Raises:
        RangeError: the grid would need more than 1 GB; the message says how much.
    """
    counts = Counter(items)
    ranges = {item: (_range(item[0]), _range(item[1])) for item in counts}
    width = sum(k * (ranges[item][0] + ranges[item][1]) for item, k in counts.items())
    size = width / step
    if size * 8 > MOST_BYTES:
        raise RangeError(
            f"composing this batch numerically needs {size * 8 / 1e9:.1f} GB on a grid of {step:g}, more than 1 GB; "
            "use fewer queries in one batch, or the zCDP or GDP total"
        )
    directions, slacks = [], []
    for flip in (False, True) if any(remove != add for remove, add in counts) else (False,):
        total, spread = _composed(counts, step=step, flip=flip)
        # |error| <= 4 u log2(L) per transform in the 2-norm, and a sum over L points costs sqrt(L)
        rounding = 4 * 2.0**-53 * math.log2(max(size, 2.0)) * math.sqrt(max(size, 2.0)) * spread
        missing = max(0.0, 1 - float(total.get_delta_for_epsilon(-(width + 50.0))))  # all mass must still be there
        directions.append(total)
        slacks.append(rounding + missing)
    return LossDistribution(tuple(directions), max(slacks))


def _composed(counts: Counter[tuple[ProfileCurve, ProfileCurve]], *, step: float, flip: bool) -> tuple[Any, float]:
    """Compose one direction; also give the sum of the 2-norms that the rounding bound needs."""
    total: Any = None
    spread = 0.0
    for (remove, add), k in counts.items():
        single, norm = _kept_direction(*((add, remove) if flip else (remove, add)), step=step)
        try:
            part = single.self_compose(k) if k > 1 else single
            total = part if total is None else total.compose(part)
        except (IndexError, ValueError, MemoryError) as error:
            raise RangeError(
                "dp_accounting could not compose this batch; use fewer queries in one batch, or the zCDP or GDP total"
            ) from error
        spread += (k + 1) * norm
    return total, spread


def distribution(profile: Profile, *, step: float = 1e-4) -> Any:
    """Return the dp_accounting distribution of one profile, both directions."""
    from dp_accounting.pld import privacy_loss_distribution as peer

    if profile.remove == profile.add:
        return _direction(profile.remove, profile.add, step=step)[0]
    return peer.PrivacyLossDistribution(
        _masses(profile.remove, profile.add, step=step)[0], _masses(profile.add, profile.remove, step=step)[0]
    )


def _direction(this: ProfileCurve, other: ProfileCurve, *, step: float) -> tuple[Any, float]:
    """Build one direction and the 2-norm of its masses; a Gaussian by dp_accounting's own constructor."""
    from dp_accounting.pld import privacy_loss_distribution as peer

    if isinstance(this, HingedGaussianCurve) and this == other and this.shift == 0:
        deviation = math.nextafter(float(1 / this.mu), 0.0)
        gaussian = peer.from_gaussian_mechanism(deviation, value_discretization_interval=step)
        return gaussian, min(1.0, math.sqrt(step * deviation))
    masses, norm = _masses(this, other, step=step)
    return peer.PrivacyLossDistribution(masses), norm


#: One price is read at many deltas. For composition alone, which changes none: what a caller gets is built for it.
_kept_direction = lru_cache(maxsize=8)(_direction)


def _masses(this: ProfileCurve, other: ProfileCurve, *, step: float) -> tuple[Any, float]:
    from dp_accounting.pld import pld_pmf

    values, low, high = profile_values(this, other, step=step)
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, low, high, values), _norm(values, step)


def profile_values(this: ProfileCurve, other: ProfileCurve, *, step: float) -> tuple[Floats, int, int]:
    """Evaluate one direction on the grid, x < 0 by the other: 1 - e^x + e^x delta_other(-x); then the hull."""
    import numpy as np

    high = max(1, math.ceil(_range(this) / step - 1e-9))
    low = -max(1, math.ceil(_range(other) / step - 1e-9))
    right = this.floats(np.asarray(np.arange(0, high + 1) * step, dtype=np.float64))
    x = np.asarray(np.arange(low, 0) * step, dtype=np.float64)
    left = -np.expm1(x) + np.exp(x) * other.floats(-x)
    values = np.concatenate([left * (1 + 1e-15), right])
    values = np.minimum.accumulate(np.clip(values, 0.0, 1.0))
    return convex_in_exponential(values, low=low, step=step), low, high


def convex_in_exponential(values: Floats, *, low: int, step: float) -> Floats:
    """Take the lower convex hull of (e^x, delta) on the grid; values that are convex already stay as they are."""
    import numpy as np

    falls = np.diff(values)
    bends = falls[1:] - falls[:-1] * math.exp(step)  # the masses of the dots, times e^step - 1
    if float(bends.min(initial=0.0)) >= -1e-18:
        return values
    # e^x relative to the largest, so that nothing overflows
    at = np.exp((np.arange(values.size) + low) * step - (low + values.size - 1) * step)
    kept: list[int] = []
    points, heights = at.tolist(), values.tolist()
    for i in range(len(points)):
        while len(kept) >= 2:
            a, b = kept[-2], kept[-1]
            if (heights[b] - heights[a]) * (points[i] - points[a]) >= (heights[i] - heights[a]) * (
                points[b] - points[a]
            ):
                kept.pop()
            else:
                break
        kept.append(i)
    hull = np.interp(at, at[kept], values[kept])
    return np.asarray(np.minimum(hull, values), dtype=np.float64)


@lru_cache(maxsize=256)
def _range(curve: ProfileCurve) -> float:
    """Return the point where a curve has fallen to the tail mass, or to where it stays."""
    import numpy as np

    low, high = 0.0, 1e-3
    floor = float(curve.floats(np.array([_FURTHEST]))[0])

    def below(x: float) -> bool:
        return float(curve.floats(np.array([x]))[0]) <= floor + _TAIL

    while not below(high):
        high *= 2
        if high > _FURTHEST:
            raise RangeError("a privacy profile does not fall off; it cannot be composed numerically")
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if below(middle) else (middle, high)
    return high


def _norm(values: Floats, step: float) -> float:
    import numpy as np

    falls = np.diff(values)
    masses = np.abs(falls[1:] - falls[:-1] * math.exp(step)) / math.expm1(step)
    return min(1.0, float(np.sqrt(np.sum(masses * masses))) + 1e-9)


def to_dp_event(claims: Claims | Claim, *, discrete_laplace: tuple[float, int] | None = None) -> Any:
    """Return the dp_accounting event of a release.

    Gaussian claims become `GaussianDpEvent`, bounded range and zCDP `ZCDpEvent`, generic pure ones
    `RandomizedResponseDpEvent`; what that library has no event for becomes `UnsupportedDpEvent` (use `to_pld`).
    `discrete_laplace=(parameter, sensitivity)` names that mechanism, which has an event of its own.
    """
    from dp_accounting import dp_event

    claims = _add_remove(claims)
    if discrete_laplace is not None:
        parameter, sensitivity = discrete_laplace
        return dp_event.DiscreteLaplaceDpEvent(noise_parameter=parameter, sensitivity=sensitivity)
    found = {type(c): c for c in claims}
    if GDP in found:
        mu = found[GDP].mu  # type: ignore[union-attr]
        return dp_event.GaussianDpEvent(math.nextafter(float(1 / mu), 0.0))
    if BoundedRange in found or (ZCDP in found and PureDP not in found):
        rho = claims.zcdp()
        assert rho is not None
        return dp_event.ZCDpEvent(math.nextafter(float(rho.rho), math.inf))
    if PureDP in found:
        epsilon = float(found[PureDP].epsilon)  # type: ignore[union-attr]
        flip = 2 / (1 + math.exp(epsilon)) if epsilon < 700 else 0.0
        if flip <= 0:
            raise RangeError(f"epsilon {epsilon:g} is too large for an event of randomised response")
        return dp_event.RandomizedResponseDpEvent(math.nextafter(flip, 0.0), 2)
    return dp_event.UnsupportedDpEvent()


def to_pld(claims: Claims | Claim, *, step: float = 1e-4) -> Any:
    """Return the dp_accounting privacy loss distribution of a release, pessimistic, both directions."""
    claims = _add_remove(claims)
    claim = most_specific(claims)
    curves = None if claim is None else curves_of(claim)
    if curves is not None:
        return distribution(Profile(*curves), step=step)
    raise ClaimError(f"{claims} has no privacy profile; compose its Renyi curve instead")


def most_specific(claims: Claims) -> Claim | None:
    """Return the claim whose profile is composed: the most specific one that there is."""
    for kind in (GDP, Profile, BoundedRange, PureDP, ZCDP, ApproxDP):
        for claim in claims:
            if isinstance(claim, kind):
                return claim
    return None


def _add_remove(claims: Claims | Claim) -> Claims:
    gathered = claims if isinstance(claims, Claims) else Claims.of(claims)
    if gathered.neighbours is not Neighbours.ADD_REMOVE:
        raise ClaimError(
            f"events are exported for add-or-remove claims, got '{gathered.neighbours}': "
            "dp_accounting's accountants do not agree on the meaning of replace"
        )
    return gathered
