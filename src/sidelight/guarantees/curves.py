"""Privacy profiles and Renyi curves in closed form: frozen values to evaluate, compare, store and read back.

A profile curve bounds H_x for x >= 0 in one direction; below zero the other direction decides. Each curve has a
certified value (80-digit decimals) and a fast array form whose floats are pushed up by more than their error, for
numerical composition on a grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sidelight.errors import RangeError
from sidelight.guarantees import conversions as convert
from sidelight.guarantees.amounts import Amount, decimal_text, exact
from sidelight.guarantees.intervals import Interval, erfc, gaussian_delta, round_up

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_ONE = Interval.of(1)
_ROOT_8 = Interval.of(8).sqrt()
#: The float forms are within a few ulp of the true value relative to 1 + delta; this is a hundred times more.
_FLOAT_SLACK = 1e-13


@runtime_checkable
class ProfileCurve(Protocol):
    """An upper bound of the profile for x >= 0 in one direction."""

    def __hash__(self) -> int: ...

    def delta(self, x: Fraction) -> Fraction:
        """Return a proven upper bound of H_x."""
        ...

    def floats(self, x: Floats) -> Floats:
        """Return upper bounds on an array of points x >= 0."""
        ...

    def gaussian_tail_from(self, mu: float) -> float | None:
        """Return a point beyond which the profile is below the Gaussian's for all x; None where there is no proof."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Write the curve with strings only."""
        ...


@dataclass(frozen=True)
class ApproxCurve:
    """The profile of every (epsilon, delta) mechanism; with delta = 0 of every pure one."""

    epsilon: Fraction
    reveal: Fraction = Fraction(0)

    def delta(self, x: Fraction) -> Fraction:
        return convert.approx_delta(self.epsilon, self.reveal, x)

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        e, d = float(self.epsilon), float(self.reveal)
        line = -np.expm1(np.minimum(x - e, 0.0)) / (1 + np.exp(-e))  # (1 - e^(x-e)) / (1 + e^-e)
        return _raised(d + (1 - d) * line, zero=(x >= e) if not self.reveal else None)

    def gaussian_tail_from(self, mu: float) -> float | None:
        return float(self.epsilon) if not self.reveal else None

    def to_json(self) -> dict[str, Any]:
        return {"type": "approx", "epsilon": decimal_text(self.epsilon), "delta": decimal_text(self.reveal)}


@dataclass(frozen=True)
class BoundedRangeCurve:
    """The profile of every mechanism with a loss of range epsilon (Theorem T3)."""

    epsilon: Fraction

    def delta(self, x: Fraction) -> Fraction:
        return convert.bounded_range_delta(self.epsilon, x)

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        e = float(self.epsilon)
        gap = -np.expm1(np.minimum(x - e, 0.0) / 2)
        return _raised(gap * gap / -np.expm1(-e), zero=x >= e)

    def gaussian_tail_from(self, mu: float) -> float | None:
        return float(self.epsilon)

    def to_json(self) -> dict[str, Any]:
        return {"type": "bounded_range", "epsilon": decimal_text(self.epsilon)}


@dataclass(frozen=True)
class HingedGaussianCurve:
    """Loss at most shift + max(0, N(mu^2/2, mu^2)): objective perturbation; with shift 0 the Gaussian itself."""

    mu: Fraction
    shift: Fraction = Fraction(0)

    def delta(self, x: Fraction) -> Fraction:
        if x >= self.shift:
            return round_up(gaussian_delta(self.mu, x - self.shift).upper)
        # the loss never falls below the shift: 1 - e^(x - shift) * erfc(mu / sqrt(8))
        rest = Interval.of(x - self.shift).exp() * erfc(Interval.of(self.mu) / _ROOT_8)
        return min(Fraction(1), round_up((_ONE - rest).upper))

    def floats(self, x: Floats) -> Floats:
        import numpy as np
        from scipy.special import erfc as float_erfc

        s, c = float(self.mu), float(self.shift)
        below = -np.expm1(np.minimum(x - c, 0.0)) + np.exp(np.minimum(x - c, 0.0)) * (1 - float_erfc(s / 8**0.5))
        above = np.maximum(x - c, 0.0)
        return _raised(np.where(x >= c, gaussian_floats(s, above) + gaussian_float_error(s, above), below))

    def gaussian_tail_from(self, mu: float) -> float | None:
        s, c = float(self.mu), float(self.shift)
        if c == 0 and s <= mu:
            return 0.0
        if s >= mu:
            return None
        # P(loss > u) is below the Gaussian's as soon as (u - c - s^2/2)/s >= (u - mu^2/2)/mu, which is linear in u
        return max(c, 0.0, (c / s + s / 2 - mu / 2) / (1 / s - 1 / mu)) * (1 + 1e-9)

    def to_json(self) -> dict[str, Any]:
        return {"type": "hinged_gaussian", "mu": decimal_text(self.mu), "shift": decimal_text(self.shift)}


