"""What is public about a fit afterwards: its promise (`privacy_`), its prediction (`prediction_`) and its error.

Read from the plan and from what was released, never from rows. The error of objective perturbation is a theorem: noise
b added to a λ-strongly convex objective moves its minimum by at most ‖b‖/λ. That of a descent is an estimate: the
first-order noise of its average, in each direction as far as it was kept. Neither is needed for privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from sidelight.guarantees import Claims, Neighbours, short_text
from sidelight.regression.descent.fit import FittedDescent
from sidelight.regression.descent.plan import DescentPlan
from sidelight.regression.descent.rules import Shares
from sidelight.regression.model_predictions import PublicExamples
from sidelight.regression.plan import LinearPlan
from sidelight.regression.predicted_objective import PredictedPlan
from sidelight.release import TailBound


@dataclass(frozen=True, kw_only=True)
class FittedPrivacy:
    """The promise of one fit and the constants that it follows from. Nothing here depends on the data.

    Args:
        epsilon: The promise; with `delta` for `neighbours`.
        delta: The promise.
        delta_removed: The delta proved at `epsilon` for a row removed.
        delta_added: The same for a row added.
        neighbours: What two data sets differ by.
        unit: What is added or removed.
        noise_scale: σ, of each entry of the linear term.
        regularisation: λ, with the sum of the losses.
        tolerance: τ, the certified bound of the gradient.
        output_noise_scale: σ_out, added to every coefficient.
        row_norm: R, the bound of a row with its constant column.
        loss: The loss and its parameters.
        bound: The theorem.
        predictions: How many predictions were given.
        beforehand: The pure epsilon of choosing between them and none, and of the count: a part of `epsilon`.
        chosen: The place of the prediction that was used, or None.
        believed: 1 where a prediction was used: objective perturbation chooses one and does not shrink.
        rows: The number of rows that it was weighed with, declared or released; None without predictions.
    """

    epsilon: Fraction
    delta: Fraction
    delta_removed: Fraction
    delta_added: Fraction
    neighbours: Neighbours
    unit: Any
    noise_scale: Fraction
    regularisation: Fraction
    tolerance: Fraction
    output_noise_scale: Fraction
    row_norm: Fraction
    loss: dict[str, str]
    bound: str
    predictions: int = 0
    beforehand: Fraction = Fraction(0)
    chosen: int | None = None
    believed: float | None = None
    rows: float | None = None
    claims: Claims = field(repr=False)
    plan: LinearPlan = field(repr=False)

    @classmethod
    def of(cls, given: LinearPlan | PredictedPlan, claims: Claims, *, value: Mapping[str, Any]) -> FittedPrivacy:
        """Read them off a plan and its release. With a choice, the deltas are the composed one."""
        predicted = given if isinstance(given, PredictedPlan) else None
        plan = given.fit if isinstance(given, PredictedPlan) else given
        m = plan.mechanism
        removed, added = m.deltas(plan.epsilon) if predicted is None else (plan.delta, plan.delta)
        more: dict[str, Any] = {}
        if predicted is not None:
            chosen = int(value["chosen"])
            more = {
                "predictions": len(predicted.centres),
                "beforehand": predicted.beforehand,
                "chosen": None if chosen < 0 else chosen,
                "believed": None if chosen < 0 else 1.0,
                "rows": float(value["rows"]),
            }
        return cls(
            **more,
            epsilon=plan.epsilon if predicted is None else predicted.epsilon,
            delta=plan.delta,
            delta_removed=removed,
            delta_added=added,
            neighbours=Neighbours.ADD_REMOVE,
            unit=plan.unit,
            noise_scale=m.noise_scale,
            regularisation=m.regularisation,
            tolerance=m.tolerance,
            output_noise_scale=m.output_noise_scale,
            row_norm=plan.row_norm,
            loss=plan.loss.to_json(),
            bound=m.bound,
            claims=claims,
            plan=plan,
        )

    def pld(self, *, step: float = 1e-4) -> Any:
        """Return dp_accounting's privacy loss distribution of the whole model, pessimistic, to compose with others."""
        if self.predictions:
            from dp_accounting.pld import common, privacy_loss_distribution

            # pure parts and the fit's profiles, composed: at most the stated (ε, δ) at ε
            pure = common.DifferentialPrivacyParameters(float(self.beforehand) * (1 + 1e-12), 0.0)
            first = privacy_loss_distribution.from_privacy_parameters(pure, value_discretization_interval=step)
            return first.compose(self.plan.mechanism.loss_distribution(step=step))
        return self.plan.mechanism.loss_distribution(step=step)

    def __str__(self) -> str:
        return (
            f"({short_text(self.epsilon)}, {short_text(self.delta)})-DP, {self.neighbours} {self.unit}; "
            f"{self.loss['loss']} loss, noise {short_text(self.noise_scale)}, "
            f"regularisation {short_text(self.regularisation)}"
        )


