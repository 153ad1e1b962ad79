"""How far the log odds of clipped steps are drawn back, so that probabilities are as sure as they may be.

Two things stretch them. The clip takes more off the gradients of rows that a model gets wrong, so that its steps end
where probabilities are too sure; and noise makes slopes longer. Both are known: clip and noise are public or released,
and how the predictors of rows vary follows from the released matrix. So the same steps are taken again without noise,
for rows that are normal numbers, and true log odds are looked for from which they end where the noisy ones did. Free,
as it is computed from released numbers; and as all log odds are drawn back by one share, no row changes its class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sidelight.regression.descent.geometry import Floats
from sidelight.regression.descent.rules import CURVATURE, Schedule

#: Two independent standard normal numbers: nodes, and the weight of each pair.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_FIRST, _SECOND = np.meshgrid(_NODES, _NODES, indexing="ij")
_PAIRS = np.outer(_WEIGHTS, _WEIGHTS) / _WEIGHTS.sum() ** 2
#: Noise is never taken to be more than this of the slopes; no true log odds are a smaller share of clipped ones.
_MOST_NOISE, _LEAST = 0.5, 1 / 16
_HALVINGS = 10
#: Slopes and constant are solved for in turn, so often; a constant is looked for up to here.
_ROUNDS, _FARTHEST_CONSTANT = 2, 8.0
#: How far a true constant is moved to see how far its end moves.
_NEAR = 0.1
#: Beyond, a probability is 0 or 1.
_FARTHEST = 500.0
#: Public rows that do not vary, beside a matrix that says little, leave no column to make steps for: all of h is 0.
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

    What is not noise of the slopes' variance is kept of them, as the best guess of a true slope from a noisy one; and
    of that, as much as the clip has not stretched. It never fails, whatever was released: what cannot be told is 1,
    and None.

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
    varied, unknown = float(likely[:-1] @ theta[:-1] ** 2), float(likely[:-1] @ noise[:-1])
    if not (0 < varied < math.inf and unknown < math.inf):
        return 1.0, None
    told = 1.0 - min(unknown / varied, _MOST_NOISE)
    stepped = float(h[:-1] @ theta[:-1] ** 2)
    if not _LEAST_SIZE < stepped < math.inf:  # steps without noise go nowhere along it, so that the clip takes nothing
        return told, None
    ended = math.sqrt(told) * theta
    if not intercept:
        return told * _unstretched(ended, h, 0.0, steps=steps), None
    share, truth = 1.0, 0.0
    for _ in range(_ROUNDS):
        share = _unstretched(ended, h, truth, steps=steps)
        truth = _true_constant(ended, h, float(theta[-1]), share=share, steps=steps)
    ends = [clipped_end(ended, h, share=share, truth=truth + each, steps=steps)[1] for each in (-_NEAR, _NEAR)]
    moved = max((ends[1] - ends[0]) / (2 * _NEAR), _LEAST)
    said = float(np.sum(_PAIRS * _chance(truth + share * math.sqrt(told * stepped) * _FIRST)))
    variance = float(noise[-1]) / moved**2
    return told * share, Rate(said, variance) if 0 < said < 1 and variance < math.inf else None


def _unstretched(ended: Floats, h: Floats, truth: float, *, steps: Schedule) -> float:
    """Return the share of slopes, at most 1, from which clipped steps end at these."""
    low, high = _LEAST, 1.0
    if clipped_end(ended, h, share=high, truth=truth, steps=steps)[0] <= 1:
        return 1.0
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        beyond = clipped_end(ended, h, share=middle, truth=truth, steps=steps)[0] > 1
        low, high = (low, middle) if beyond else (middle, high)
    return math.sqrt(low * high)


def _true_constant(ended: Floats, h: Floats, constant: float, *, share: float, steps: Schedule) -> float:
    """Return the true constant from which clipped steps end at this one."""
    low, high = -_FARTHEST_CONSTANT, _FARTHEST_CONSTANT
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = clipped_end(ended, h, share=share, truth=middle, steps=steps)[1] > constant
        low, high = (low, middle) if beyond else (middle, high)
    return (low + high) / 2


def clipped_end(theta: Floats, h: Floats, *, share: float, truth: float, steps: Schedule) -> tuple[float, float]:
    """Return how far steps without noise go in the direction of theta, and to which constant.

    Rows are normal numbers z with mean squares h, beside a constant 1, all as long as a usual one, so that an error is
    clipped to c. Of a function e of u = z·point and t = z·theta, E[z·e] = h·(point·α + theta·β) with β = E[∂e/∂t] and
    α·E[u²] + β·E[u·t] = E[u·e] (Stein), u and t about their means: two numbers a step, whatever the columns are.

    Args:
        theta: A direction with its length, (columns,), the constant last and not used.
        h: Mean squares of the columns.
        share: What of theta are the true slopes.
        truth: The true constant.
        steps: Passes, clip and step.
    """
    slopes, weights, clip = theta[:-1], h[:-1] * theta[:-1], steps.clip_share
    size = float(weights @ slopes)
    point, total, constant = np.zeros_like(theta), 0.0, 0.0
    chance = _chance(truth + share * math.sqrt(size) * _FIRST)
    for step in range(steps.passes):
        along, spread = float(weights @ point[:-1]) / size, float(h[:-1] @ point[:-1] ** 2)
        about = along * math.sqrt(size) * _FIRST + math.sqrt(max(spread - along * along * size, 0.0)) * _SECOND
        said = _chance(point[-1] + about)
        of_one, of_other = np.maximum(said - 1, -clip), np.minimum(said, clip)
        error = chance * of_one + (1 - chance) * of_other
        beta = share * float(np.sum(_PAIRS * chance * (1 - chance) * (of_one - of_other)))
        alpha = (float(np.sum(_PAIRS * about * error)) - along * size * beta) / spread if spread > 0 else 0.0
        gradient = np.append(h[:-1] * (point[:-1] * alpha + slopes * beta), np.sum(_PAIRS * error))
        point = point - steps.step / CURVATURE["logistic"] * gradient
        if step >= steps.passes - steps.tail:
            total += float(weights @ point[:-1]) / size
            constant += float(point[-1])
    return total / steps.tail, constant / steps.tail


def _chance(log_odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -_FARTHEST, _FARTHEST))))
