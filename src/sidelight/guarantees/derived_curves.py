"""Profiles made of other profiles: of two steps between data sets, of the least or the most of several, of a selection.

What a step away and a step back can reveal together: for laws P, R, Q is H_(x+y)(P||Q) <= H_x(P||R) + e^x H_y(R||Q) for
every split, since P(S) <= e^x R(S) + H_x and R(S) <= e^y Q(S) + H_y. Every split is valid, so the search for the best
one needs no proof. The profile of a selection is that of one run, moved to the right and multiplied (tuning proof page,
Theorem 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sidelight.guarantees.amounts import decimal_text, grid_floor
from sidelight.guarantees.conversions import root_of_sum_of_squares
from sidelight.guarantees.curves import ApproxCurve, ProfileCurve, gaussian_float_error, gaussian_floats
from sidelight.guarantees.intervals import Interval, erfc, gaussian_delta, round_up

if TYPE_CHECKING:
    from sidelight.guarantees.curves import Floats


_ONE = Interval.of(1)
_ROOT_2 = Interval.of(2).sqrt()
_ROOT_8 = Interval.of(8).sqrt()


@dataclass(frozen=True)
class HingedGaussiansCurve:
    """Loss at most shift + max(0, Z_1, ..., Z_count) + N(output_mu²/2, output_mu²), Z of law N(mu²/2, mu²)."""

    mu: Fraction
    shift: Fraction = Fraction(0)
    count: int = 1
    output_mu: Fraction = Fraction(0)

    def delta(self, x: Fraction) -> Fraction:
        y = x - self.shift
        if y >= 0:  # count δ(y; S) + ½ δ(y; output): the union over Z, and the output noise alone where all Z < 0
            total = Interval.of(self.count) * gaussian_delta(self._whole, y)
            total = total + Interval.of(Fraction(1, 2)) * _output_delta(self.output_mu, y)
        else:  # the loss without the output noise never falls below the shift
            kept = _ONE - Interval.of(self.count) * (_ONE - erfc(Interval.of(self.mu) / _ROOT_8))
            total = _ONE - Interval.of(y).exp() * (kept - _output_delta(self.output_mu, -y))
        return min(Fraction(1), max(Fraction(0), round_up(total.upper)))

    def floats(self, x: Floats) -> Floats:
        import numpy as np
        from scipy.special import erf

        y = x - float(self.shift)
        above, below = np.maximum(y, 0.0), np.minimum(y, 0.0)
        right = self.count * gaussian_upper(float(self._whole), above)
        right += gaussian_upper(float(self.output_mu), above) / 2
        kept = 1 - self.count * float(erf(float(self.mu) / 8**0.5))
        left = 1 - np.exp(below) * (kept - gaussian_upper(float(self.output_mu), -below))
        return raised(np.where(y >= 0, right, left))

    def gaussian_tail_from(self, mu: float) -> float | None:
        output = self.output_mu != 0
        if self.shift == 0 and self.count == 1 and not output and float(self.mu) <= mu:
            return 0.0
        shift = float(self.shift)
        terms = [(self.count + (0.5 if output else 0.0), float(self._whole), shift)]  # δ(y; output) <= δ(y; S)
        return tail_from(terms, mu)

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "hinged_gaussians",
            "mu": decimal_text(self.mu),
            "shift": decimal_text(self.shift),
            "count": str(self.count),
            "output_mu": decimal_text(self.output_mu),
        }

    @property
    def _whole(self) -> Fraction:
        return with_output(self.mu, self.output_mu)


@dataclass(frozen=True)
class HalfNormalCurve:
    """Loss at most shift + mu²/2 + |N(0, mu²)| + N(output_mu²/2, output_mu²): the slope of the loss changes sign."""

    mu: Fraction
    shift: Fraction = Fraction(0)
    output_mu: Fraction = Fraction(0)

    def delta(self, x: Fraction) -> Fraction:
        y = x - self.shift
        union = Interval.of(2) * gaussian_delta(with_output(self.mu, self.output_mu), y)
        least = round_up(union.upper)
        gap = y - self.mu * self.mu / 2
        if gap < 0:  # the loss without the output noise never falls below shift + mu²/2
            kept = Interval.of(self.mu * self.mu / 2).exp() * erfc(Interval.of(self.mu) / _ROOT_2)
            total = _ONE - Interval.of(gap).exp() * (kept - _output_delta(self.output_mu, -gap))
            least = min(least, round_up(total.upper))
        return min(Fraction(1), max(Fraction(0), least))

    def floats(self, x: Floats) -> Floats:
        import numpy as np
        from scipy.special import erfcx

        s = float(self.mu)
        y = x - float(self.shift)
        union = 2 * gaussian_upper(float(with_output(self.mu, self.output_mu)), y)
        gap = np.minimum(y - s * s / 2, 0.0)
        kept = float(erfcx(s / 2**0.5))
        left = 1 - np.exp(gap) * (kept - gaussian_upper(float(self.output_mu), -gap))
        return raised(np.where(y < s * s / 2, np.minimum(union, left), union))

    def gaussian_tail_from(self, mu: float) -> float | None:
        return tail_from([(2.0, float(with_output(self.mu, self.output_mu)), float(self.shift))], mu)

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "half_normal",
            "mu": decimal_text(self.mu),
            "shift": decimal_text(self.shift),
            "output_mu": decimal_text(self.output_mu),
        }


@lru_cache(maxsize=1024)
def with_output(mu: Fraction, output_mu: Fraction) -> Fraction:
    """Return the Gaussian of both noises together, rounded up: S² = mu² + output_mu²."""
    return root_of_sum_of_squares(mu * mu + output_mu * output_mu) if output_mu else mu


def gaussian_upper(mu: float, x: Floats) -> Floats:
    """Bound the Gaussian profile from above in floats at points of either sign; with mu = 0 it is (1 - e^x)₊."""
    import numpy as np

    size = np.abs(x)
    if mu == 0:
        return np.asarray(-np.expm1(np.minimum(x, 0.0)), dtype=np.float64)
    right = gaussian_floats(mu, size) + gaussian_float_error(mu, size)
    left = -np.expm1(-size) + np.exp(-size) * right  # δ(-x) = 1 - e^-x + e^-x δ(x)
    return np.asarray(np.where(x >= 0, right, left), dtype=np.float64)


def raised(values: Floats) -> Floats:
    """Push float values up by more than the error of the last few operations."""
    import numpy as np

    return np.asarray(np.clip(values * (1 + 1e-13) + 4e-16 * (values > 1e-3) + 1e-300, 0.0, 1.0), dtype=np.float64)


def tail_from(terms: Sequence[tuple[float, float, float]], mu: float) -> float | None:
    """Return a point beyond which the sum of weight · δ(x - shift; s) lies below δ(x; mu), for (weight, s, shift).

    δ(x) is the integral of e^(x-u) P(loss > u) over u > x, and P = Φ(-a), a = (u - shift - s²/2)/s. For 0 <= b <= a,
    Φ(-a) <= Φ(-b) exp(-(a² - b²)/2), so w Φ(-a) <= Φ(-b) as soon as a² - b² >= 2 log w; both factors of a² - b² grow.
    """
    end = 0.0
    for weight, s, shift in terms:
        if s >= mu:
            return None
        scaled = weight * len(terms)
        # a >= b and b >= 0, both linear in u
        start = max(0.0, shift, mu * mu / 2, (shift / s + s / 2 - mu / 2) / (1 / s - 1 / mu))

        def gap(u: float, s: float = s, shift: float = shift) -> float:
            a, b = (u - shift - s * s / 2) / s, (u - mu * mu / 2) / mu
            return (a - b) * (a + b)

        step, goal = 1e-3 * max(s, 1e-12), 2 * math.log(max(scaled, 1.0)) * (1 + 1e-9) + 1e-9
        u = start
        while gap(u) < goal:
            u, step = u + step, step * 1.5
            if u > 1e9:
                return None
        end = max(end, u)
    return end * (1 + 1e-9)


def _output_delta(output_mu: Fraction, x: Fraction) -> Interval:
    """Enclose the profile of the output noise alone at x >= 0."""
    return gaussian_delta(output_mu, x) if output_mu else Interval.of(0)


_SPLITS = 33
_ROUNDS = 6
_KNOTS = 65
_LARGEST_SPLIT = 600.0  # e^split must stay a float


@dataclass(frozen=True)
class TwoStepCurve:
    """First one curve, then another: the replace profile of remove-then-add, or of add-then-remove."""

    first: ProfileCurve
    second: ProfileCurve

    def delta(self, x: Fraction) -> Fraction:
        import numpy as np

        split = float(self._best_splits(np.array([float(x)]))[0])
        at = min(x, max(Fraction(0), grid_floor(Fraction(split)) if split > 0 else Fraction(0)))
        total = Interval.of(self.first.delta(at)) + Interval.of(at).exp() * Interval.of(self.second.delta(x - at))
        return min(Fraction(1), round_up(total.upper))

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        if x.size <= _KNOTS:
            split = self._best_splits(x)
        else:  # the best share of the split moves slowly with x: search it at a few points, interpolate between them
            knots = np.linspace(float(x.min()), float(x.max()), _KNOTS)
            shares = np.divide(self._best_splits(knots), knots, out=np.full(_KNOTS, 0.5), where=knots > 0)
            split = np.minimum(np.clip(np.interp(x, knots, shares), 0.0, 1.0) * x, _LARGEST_SPLIT)
        # the difference is rounded down by more than its error, and a profile falls: the value only grows
        rest = np.maximum(x - split - 1e-15 * x, 0.0)
        total = self.first.floats(split) + np.exp(split) * self.second.floats(rest)
        return np.asarray(np.minimum(total * (1 + 1e-13), 1.0), dtype=np.float64)

    def gaussian_tail_from(self, mu: float) -> float | None:
        return None

    def to_json(self) -> dict[str, Any]:
        return {"type": "two_step", "first": self.first.to_json(), "second": self.second.to_json()}

    def _best_splits(self, x: Floats) -> Floats:
        """Search the best split of each x on a grid, five times ever finer, for all of them at once."""
        import numpy as np

        low, high = np.zeros_like(x), np.minimum(x, _LARGEST_SPLIT)
        steps, rows = np.linspace(0.0, 1.0, _SPLITS), np.arange(x.size)
        best = low
        for _ in range(_ROUNDS):
            grid = low[:, None] + (high - low)[:, None] * steps
            rest = np.maximum(x[:, None] - grid, 0.0)
            first = self.first.floats(grid.ravel()).reshape(grid.shape)
            second = self.second.floats(rest.ravel()).reshape(grid.shape)
            found = np.argmin(first + np.exp(grid) * second, axis=1)
            best = grid[rows, found]
            low, high = grid[rows, np.maximum(found - 1, 0)], grid[rows, np.minimum(found + 1, _SPLITS - 1)]
        return np.asarray(best, dtype=np.float64)


@dataclass(frozen=True)
class LeastCurve:
    """The smallest of several valid bounds at every point."""

    curves: tuple[ProfileCurve, ...]

    def delta(self, x: Fraction) -> Fraction:
        import numpy as np

        at = np.array([float(x)])
        return min(self.curves, key=lambda curve: float(curve.floats(at)[0])).delta(x)  # each alone is a valid bound

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        return np.asarray(np.min([curve.floats(x) for curve in self.curves], axis=0), dtype=np.float64)

    def gaussian_tail_from(self, mu: float) -> float | None:
        found = [point for curve in self.curves if (point := curve.gaussian_tail_from(mu)) is not None]
        return min(found) if found else None

    def to_json(self) -> dict[str, Any]:
        return {"type": "least", "curves": [curve.to_json() for curve in self.curves]}


@dataclass(frozen=True)
class MostCurve:
    """The largest of several profiles at every point: what holds for each of several mechanisms."""

    curves: tuple[ProfileCurve, ...]

    def delta(self, x: Fraction) -> Fraction:
        return max(curve.delta(x) for curve in self.curves)

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        return np.asarray(np.max([curve.floats(x) for curve in self.curves], axis=0), dtype=np.float64)

    def gaussian_tail_from(self, mu: float) -> float | None:
        found = [curve.gaussian_tail_from(mu) for curve in self.curves]
        return None if any(point is None for point in found) else max(point for point in found if point is not None)

    def to_json(self) -> dict[str, Any]:
        return {"type": "most", "curves": [curve.to_json() for curve in self.curves]}


@dataclass(frozen=True)
class SelectedCurve:
    """H_x <= factor · δ(x - shift) from the shift on, in one direction.

    Below the shift s, with d the value there: P(S) <= min(1, e^s Q(S) + d), so H_x <= 1 - (1 - d) e^(x - s).

    >>> from sidelight.guarantees.curves import HingedGaussianCurve
    >>> best = SelectedCurve(HingedGaussianCurve(Fraction(3, 10)), shift=Fraction("0.780288"), factor=Fraction(30))
    >>> f"{float(best.delta(Fraction('2.280743'))):.3g}"
    '1e-06'
    """

    base: ProfileCurve
    shift: Fraction
    factor: Fraction

    def delta(self, x: Fraction) -> Fraction:
        if x >= self.shift:
            return min(Fraction(1), self.factor * self.base.delta(x - self.shift))
        rest = Interval.of(1 - self._at_shift) * Interval.of(x - self.shift).exp()
        return min(Fraction(1), round_up((Interval.of(1) - rest).upper))

    @property
    def _at_shift(self) -> Fraction:
        return min(Fraction(1), self.factor * self.base.delta(Fraction(0)))

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        shift, factor = float(self.shift), float(self.factor) * (1 + 1e-13)
        # the difference is rounded down by more than its error, and a profile falls: the value only grows
        inside = np.maximum(x - shift - 1e-14 * (np.abs(x) + shift), 0.0)
        above = np.minimum(factor * self.base.floats(inside), 1.0)
        chance = float(self._at_shift)
        below = chance - (1 - chance) * np.expm1(np.minimum(x - shift, 0.0))
        whole = np.minimum(below * (1 + 1e-13) + 1e-15, 1.0)
        return np.asarray(np.where(x >= shift, above, whole), dtype=np.float64)

    def gaussian_tail_from(self, mu: float) -> float | None:
        # where one run has no loss beyond its epsilon, the selection has none beyond epsilon + shift
        if isinstance(self.base, ApproxCurve) and not self.base.reveal:
            return float(self.base.epsilon + self.shift) * (1 + 1e-12)
        return None

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "selected",
            "base": self.base.to_json(),
            "shift": decimal_text(self.shift),
            "factor": decimal_text(self.factor),
        }
