"""Noisy readings of numbers by group: counts, means and squares in units of -1..1.

Pure: the pair, or the triple where the spread is wanted. Gaussian: count, centred sum and the second moment, which is
free (summaries proof page, Theorems 2, 3, 6, 7). After the noise everything is computed for t = (x - centre)/half of
-1..1 and mapped back at the end, so that no unit is too large and a column in cents has the mean of one in euros times
100.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.aggregates.bounded import ContributionBounds
from sidelight.aggregates.group_sums import GroupStatistics
from sidelight.aggregates.values import Value
from sidelight.mechanisms.additive import SeveralGaussians
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.summaries.clip_subject import GroupIntervals, Interval
from sidelight.summaries.intervals import (
    Ends,
    around,
    fieller,
    mean_from_count_and_sum,
    mean_from_pair,
    normal_quantile,
)
from sidelight.summaries.laplace_sums import laplace_sum_quantile
from sidelight.summaries.noise_choice import gaussian_variance, laplace_variance
from sidelight.summaries.predicted import Group
from sidelight.summaries.ratio import (
    Bounds,
    Floats,
    Moments,
    from_count_and_sums,
    from_pair,
    from_triple,
    mean_noise_variance,
    mean_of,
    variance_of,
)
from sidelight.summaries.shares import count_and_sums

#: The bounds of t.
UNIT = Bounds(lower=-1.0, upper=1.0, levels=1)
#: A group has support if its noisy count exceeds so many standard deviations of its noise.
SUPPORT = 3.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured:
    """A noisy reading of each group in units of t, and the interval that t = -1..1 stands for. All of it is released.

    Args:
        moments: Counts, sums and squares of t.
        interval: Where values were clipped; of each group, where each has an interval of its own.
        lower, upper: What -1 and 1 stand for: for all groups, or for each.
        pair: The noisy pair and its noise scale, where that is what was released.
        scales: Otherwise the noise scales of the count and of Σt.
        laplace: The scale of the noise of each part of a pair or triple, in rows; 0 for Gaussian noise.
        step: The step of the noise of Σt and Σt².
        names: The labels of each group.
        within: Where the values of each group can lie, in units of t.
    """

    moments: Moments
    interval: Interval | GroupIntervals
    lower: Any
    upper: Any
    pair: tuple[Any, Any, float] | None = None
    scales: tuple[float, float] = (0.0, 0.0)
    laplace: float = 0.0
    step: float = 0.0
    names: tuple[Group, ...] = ()
    within: tuple[Any, Any] = (-1.0, 1.0)

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
        with np.errstate(over="ignore"):  # however far a prediction is off, it is no warning of the data
            return np.asarray(np.clip((x - self.centre) / self.half, -1.0, 1.0))

    @property
    def taus(self) -> Floats:
        """The mean of t in each group, as it was released."""
        return mean_of(self.moments, UNIT)

    @property
    def overall(self) -> float:
        """The mean of t in all groups together."""
        return float(np.clip(self.moments.sums.sum() / max(self.moments.count.sum(), 1.0), -1.0, 1.0))

    @property
    def noise_sd(self) -> Floats:
        """The standard deviation of the noise of each mean."""
        return np.asarray(self.half * np.sqrt(mean_noise_variance(self.moments, UNIT)))

    @property
    def counts(self) -> dict[str, Floats]:
        """The columns about counts."""
        n = self.moments.count
        return {"count": np.maximum(n, 0.0), "count_unbiased": n}

    @property
    def supported(self) -> Any:
        """Whether the noisy counts say that a group has rows, and all together enough to have found the interval."""
        enough = self.interval.enough(self.moments.count)
        return (self.moments.count > SUPPORT * math.sqrt(self.moments.count_variance)) & enough

    @property
    def common(self) -> Measured:
        """The same in one unit for all groups, where each was clipped to an interval of its own.

        -1..1 is what the intervals of groups with support cover together. A group without support may have found its
        interval anywhere: it is one without rows here.
        """
        own, there = self.moments, self.supported
        lower, upper = (self.lower[there].min(), self.upper[there].max()) if there.any() else (0.0, 1.0)
        half = upper / 2 - lower / 2
        # a + b·t in the new unit; sums are kept about a, where nothing cancels however small a group's interval is
        a = np.where(there, (self.centre - (lower + half)) / half, 0.0)
        b = np.where(there, self.half / half, 1.0)
        moments = Moments(
            count=np.where(there, own.count, 0.0),
            total=np.where(there, b * own.total, 0.0),
            squares=None,
            count_variance=own.count_variance,
            total_variance=b * b * own.total_variance,
            about=a,
        )
        within = (np.where(there, a - b, -1.0), np.where(there, a + b, 1.0))
        return Measured(
            moments=moments, interval=self.interval, lower=lower, upper=upper, names=self.names, within=within
        )

    def mean_ends(self, confidence: float, *, population: bool = False) -> Ends:
        """Return the interval of each mean; of the table's clipped rows, or of the population that they come from."""
        if self.pair is not None and not population:
            first, second, scale = self.pair
            ends = mean_from_pair(first, second, scale=scale, lower=-1.0, upper=1.0, confidence=confidence)
        elif self.laplace and not population:
            ends = self._taus(confidence)
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
                sampling_variance=variance_of(self.moments, UNIT) if population else 0.0,
            )
        return Ends(low=self.number(ends.low), high=self.number(ends.high))

    def count_ends(self, confidence: float) -> dict[str, Floats]:
        """Return the columns of the interval of each count."""
        ends = around(self.moments.count, self._reach(1.0, 0.0, 0.0, confidence=confidence))
        return {"count_low": np.floor(ends.low), "count_high": np.ceil(ends.high)}

    def variance_ends(self, confidence: float, *, ddof: int) -> Ends:
        """Return the interval of each variance of t, within 0..1: Fieller's, for every mean that is not excluded.

        At the true mean m and variance v, Σt² - 2mΣt + (m² - v)n is 0 without noise, and linear in it: its tail is
        known. The mean takes a tenth of what may be missed. Of the values of m that are left, its estimate gives the
        least and an end the largest v, to first order in the noise.
        """
        moments = self.moments
        assert moments.squares is not None
        means = self._taus(1 - (1 - confidence) / 10)
        rest = 1 - 0.9 * (1 - confidence)
        m = np.stack([means.low, np.clip(self.taus, means.low, means.high), means.high])
        about = moments.squares - 2 * m * moments.total + m * m * moments.count

        def reach(v: Floats) -> Floats:
            return self._reach(m * m - v, -2 * m, 1.0, confidence=rest)

        found = fieller(about, np.broadcast_to(moments.count, m.shape), reach, 0.0, 1.0, 0.0, 1.0)
        n = np.maximum(moments.count, 2.0)
        bessel = n / (n - ddof)
        return Ends(low=found.low.min(axis=0) * bessel, high=np.clip(found.high.max(axis=0) * bessel, 0.0, 1.0))

    def _taus(self, confidence: float) -> Ends:
        """Return the interval of each mean of t, by Fieller."""

        def reach(m: Floats) -> Floats:
            return self._reach(-m, 1.0, 0.0, confidence=confidence)

        return fieller(self.moments.total, self.moments.count, reach, -1.0, 1.0, -1.0, 1.0)

    def _reach(self, count: Any, total: Any, squares: Any, *, confidence: float) -> Floats:
        """Return how far noise moves count·n + total·Σt + squares·Σt² at most; a step more, because it is whole."""
        if self.laplace:
            parts = [count + total + squares, count - total + squares]
            if self.moments.squares is not None:
                parts.append(count - squares)
            noise = self.laplace * laplace_sum_quantile(parts, confidence=confidence)
            return np.asarray(noise + self.step * sum(map(np.abs, parts)))
        own = self.moments
        rest = own.squares_variance - own.count_variance if own.squares is not None else 0.0
        both = count + squares  # Σt² = n - Σ(1-t²)
        variance = both**2 * own.count_variance + total**2 * own.total_variance + squares**2 * rest
        whole = 0.5 * (np.abs(both) + self.step * (np.abs(total) + np.abs(squares)))
        return np.asarray(normal_quantile(1 - confidence) * np.sqrt(variance) + whole)


