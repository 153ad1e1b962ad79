"""What the published actions of RW-AdaBatch reveal about one report: a mixture of Gaussian mechanisms.

A report hides among the others of its batch: given the batch size b, which observers see, it is (μ/√b)-GDP. Computed
from an upper bound of the distribution function of b, never estimated (experts proof page, Theorems 7 to 9; the index
of the published bound is corrected by one).

It holds for observers of actions and batch boundaries only: not for the server, which sees each report; not for a
coalition with other clients of the batch; and only if gains were fixed in advance. `central_guarantee` gives what
always holds. Where that is enough, use `RWMeta` instead: it gains more where data drift (explanation page on experts).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.experts.adabatch import DelayRule, change_probability
from sidelight.experts.player import Floats
from sidelight.guarantees import GDP, ApproxDP, Event, Neighbours
from sidelight.guarantees.curves import gaussian_floats

#: Added to every delta: more than the floating-point error of the mixture and the distance of a sum of rounded
#: Gaussians from a rounding of the Gaussian sum (experts proof page, Theorem 9).
_SLACK = 1e-12

#: Gauss-Legendre on this interval, with this many points: error below 1e-10 up to n = 10,000.
_LIMIT, _POINTS = 14.0, 600

#: Raised by more than the quadrature's error, so that the table is an upper bound of the law.
_TABLE_SLACK = 1e-9

#: Points of the upper sum over the starting gap, in units of the margin x.
_MARGINS = np.linspace(0.0, 9.0, 600)


@dataclass(frozen=True, kw_only=True)
class Amplified:
    """The guarantee of one report against observers: component (μ/√b)-GDP with weight w_b, b seen by the observer.

    `clip_failure` bounds the probability that clipping of reports at the server touched any honest report of the batch:
    clipping single reports is not a post-processing of their sum.

    >>> guarantee = amplified(DelayRule(actions=25, noise_scale=5.0), mu=1.0, time=10_000)
    >>> bool(guarantee.delta(4.0) < float(gaussian_floats(1.0, np.array(4.0))) / 8)
    True
    """

    mu: float
    sizes: Floats
    weights: Floats
    clip_failure: float = 0.0
    neighbours: Neighbours = Neighbours.LOCAL

    def delta(self, epsilon: ArrayLike) -> Floats:
        """Return δ(ε) = Σ w_b [Φ(μ_b/2 - ε/μ_b) - e^ε Φ(-μ_b/2 - ε/μ_b)], an upper bound, ε >= 0."""
        x = np.asarray(epsilon, dtype=np.float64)
        if (x < 0).any():
            raise RangeError("epsilon must not be negative")
        total = np.zeros(x.shape)
        for size, weight in zip(self.sizes, self.weights, strict=True):
            total = total + weight * gaussian_floats(self.mu / math.sqrt(size), x)
        return np.asarray(np.minimum(1.0, total + (1 + np.exp(np.minimum(x, 700.0))) * self.clip_failure + _SLACK))

    def trade_off(self, threshold: ArrayLike) -> tuple[Floats, Floats]:
        """Return (α, β) at thresholds τ of the log-likelihood ratio: the errors of an observer's best tests.

        α(τ) = Σ w_b Φ(-τ/μ_b - μ_b/2), β(τ) = Σ w_b Φ(τ/μ_b - μ_b/2); then δ(ε) = 1 - e^ε α(ε) - β(ε), without what
        `delta` adds for clipping and rounding: for real reports each error may be smaller by `clip_failure` + 1e-12.
        """
        from scipy.special import ndtr

        tau = np.asarray(threshold, dtype=np.float64)
        alpha, beta = np.zeros(tau.shape), np.zeros(tau.shape)
        for size, weight in zip(self.sizes, self.weights, strict=True):
            mu = self.mu / math.sqrt(size)
            alpha = alpha + weight * ndtr(-tau / mu - mu / 2)
            beta = beta + weight * ndtr(tau / mu - mu / 2)
        return alpha, beta

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε, to 1e-9 and rounded up, with δ(ε) at most `delta`."""
        if not 0 < delta < 1:
            raise RangeError(f"delta must lie strictly between 0 and 1, got {delta}")
        low, high = 0.0, 1.0
        while float(self.delta(high)) > delta:
            high *= 2
            if high > 500:
                raise RangeError(f"no epsilon reaches delta = {delta}: it is below what clipping and rounding add")
        if float(self.delta(low)) <= delta:
            return 0.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if float(self.delta(middle)) > delta else (low, middle)
        return high

    def claim(self, epsilon: float) -> ApproxDP:
        """Return the claim at an epsilon: for observers only, computed with floats. A ledger does not charge by it."""
        return ApproxDP(
            epsilon,
            Fraction(float(self.delta(epsilon))),
            neighbours=self.neighbours,
            unit=Event(),
            audience="observers_only",
            numerics="idealized",
        )


