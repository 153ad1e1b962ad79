"""How far clip and noise stretch the log odds of a classifier, and what is kept of its slopes.

All from public and released numbers, for free. What is not noise of the slopes' variance is kept of them. Of two
classes the same steps are taken again without noise, too, for rows that are normal numbers, and true log odds are
looked for from which they end where the noisy ones did (of more classes this gained nothing). One share draws all
back, so no row changes its class (descent proof page, section 5).
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from sidelight.regression.descent.geometry import Floats
from sidelight.regression.descent.rules import CURVATURE, Schedule

#: Two independent standard normal numbers: nodes, and the weight of each pair.
_PAIR_NODES, _PAIR_WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_FIRST, _SECOND = (each.ravel() for each in np.meshgrid(_PAIR_NODES, _PAIR_NODES, indexing="ij"))
_PAIRS = np.outer(_PAIR_WEIGHTS, _PAIR_WEIGHTS).ravel() / _PAIR_WEIGHTS.sum() ** 2
#: Noise is never taken to be more of slopes; no true log odds are a smaller share of clipped ones.
_MOST_NOISE, _LEAST_SHARE = 0.5, 1 / 16
_HALVINGS = 10
#: Less than this is a rounding.
_LEAST_STRETCH = 1e-12
#: Slopes and constant are solved for in turn, so often; a constant is looked for up to here, and moved so far.
_TURNS, _FARTHEST_CONSTANT, _NEAR = 2, 8.0, 0.1
#: Public rows that do not vary, with a matrix that says little, leave no column to make steps for: all of h is 0.
_LEAST_SIZE = 1e-200


@dataclass(frozen=True)
class Rate:
    """The share of the second class that steps tell of, and the variance of its log odds."""

    share: float
    variance: float


@np.errstate(all="ignore")
def true_log_odds(
    theta: Floats, noise: Floats, h: Floats, likely: Floats, *, steps: Schedule, intercept: bool = True
) -> tuple[float, Rate | None]:
    """Return which share of the slopes of two classes is kept, at most 1, and what the classes' shares then are.

    `told_share` of them, and of that as much as the clip has not stretched. It never fails, whatever was released: what
    cannot be estimated is 1, and None.

    Args:
        theta: The average of the last points, (columns,), in coordinates of z.
        noise: The variance of its noise.
        h: The mean squares of the columns of z that steps are made for.
        likely: The same with what the matrix's noise adds taken out.
        steps: Passes, clip and step.
        intercept: Whether the last column is constant.
    """
    if not intercept:
        theta, noise, h, likely = (
            np.append(each, last) for each, last in ((theta, 0), (noise, 0), (h, 1), (likely, 1))
        )
    signal = told_share(theta[:-1, None], noise[:-1], likely[:-1])
    if signal is None:
        return 1.0, None
    stepped = float(h[:-1] @ theta[:-1] ** 2)
    if not _LEAST_SIZE < stepped < math.inf:  # steps without noise go nowhere along it, so that the clip takes nothing
        return signal, None
    ended = math.sqrt(signal) * theta
    if not intercept:
        return signal * _unstretched(ended, h, 0.0, steps=steps), None
    share, truth = 1.0, 0.0
    for _ in range(_TURNS):
        share = _unstretched(ended, h, truth, steps=steps)
        truth = _true_constant(ended, h, float(theta[-1]), share=share, steps=steps)
    ends = [clipped_end(ended, h, share=share, truth=truth + each, steps=steps)[1] for each in (-_NEAR, _NEAR)]
    moved = max((ends[1] - ends[0]) / (2 * _NEAR), _LEAST_SHARE)
    said = float(_PAIRS @ expit(truth + share * math.sqrt(signal * stepped) * _FIRST))
    variance = float(noise[-1]) / moved**2
    return signal * share, Rate(said, variance) if 0 < said < 1 and variance < math.inf else None


@np.errstate(all="ignore")
def told_share(slopes: Floats, noise: Floats, likely: Floats) -> float | None:
    """Return the share of the variance of slopes, (columns, outputs), that is not noise; None if it is unknown.

    It is the best guess of a true slope from a noisy one. Noise of a softmax adds up to 0: it has one class less.
    """
    varied, unknown = float((likely @ slopes**2).sum()), float(likely @ noise) * max(slopes.shape[1] - 1, 1)
    if not (0 < varied < math.inf and unknown < math.inf):
        return None
    return float(1.0 - min(unknown / varied, _MOST_NOISE))


def _unstretched(ended: Floats, h: Floats, truth: float, *, steps: Schedule) -> float:
    """Return the share of slopes, at most 1, from which clipped steps end at these."""

    def beyond(share: float) -> float:
        return clipped_end(ended, h, share=share, truth=truth, steps=steps)[0] - 1

    stretch = beyond(1.0)
    if stretch <= _LEAST_STRETCH:
        return 1.0
    rise = -math.log(_LEAST_SHARE)  # of a share that ends where it should, along the intervals
    return _root(beyond, _LEAST_SHARE, 1.0, lambda low, high: math.sqrt(low * high), start=1 / (1 + stretch), rise=rise)


def _true_constant(ended: Floats, h: Floats, constant: float, *, share: float, steps: Schedule) -> float:
    """Return the true constant from which clipped steps end at this one."""

    def beyond(truth: float) -> float:
        return clipped_end(ended, h, share=share, truth=truth, steps=steps)[1] - constant

    most = _FARTHEST_CONSTANT
    return _root(beyond, -most, most, lambda low, high: (low + high) / 2, start=share * constant, rise=2 * most)


def _root(
    beyond: Callable[[float], float],
    low: float,
    high: float,
    middle: Callable[[float, float], float],
    *,
    start: float,
    rise: float,
) -> float:
    """Return the middle of that interval of repeated halvings in which an increasing function becomes positive.

    Which of them it is, is looked for from `start` along a line that rises by `rise` over all intervals, on the line
    between two values, and near it: a value takes a third of a millisecond.
    """

    def place(index: int) -> float:
        left, right, first, last = low, high, 0, 1 << _HALVINGS
        while first < index < last:
            half, between = (first + last) // 2, middle(left, right)
            left, first, right, last = (left, first, between, half) if index <= half else (between, half, right, last)
        return left if index == first else right

    first, last, step, values = 0, 1 << _HALVINGS, 1, dict[int, float]()
    slope, on_line = rise / last, False
    guess = min(max(bisect(range(last), start, key=place) - 1, 1), last - 1)
    while last - first > 1:
        value = values[guess] = beyond(place(guess))
        first, last, near = (first, guess, guess - step) if value > 0 else (guess, last, guess + step)
        if first in values and last in values:
            slope = (values[last] - values[first]) / (last - first)
        if on_line and first < near < last:
            guess, on_line, step = near, False, 2 * step
        elif on_line := slope > 0 and abs(value) < slope * (1 << _HALVINGS):
            guess += math.floor(-value / slope)
        else:
            guess = (first + last) // 2
        guess = min(max(guess, first + 1), last - 1)
    return middle(place(first), place(last))


def clipped_end(theta: Floats, h: Floats, *, share: float, truth: float, steps: Schedule) -> tuple[float, float]:
    """Return how far steps without noise go in the direction of theta, and to which constant.

    Rows are normal numbers z with mean squares h, and a constant 1, all as long as a usual one, so that an error is
    clipped to c. Of a function e of u = z·point and t = z·theta, E[z·e] = h·(point·α + theta·β) with β = E[∂e/∂t] and
    α·E[u²] + β·E[u·t] = E[u·e] (Stein), u and t about their means: two numbers a step, whatever the columns are.

    Args:
        theta: A direction with its length, (columns,), the constant last and not used.
        h: Mean squares of the columns.
        share: What of theta are the true slopes.
        truth: The true constant.
        steps: Passes, clip and step.
    """
    columns, slopes = h[:-1], theta[:-1]
    clip, least = np.full_like(_PAIRS, steps.clip_share), np.full_like(_PAIRS, -steps.clip_share)
    weights = columns * slopes
    size = float(weights @ slopes)
    root = math.sqrt(size)
    point, constant, total, constants = np.zeros_like(slopes), 0.0, 0.0, 0.0
    length = steps.step / CURVATURE["logistic"]
    chance = expit(truth + share * root * _FIRST)
    varied = _PAIRS * chance * (1 - chance)
    about, of_other, apart, error = (np.empty_like(_PAIRS) for _ in range(4))
    for step in range(steps.passes):
        along, spread = float(weights @ point) / size, float(columns @ point**2)
        np.multiply(_FIRST, along * root, out=about)
        about += np.multiply(_SECOND, math.sqrt(max(spread - along * along * size, 0.0)), out=error)
        expit(np.add(about, constant, out=apart), out=apart)
        np.minimum(apart, clip, out=of_other)
        apart -= 1
        np.maximum(apart, least, out=apart)
        apart -= of_other  # the error of a row of the second class, less that of another
        np.multiply(chance, apart, out=error)
        error += of_other
        error *= _PAIRS
        beta = share * float(varied @ apart)
        alpha = (float(about @ error) - along * size * beta) / spread if spread > 0 else 0.0
        point = point - length * (columns * (point * alpha + slopes * beta))
        constant -= length * float(np.add.reduce(error))
        if step >= steps.passes - steps.tail:
            total += float(weights @ point) / size
            constants += constant
    return total / steps.tail, constants / steps.tail