@dataclass(frozen=True, kw_only=True)
class StepwisePrivacy:
    """The promise of a fit by noisy gradients. Nothing here depends on the data but by releases.

    Args:
        epsilon: The promise; with `delta` for `neighbours`.
        delta: The promise.
        mu: The Gaussian differential privacy that the fit has, exact on the machine.
        neighbours: What two data sets differ by.
        unit: What is added or removed.
        shares: How mu² was divided between the parts of the fit.
        loss: The loss and its parameters.
        passes: How many steps were taken.
        rows: The number of rows that the steps were made for: declared, or released, and then a little too large.
        noise_to_signal: The noise of one step relative to the step; above 1 the noise outweighs the rows.
        chosen: The place of the prediction that the steps started from, or None.
        believed: How far the model was drawn (κ), None where it was not.
        predictions: How many predictions were given.
    """

    epsilon: Fraction
    delta: Fraction
    mu: Fraction
    neighbours: Neighbours
    unit: Any
    shares: Any
    loss: dict[str, str]
    passes: int
    rows: float
    noise_to_signal: float
    chosen: int | None
    believed: float | None
    predictions: int = 0
    claims: Claims = field(repr=False)

    @staticmethod
    def _read(plan: Any, claims: Claims, value: Mapping[str, Any], *, believed: float) -> dict[str, Any]:
        """Read them off a plan and what it released; a negative κ says that nothing was drawn."""
        return {
            **{name: getattr(plan, name) for name in ("epsilon", "delta", "mu", "unit", "shares")},
            "neighbours": Neighbours.ADD_REMOVE,
            "loss": plan.targets.to_json(),
            "passes": int(value["passes"]),
            "rows": float(value["rows"]),
            "noise_to_signal": float(value["noise_to_signal"]),
            "chosen": None if int(value["chosen"]) < 0 else int(value["chosen"]),
            "believed": None if believed < 0 else believed,
            "predictions": len(plan.candidates),
            "claims": claims,
        }

    def pld(self, *, step: float = 1e-4) -> Any:
        """Return dp_accounting's privacy loss distribution of the fit, pessimistic, to compose with others."""
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_gaussian_mechanism(1 / float(self.mu), value_discretization_interval=step)


@dataclass(frozen=True, kw_only=True)
class DescentPrivacy(StepwisePrivacy):
    """The promise of one descent, and what was released on the way.

    Args:
        shares: How mu² was divided between the Gram matrices, the counts, the choice, the steps and the offset.
        geometry: "private", "public" or "none".
        clip: Where a row's gradient was clipped.
    """

    shares: Shares
    geometry: str
    clip: float

    @classmethod
    def of(cls, plan: DescentPlan, claims: Claims, value: Mapping[str, Any]) -> DescentPrivacy:
        """Read them off a plan and what it released."""
        plan = plan.settled(value)
        read = cls._read(plan, claims, value, believed=float(value["believed"]))
        return cls(**read, geometry=plan.geometry, clip=float(value["clip"]))

    def __str__(self) -> str:
        return (
            f"({short_text(self.epsilon)}, {short_text(self.delta)})-DP, {self.neighbours} {self.unit}; "
            f"{self.loss['loss']} loss, descent of {self.passes} steps, mu {short_text(self.mu)}"
        )


@dataclass(frozen=True, kw_only=True)
class UsedPrediction:
    """What a fit made of its predictions: released, so it may be published.

    Args:
        given: How many predictions there were.
        chosen: The place of the one that was used, or None.
        believed: The factor κ by which its own doubts were multiplied; None where nothing was drawn to it. About 1: it
            is as good as it says; much above: it is not.
        rows: The number of rows that the fit counted with, released or declared.
        description: What was given and where it came from.
    """

    given: int
    chosen: int | None
    believed: float | None
    rows: float
    description: str

    def __str__(self) -> str:
        if self.chosen is None:
            return f"none of {self.given} prediction(s) was used: the rows disagree, or a draw did"
        if self.believed is None:
            return f"prediction {self.chosen} of {self.given} was the start; the model was not drawn towards it"
        return f"prediction {self.chosen} of {self.given} was used; its doubts were counted ×{self.believed:g}"

    @classmethod
    def of(cls, privacy: Any, described: Mapping[str, Any] | None) -> UsedPrediction:
        """Read it off a fit."""
        return cls(
            given=privacy.predictions,
            chosen=privacy.chosen,
            believed=privacy.believed if privacy.chosen is not None else None,
            rows=privacy.rows,
            description="" if described is None else str(described["description"]),
        )


#: Square roots of log(1/failure) are bounded by their tangent here, so that the bound is sharpest at 95 %.
_TANGENT = math.log(20)
#: What a normal number exceeds with probability 1/20, and how that grows there with log(1/probability).
_NORMAL = NormalDist().inv_cdf(0.95)
_NORMAL_RISE = 0.05 / NormalDist().pdf(_NORMAL)
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
#: No two probabilities are further apart.
_LARGEST = {"logistic": 100.0, "softmax": 100.0}
#: Models are further off than their first-order noise: curvature is guessed. How often it then held on generated sets
#: with other seeds: `benchmarks/linear_errors.py`.
_WIDER, _WIDER_CLASSES = 1.25, 1.5