def amplified(
    rule: DelayRule,
    *,
    mu: float,
    time: int,
    reports_per_round: int = 1,
    clip_failure: float = 0.0,
    largest: int = 2000,
    neighbours: Neighbours = Neighbours.LOCAL,
) -> Amplified:
    """Return the guarantee of the report of round `time` against observers of the published actions.

    With `reports_per_round` honest reports averaged in every round the components start from μ/√reports_per_round, if
    one person is in one of them at most. For a person in j of them, with a sensitivity that bounds all reports of a
    round together, pass √j μ: their average moves up to √j times as far.
    Early reports get nothing: at time 1 it is exactly μ. `neighbours` is the relation that `mu` was declared for.
    """
    if not (math.isfinite(mu) and mu > 0) or reports_per_round < 1:
        raise RangeError(f"mu must be positive and reports_per_round at least 1, got {mu} and {reports_per_round}")
    sizes, weights = size_weights(rule, time=time, largest=largest)
    return Amplified(
        mu=mu / math.sqrt(reports_per_round),
        sizes=sizes.astype(np.float64),
        weights=weights,
        clip_failure=clip_failure,
        neighbours=neighbours,
    )


def worst_over(rule: DelayRule, *, mu: float, times: Iterable[int], epsilon: float, clip_failure: float = 0.0) -> float:
    """Return the largest δ(ε) over the reports of the given rounds: what a deployment may say of all of them.

    A `Server` clips: its `clip_failure` is that of `observers_guarantee`.
    """
    deltas = [float(amplified(rule, mu=mu, time=time, clip_failure=clip_failure).delta(epsilon)) for time in times]
    if not deltas:
        raise RangeError("worst_over wants at least one round")
    return max(deltas)


def central_guarantee(mu: float, *, neighbours: Neighbours = Neighbours.LOCAL) -> GDP:
    """Return what holds against everybody, for every round and whatever the gains react to: μ-GDP of each report."""
    return GDP(mu, neighbours=neighbours, unit=Event())


def gaussian_trade_off(mu: float, alpha: ArrayLike) -> Floats:
    """Return G_μ(α) = Φ(Φ⁻¹(1-α) - μ)."""
    from scipy.special import ndtr, ndtri

    return np.asarray(ndtr(ndtri(1 - np.asarray(alpha, dtype=np.float64)) - mu))


def size_cdf_bound(rule: DelayRule, *, time: int, sizes: ArrayLike) -> Floats:
    """Bound P(the batch of the report of round `time` has at most b reports) for each b of an increasing list.

    Each value holds by itself; later ones also bound earlier ones, since a distribution function rises.

    >>> rule = DelayRule(actions=25, noise_scale=5.0)
    >>> size_cdf_bound(rule, time=10_000, sizes=[1, 5, 10, 50]).round(3).tolist()
    [0.122, 0.374, 0.511, 0.87]
    """
    if time < 1:
        raise RangeError(f"rounds are numbered from 1, got {time}")
    wanted = np.atleast_1d(np.asarray(sizes, dtype=np.int64))
    if wanted.size == 0 or wanted[0] < 1 or (np.diff(wanted) <= 0).any():
        raise RangeError("sizes must be an increasing list of whole numbers of at least 1")
    values = np.array([_size_bound(rule, time, int(b)) for b in wanted])
    return np.asarray(np.minimum.accumulate(values[::-1])[::-1])


