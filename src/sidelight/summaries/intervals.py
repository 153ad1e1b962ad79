"""Confidence intervals that are exact for the noise: counts, means, proportions, published labels; all groups at once.

They cover the number of the bounded, clipped table that was released, not that of a population: sampling error and
clipping are not in them unless asked for. Post-processing of released numbers (summaries proof page, section 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees.amounts import last_where
from sidelight.mechanisms.gaussian_threshold import GaussianThreshold
from sidelight.mechanisms.truncated_laplace import TruncatedLaplace
from sidelight.summaries.laplace_sums import LaplaceTerm, laplace_sum_bound

Floats: TypeAlias = NDArray[np.float64]

_GRID = 4096
#: Up to this scale the quantiles of differences of whole noise are found by enumeration, for parts of 0..1 like these.
_FEW_STEPS, _PARTS = 8.0, 128
#: What the enumeration leaves out, as a share of the miss.
_LEFT_OUT = 1e-3
_HALVINGS = 45
#: Between the knots of the table of quantiles they are interpolated; this covers what that may take away.
_WIDENED = 1 + 1e-6


@dataclass(frozen=True, eq=False, kw_only=True)
class Ends:
    """The lower and the upper end of each interval."""

    low: Floats
    high: Floats


# --- counts -----------------------------------------------------------------------------------------------------------


def laplace_bound(scale: Fraction | float, *, confidence: float = 0.95, cells: int = 1) -> int:
    """Return the smallest t with P(all of `cells` independent |Z| <= t) >= confidence, for discrete Laplace noise.

    >>> [laplace_bound(1, cells=cells) for cells in (1, 10, 1000)]
    [3, 5, 10]
    """
    rate = 1 / float(scale)
    miss = _miss(confidence, cells)
    # P(|Z| > t) = 2 a^(t+1) / (1 + a), a = exp(-rate)
    bound = max(0, math.ceil((math.log(2 / (1 + math.exp(-rate))) - math.log(miss)) / rate - 1))

    def beyond(t: int) -> float:
        return 2 * math.exp(-rate * (t + 1)) / (1 + math.exp(-rate))

    while beyond(bound) > miss * (1 + 1e-12):
        bound += 1
    while bound > 0 and beyond(bound - 1) <= miss:
        bound -= 1
    return bound


def laplace_pair_bound(scale: Fraction | float, *, confidence: float = 0.95) -> int:
    """Return the smallest t with P(|Z₁ + Z₂| <= t) >= confidence, for two discrete Laplace variables (section 6).

    >>> [laplace_pair_bound(scale) for scale in (0.1, 1, 100)]
    [0, 4, 411]
    """
    rate = 1 / float(scale)
    miss = _miss(confidence, 1) * (1 - 1e-12)
    a, rest = math.exp(-rate), -math.expm1(-rate)
    middle = (1 + a * a) / (rest * (1 + a))  # P(Z₁ + Z₂ = k) = ((1-a)/(1+a))² a^|k| (|k| + (1+a²)/(1-a²))

    def beyond(t: int) -> float:
        return 2 * (rest / (1 + a)) ** 2 * math.exp(-rate * (t + 1)) * ((t + 1 + middle) + a / rest) / rest

    low, high = -1, 1
    while beyond(high) > miss:
        low, high = high, 2 * high
    return last_where(lambda t: beyond(t) > miss, low, high) + 1


def gaussian_bound(scale: Fraction | float, *, confidence: float = 0.95, cells: int = 1) -> int:
    """Return ⌈σz - ½⌉, z the two-sided normal quantile: the bound for rounded Gaussian noise.

    >>> gaussian_bound(10), gaussian_bound(10, cells=1000)
    (20, 40)
    """
    return max(0, math.ceil(float(scale) * normal_quantile(_miss(confidence, cells)) - 0.5))


def around(unbiased: ArrayLike, bound: ArrayLike, *, lowest: float = 0.0) -> Ends:
    """Return unbiased ± bound, cut at the lowest possible value."""
    y, t = np.asarray(unbiased, dtype=np.float64), np.asarray(bound, dtype=np.float64)
    return Ends(low=np.maximum(y - t, lowest), high=np.maximum(y + t, lowest))


def whole_around(unbiased: ArrayLike, bound: ArrayLike) -> Ends:
    """Return the whole numbers from 0 on within unbiased ± bound; the nearest one where there is none."""
    y, t = np.asarray(unbiased, dtype=np.float64), np.asarray(bound, dtype=np.float64)
    reach, nearest = t + 1e-6 + 1e-12 * np.abs(y), np.rint(y)  # up to the rounding of floats
    low, high = np.minimum(np.ceil(y - reach), nearest), np.maximum(np.floor(y + reach), nearest)
    return Ends(low=np.maximum(low, 0.0), high=np.maximum(high, 0.0))


def _miss(confidence: float, cells: int) -> float:
    """Return what each of independent cells may miss so that all hold with the confidence: 1 - (1-β)^(1/G)."""
    if not 0 < confidence < 1 or cells < 1:
        raise RangeError(f"confidence must lie strictly between 0 and 1, got {confidence}; 0.95 is usual")
    return -math.expm1(math.log(confidence) / cells)


def normal_quantile(miss: float) -> float:
    return -NormalDist().inv_cdf(miss / 2)


# --- means and proportions: Fieller -----------------------------------------------------------------------------------


def laplace_difference_quantile(share: ArrayLike, *, confidence: float = 0.95) -> Floats:
    """Return q with P(|Z₁(1-u) - Z₂u| > q) = 1 - confidence for independent Laplace variables of scale 1, u = share.

    >>> laplace_difference_quantile([0.5, 0.75, 1.0]).round(6).tolist()
    [2.056502, 2.334972, 2.995732]
    """
    u = np.asarray(share, dtype=np.float64)
    quantiles = _quantile_table(confidence)
    # the knots are evenly spaced: the place between two of them needs no search
    place = np.minimum((np.maximum(u, 1 - u) - 0.5) * (2 * _GRID), _GRID - 1e-9)
    knot = place.astype(np.intp)
    return np.asarray(quantiles[knot] + (place - knot) * (quantiles[knot + 1] - quantiles[knot]))


@lru_cache(maxsize=16)
def _quantile_table(confidence: float) -> Floats:
    """Return quantiles at shares from ½ to 1; at other shares they are interpolated."""
    miss = _miss(confidence, 1)
    alpha = np.linspace(0.5, 1.0, _GRID + 1)
    beta = 1 - alpha
    low, high = np.zeros_like(alpha), np.full_like(alpha, 40.0 - 2 * math.log(miss))
    for _ in range(70):
        middle = (low + high) / 2
        inside = _difference_tail(middle, alpha, beta) > miss
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return high


def _difference_tail(t: Floats, alpha: Floats, beta: Floats) -> Floats:
    """Return P(|αX - βY| > t) for independent standard Laplace X, Y, α >= β >= 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        second = np.where(beta > 0, beta**2 * np.exp(-t / np.where(beta > 0, beta, 1.0)), 0.0)
        apart = (alpha**2 * np.exp(-t / alpha) - second) / (alpha**2 - beta**2)
    near = (1 + t / (2 * alpha)) * np.exp(-t / alpha)
    return np.where(alpha - beta < 1e-6, near, apart)


