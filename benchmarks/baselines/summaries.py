"""How others release means, by their published rules, in floats and not private: what our summaries are compared with.

Rules that are read in favour of the other side: continuous noise, no rounding, a known number of rows where they want
one, and runs in which a rule gives no answer are left out.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Google's approximate bounds find no bin without rows with this probability, over all bins of a double.
SUCCESS, BINS_A_SIDE = 1 - 1e-9, 2047


def split_means(
    counts: Floats, sums: Floats, *, bounds: tuple[float, float], epsilon: float, rng: np.random.Generator
) -> Floats:
    """Return means of groups from a count and a centred clamped sum with half of epsilon each (Tumult, Google).

    Args:
        counts: The rows of each group.
        sums: The sum of the clamped values of each group.
        bounds: Where values were clamped.
        epsilon: For the whole table: a row is in one group.
        rng: The noise.
    """
    lower, upper = bounds
    centre = (lower + upper) / 2
    noisy_counts = counts + rng.laplace(0, 2 / epsilon, counts.shape)
    noisy_sums = sums - centre * counts + rng.laplace(0, (upper - lower) / epsilon, counts.shape)
    return np.clip(centre + noisy_sums / np.maximum(noisy_counts, 1), lower, upper)


def known_count_mean(
    values: Floats, *, bounds: tuple[float, float], epsilon: float, rng: np.random.Generator, draws: int = 1
) -> Floats:
    """Return means as diffprivlib's `tools.mean`: Laplace noise of scale (upper - lower)/(n epsilon), truncated.

    The number of rows is public there and neighbours replace a row.
    """
    lower, upper = bounds
    noise = rng.laplace(0, (upper - lower) / (len(values) * epsilon), draws)
    return np.clip(np.clip(values, lower, upper).mean() + noise, lower, upper)


def approximate_bounds(values: Floats, *, epsilon: float, rng: np.random.Generator) -> tuple[float, float] | None:
    """Return Google's approximate bounds (Wilson et al. 2020), None where no bin passes the threshold.

    Rows are counted in bins of factor 2 on both sides of 0; the outermost bins whose noisy count passes the threshold
    give the bounds. `epsilon` is what this step is given.
    """
    magnitudes = np.clip(np.ceil(np.log2(np.maximum(np.abs(values), 2.0**-1022))), -1022, 1023).astype(np.int64) + 1023
    counts = {side: np.bincount(magnitudes[side * values > 0], minlength=BINS_A_SIDE) for side in (1, -1)}
    counts[1][0] += int((values == 0).sum())
    threshold = -math.log(-2 * math.expm1(math.log(SUCCESS) / (2 * BINS_A_SIDE - 1))) / epsilon
    ends = []
    for side in (-1, 1):
        noisy = counts[side] + rng.laplace(0, 1 / epsilon, BINS_A_SIDE)
        powers = np.flatnonzero(noisy >= threshold) - 1023
        ends += [(side * 2.0 ** (power - 1), side * 2.0**power) for power in powers]
    if not ends:
        return None
    return min(min(end) for end in ends), max(max(end) for end in ends)


def interval_error(values: Floats, *, bounds: tuple[float, float], epsilon: float, split: bool = False) -> float:
    """Return the root mean squared error of a mean that is measured in an interval, by formula.

    The pair has standard deviation (w/(n epsilon)) sqrt(1 + tau^2), where tau is how far the clipped mean lies from the
    middle, in half widths; `split` is the same with half of epsilon for count and sum each, sqrt(2) times that. What
    both ends cut off is added up: that lower and upper bias cancel is nothing one could know.
    """
    lower, upper = bounds
    bias = float(np.maximum(lower - values, 0).mean() + np.maximum(values - upper, 0).mean())
    offset = float(np.clip(values, lower, upper).mean()) - (lower + upper) / 2
    deviation = math.hypot(upper - lower, 2 * offset) / (len(values) * epsilon)
    return math.hypot(bias, deviation * (math.sqrt(2) if split else 1))


def google_error(values: Floats, *, epsilon: float, rng: np.random.Generator) -> float | None:
    """Return the error of Google's mean in bounds drawn now: half of epsilon finds them, the rest is split."""
    bounds = approximate_bounds(values, epsilon=epsilon / 2, rng=rng)
    return None if bounds is None else interval_error(values, bounds=bounds, epsilon=epsilon / 2, split=True)


def best_interval_error(values: Floats, *, epsilon: float) -> float:
    """Return the root mean squared error of the best fixed interval, chosen with the data in view.

    The interval runs between two records, and all of epsilon goes to the pair: the least `interval_error`.
    """
    ordered, rows = np.sort(values), len(values)
    ranks = np.unique(np.concatenate(([0], np.geomspace(1, rows // 2, 200).astype(np.int64))))
    below = np.concatenate(([0.0], np.cumsum(ordered)))
    lows, highs = ordered[ranks], ordered[rows - 1 - ranks]
    low_bias = (ranks * lows - below[ranks]) / rows  # rows below the lower end are raised to it
    high_bias = (below[rows] - below[rows - ranks] - ranks * highs) / rows
    width = highs[None, :] - lows[:, None]
    clipped = ordered.mean() + low_bias[:, None] - high_bias[None, :]
    offset = clipped - (highs[None, :] + lows[:, None]) / 2
    variance = (width**2 + 4 * offset**2) / (rows * epsilon) ** 2
    return float(np.sqrt(((low_bias[:, None] + high_bias[None, :]) ** 2 + variance).min()))
