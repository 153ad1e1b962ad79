"""What is done with the average of a descent's last points: shrunk by its known noise, towards the prediction or 0.

Free: everything here is computed from released numbers. The noise of the average is known to first order, so that a
prediction is believed as far as the distance from it, measured in that noise, says (descent proof page, Theorem H).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sidelight.regression.descent.geometry import Floats
from sidelight.regression.descent.rules import Kind, Schedule

Shrinkage = Literal["evidence", "stein", "none"]

#: What is left of the squared loss's curvature under its clip.
_SQUARED_CURVATURE = 0.75
_LEAST_H, _LEAST_H_ALONE = 0.1, 0.7
#: Half ranges², where no public rows say more.
_USUAL_RESIDUAL = 0.1
_LARGEST_CURVATURE = 1.9
_PENALTY = 1.05
_ALONE = (0.0, *(2.0**power for power in range(-8, 13)), math.inf)
_TOWARDS = tuple(2.0**power for power in range(-6, 15))


@dataclass(frozen=True, kw_only=True, eq=False)
class Shrunk:
    """The final coefficients, and how far they were drawn: `factor` is κ, None where nothing was drawn."""

    theta: Floats
    factor: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class AverageNoise:
    """The curvature k of each direction and the variance N of the average there, in coordinates of z; (columns,)."""

    curvature: Floats
    variance: Floats


def average_noise(
    kind: Kind,
    *,
    h: Floats,
    schedule: Schedule,
    rows: float,
    mu_steps: float,
    curvature: float,
    rows_per_unit: int = 1,
    residual_variance: float | None = None,
    predicted: bool,
    intercept: bool = True,
) -> AverageNoise:
    """Return the noise of the average of the last points, to first order.

    Args:
        kind: The loss.
        h: The mean squares of the columns of z.
        schedule: Passes, clip and step.
        rows: The released or declared number of rows.
        mu_steps: What all steps together cost.
        curvature: The bound b of the loss's curvature.
        rows_per_unit: How many rows a person may have.
        residual_variance: Of public rows that the start came from.
        predicted: Whether the descent started at a prediction.
        intercept: Whether the last column is constant.
    """
    share = schedule.clip_share
    left = {"squared": _SQUARED_CURVATURE, "logistic": 0.5 * (share / 0.5) ** 3, "softmax": 0.5 * share**3}[kind]
    step = schedule.lengths(len(h), intercept=intercept)
    k = np.minimum(left * np.maximum(h, _LEAST_H if predicted else _LEAST_H_ALONE), _LARGEST_CURVATURE / step)
    deviation = step * rows_per_unit * schedule.clip * math.sqrt(schedule.passes)
    deviation /= rows * curvature * mu_steps
    sampling = 1.0 if kind != "squared" else _USUAL_RESIDUAL if residual_variance is None else residual_variance
    of_tail = tail_noise(step * k, passes=schedule.passes, tail=schedule.tail)
    return AverageNoise(curvature=k, variance=deviation**2 * of_tail + sampling / (rows * k))


def tail_noise(contraction: Floats, *, passes: int, tail: int) -> Floats:
    """Return the variance of the average of the last points, for steps whose noise has variance 1.

    Point j is (1 - contraction) times the point before plus noise.
    """
    keep = 1.0 - np.asarray(contraction, np.float64)
    total = np.zeros_like(keep)
    for step in range(1, passes + 1):
        later = range(max(step, passes - tail + 1), passes + 1)
        total += (sum((keep ** (point - step) for point in later), np.zeros_like(keep)) / tail) ** 2
    return total


def shrink(
    average: Floats,
    noise: AverageNoise,
    *,
    kind: Kind,
    rule: Shrinkage,
    start: Floats | None = None,
    trust: Floats | None = None,
) -> Shrunk:
    """Shrink the average towards a start that was predicted, or towards 0.

    Args:
        average: (columns, outputs).
        noise: Its noise.
        kind: The loss.
        rule: "evidence", "stein", or "none".
        start: The chosen prediction, or None.
        trust: Its own variances, (columns, outputs) or (columns,), if there is one.
    """
    if rule == "none" or (start is None and kind != "squared"):
        return Shrunk(theta=average, factor=None)
    variance = np.broadcast_to(noise.variance[:, None], average.shape)
    towards = np.zeros_like(average) if start is None else start
    if rule == "stein":
        share = stein_share(average - towards, variance)
        return Shrunk(theta=towards + share * (average - towards), factor=share)
    if start is None:
        factor = least_risk(average, variance, np.broadcast_to(noise.curvature[:, None], average.shape))
        return Shrunk(theta=_keep(factor, np.ones_like(average), variance) * average, factor=factor)
    assert trust is not None
    own = np.broadcast_to(trust if trust.ndim == 2 else trust[:, None], average.shape)
    factor = most_evidence(average - towards, variance, own)
    return Shrunk(theta=towards + _keep(factor, own, variance) * (average - towards), factor=factor)


def least_risk(average: Floats, variance: Floats, curvature: Floats) -> float:
    """Return the κ whose unbiased estimate of the risk (Stein's) is least."""

    def risk(factor: float) -> float:
        kept = _keep(factor, np.ones_like(average), variance)
        return float(np.sum(curvature * ((1 - kept) ** 2 * average**2 + 2 * _PENALTY * kept * variance)))

    return min(_ALONE, key=risk)


def most_evidence(distance: Floats, variance: Floats, trust: Floats) -> float:
    """Return the κ under which distances of variance κ·trust + variance are most probable, times a prior about 1."""

    def evidence(factor: float) -> float:
        total = factor * trust + variance
        return float(-0.5 * np.sum(np.log(total) + distance**2 / total) - 0.5 * (math.log(factor) / 2) ** 2)

    return max(_TOWARDS, key=evidence)


def stein_share(distance: Floats, variance: Floats) -> float:
    """Return 1 - (p - 2)/‖distance in units of its noise‖², at least 0: what Theorem H keeps of it."""
    size = float(np.sum(distance**2 / variance))
    if distance.size < 3:
        return 1.0
    return max(0.0, 1.0 - (distance.size - 2) / size) if size > 0 else 0.0


def _keep(factor: float, trust: Floats, variance: Floats) -> Floats:
    if math.isinf(factor):
        return np.ones_like(variance)
    return np.asarray(factor * trust / (factor * trust + variance))