def mean_from_pair(
    first: ArrayLike,
    second: ArrayLike,
    *,
    scale: Fraction | float,
    lower: float,
    upper: float,
    confidence: float = 0.95,
) -> Ends:
    """Return the interval of each mean from a pair A = Σc, B = Σ(M-c) with discrete Laplace noise of this scale.

    Accuracy: covers the mean of the clipped rows with the confidence, exactly up to one code step that is added because
    the noise is whole (Theorem 5); where that step counts, by the law of the whole noise. The whole range where the
    pair says nothing.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    size = float(scale)
    if size <= _FEW_STEPS:
        return _mean_from_whole_pair(a, a + b, size, lower=lower, upper=upper, confidence=confidence)

    def half_width(u: Floats) -> Floats:
        return laplace_difference_quantile(u, confidence=confidence) * (size * _WIDENED) + 1.0

    return fieller(a, a + b, half_width, 0.0, 1.0, lower, upper)


def _mean_from_whole_pair(a: Floats, n: Floats, scale: float, *, lower: float, upper: float, confidence: float) -> Ends:
    """Return the hull of {u: |Â - u·n̂| <= q_u} with a q for each part of 0..1 (`_whole_quantiles`)."""
    quantiles = _whole_quantiles(scale, confidence)
    edges = np.linspace(0.0, 1.0, len(quantiles) + 1).tolist()
    rows = np.where(n > 0, n, 1.0)
    ratio = a / rows
    first, last = np.ones_like(ratio), np.zeros_like(ratio)
    for part, quantile in enumerate(quantiles.tolist()):
        low, high = (
            np.maximum(ratio - quantile / rows, edges[part]),
            np.minimum(ratio + quantile / rows, edges[part + 1]),
        )
        there = low <= high
        first, last = np.where(there, np.minimum(first, low), first), np.where(there, np.maximum(last, high), last)
    place = np.minimum(np.clip(ratio, 0.0, 1.0) * len(quantiles), len(quantiles) - 1).astype(np.intp)
    nothing = (first > last) | (n <= quantiles[place])
    first, last = np.where(nothing, 0.0, first), np.where(nothing, 1.0, last)
    return Ends(low=np.asarray(lower + (upper - lower) * first), high=np.asarray(lower + (upper - lower) * last))


@lru_cache(maxsize=64)
def _whole_quantiles(scale: float, confidence: float) -> Floats:
    """Return q with P(|Z₁(1-u) - Z₂u| > q) <= 1 - confidence for all u of each part, Z whole noise.

    |Z₁(1-u) - Z₂u| is convex in u: within a part it is at most the larger of those at its ends; that law is enumerated.
    """
    miss = _miss(confidence, 1)
    farthest = math.ceil(scale * math.log(4 / (_LEFT_OUT * miss)))  # P(|Z₁| or |Z₂| is larger) <= 4a^farthest
    whole = np.arange(-farthest, farthest + 1)
    chances = np.exp(-np.abs(whole) / scale) * math.tanh(0.5 / scale)
    first, second = np.meshgrid(whole, whole[farthest:], indexing="ij")  # and all of it with the other signs
    both = np.multiply.outer(chances, chances[farthest:] * np.where(whole[farthest:] > 0, 2, 1)).ravel()
    edges = np.linspace(0.5, 1.0, _PARTS // 2 + 1)
    sizes = [np.abs(first * (1 - u) - second * u).ravel() for u in edges]
    found = []
    for each in map(np.maximum, sizes[:-1], sizes[1:]):
        order = np.argsort(each)
        enough = np.flatnonzero(np.cumsum(both[order]) >= 1 - miss + 1e-12)
        found.append(each[order[enough[0]]] * _WIDENED + 1e-9)
    return np.array([*reversed(found), *found])  # that of 1 - u is the same


def pair_error(rows: float, *, scale: float, levels: int, confidence: float = 0.95) -> float:
    """Return the error bound of the mean of n rows from a noisy pair, in widths of the interval.

    û - u = (z_A(1-u) - z_B·u)/n̂ (Theorem 5). The numerator exceeds its quantile at the worst u, and n̂ falls below n by
    more than its own, with probability β/2 each. `scale` is of A and B, in codes of 0..levels.
    """
    inner = 1 - (1 - confidence) / 2
    if scale <= _FEW_STEPS:
        farthest = float(_whole_quantiles(scale, inner).max())
    else:
        farthest = float(laplace_difference_quantile(1.0, confidence=inner)) * scale * _WIDENED + 1.0
    # z_A + z_B below -t: one of the two sides
    lost = laplace_pair_bound(scale, confidence=confidence)
    return _quotient(farthest / levels, rows - lost / levels)


def count_and_sum_error(
    rows: float, *, count_scale: float, sum_scale: float, rounding: float = 0.0, confidence: float = 0.95
) -> float:
    """Return the error bound of the mean of n rows from a noisy count and centred sum, in widths: |τ| = 1.

    `rounding` is one step of the grid of the noise of Σt.
    """
    miss = 1 - confidence
    reach = normal_quantile(miss / 2) * math.hypot(count_scale, sum_scale) + 0.5 * (1 + rounding)
    lost = normal_quantile(miss) * count_scale + 0.5  # one side: half of both
    return _quotient(reach / 2, rows - lost)  # the width is 2 in units of t


def _quotient(above: float, below: float) -> float:
    return min(above / below, 1.0) if below >= 1 else 1.0


def mean_from_count_and_sum(
    count: ArrayLike,
    total: ArrayLike,
    *,
    levels: int,
    count_scale: Fraction | float,
    sum_scale: Fraction | float,
    lower: float,
    upper: float,
    confidence: float = 0.95,
) -> Ends:
    """Return the interval of each mean from n and Σe, e = 2c - M, with rounded Gaussian noise of these scales.

    {τ: |ŝ - τn̂| <= z√(σ_s² + τ²σ_n²) + ½(|τ| + 1/M)}, s = Σe/M.
    """
    n, s = np.asarray(count, dtype=np.float64), np.asarray(total, dtype=np.float64) / levels
    v_n, v_s = float(count_scale) ** 2, (float(sum_scale) / levels) ** 2
    z = normal_quantile(_miss(confidence, 1))

    def half_width(tau: Floats) -> Floats:
        return np.asarray(z * np.sqrt(v_s + tau**2 * v_n) + 0.5 * (np.abs(tau) + 1 / levels))

    return fieller(s, n, half_width, -1.0, 1.0, lower, upper)


def fieller(
    numerator: Floats,
    denominator: Floats,
    half_width: Callable[[Floats], Floats],
    first: float,
    last: float,
    lower: float,
    upper: float,
) -> Ends:
    """Solve |numerator - x·denominator| <= half_width(x) for x of first..last by bisection away from the ratio.

    Where the ratio itself does not satisfy it, or the denominator is within its own noise, nothing is excluded.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.clip(np.where(denominator > 0, numerator / denominator, first), first, last)
    start = np.where(np.isfinite(ratio), ratio, first)

    def inside(x: Floats) -> NDArray[np.bool_]:
        return np.asarray(np.abs(numerator - x * denominator) <= half_width(x))

    nothing = ~inside(start) | (denominator <= half_width(start))
    outer = np.stack([np.full_like(start, first), np.full_like(start, last)])
    good, bad = np.stack([start, start]), outer
    whole = inside(outer)
    for _ in range(_HALVINGS):  # both ends at once
        middle = (good + bad) / 2
        holds = inside(middle)
        good, bad = np.where(holds, middle, good), np.where(holds, bad, middle)
    scale = (upper - lower) / (last - first)
    # the outer end of the last bracket
    low, high = lower + scale * (np.where(whole | nothing, outer, bad) - first)
    return Ends(low=np.asarray(low), high=np.asarray(high))


