"""How far off a released linear model is, from released and public numbers: what `release.error` of a model says.

Objective perturbation: a theorem. Noise b beside a λ-strongly convex objective moves its minimum by at most ‖b‖/λ.
Descent: the first-order noise of its average, in each direction as far as it was kept: an estimate, no theorem.
Neither reads a row, and neither is needed for privacy.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.regression.descent.fit import FittedDescent
from sidelight.regression.descent.plan import DescentPlan
from sidelight.regression.model_predictions import PublicExamples
from sidelight.regression.plan import LinearPlan
from sidelight.release import TailBound

#: Square roots of log(1/failure) are bounded by their tangent here, so that the bound is sharpest at 95 %.
_TANGENT = math.log(20)
#: An error is written as a finite number, whatever the parameters are: beyond every range that a target can have.
_MOST = 1e305
_UNITS = {
    "logistic": "percentage points, in a predicted probability",
    "softmax": "percentage points, in a predicted probability",
    "smoothed_hinge": "in the decision value (1 is the margin)",
    "poisson": "in the logarithm of an expected count",
}
_NUMBER = "in a prediction of the target"
#: By how many percentage points a probability moves at most when log odds move by 1, and those of several classes.
_POINTS = {"logistic": 25.0, "softmax": 50.0}
#: Models are further off than their first-order noise: curvature is guessed. How often it then held on generated sets
#: with other seeds: `benchmarks/linear_errors.py`.
_WIDER, _WIDER_CLASSES = 1.25, 2.0


def descent_error(plan: DescentPlan, fitted: FittedDescent) -> TailBound:
    """Return how far predictions for usual rows are from the best linear model's, in the root mean square; an estimate.

    Of classes in their probabilities. Without a map: from those of the same steps without noise, which end elsewhere.

    A mean of weighted squares of normal numbers exceeds S + 2√(Q·t) + 2·m·t with probability at most exp(-t) (Laurent
    and Massart), S their sum, Q the sum of their squares, m the largest: its root is at most √S + √(2·m·t).
    """
    kind = plan.targets.kind
    # what hidden columns may predict is no noise: it is added to the sum, and has no tail
    unit = _WIDER * plan.targets.half if kind == "squared" else _WIDER_CLASSES * 100
    weights = np.clip(np.nan_to_num(fitted.error, nan=_MOST), 0.0, _MOST)
    slope = unit * math.sqrt(2 * float(weights.max()))
    found = _tangent(100 * fitted.bias + unit * math.sqrt(float(weights.sum()) + fitted.unseen), slope)
    if kind != "squared" and found["fixed"][0] + found["per_log"][0] * _TANGENT > 100:
        found = {"fixed": (100.0,), "per_log": (0.0,)}  # no two probabilities are further apart
    return TailBound(unit=_UNITS.get(kind, _NUMBER), assumption=_assumed(plan, fitted), proved=False, **found)


def _assumed(plan: DescentPlan, fitted: FittedDescent) -> str:
    """Return what the error of a descent rests on, and what it is counted from."""
    if fitted.geometry.map is None:
        return "rows are no longer than declared (root mean square of rows; beside the same steps without noise)"
    told, beside = ["rows vary as was released"], "the same steps without noise"
    if fitted.unseen:
        told = ["rows vary as was released, and columns that noise hides predict no more than half the target's range"]
    started = None if fitted.chosen is None else plan.candidates[fitted.chosen]
    if started is not None:  # it was drawn to it as far as it says that it may be off
        told.append("the prediction is as good as it says")
    if plan.targets.kind == "squared" or plan.shares.offset:
        beside = "the best linear model"
    if plan.targets.kind == "squared" and not isinstance(
        started, PublicExamples
    ):  # nobody says what the clip takes off
        told.append("errors of the best linear model are not strongly skewed")
    return f"{', '.join(told)} (root mean square of rows; beside {beside})"


def objective_error(plan: LinearPlan, *, fits: int = 1) -> TailBound:
    """Return how far a prediction for any one row can be from that of the minimum without noise, of several fits."""
    name = str(plan.loss.to_json().get("loss"))
    m, norm = plan.mechanism, _finite(plan.row_norm) * _POINTS.get(name, 1.0)
    entries = plan.coefficients * plan.loss.outputs
    moved, rounded = norm * _finite(m.noise_scale / m.regularisation), norm * _finite(m.output_noise_scale)
    still = norm * _finite(m.tolerance / m.regularisation) + moved * math.sqrt(entries)
    slope = math.sqrt(2) * (moved + rounded)
    found = _tangent(still, slope)
    return TailBound(
        unit=_UNITS.get(name, _NUMBER),
        assumption="the row is no longer than declared; beside the regularised model without noise",
        fixed=(found["fixed"][0] + found["per_log"][0] * math.log(2 * fits),),
        per_log=found["per_log"],
    )


def _tangent(fixed: float, slope: float) -> dict[str, Any]:
    """Return fixed + slope·√t as a straight line in t that is nowhere below it."""
    return {
        "fixed": (min(fixed + slope * math.sqrt(_TANGENT) / 2, _MOST),),
        "per_log": (min(slope / (2 * math.sqrt(_TANGENT)), _MOST),),
    }


def _finite(value: Fraction) -> float:
    """Return a number of any size as a float: this is after the charge, where nothing may fail."""
    return float(min(value, Fraction(_MOST)))
