"""What the published actions of RW-AdaBatch reveal about one report: a mixture of Gaussian mechanisms.

A report hides among the others of its batch: given the batch size b, which observers see, it is (μ/√b)-GDP. Computed
from the bound of the law of b, never estimated (experts proof page, Theorems 8 and 9).

It holds for observers of actions and batch boundaries only: not for the server, which sees each report; not for a
coalition with other clients of the batch; and only if gains were fixed in advance. `central_guarantee` gives what
always holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from sidelight.errors import RangeError
from sidelight.experts.batch_sizes import size_weights
from sidelight.experts.delay import DelayRule
from sidelight.experts.leader_change import Floats
from sidelight.guarantees import GDP, ApproxDP, Event, Neighbours
from sidelight.guarantees.curves import gaussian_floats

#: Added to every delta: more than the floating-point error of the mixture and the distance of a sum of rounded
#: Gaussians from a rounding of the Gaussian sum (experts proof page, Theorem 9).
_SLACK = 1e-12


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
    one person is in one of them at most. For somebody in j of them, with a sensitivity that bounds all reports of a
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
