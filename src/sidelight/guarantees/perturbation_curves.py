"""Profiles of objective perturbation in closed form, with the Gaussian output noise of an approximate minimum inside.

Two laws bound the privacy loss: `shift + max(0, Z_1, ..., Z_count)` with Z ~ N(mu²/2, mu²) (a record removed, or added
to a loss whose slope keeps its sign; several Z for several classes), and `shift + mu²/2 + |N(0, mu²)|` (the slope may
change sign). The output noise adds an independent N(output_mu²/2, output_mu²), and both stay closed forms
(objective-perturbation proof page, Lemma 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sidelight.guarantees.amounts import decimal_text
from sidelight.guarantees.conversions import root_of_sum_of_squares
from sidelight.guarantees.curves import gaussian_float_error, gaussian_floats
from sidelight.guarantees.intervals import Interval, erfc, gaussian_delta, round_up

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

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
