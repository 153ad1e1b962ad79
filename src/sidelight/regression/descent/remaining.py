"""What the last steps of a descent show that is left to go: free, from the released path.

The mean of the last noisy gradients is zero within its noise where the average of the last points has arrived. Where it
is not, the steps were too few, or too short because the released matrix did not show how little rows vary along a
direction: nearly equal columns, say. How far predictions are off then depends on how much rows vary there, which is
counted at the least that the matrix or the path leaves open (descent proof page, section 5).

Slopes of classes that a column separates grow without end, by less and less: the mean gradient along them says how much
steeper those may be that the labels have, and its noise how much that could not be seen.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import softmax

from sidelight.regression.descent.base_rates import Predictors, normal_rows
from sidelight.regression.descent.geometry import UNSEEN, Floats, Geometry
from sidelight.regression.descent.rules import CURVATURE, Kind, Schedule
from sidelight.regression.descent.shrinkage import SQUARED_CURVATURE

#: A mean gradient shows something from this many deviations of its noise on, and certainly from this many.
_SHOWN, _CERTAIN = 2.0, 3.5
#: Columns of z are taken to vary at least this much, and less where a gradient is certain.
_LEAST: dict[bool, tuple[float, float]] = {True: (0.002, 0.0003), False: (0.04, 0.008)}
#: The most that is stated: half of the target's range, or, of classes, 50 points; before the factors 1.25 and 1.5 of
#: the statement.
_MOST: dict[bool, float] = {True: UNSEEN, False: 1 / 9}
#: A gradient is the mean of z times the error of a probability, which is larger than its part that is linear in z: 4
#: times with the factor of the statement.
_NOT_LINEAR = 4 / 1.5
#: The variance that the path shows is taken to be this share of what it is by this many deviations less.
_OF_PATH, _DEVIATIONS = 0.5, 3.0
#: The mean of the last gradients is taken before the last of their steps; at least this share is left after it.
_LEAST_LEFT = 0.25
#: Labels are taken to have slopes steeper by one of these: so steep as the last is as good as separated.
_STEEPER = 2.0 ** np.arange(0.5, 5.01, 0.5)
#: Shares of classes are looked for so closely.
_CLOSE = 0.001
#: The gradient along the slopes is taken to be up to so many times the released one, and probabilities up to so many
#: times as far off, because predictors need not be normal.
_NOT_NORMAL, _FURTHER = 3.0, 1.4


@np.errstate(all="ignore")
def remaining(
    path: Floats,
    geometry: Geometry,
    *,
    kind: Kind,
    steps: Schedule,
    step_noise: float,
    constant: bool,
    mean_weight: float = 1.0,
) -> float:
    """Return the mean square by which predictions are off for steps that are left, in half ranges² or probabilities².

    Args:
        path: (steps + 1, columns, outputs): the start and every point.
        geometry: The coordinates.
        kind: The loss.
        steps: Passes, clip and step.
        step_noise: The deviation of a gradient's noise, per row and curvature.
        constant: Whether the constant column counts: it does unless a release of its own sets it.
        mean_weight: Of rows: class weights shorten gradients by it, and make the curvature as much smaller.
    """
    lengths = steps.lengths(geometry.columns, intercept=geometry.intercept)[:, None]
    points, gradients = path[:-1], _gradients(path, lengths)
    noise = step_noise / math.sqrt(steps.tail)
    mean = np.abs(np.mean(gradients[-steps.tail :], axis=0))
    last = np.maximum(mean**2 - (_SHOWN * noise) ** 2, 0.0)
    number = kind == "squared"
    least = np.where(mean > _CERTAIN * noise, _LEAST[number][1], _LEAST[number][0])
    surely = (geometry.h if geometry.surely is None else geometry.surely)[:, None]
    if number:
        # the gradient is k·(point - end): its regression on the points shows k = curvature left by the clip · variance
        about = points - points.mean(axis=0)
        size = np.maximum(np.sum(about**2, axis=0), np.finfo(np.float64).tiny)
        found = np.sum(about * gradients, axis=0) / size - _DEVIATIONS * step_noise / np.sqrt(size)
        varied = np.maximum(np.maximum(surely, _OF_PATH * found / SQUARED_CURVATURE), least)
        per_gradient = 1 / (SQUARED_CURVATURE**2 * varied)
        stepped = SQUARED_CURVATURE * _OF_PATH * varied
    else:
        varied = np.maximum(surely, least)
        per_gradient = (_NOT_LINEAR * CURVATURE[kind]) ** 2 / varied
        stepped = 0.0 * varied
    left = np.clip(1 - lengths * stepped, _LEAST_LEFT, 1.0)
    off = np.nan_to_num(last * per_gradient * left**2, nan=math.inf)
    counted = geometry.columns if constant else geometry.columns - geometry.intercept
    return float(min(np.max(np.sum(off[:counted], axis=0)), _MOST[number])) / mean_weight**2


@np.errstate(all="ignore")
def steeper(
    path: Floats,
    geometry: Geometry,
    theta: Floats,
    *,
    kind: Kind,
    steps: Schedule,
    step_noise: float,
    mean_weight: float = 1.0,
) -> float:
    """Return the root mean square by which probabilities are off for slopes of classes that were still growing.

    Under normal predictors with the released variances the clipped gradient along the slopes of the last points is
    known for labels of the same law with slopes that are steeper: the steepest that the released gradient and its noise
    leave open are compared with the final ones.

    Args:
        path: (steps + 1, columns, outputs): the start and every point.
        geometry: The coordinates, with a constant column.
        theta: The final coefficients, (columns, outputs).
        kind: The loss.
        steps: Passes, clip and step.
        step_noise: The deviation of a gradient's noise, per row and curvature.
        mean_weight: Of rows, as above.
    """
    lengths = steps.lengths(geometry.columns, intercept=True)[:, None]
    ended = np.mean(path[:-1][-steps.tail :], axis=0)
    gradient = CURVATURE[kind] * np.mean(_gradients(path, lengths)[-steps.tail :], axis=0)
    along = -float(np.sum(gradient[:-1] * ended[:-1]))
    noise = CURVATURE[kind] * step_noise / math.sqrt(steps.tail) * float(np.linalg.norm(ended[:-1]))
    limit = (_NOT_NORMAL * max(along, 0.0) + _DEVIATIONS * noise) / mean_weight
    if not 0 < limit < math.inf:
        return 0.0
    varied = (geometry.h if geometry.likely is None else geometry.likely)[:-1]
    clip = steps.clip
    if kind == "logistic":  # as two classes of a softmax: an error is √2 times as long
        ended, theta = (np.hstack([-each / 2, each / 2]) for each in (ended, theta))
        clip *= math.sqrt(2)
    rows = normal_rows(varied)
    law = Predictors.of(rows, ended[:-1])
    said = softmax(law.places + ended[-1], axis=1)
    # of a row in class k the error is e_k - said: its squared length, and its product with the predictors
    squares = np.maximum(1 - 2 * said + np.sum(said**2, axis=1, keepdims=True), 0.0)
    lengths = np.sqrt(squares * (1 + np.sum(rows**2, axis=1, keepdims=True)))
    gained = (law.places - np.sum(law.places * said, axis=1, keepdims=True)) * np.minimum(1.0, clip / lengths)
    kept = float(np.linalg.norm(theta[:-1]) / np.linalg.norm(ended[:-1]))
    found = softmax(kept * law.places + theta[-1], axis=1)
    shares, constants, most = law.weights @ found, theta[-1], 0.0
    for factor in _STEEPER:
        true = Predictors(places=kept * factor * law.places, weights=law.weights)
        constants = true.constants(shares, start=constants * _STEEPER[0], close=_CLOSE)
        chances = softmax(true.places + constants, axis=1)
        if not float(law.weights @ np.sum(chances * gained, axis=1)) <= limit:
            break
        most = float(np.sqrt(law.weights @ (chances - found) ** 2).max())
    return _FURTHER * most


def _gradients(path: Floats, lengths: Floats) -> Floats:
    """Return the released gradients, per row and curvature, from the points before and after them."""
    return np.asarray((path[:-1] - path[1:]) / lengths)
