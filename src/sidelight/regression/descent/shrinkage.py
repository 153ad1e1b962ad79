"""What is done with the average of a descent's last points: shrunk by its known noise, towards the prediction or 0.

Free: everything here is computed from released numbers. The noise of the average is known to first order, so that a
prediction gets the shrinkage weight that the distance from it, measured in that noise, implies (descent proof page,
Theorem H).

Without a prediction the slopes of a number are shrunk and its constant is not: the middle of the range is no better
guess of the mean than the average is. Where the released matrix is mostly noise the columns of z vary less than it
says, steps are short, and the average has neither arrived nor forgotten its noise: both are counted.
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
SQUARED_CURVATURE = 0.75
#: Columns of z are taken to vary at least this much.
LEAST_H = 0.1
#: Half ranges², where no public rows say more.
_USUAL_RESIDUAL = 0.1
_LARGEST_CURVATURE = 1.9
#: Of the rows that steps are made for, at least this share is taken to be there.
_LEAST_SHARE = 0.25
_ALONE = tuple(2.0**power for power in range(-21, 5))
_TOWARDS = tuple(2.0**power for power in range(-6, 15))
#: The variance of predictions that is expected without a prediction, in half ranges², and the deviation of its
#: logarithm.
_EXPECTED, _EXPECTED_SPREAD = 0.05, 2.0
#: The variance of a prediction that says nothing about a coordinate.
UNKNOWN = 1e12


@dataclass(frozen=True, kw_only=True, eq=False)
class ShrunkModel:
    """The final coefficients, and how far they were drawn: `factor` is κ, None where nothing was drawn.

    `variance` (columns,) is what is not known of each: the noise, and what was lost of the truth by drawing.
    """

    theta: Floats
    factor: float | None
    variance: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class AverageNoise:
    """What is known about an average of last points, in coordinates of z; each (columns,).

    Args:
        variance: The variance N of its noise.
        arrived: Which share of the way from the start it has gone.
        h: How the columns vary, at least `LEAST_H`.
        of_step: The deviation of the noise of one gradient, per row and curvature.
    """

    variance: Floats
    arrived: Floats
    h: Floats
    of_step: float = 0.0


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
    intercept: bool = True,
    counted: float | None = None,
) -> AverageNoise:
    """Return the noise of the average of the last points, to first order.

    Args:
        kind: The loss.
        h: How the columns of z vary: their likely mean squares.
        schedule: Passes, clip and step.
        rows: The released or declared number of rows.
        mu_steps: What all steps together cost.
        curvature: The bound b of the loss's curvature.
        rows_per_unit: How many rows a person may have.
        residual_variance: Of public rows that the start came from.
        intercept: Whether the last column is constant.
        counted: The likely number of rows: steps that are made for more of them go less far.
    """
    share = schedule.clip_share
    left = {"squared": SQUARED_CURVATURE, "logistic": 0.5 * (share / 0.5) ** 3, "softmax": 0.5 * share**3}[kind]
    step = schedule.lengths(len(h), intercept=intercept)
    varied = np.maximum(h, LEAST_H)
    there = 1.0 if counted is None else min(max(counted / rows, _LEAST_SHARE), 1.0)
    k = np.minimum(left * varied * there, _LARGEST_CURVATURE / step)
    of_step = rows_per_unit * schedule.clip * math.sqrt(schedule.passes) / (rows * curvature * mu_steps)
    deviation = step * of_step
    sampling = 1.0 if kind != "squared" else _USUAL_RESIDUAL if residual_variance is None else residual_variance
    of_tail = tail_noise(step * k, passes=schedule.passes, tail=schedule.tail)
    arrived = arrived_share(step * k, passes=schedule.passes, tail=schedule.tail)
    variance = deviation**2 * of_tail + sampling / (rows * k) * arrived**2
    return AverageNoise(variance=variance, arrived=arrived, h=varied, of_step=of_step)


def arrived_share(contraction: Floats, *, passes: int, tail: int) -> Floats:
    """Return which share of the way to their end the last points have gone on average, without noise."""
    keep = 1.0 - np.asarray(contraction, np.float64)
    points = range(passes - tail + 1, passes + 1)
    return np.asarray(1.0 - sum((keep**point for point in points), np.zeros_like(keep)) / tail)


def tail_noise(contraction: Floats, *, passes: int, tail: int) -> Floats:
    """Return the variance of the average of the last points, for steps whose noise has variance 1.

    Point j is (1 - contraction) times the point before plus noise.
    """
    keep = 1.0 - np.asarray(contraction, np.float64)
    powers = [keep**power for power in range(passes)]
    total = np.zeros_like(keep)
    for step in range(1, passes + 1):
        later = powers[max(passes - tail + 1 - step, 0) : passes + 1 - step]
        total += (sum(later, np.zeros_like(keep)) / tail) ** 2
    return total


def shrink(
    average: Floats,
    noise: AverageNoise,
    *,
    kind: Kind,
    rule: Shrinkage,
    start: Floats | None = None,
    trust: Floats | None = None,
    intercept: bool = True,
) -> ShrunkModel:
    """Shrink the average towards a start that was predicted, or towards 0.

    Args:
        average: (columns, outputs).
        noise: Its noise.
        kind: The loss.
        rule: "evidence", "stein", or "none".
        start: The chosen prediction, or None.
        trust: Its own variances, (columns, outputs) or (columns,), if there is one.
        intercept: Whether the last column is constant.
    """
    if rule == "none" or (start is None and kind != "squared"):
        return ShrunkModel(
            theta=average, factor=None, variance=noise.variance / np.maximum(noise.arrived, LEAST_H) ** 2
        )
    variance = np.broadcast_to(noise.variance[:, None], average.shape)
    towards = np.zeros_like(average) if start is None else start
    if rule == "stein":
        share = stein_share(average - towards, variance)
        return ShrunkModel(theta=towards + share * (average - towards), factor=share, variance=noise.variance)
    if start is None:
        kept, factor = _alone(average, noise, intercept=intercept)
        # slopes of variance κ, seen as arrived·slope plus noise, are known to within this
        unknown = noise.variance * kept[:, 0] / np.maximum(noise.arrived, LEAST_H)
        return ShrunkModel(theta=kept * average, factor=factor, variance=unknown)
    assert trust is not None
    own = np.broadcast_to(trust if trust.ndim == 2 else trust[:, None], average.shape)
    factor = most_evidence(average - towards, variance, own)
    kept = factor * own / (factor * own + variance)
    unknown = (kept * variance).max(axis=1)  # κ·v·N/(κ·v + N)
    return ShrunkModel(theta=towards + kept * (average - towards), factor=factor, variance=unknown)


def _alone(average: Floats, noise: AverageNoise, *, intercept: bool) -> tuple[Floats, float]:
    """Return what is kept of an average of one output, (columns, 1), and the κ that says so; the constant stays."""
    slopes = len(average) - intercept
    variance, arrived = noise.variance[:slopes], noise.arrived[:slopes]
    factor = likely_size(average[:slopes, 0], variance, arrived, total=float(noise.h[:slopes].sum()))
    kept = np.ones(average.shape)
    kept[:slopes, 0] = np.minimum(factor * arrived / (factor * arrived**2 + variance), 1.0)
    return kept, factor


def likely_size(average: Floats, variance: Floats, arrived: Floats, *, total: float) -> float:
    """Return the most probable mean square κ of true slopes, whose average is arrived·slope plus noise.

    Args:
        average: The slopes of the average.
        variance: Of its noise.
        arrived: Its share of the way.
        total: What κ times this is is the variance of predictions, which `_EXPECTED` is expected of.
    """

    def evidence(factor: float) -> float:
        together = factor * arrived**2 + variance
        off = math.log(factor * total / _EXPECTED) / _EXPECTED_SPREAD
        return float(-0.5 * np.sum(np.log(together) + average**2 / together)) - 0.5 * off**2

    return max(_ALONE, key=evidence)


def most_evidence(distance: Floats, variance: Floats, trust: Floats) -> float:
    """Return the κ under which distances of variance κ·trust + variance are most probable, times a prior about 1.

    A coordinate of which the prediction says nothing is no evidence for it.
    """
    stated = trust < UNKNOWN

    def evidence(factor: float) -> float:
        total = (factor * trust + variance)[stated]
        return float(-0.5 * np.sum(np.log(total) + distance[stated] ** 2 / total) - 0.5 * (math.log(factor) / 2) ** 2)

    return max(_TOWARDS, key=evidence)


def stein_share(distance: Floats, variance: Floats) -> float:
    """Return 1 - (p - 2)/‖distance in units of its noise‖², at least 0: what Theorem H keeps of it."""
    size = float(np.sum(distance**2 / variance))
    if distance.size < 3:
        return 1.0
    return max(0.0, 1.0 - (distance.size - 2) / size) if size > 0 else 0.0
