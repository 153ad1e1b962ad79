"""Undeclared labels, several to a unit: Gaussian noise on the counts and a threshold.

What a label that only one unit has gives away by appearing is bounded together with the Gaussian loss of that unit's
other labels, not added to it, so the noise stays that of a plain release (summaries proof page, Theorem 11; Wilkins and
others 2024). The result is (ε, δ) and nothing stronger: which labels appear is not Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import erfc, exp, expm1, log1p, sqrt
from statistics import NormalDist
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import sqrt_up
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Amount, ApproxDP, Claims, Context, exact, native_claims, positive
from sidelight.guarantees.amounts import last_where, whole
from sidelight.guarantees.conversions import gdp_within
from sidelight.guarantees.intervals import (
    ONE,
    ZERO,
    Interval,
    gaussian_delta,
    normal_cdf,
    root_down,
    root_up,
    round_down,
    round_up,
)
from sidelight.mechanisms.price import DrawPrice
from sidelight.mechanisms.truncated_laplace import LabelCounts, Published, published
from sidelight.noise import Source, rounded_gaussian, scale_up

_ONE = Interval(ONE, ONE)
#: Finding the threshold and proving it takes longer the more labels a unit has; more would be no protection either.
_MOST_GROUPS = 10**6
_LARGEST_SCALE = 2**40
_SMALLEST_DELTA = Fraction(1, 10**100)
#: Of μ, for the roots that are rounded up in the proof: with it no threshold is too small because of rounding alone.
_SLIVER = Fraction(1, 2**64)


@dataclass(frozen=True, kw_only=True)
class GaussianThreshold:
    """Rounded Gaussian noise of standard deviation `scale` on the counts; publish what reaches `threshold`.

    Guarantee: ApproxDP(epsilon, delta) for adding or removing one unit that has at most `groups` labels, together with
    anything that is GDP(after_mu) given the published labels (means of the groups, say). Not GDP, not zCDP: a unit that
    alone has a label is seen with certainty when it shows.

    Made by `gaussian_threshold`; `delta` is the proven value of Theorem 11, at most the one asked for.
    """

    epsilon: Fraction
    delta: Fraction
    groups: int
    scale: Fraction
    threshold: int
    after_mu: Fraction = Fraction(0)

    def claims(self, **context: Unpack[Context]) -> Claims:
        """Return what the release and all that is paid by `after_mu` prove together: one (ε, δ), once."""
        return native_claims(ApproxDP(self.epsilon, self.delta, **context), mechanism="gaussian_threshold")

    def release(self, counts: LabelCounts, *, source: Source, known_too: bool = False) -> Published:
        """Publish every label whose count with noise reaches the threshold, and that noisy count.

        With `known_too` the labels of a unit that are known are counted afterwards, with noise of the same scale, at no
        further price: known and new labels of one unit are at most `groups` together.
        """
        counts.check(self.groups)
        context: Context = {"neighbours": counts.neighbours, "unit": counts.unit}
        # the counts of known labels have noise of exactly this scale; their sensitivity is a root that was rounded up
        later = (sqrt_up(self.groups) / self.scale) ** 2 if known_too else self.after_mu**2
        price = DrawPrice(
            law="rounded Gaussian, thresholded",
            claims=self.claims(**context),
            samples=(("rounded_gaussian", self.scale),),
            statistic=f"undeclared labels, at most {self.groups} of one unit, shown from {self.threshold}",
            theorem="summaries proof page, Theorem 11",
            covers=Claims.of(GDP.from_squares(later, **context)) if later else None,
        )
        with source.paying(price):
            noise = rounded_gaussian(counts.counts.size, self.scale, source)
        return published(counts, noise.astype(np.int64), least=self.threshold)

    def tail(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(noise >= t) for whole numbers t."""
        from scipy.special import ndtr

        return np.asarray(ndtr((0.5 - np.asarray(t, dtype=np.float64)) / float(self.scale)))

    def probability(self, n: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability that a label of n units is published."""
        n = np.asarray(n, dtype=np.float64)
        return np.where(n >= 1, self.tail(self.threshold - n), 0.0)


def gaussian_threshold(*, epsilon: Amount, delta: Amount, groups: int, share: Amount = 1) -> GaussianThreshold:
    """Return the noise of a plain Gaussian release of (epsilon, delta) and the smallest threshold that it allows.

    Args:
        epsilon: The price together with `delta`.
        delta: Of the whole.
        groups: The most labels that one unit may have.
        share: The share of μ² that the selection gets; the rest is `after_mu`² for what follows on the published labels
            (1/3 is the usual share then).

    >>> law = gaussian_threshold(epsilon=1, delta=1e-6, groups=10)
    >>> round(float(law.scale), 2), law.threshold
    (13.36, 71)
    """
    groups = whole(groups, name="groups", most=_MOST_GROUPS)
    loss, chance = positive(epsilon, name="epsilon"), exact(delta, name="delta")
    part = exact(share, name="share")
    if not 0 < chance < 1:
        raise RangeError(f"undeclared labels need a delta between 0 and 1, got {delta}; 1e-6 is usual")
    if not 0 < part <= 1:
        raise RangeError(f"share must lie in (0, 1], got {share}; 1/3 leaves two thirds for the groups' statistics")
    if chance < _SMALLEST_DELTA:
        raise RangeError(f"delta must be at least 1e-100, got {delta}; less cannot be distinguished from 0")
    mu = gdp_within(loss, chance) * (1 - _SLIVER)
    scale = scale_up(root_up(groups / (part * mu**2)))
    if scale > _LARGEST_SCALE:
        raise RangeError(f"epsilon = {epsilon} and delta = {delta} need noise beyond every count; raise epsilon")
    after = root_down((1 - part) * mu**2)
    threshold = _guess(float(loss), float(chance), groups, float(scale), float(after))
    while (
        proven := threshold_delta(
            epsilon=loss, scale=scale, threshold=threshold, groups=groups, after_mu=after, enough=chance
        )
    ) > chance:
        threshold += 1
    return GaussianThreshold(
        epsilon=loss, delta=proven, groups=groups, scale=scale, threshold=threshold, after_mu=after
    )


def threshold_delta(
    *,
    epsilon: Fraction,
    scale: Fraction,
    threshold: int,
    groups: int,
    after_mu: Fraction = Fraction(0),
    enough: Fraction = Fraction(0),
) -> Fraction:
    """Return a proven upper bound of δ(ε) of Theorem 11: the largest over all numbers j of labels of one unit alone.

    A block of j's is bounded by its most revealing member's chance to show and its longest shift; both terms grow in
    either. A block whose bound is at most `enough` is not looked into further, so that a proof of "at most δ" takes few
    evaluations; without `enough` the bound is that of single j's.
    """
    alone = _ONE - normal_cdf(Interval.of((Fraction(threshold) - Fraction(3, 2)) / scale))
    hidden = Interval(min(max(ONE - alone.upper, ZERO), ONE), ONE)  # a lower bound of 1 - d₁ is all that is used
    worst, blocks = Fraction(0), [(0, groups)]
    while blocks:
        first, last = blocks.pop()
        square = (groups - first) / scale**2 + after_mu**2
        bound = max(_both_ways(epsilon, _power_down(hidden.lower, last), square))
        if first < last and bound > max(enough, worst):
            middle = (first + last) // 2
            blocks += [(middle + 1, last), (first, middle)]
        else:
            worst = max(worst, bound)
    return worst


def _both_ways(epsilon: Fraction, hidden: Fraction, mu_squared: Fraction) -> tuple[Fraction, Fraction]:
    """Bound d + (1-d) δ_μ(ε - log(1-d)) and δ_μ(ε + log(1-d)) from above, given a lower bound of 1-d and μ²."""
    if hidden <= 0:
        return Fraction(1), Fraction(1)
    shown = 1 - hidden
    log_hidden = Interval.of(hidden).log()
    forward = round_down((Interval.of(epsilon) - log_hidden).lower)
    backward = round_down((Interval.of(epsilon) + log_hidden).lower)
    mu = root_up(mu_squared) if mu_squared else Fraction(0)
    there = round_up(Interval.of(shown + hidden * _gaussian_upper(mu, forward)).upper)
    return min(Fraction(1), there), min(Fraction(1), _gaussian_upper(mu, backward))


def _gaussian_upper(mu: Fraction, x: Fraction) -> Fraction:
    """Bound δ_μ(x) from above; without any shift the two laws are one, and δ_0(x) = 1 - e^x below 0."""
    if mu:
        return round_up(gaussian_delta(mu, x).upper)
    return Fraction(0) if x >= 0 else round_up((_ONE - Interval.of(x).exp()).upper)


def _power_down(base: Decimal, exponent: int) -> Fraction:
    """Return a lower bound of base^exponent for 0 <= base <= 1."""
    result, square = _ONE, Interval(base, base)
    while exponent:
        if exponent & 1:
            result = result * square
        square, exponent = square * square, exponent >> 1
    return round_down(result.lower, digits=70)


def _guess(epsilon: float, delta: float, groups: int, scale: float, after: float) -> int:
    """Find the threshold in floats: only where the proof begins. At j = 0 the bound equals delta up to rounding."""
    high = 2 + int(scale * (NormalDist().inv_cdf(1 - max(delta / groups, 1e-15)) + 40))
    shares = sorted({round(groups * i / 256) for i in range(257)} | set(range(min(groups, 64) + 1)))

    def fits(threshold: int) -> bool:
        alone = erfc((threshold - 1.5) / scale / sqrt(2)) / 2
        for j in shares:
            if alone >= 1:
                return False
            log_hidden = j * log1p(-alone)
            mu = sqrt((groups - j) / scale**2 + after**2)
            there = -expm1(log_hidden) + exp(log_hidden) * _float_delta(mu, epsilon - log_hidden)
            if max(there, _float_delta(mu, epsilon + log_hidden)) > delta * (1 + 1e-9):
                return False
        return True

    return last_where(lambda threshold: not fits(threshold), 1, high) + 1


def _float_delta(mu: float, x: float) -> float:
    if mu == 0:
        return max(0.0, -expm1(x))
    return (erfc((x / mu - mu / 2) / sqrt(2)) - exp(min(x, 700.0)) * erfc((x / mu + mu / 2) / sqrt(2))) / 2
