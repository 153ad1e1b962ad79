"""Read means, spreads and their intervals out of noisy moments, for all groups at once.

A clipped value is t = (x - centre)/half of -1..1, so that no unit is too large and a column in cents has the mean of
one in euros times 100. Pure releases hold the pair (Σ(1+t)/2, Σ(1-t)/2) or the triple (Σ((1+t)/2)², Σ(1-t²)/2,
Σ((1-t)/2)²), Gaussian ones n, Σt and Σ(1-t²), each times a number of levels (summaries proof page, sections 3 and 4).
Nothing is divided by a count below 1: an empty group has some value within the bounds, never an error.
Post-processing of released numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.summaries.clip_subject import ClipInterval, GroupIntervals
from sidelight.summaries.intervals import (
    Ends,
    fieller,
    gaussian_bound,
    laplace_bound,
    laplace_pair_bound,
    mean_from_count_and_sum,
    mean_from_pair,
    normal_quantile,
    whole_around,
)
from sidelight.summaries.laplace_sums import laplace_sum_quantile
from sidelight.summaries.predicted import Group

Floats: TypeAlias = NDArray[np.float64]
#: A group has support if its noisy count exceeds this many standard deviations of its noise.
SUPPORT = 3.0


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyMoments:
    """Unbiased count, Σt and Σt² of each group, with the variances of their noise and its one covariance, n with Σt².

    `squares` is None for a pair. Where each group was clipped to its own interval, `total` is Σ(t - about), whose noise
    is independent of the count's.
    """

    count: Floats
    total: Floats
    squares: Floats | None
    count_variance: float
    total_variance: float | Floats
    squares_variance: float = 0.0
    count_squares: float = 0.0
    about: float | Floats = 0.0

    @property
    def sums(self) -> Floats:
        """Σt of each group."""
        return np.asarray(self.total + self.about * self.count)

    @property
    def means(self) -> Floats:
        """The mean of t in each group: Σt/max(n, 1), cut to -1..1."""
        return np.asarray(np.clip(self.total / np.maximum(self.count, 1.0), -1.0, 1.0))

    @property
    def mean_noise_variance(self) -> Floats:
        """The noise variance of each mean to first order: (Var Σt + τ² Var n)/n², n at least 1."""
        noise = self.total_variance + self.means**2 * self.count_variance
        return np.asarray(noise / np.maximum(self.count, 1.0) ** 2)

    def residuals(self, prediction: ArrayLike) -> tuple[Floats, Floats]:
        """Return Σ(t - p) of each group and its noise variance, for `pull_means`.

        A prediction beyond the bounds is taken at the bound, one that is NaN at the middle.
        """
        p = np.broadcast_to(_floats(prediction), self.count.shape)
        tau = np.clip(np.where(np.isfinite(p), p, 0.0), -1.0, 1.0) - self.about
        return np.asarray(self.total - tau * self.count), self.total_variance + tau**2 * self.count_variance

    def variances(self, *, ddof: int = 1) -> Floats:
        """Return the variance of t in each group, M₂ - M₁² cut to 0..1, times n/(n - ddof) with n at least 2."""
        m1, m2, n = self._two_moments()
        return np.asarray(np.clip(m2 - m1 * m1, 0.0, 1.0) * n / (n - ddof))

    @property
    def variance_noise(self) -> Floats:
        """The noise variance of `variances` to first order (without the factor n/(n-1)).

        The gradient of M₂ - M₁² in (n, Σt, Σt²) is ((2M₁² - M₂)/n, -2M₁/n, 1/n).
        """
        m1, m2, n = self._two_moments()
        g_n, g_s, g_q = (2 * m1 * m1 - m2) / n, -2 * m1 / n, 1 / n
        return np.asarray(
            g_n**2 * self.count_variance
            + g_s**2 * self.total_variance
            + g_q**2 * self.squares_variance
            + 2 * g_n * g_q * self.count_squares
        )

    def _two_moments(self) -> tuple[Floats, Floats, Floats]:
        """Return M₁ within -1..1, M₂ within 0..1, and n of at least 2."""
        if self.squares is None:
            raise RangeError("a pair says nothing of the spread; release the triple, or count and sums with squares")
        n = np.maximum(self.count, 2.0)
        return np.clip(self.total / n, -1.0, 1.0), np.clip(self.squares / n, 0.0, 1.0), n


def from_pair(first: ArrayLike, second: ArrayLike, *, levels: int, variance: float) -> NoisyMoments:
    """Read the pair A = Σc, B = Σ(M-c), each with noise of this variance: n = (A+B)/M, Σt = (A-B)/M.

    >>> pair = from_pair([30.0], [10.0], levels=10, variance=2.0)
    >>> pair.count.tolist(), pair.total.tolist()
    ([4.0], [2.0])
    """
    a, b, v = _floats(first) / levels, _floats(second) / levels, variance / levels**2
    return NoisyMoments(count=a + b, total=a - b, squares=None, count_variance=2 * v, total_variance=2 * v)


def from_triple(first: ArrayLike, middle: ArrayLike, last: ArrayLike, *, levels: int, variance: float) -> NoisyMoments:
    """Read a triple whose rows each add up to T = `levels`: n = a+b+d, Σt = a-d, Σt² = a+d-b in units of T."""
    a, b, d = (_floats(each) / levels for each in (first, middle, last))
    v = variance / levels**2
    return NoisyMoments(
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
    rest: ArrayLike,
    *,
    levels: int,
    count_variance: float,
    total_variance: float,
    rest_variance: float,
) -> NoisyMoments:
    """Read n, T·Σt and T·Σ(1-t²) with T = `levels`: Σt² = n - Σ(1-t²)."""
    n = _floats(count)
    return NoisyMoments(
        count=n,
        total=_floats(total) / levels,
        squares=n - _floats(rest) / levels,
        count_variance=count_variance,
        total_variance=total_variance / levels**2,
        squares_variance=count_variance + rest_variance / levels**2,
        count_squares=count_variance,
    )


def from_sizes(difference: ArrayLike, sizes: ArrayLike, *, levels: int, variance: float) -> NoisyMoments:
    """Read Σ(2c-M) = M·Σt of groups whose sizes are public, with noise of this variance.

    >>> sized = from_sizes([20.0], [4], levels=10, variance=2.0)
    >>> sized.means.tolist(), sized.count_variance
    ([0.5], 0.0)
    """
    total, n = _floats(difference) / levels, _floats(sizes)
    return NoisyMoments(count=n, total=total, squares=None, count_variance=0.0, total_variance=variance / levels**2)


def _floats(values: ArrayLike) -> Floats:
    return np.atleast_1d(np.asarray(values, dtype=np.float64))


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredGroups:
    """The noisy moments of each group and the clipping interval that t = -1..1 stands for. All of it is released."""

    moments: NoisyMoments
    interval: ClipInterval | GroupIntervals
    lower: Any  # what t = -1 stands for: in all groups, or in each
    upper: Any
    pair: tuple[Any, Any, float] | None = None  # the noisy pair and its noise scale, where that was released
    scales: tuple[float, float] = (0.0, 0.0)  # otherwise the noise scales of the count and of Σt
    laplace: float = 0.0  # the noise scale of each part of a pair or triple, in rows; 0 for Gaussian noise
    step: float = 0.0  # of the noise of Σt and Σt²
    sized: bool = False  # whether counts are public sizes, so that Σt alone has noise
    names: tuple[Group, ...] = ()
    within: tuple[Any, Any] = (-1.0, 1.0)  # where the values of each group can lie, in units of t

    @property
    def centre(self) -> Any:
        """What t = 0 stands for."""
        return self.lower + self.half

    @property
    def half(self) -> Any:
        """What one unit of t is worth."""
        return self.upper / 2 - self.lower / 2

    def number(self, t: Floats) -> Floats:
        """Return the numbers that some t stand for."""
        return np.asarray(np.clip(self.centre + self.half * t, self.lower, self.upper))

    def unit(self, x: Floats) -> Floats:
        """Return the t of some numbers, cut to -1..1; NaN stays."""
        with np.errstate(over="ignore"):  # a prediction may be off by any amount
            return np.asarray(np.clip((x - self.centre) / self.half, -1.0, 1.0))

    @property
    def means(self) -> Floats:
        """The mean of each group, as it was measured."""
        return self.number(self.moments.means)

    @property
    def overall(self) -> float:
        """The mean of t in all groups together."""
        return float(np.clip(self.moments.sums.sum() / max(self.moments.count.sum(), 1.0), -1.0, 1.0))

    @property
    def noise_sd(self) -> Floats:
        """The standard deviation of the noise of each mean."""
        return np.asarray(self.half * np.sqrt(self.moments.mean_noise_variance))

    @property
    def counts(self) -> dict[str, Floats]:
        """The columns about counts."""
        n = self.moments.count
        return {"count": np.maximum(n, 0.0), "count_unbiased": n}

    @property
    def supported(self) -> Any:
        """Whether noisy counts show that a group has rows, and enough of them to have found the interval."""
        enough = self.interval.enough(self.moments.count)
        return (self.moments.count > SUPPORT * math.sqrt(self.moments.count_variance)) & enough

    @property
    def common(self) -> MeasuredGroups:
        """The same in one unit for all groups, where each was clipped to its own interval.

        -1..1 is what the intervals of supported groups cover together. An unsupported group may have found its interval
        anywhere: here it has no rows.
        """
        own, there = self.moments, self.supported
        lower, upper = (self.lower[there].min(), self.upper[there].max()) if there.any() else (0.0, 1.0)
        half = upper / 2 - lower / 2
        # a + b·t in the new unit; sums are kept about a, where nothing cancels however small a group's interval is
        a = np.where(there, (self.centre - (lower + half)) / half, 0.0)
        b = np.where(there, self.half / half, 1.0)
        moments = NoisyMoments(
            count=np.where(there, own.count, 0.0),
            total=np.where(there, b * own.total, 0.0),
            squares=None,
            count_variance=own.count_variance,
            total_variance=b * b * own.total_variance,
            about=a,
        )
        within = (np.where(there, a - b, -1.0), np.where(there, a + b, 1.0))
        return MeasuredGroups(
            moments=moments, interval=self.interval, lower=lower, upper=upper, names=self.names, within=within
        )

    def mean_ends(self, confidence: float) -> Ends:
        """Return the interval of each mean of the table's clipped rows."""
        if self.pair is not None:
            first, second, scale = self.pair
            ends = mean_from_pair(first, second, scale=scale, lower=-1.0, upper=1.0, confidence=confidence)
        elif self.laplace:
            ends = self._unit_mean_ends(confidence)
        else:
            count_scale, sum_scale = self.scales
            ends = mean_from_count_and_sum(
                self.moments.count,
                self.moments.total * 2.0**30,
                levels=2**30,
                count_scale=count_scale,
                sum_scale=sum_scale * 2.0**30,
                lower=-1.0,
                upper=1.0,
                confidence=confidence,
            )
        return Ends(low=self.number(ends.low), high=self.number(ends.high))

    def count_ends(self, confidence: float) -> dict[str, Floats]:
        """Return the columns of the interval of each count: the whole numbers within reach of its whole noise."""
        if self.pair is not None:
            reach: Any = laplace_pair_bound(self.pair[2], confidence=confidence) * self.step
        elif self.laplace:
            reach = self._reach(1.0, 0.0, 0.0, confidence=confidence)
        else:
            reach = gaussian_bound(self.scales[0], confidence=confidence)
        ends = whole_around(self.moments.count, reach)
        return {"count_low": ends.low, "count_high": ends.high}

    def variance_ends(self, confidence: float, *, ddof: int) -> Ends:
        """Return the interval of each variance of t: Fieller's, for every mean that is not excluded.

        At the true mean m and variance v, Σt² - 2mΣt + m²n - v(n - ddof) is 0 without noise, and linear in it: its tail
        is known. The mean takes a tenth of what may be missed. Of the values of m that are left, its estimate gives the
        least and an end the largest v, to first order in the noise. No variance is larger than n/(n - ddof): for it,
        the least n takes a fiftieth of what may be missed.
        """
        moments, miss = self.moments, 1 - confidence
        assert moments.squares is not None
        means = self._unit_mean_ends(1 - miss / 10)
        rest = 1 - (0.9 if ddof == 0 else 0.88) * miss
        fewest = np.maximum(moments.count - self._reach(1.0, 0.0, 0.0, confidence=1 - miss / 50), 2.0)
        largest = fewest / (fewest - ddof)
        m = np.stack([means.low, np.clip(moments.means, means.low, means.high), means.high])
        about = moments.squares - 2 * m * moments.total + m * m * moments.count

        def reach(v: Floats) -> Floats:
            return self._reach(m * m - v, -2 * m, 1.0, confidence=rest)

        most = 2 / (2 - ddof)
        found = fieller(about, np.broadcast_to(moments.count - ddof, m.shape), reach, 0.0, most, 0.0, most)
        value = moments.variances(ddof=ddof)  # within the interval, also where noise moved one of its moments beyond 1
        low, high = (np.minimum(each, largest) for each in (found.low.min(axis=0), found.high.max(axis=0)))
        return Ends(low=np.minimum(low, value), high=np.maximum(high, value))

    def _unit_mean_ends(self, confidence: float) -> Ends:
        """Return the interval of each mean of t, by Fieller."""

        def reach(m: Floats) -> Floats:
            return self._reach(-m, 1.0, 0.0, confidence=confidence)

        return fieller(self.moments.total, self.moments.count, reach, -1.0, 1.0, -1.0, 1.0)

    def _reach(self, count: Any, total: Any, squares: Any, *, confidence: float) -> Floats:
        """Return how far noise and rounding move count·n + total·Σt + squares·Σt² at most.

        Noise moves it a step more, because it is whole. Squares are rounded down by less than a step in every row: of a
        triple (p, T-p-r, r) those of p and r, which the middle takes up, of a disc the one of 1-t².
        """
        if self.sized:
            return np.asarray(
                np.abs(total) * self.step * laplace_bound(self.laplace / self.step, confidence=confidence)
            )
        own = self.moments
        if self.laplace:
            parts = [count + total + squares, count - total + squares]
            rounding: Any = 0.0
            if own.squares is not None:
                parts.append(count - squares)
                rounding = np.abs(parts[0] - parts[2]) + np.abs(parts[1] - parts[2])
            noise = self.laplace * laplace_sum_quantile(parts, confidence=confidence)
            return np.asarray(noise + self.step * (sum(map(np.abs, parts)) + rounding * self._most_rows))
        rest = own.squares_variance - own.count_variance if own.squares is not None else 0.0
        both = count + squares  # Σt² = n - Σ(1-t²)
        variance = both**2 * own.count_variance + total**2 * own.total_variance + squares**2 * rest
        whole = 0.5 * (np.abs(both) + self.step * (np.abs(total) + np.abs(squares)))
        rounding = self.step * np.abs(squares) * self._most_rows
        return np.asarray(normal_quantile(1 - confidence) * np.sqrt(variance) + whole + rounding)

    @property
    def _most_rows(self) -> Floats:
        """At most how many rows were rounded: the noisy count and six standard deviations of its noise."""
        return np.asarray(np.maximum(self.moments.count, 0.0) + 6 * math.sqrt(self.moments.count_variance))
