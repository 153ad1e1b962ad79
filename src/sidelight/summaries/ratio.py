"""Means, proportions, variances and standard deviations out of noisy integer sums, for all groups at once.

A code c of 0..M stands for lower + width·c/M, or for t = (2c - M)/M of -1..1. Pure releases hold the pair (Σc, Σ(M-c))
or the triple T·(Σ((1+t)/2)², Σ(1-t²)/2, Σ((1-t)/2)²); Gaussian ones n, T·Σt and T·Σ(1-t²) (summaries proof page,
sections 3 and 4; T is `Value.square_levels`).
Nothing is divided by a count below 1, so an empty group has some value within the bounds, never an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The public interval of values, lower..upper, in M = `levels` steps."""

    lower: float
    upper: float
    levels: int

    def __post_init__(self) -> None:
        if not self.lower < self.upper or self.levels < 1:
            raise RangeError(f"values lie between two bounds, lower < upper, got {self.lower} and {self.upper}")

    @property
    def width(self) -> float:
        """upper - lower."""
        return self.upper - self.lower

    @property
    def centre(self) -> float:
        """The middle."""
        return self.lower + self.width / 2


@dataclass(frozen=True, eq=False, kw_only=True)
class Moments:
    """What a release says of each group, in the unit -1..1 of the bounds: count, Σt, Σt², and the noise of each.

    `count_variance`, `sum_variance` and `square_variance` are those of n̂, Σt and Σt²; the three covariances are those
    of the noise of the pair, triple or disc. `count`, `total` and `squares` are unbiased. `squares` is None for a
    pair. Where groups were clipped apart `total` is Σ(t - about), whose noise has nothing of the count's in it.
    """

    count: Floats
    total: Floats
    squares: Floats | None
    count_variance: float
    total_variance: float | Floats
    squares_variance: float = 0.0
    count_total: float = 0.0
    count_squares: float = 0.0
    total_squares: float = 0.0
    about: float | Floats = 0.0

    @property
    def sums(self) -> Floats:
        """Σt of each group."""
        return np.asarray(self.total + self.about * self.count)


def from_pair(first: ArrayLike, second: ArrayLike, *, levels: int, variance: float) -> Moments:
    """Read the pair A = Σc, B = Σ(M-c), each with noise of this variance: n = (A+B)/M, Σt = (A-B)/M.

    >>> pair = from_pair([30.0], [10.0], levels=10, variance=2.0)
    >>> pair.count.tolist(), pair.total.tolist()
    ([4.0], [2.0])
    """
    a, b, v = _floats(first) / levels, _floats(second) / levels, variance / levels**2
    return Moments(count=a + b, total=a - b, squares=None, count_variance=2 * v, total_variance=2 * v)


def from_triple(first: ArrayLike, middle: ArrayLike, last: ArrayLike, *, levels: int, variance: float) -> Moments:
    """Read a triple whose rows each add up to T = `levels`: n = a+b+d, Σt = a-d, Σt² = a+d-b in units of T."""
    a, b, d = (_floats(each) / levels for each in (first, middle, last))
    v = variance / levels**2
    return Moments(
        count=a + b + d,
        total=a - d,
        squares=a + d - b,
        count_variance=3 * v,
        total_variance=2 * v,
        squares_variance=3 * v,
        count_squares=v,  # 1·1 + 1·(-1) + 1·1
    )


def from_count_and_sums(
    count: ArrayLike,
    total: ArrayLike,
    rest: ArrayLike | None = None,
    *,
    levels: int,
    count_variance: float,
    total_variance: float,
    rest_variance: float = 0.0,
) -> Moments:
    """Read n, T·Σt and T·Σ(1-t²) with T = `levels`: Σt² = n - Σ(1-t²)."""
    n, s = _floats(count), _floats(total) / levels
    v_s = total_variance / levels**2
    if rest is None:
        return Moments(count=n, total=s, squares=None, count_variance=count_variance, total_variance=v_s)
    return Moments(
        count=n,
        total=s,
        squares=n - _floats(rest) / levels,
        count_variance=count_variance,
        total_variance=v_s,
        squares_variance=count_variance + rest_variance / levels**2,
        count_squares=count_variance,
    )


