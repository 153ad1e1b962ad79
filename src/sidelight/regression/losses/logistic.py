"""The logistic loss of two classes, f = w·log(1 + e^(-yu)), optionally with public class weights."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, decimal_text, positive
from sidelight.mechanisms.objective_perturbation import LossShape
from sidelight.regression.double_double import DoubleDouble
from sidelight.regression.losses.loss import Floats, Mask, positions_of


@dataclass(frozen=True, kw_only=True)
class LogisticLoss:
    """Two declared classes; the second is the positive one. Weights are public numbers, never counts of the data.

    Guarantee: with W the largest weight and R the norm bound, L = WR, β = WR²/4, f''‖x‖² <= a(R - a/W) at slope a, and
    f' keeps its sign. That is what brings the cost down to the Gaussian mechanism's.
    """

    classes: tuple[Any, Any]
    class_weights: tuple[Amount, Amount] = (1, 1)

    def __post_init__(self) -> None:
        if len(self.classes) != 2 or self.classes[0] == self.classes[1]:
            raise RangeError(f"the logistic loss needs two different classes, got {len(self.classes)}")
        for weight in self.class_weights:
            positive(weight, name="class weight")

    @property
    def name(self) -> str:
        return "logistic"

    @property
    def outputs(self) -> int:
        return 1

    def shape(self, row_norm: Fraction) -> LossShape:
        weight = max(positive(w, name="class weight") for w in self.class_weights)
        return LossShape(
            gradient=weight * row_norm,
            curvature=weight * row_norm * row_norm / 4,
            envelope="logistic",
            sign_definite=True,
        )

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        position, keep = positions_of(labels, self.classes)
        return np.where(position == 1, 1.0, -1.0)[:, None], keep

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        return np.asarray((self._weights(targets) * np.logaddexp(0.0, -targets * predictor))[:, 0])

    def slope(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        from scipy.special import expit

        return np.asarray(-targets * self._weights(targets) * expit(-targets * predictor))

    def fine_slope(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        """-y·w/(1 + e^s), s = yu; by q = e^(-|s|), which never overflows."""
        low, high = (DoubleDouble.nearest(positive(w, name="class weight")) for w in self.class_weights)
        signs, one = DoubleDouble.of(targets), DoubleDouble.of(1.0)
        s = signs.times(predictor)
        right = s.high > 0
        q = s.where(right, s.negated()).exponential()
        wrong = one.where(right, q).over(one.plus(q))
        return signs.times(low.where(targets > 0, high)).times(wrong).negated()

    def bend(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        from scipy.special import expit

        return np.asarray(self._weights(targets) * expit(predictor) * expit(-predictor) * along)

    def slope_error(self, row_norm: Fraction) -> float:
        return 16 * float(self.shape(row_norm).gradient)

    def to_json(self) -> dict[str, str]:
        weights = [decimal_text(positive(w, name="class weight")) for w in self.class_weights]
        return {"loss": self.name, "classes": repr(list(self.classes)), "class_weights": " ".join(weights)}

    def _weights(self, targets: Floats) -> Floats:
        low, high = (float(positive(w, name="class weight")) for w in self.class_weights)
        return np.where(targets > 0, high, low)