@dataclass(frozen=True)
class ZCDPCurve:
    """The profile that a zCDP bound gives at every x, both directions: the pooled block of a batch."""

    rho: Fraction

    def delta(self, x: Fraction) -> Fraction:
        return convert.zcdp_delta(self.rho, x)

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        rho = float(self.rho)
        # every order a = 1 + t is valid: bisect (2a-1) rho + log(1-1/a) = x at some points, interpolate log t between
        knots = x if x.size <= 8192 else np.linspace(float(x.min()), float(x.max()), 8192)
        low, high = np.full_like(knots, -70.0), np.full_like(knots, 70.0)
        for _ in range(60):
            t = np.exp((low + high) / 2)
            left = (2 * t + 1) * rho - np.log1p(1 / t) <= knots
            low, high = np.where(left, (low + high) / 2, low), np.where(left, high, (low + high) / 2)
        low = np.interp(x, knots, low) if knots is not x else low
        t = np.exp(low)
        exponent = t * ((1 + t) * rho - x) - (1 + t) * np.log1p(1 / t) - low
        size = t * ((1 + t) * rho + np.abs(x)) + (1 + t) * np.log1p(1 / t) + np.abs(low) + 1
        return _raised(np.exp(np.minimum(exponent + 1e-14 * size, 0.0)))

    def gaussian_tail_from(self, mu: float) -> float | None:
        return None  # zCDP alone gives no GDP

    def to_json(self) -> dict[str, Any]:
        return {"type": "zcdp", "rho": decimal_text(self.rho)}


@dataclass(frozen=True)
class DiscreteLaplaceCurve:
    """Discrete Laplace noise of scale sensitivity/epsilon on an integer statistic: exact, both directions.

    With sensitivity 1 it is randomised response; on a fine grid it tends to the Laplace mechanism's smaller profile.
    """

    epsilon: Fraction
    sensitivity: int

    def _last(self, x: Fraction) -> int:
        """The largest outcome k with loss epsilon (sensitivity - 2k)/sensitivity above x."""
        return -((x * self.sensitivity / self.epsilon - self.sensitivity) / 2).__floor__() - 1

    def delta(self, x: Fraction) -> Fraction:
        if x >= self.epsilon:
            return Fraction(0)
        last = self._last(x)
        rate = self.epsilon / self.sensitivity
        whole = _ONE + Interval.of(-rate).exp()
        inside = _ONE - Interval.of(-rate * (last + 1)).exp() / whole
        shifted = Interval.of(x - rate * (self.sensitivity - last)).exp() / whole
        return min(Fraction(1), max(Fraction(0), round_up((inside - shifted).upper)))

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        e, size = float(self.epsilon), self.sensitivity
        rate = e / size
        whole = 1 + np.exp(-rate)
        best = np.zeros_like(x)
        guess = np.ceil((size - x / rate) / 2) - 1
        for last in (guess - 1, guess, guess + 1):  # H_x is the best over all last outcomes: a wrong guess cannot help
            k = np.clip(last, 0, size - 1)
            shifted = np.exp(np.minimum(x, e) - rate * (size - k)) / whole
            best = np.maximum(best, 1 - np.exp(-rate * (k + 1)) / whole - shifted)
        return _raised(np.where(x >= e, 0.0, best), zero=x >= e)

    def gaussian_tail_from(self, mu: float) -> float | None:
        return float(self.epsilon)

    def to_json(self) -> dict[str, Any]:
        return {"type": "discrete_laplace", "epsilon": decimal_text(self.epsilon), "sensitivity": str(self.sensitivity)}