# --- anything with a standard error -----------------------------------------------------------------------------------


def pooled_bound(
    parts: Sequence[LaplaceTerm], variance: float, *, laplace: bool, confidence: float = 0.95, cells: int = 1
) -> float:
    """Return the simultaneous error bound of values pooled by least squares, whose noise is a weighted sum.

    Laplace noise is bounded by the terms of the sum, Gaussian noise by its variance.
    """
    if laplace:
        return laplace_sum_bound(parts, miss=(1 - confidence) / cells)
    return normal_quantile(_miss(confidence, cells)) * math.sqrt(variance)


# --- counts of published labels ---------------------------------------------------------------------------------------


def published_ends(
    values: ArrayLike, law: TruncatedLaplace | GaussianThreshold, *, least: int, reach: float, confidence: float = 0.95
) -> Ends:
    """Return the interval of the count of each published label, given that it was published.

    A published count is too high on average, and y ± t would never cover small counts. This one has at least the
    confidence given publication: all n >= 1 for which neither "as high as y" nor "as low as y" is rarer than half of
    what may be missed.

    Args:
        values: The published noisy counts y, each at least `least`.
        law: The noise.
        least: The smallest count that is published.
        reach: The cutoff of the noise, or 10 standard deviations.
        confidence: Given publication.

    >>> from sidelight.mechanisms.truncated_laplace import truncated_laplace
    >>> law = truncated_laplace(epsilon=1, delta=1e-6)
    >>> ends = published_ends([15, 20, 40], law, least=law.least, reach=law.cutoff)
    >>> ends.low.astype(int).tolist(), ends.high.astype(int).tolist()
    ([1, 17, 37], [17, 23, 43])
    """
    half = _miss(confidence, 1) / 2
    y = np.atleast_1d(np.asarray(values, dtype=np.float64))

    def shown(n: Floats) -> Floats:
        return np.maximum(law.tail(least - n), 1e-300)

    def high_enough(n: Floats) -> NDArray[np.bool_]:  # P(n + Z >= y | published), grows with n
        return np.asarray(law.tail(y - n) >= half * shown(n))

    def low_enough(n: Floats) -> NDArray[np.bool_]:  # P(n + Z <= y | published), falls with n
        return np.asarray(shown(n) - law.tail(y + 1 - n) >= half * shown(n))

    low = _first_whole(high_enough, np.zeros_like(y), np.maximum(y, 1.0))
    high = _first_whole(lambda n: ~low_enough(n), np.zeros_like(y), np.floor(y + reach) + 1) - 1
    return Ends(low=low, high=np.maximum(high, low))


def _first_whole(holds: Callable[[Floats], NDArray[np.bool_]], below: Floats, at: Floats) -> Floats:
    """Return the least whole number above `below` and up to `at` for which a condition that stays true holds."""
    low, high = below.copy(), at.copy()
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        found = holds(middle)
        apart = high - low > 1
        low, high = np.where(apart & ~found, middle, low), np.where(apart & found, middle, high)
    return high