def size_weights(rule: DelayRule, *, time: int, largest: int = 2000) -> tuple[NDArray[np.int64], Floats]:
    """Return batch sizes and weights that are stochastically smaller than the true size: the worst case to charge.

    Sizes are evaluated at 1..32 and at about 150 more up to `largest`; the mass of a skipped range (b_i, b_i+1] lies
    on b_i + 1, and what is left beyond the last on the next.
    """
    last = largest if rule.largest_batch is None else min(largest, rule.largest_batch - 1)
    if time == 1 or last < 1:
        return np.array([1]), np.array([1.0])
    grid = np.unique(np.rint(np.concatenate([np.arange(1, 33), np.geomspace(33, 2000, 150) * largest / 2000])))
    evaluated = grid[(grid >= 1) & (grid <= last)].astype(np.int64)
    bounds = np.append(size_cdf_bound(rule, time=time, sizes=evaluated), 1.0)
    places = np.concatenate([[1], evaluated + 1])
    weights = np.diff(np.concatenate([[0.0], bounds]))
    kept = weights > 0
    return places[kept], weights[kept]


def _size_bound(rule: DelayRule, time: int, size: int) -> float:
    if size >= time or time == 1 or (rule.largest_batch is not None and size >= rule.largest_batch):
        return 1.0  # the first batch has one report whatever the gap
    threshold = float(rule.threshold(time, size))
    deviation = rule.noise_scale * np.sqrt(time - size + 1)  # of each coordinate of G at round time - size
    if size == 1:
        return float(gap_cdf_above(threshold / deviation, actions=rule.actions))
    # the gap k at that round, then at most size - 1 reports in which it may fall below the threshold
    step = rule.noise_scale * np.sqrt(2.0 * (size - 1))
    gaps = threshold + rule.gain_range * (size - 1) + step * _MARGINS
    below = gap_cdf_above(gaps / deviation, actions=rule.actions)
    falls = change_probability(_MARGINS, actions=rule.actions, bound=rule.bound)
    falls[0] = 1.0
    # an upper sum: the falling probability at the left end of each piece
    total = below[0] + (falls[:-1] * np.diff(below)).sum() + falls[-1] * (1 - below[-1])
    return float(min(1.0, total))


def gap_cdf(gap: ArrayLike, *, actions: int) -> Floats:
    """Return the law of the gap between the largest and the second largest of n standard normals.

    P(gap <= e) = n ∫ φ(x) Φ(x)^(n-1) [-expm1((n-1)(ln Φ(x-e) - ln Φ(x)))] dx. Hand-made: no library has it. Equal
    means are the worst case, so a table of this law bounds the gap of every sequence of gains (experts proof page,
    Theorem 6).

    >>> gap_cdf([0.05, 0.1, 0.5], actions=25).round(8).tolist()
    [0.09443301, 0.18147415, 0.65928209]
    """
    from scipy.special import log_ndtr

    n = _checked_actions(actions)
    e = np.maximum(np.asarray(gap, dtype=np.float64), 0.0)[..., None]
    x, weights = _quadrature()
    here = log_ndtr(x)
    density = n * (np.exp(-x * x / 2) / np.sqrt(2 * np.pi)) * np.exp((n - 1) * here)
    inside = -np.expm1((n - 1) * (log_ndtr(x - e) - here))  # no cancellation where the gap is small
    return np.asarray(np.clip((weights * density * inside).sum(axis=-1), 0.0, 1.0))


def gap_cdf_above(gap: ArrayLike, *, actions: int) -> Floats:
    """Return an upper bound of the law from a table of 3,000 points: its value at the next point to the right.

    Interpolating would be below the law wherever it is concave.
    """
    points, values = _table(_checked_actions(actions))
    e = np.asarray(gap, dtype=np.float64)
    bound = values[np.searchsorted(points, e, side="left")]
    return np.asarray(np.where(e < 0, 0.0, bound))


def _checked_actions(actions: int) -> int:
    if actions < 2:
        raise RangeError(f"a gap needs at least 2 actions, got {actions}")
    return actions


@cache
def _table(actions: int) -> tuple[Floats, Floats]:
    points = np.geomspace(1e-4, 12, 3000)
    values = np.concatenate([gap_cdf(part, actions=actions) for part in np.array_split(points, 10)])
    bounds = np.append(np.minimum(1.0, np.maximum.accumulate(values) + _TABLE_SLACK), 1.0)  # beyond the table: 1
    return points, bounds


@cache
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    return _LIMIT * nodes, _LIMIT * weights