def descent_error(plan: DescentPlan, fitted: FittedDescent) -> TailBound:
    """Return how far predictions for usual rows are from the best linear model's, in the root mean square; an estimate.

    Of classes in their probabilities. Without a map: from those of the same steps without noise, which end elsewhere.

    Noise alone, a mean of weighted squares of normal numbers, exceeds S + 2√(Q·t) + 2·m·t with probability at most
    exp(-t) (Laurent and Massart), S their sum, Q the sum of their squares, m the largest: its root is at most
    √S + √(2·m·t). With a bias b whose size is known it is √(b² + S) + √m·s, exceeded with the probability that a normal
    number exceeds s: of classes (descent proof page, Theorem N). Of a number the distance from the one-step estimate
    says how large bias and noise are (`OneStepDistance`).
    """
    kind = plan.targets.kind
    unit = _WIDER * plan.targets.half if kind == "squared" else _WIDER_CLASSES * 100
    weights = np.clip(np.nan_to_num(fitted.error, nan=_MOST), 0.0, _MOST)
    largest_deviation = unit * math.sqrt(float(weights.max()))
    # what hidden columns may predict, and what steps left, is not noise: it is added to the sum, and has no tail
    left, of_noise = fitted.unseen + fitted.remaining, float(weights.sum())
    if fitted.one_step is not None:
        fixed, rise = fitted.one_step.error(_WIDER * math.sqrt(of_noise), _WIDER * math.sqrt(float(weights.max())))
        half = plan.targets.half
        found = _normal_tangent(math.hypot(half * max(fixed, 0.0), unit * math.sqrt(left)), half * rise)
    elif kind == "squared":
        found = _tangent(unit * math.sqrt(of_noise + left), math.sqrt(2) * largest_deviation)
    else:
        found = _normal_tangent(math.hypot(100 * fitted.bias, unit * math.sqrt(of_noise + left)), largest_deviation)
    assumption, largest = _assumed(plan, fitted), _LARGEST.get(kind, math.inf)
    return TailBound(unit=_UNITS.get(kind, _NUMBER), assumption=assumption, proved=False, largest=largest, **found)


def _assumed(plan: DescentPlan, fitted: FittedDescent) -> str:
    """Return what the error of a descent rests on, and what it is counted from."""
    if fitted.geometry.map is None:
        return "rows are no longer than declared (root mean square of rows; beside the same steps without noise)"
    assumptions, beside = ["rows vary as was released"], "the same steps without noise"
    if fitted.unseen:
        assumptions = [
            "rows vary as was released, and columns that noise hides predict no more than half the target's range"
        ]
    elif fitted.geometry.hides:
        assumptions.append("combinations of columns that noise hides predict nothing that no step shows")
    started = None if fitted.chosen is None else plan.candidates[fitted.chosen]
    if started is not None:  # it was drawn to it as far as it says that it may be off
        assumptions.append("the prediction is as good as it says")
    if plan.targets.kind == "squared" or plan.shares.offset:
        beside = "the best linear model"
    if fitted.one_step is not None:
        assumptions.append("the clip moves the model no further than its first step shows")
    elif plan.targets.kind == "squared" and not isinstance(started, PublicExamples):  # no step is free of its bias
        assumptions.append("the clip takes as much off errors that are too high as off those that are too low")
    return f"{', '.join(assumptions)} (root mean square of rows; beside {beside})"


def objective_error(plan: LinearPlan) -> TailBound:
    """Return how far a prediction for any one row can be from that of the minimum without noise."""
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
        fixed=(found["fixed"][0] + found["per_log"][0] * math.log(2),),
        per_log=found["per_log"],
        largest=_LARGEST.get(name, math.inf),
    )


def _tangent(fixed: float, slope: float) -> dict[str, Any]:
    """Return fixed + slope·√t as a straight line in t that is nowhere below it."""
    return {
        "fixed": (min(fixed + slope * math.sqrt(_TANGENT) / 2, _MOST),),
        "per_log": (min(slope / (2 * math.sqrt(_TANGENT)), _MOST),),
    }


def _normal_tangent(fixed: float, deviation: float) -> dict[str, Any]:
    """Return fixed + deviation·s as a straight line in t that is nowhere below it.

    A normal number exceeds s with probability exp(-t); s is a concave function of t, since that tail is log-concave.
    """
    return {
        "fixed": (min(fixed + deviation * (_NORMAL - _NORMAL_RISE * _TANGENT), _MOST),),
        "per_log": (min(deviation * _NORMAL_RISE, _MOST),),
    }


def _finite(value: Fraction) -> float:
    """Return a number of any size as a float: this is after the charge, where nothing may fail."""
    return float(min(value, Fraction(_MOST)))