def mean_of(moments: Moments, bounds: Bounds) -> Floats:
    """Return each group's mean, within the bounds: centre + h·Σt/max(n, 1).

    For a pair this is lower + width·A/max(A+B, M) wherever the count is at least 1.
    """
    tau = np.clip(moments.total / np.maximum(moments.count, 1.0), -1.0, 1.0)
    return np.asarray(bounds.centre + bounds.width / 2 * tau)


def sum_of(moments: Moments, bounds: Bounds) -> Floats:
    """Return each group's unbiased sum of x: centre·n + h·Σt."""
    return np.asarray(bounds.centre * moments.count + bounds.width / 2 * moments.total)


def sum_variance(moments: Moments, bounds: Bounds) -> float | Floats:
    """Return the noise variance of `sum_of`."""
    c, h = bounds.centre, bounds.width / 2
    return c * c * moments.count_variance + h * h * moments.total_variance + 2 * c * h * moments.count_total


def mean_noise_variance(moments: Moments, bounds: Bounds) -> Floats:
    """Return the noise variance of each mean to first order: h²(Var Σt + τ² Var n - 2τ Cov)/n², n at least 1."""
    n = np.maximum(moments.count, 1.0)
    tau = np.clip(moments.total / n, -1.0, 1.0)
    noise = moments.total_variance + tau**2 * moments.count_variance - 2 * tau * moments.count_total
    return np.asarray((bounds.width / 2) ** 2 * noise / n**2)


def residuals(moments: Moments, bounds: Bounds, prediction: ArrayLike) -> tuple[Floats, Floats]:
    """Return Σ(x - p) of each group and its noise variance: h(Σt - τ_p n), for `shrink.pull_means`.

    A prediction beyond the bounds is taken at the bound, one that is NaN at the middle.
    """
    h = bounds.width / 2
    p = np.broadcast_to(_floats(prediction), moments.count.shape)
    tau = np.clip((np.where(np.isfinite(p), p, bounds.centre) - bounds.centre) / h, -1.0, 1.0)
    tau = tau - moments.about
    noise = moments.total_variance + tau**2 * moments.count_variance - 2 * tau * moments.count_total
    return np.asarray(h * (moments.total - tau * moments.count)), np.asarray(h * h * noise)


def variance_of(moments: Moments, bounds: Bounds, *, ddof: int = 1) -> Floats:
    """Return each group's variance h²(M₂ - M₁²)·n/(n - ddof), n taken as at least 2, cut to 0..h²."""
    if ddof not in (0, 1):
        raise RangeError(f"ddof must be 0 or 1, got {ddof}")
    m1, m2, n = _two_moments(moments)
    h2 = (bounds.width / 2) ** 2
    return np.asarray(np.clip(h2 * (m2 - m1 * m1) * n / (n - ddof), 0.0, h2))


def variance_noise(moments: Moments, bounds: Bounds) -> Floats:
    """Return the noise variance of `variance_of` to first order in the noise (without the factor n/(n-1)).

    The gradient of M₂ - M₁² in (n, Σt, Σt²) is ((2M₁² - M₂)/n, -2M₁/n, 1/n).
    """
    m1, m2, n = _two_moments(moments)
    g_n, g_s, g_q = (2 * m1 * m1 - m2) / n, -2 * m1 / n, 1 / n
    noise = (
        g_n**2 * moments.count_variance
        + g_s**2 * moments.total_variance
        + g_q**2 * moments.squares_variance
        + 2 * g_n * g_s * moments.count_total
        + 2 * g_n * g_q * moments.count_squares
        + 2 * g_s * g_q * moments.total_squares
    )
    return np.asarray((bounds.width / 2) ** 4 * noise)


def deviation_of(moments: Moments, bounds: Bounds, *, ddof: int = 1) -> Floats:
    """Return each group's standard deviation."""
    return np.sqrt(variance_of(moments, bounds, ddof=ddof))


def _two_moments(moments: Moments) -> tuple[Floats, Floats, Floats]:
    """Return M₁ within -1..1, M₂ within M₁²..1 where noise took it out of it, and n of at least 2."""
    if moments.squares is None:
        raise RangeError("a pair says nothing of the spread; release the triple, or count and sums with squares")
    n = np.maximum(moments.count, 2.0)
    m1 = np.clip(moments.total / n, -1.0, 1.0)
    m2 = np.clip(moments.squares / n, 0.0, 1.0)
    return m1, m2, n


def _floats(values: ArrayLike) -> Floats:
    return np.atleast_1d(np.asarray(values, dtype=np.float64))