def pure_readings(
    found: GroupStatistics,
    values: Sequence[Value],
    intervals: Sequence[Interval | GroupIntervals],
    budget: Budget,
    source: Source,
    *,
    spread: bool,
    names: tuple[Group, ...],
) -> list[Measured]:
    """Add Laplace noise to the pair or the triple of each number, each for this budget."""
    readings = []
    for value, interval, statistic in zip(values, intervals, found.values, strict=True):
        lower, upper = interval.ends(value)
        noise = budget.on(statistic)
        noisy = np.asarray(noise.release(source)).reshape(3 if spread else 2, len(names)).astype(np.float64)
        variance = laplace_variance(noise.scale)
        if spread:
            moments = from_triple(*noisy, levels=value.square_levels, variance=variance)
            sds = (math.sqrt(moments.count_variance), math.sqrt(moments.total_variance))
            read = Measured(moments=moments, interval=interval, lower=lower, upper=upper, scales=sds, names=names)
            step = 1 / value.square_levels
        else:
            moments = from_pair(*noisy, levels=value.levels, variance=variance)
            pair = (noisy[0], noisy[1], float(noise.scale))
            read = Measured(moments=moments, interval=interval, lower=lower, upper=upper, pair=pair, names=names)
            step = 1 / value.levels
        readings.append(replace(read, laplace=float(noise.scale) * step, step=step))
    return readings