def gaussian_floats(mu: float, x: Floats) -> Floats:
    """Evaluate the Gaussian profile in floats by erfcx, which does not cancel: t = x/mu - mu/2."""
    import numpy as np
    from scipy.special import erfcx, log_ndtr, ndtr

    t = x / mu - mu / 2
    inner = np.maximum(t, -5.0)
    near = np.exp(-inner * inner / 2) * (erfcx(inner / 2**0.5) - erfcx((inner + mu) / 2**0.5)) / 2
    far = ndtr(-t) - np.exp(x + log_ndtr(-t - mu))
    return np.asarray(np.where(t > -5, near, far), dtype=np.float64)


def gaussian_float_error(mu: float, x: Floats) -> Floats:
    """Bound the error of `gaussian_floats` with room to spare: its terms cancel, so it is relative to the larger."""
    import numpy as np
    from scipy.special import erfcx, ndtr

    t = x / mu - mu / 2
    inner = np.maximum(t, -5.0)
    size = np.where(t > -5, np.exp(-inner * inner / 2) * erfcx(inner / 2**0.5), ndtr(-t))
    return np.asarray(1e-13 * (1 + t * t) * size, dtype=np.float64)


def _raised(values: Floats, *, zero: NDArray[np.bool_] | None = None) -> Floats:
    """Push float values up by more than their error; exact zeros stay."""
    import numpy as np

    up = np.clip(values * (1 + _FLOAT_SLACK) + 1e-300, 0.0, 1.0)
    return np.asarray(up if zero is None else np.where(zero, 0.0, up), dtype=np.float64)


@dataclass(frozen=True)
class RenyiOrders:
    """A Renyi curve known at finitely many orders: D_a <= r(a) at each, hence (D is monotone in a) at every lower one.

    >>> RenyiOrders.of({2: "0.1", 8: "0.4"}).at(Fraction(3))
    Fraction(2, 5)
    """

    points: tuple[tuple[Fraction, Fraction], ...]

    @classmethod
    def of(cls, values: Mapping[Any, Amount]) -> RenyiOrders:
        """Build the curve from a mapping of orders to divergences."""
        points = sorted((exact(a, name="order"), exact(r, name="divergence")) for a, r in values.items())
        if not points or points[0][0] <= 1:
            raise RangeError("a Renyi curve needs at least one order, and every order must be above 1")
        hull = list(points)
        for i in range(len(hull) - 2, -1, -1):
            hull[i] = (hull[i][0], min(hull[i][1], hull[i + 1][1]))
        return cls(tuple(hull))

    def at(self, order: Fraction) -> Fraction | None:
        """Return the bound at an order: that of the next stated order; None beyond the last."""
        return next((r for a, r in self.points if a >= order), None)

    def zcdp(self) -> Fraction | None:
        """A finite grid without a bound beyond its last order gives no zCDP."""
        return None

    def epsilon(self, at: Fraction) -> Fraction:
        """Return the smallest epsilon over the stated orders at a delta."""
        return min(convert.renyi_epsilon(r, a - 1, at) for a, r in self.points)

    def delta(self, x: Fraction) -> Fraction:
        """Return the smallest delta over the stated orders at an epsilon."""
        return min(convert.renyi_delta(r, a - 1, x) for a, r in self.points)

    def scaled(self, k: int) -> RenyiOrders:
        """Compose k such mechanisms."""
        return RenyiOrders(tuple((a, k * r) for a, r in self.points))

    def to_json(self) -> dict[str, str]:
        """Write the curve with strings only."""
        return {decimal_text(a): decimal_text(r) for a, r in self.points}