def gaussian_readings(
    found: GroupStatistics,
    values: Sequence[Value],
    intervals: Sequence[Interval | GroupIntervals],
    mu: Fraction,
    norms: ContributionBounds,
    source: Source,
    *,
    names: tuple[Group, ...],
) -> list[Measured]:
    """Add Gaussian noise to one count and to the disc of each number, GDP(mu) for all of them together."""
    cells, columns = len(names), len(values)
    # entries of the disc have signs: replacing a unit would cost twice
    l2_squared = norms.l2_squared * norms.times
    scales = [
        count_and_sums(mu=mu, l2_squared=l2_squared, levels=value.square_levels, columns=columns) for value in values
    ]
    every = [scales[0].count_scale, *(each.sum_scale for each in scales), *(each.square_scale for each in scales)]
    # a row's entries of one disc are at most T long together, whichever of the two it moves
    count_moved, squares = Fraction(l2_squared), [Fraction(each.square_levels**2 * l2_squared) for each in values]
    noise = SeveralGaussians(
        scales=tuple(every),
        corners=((count_moved, *squares, *[Fraction(0)] * columns), (count_moved, *[Fraction(0)] * columns, *squares)),
        neighbours=norms.neighbours,
        unit=found.counts.unit,
        theorem="summaries proof page, Theorem 7",
    )
    discs = [np.asarray(each.value).reshape(2, cells) for each in found.values]
    exact = [np.asarray(found.counts.value).reshape(cells), *(each[0] for each in discs), *(each[1] for each in discs)]
    noisy = [each.astype(np.float64) for each in noise.release(exact, source)]
    readings = []
    for place, (value, interval) in enumerate(zip(values, intervals, strict=True)):
        levels, own = value.square_levels, scales[place]
        moments = from_count_and_sums(
            noisy[0],
            noisy[1 + place],
            noisy[1 + columns + place],
            levels=levels,
            count_variance=gaussian_variance(own.count_scale),
            total_variance=gaussian_variance(own.sum_scale),
            rest_variance=gaussian_variance(own.square_scale),
        )
        lower, upper = interval.ends(value)
        sds = (float(own.count_scale), float(own.sum_scale / levels))
        read = Measured(moments=moments, interval=interval, lower=lower, upper=upper, scales=sds, names=names)
        readings.append(replace(read, step=1 / levels))
    return readings
