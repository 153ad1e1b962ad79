"""The squared loss with the gradient of every record clipped: Huber with a threshold C/‖x‖ of its own."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.guarantees import Amount, decimal_text, positive
from sidelight.mechanisms.objective_perturbation import LossShape
from sidelight.regression.double_double import DoubleDouble
from sidelight.regression.losses.huber import huber_value
from sidelight.regression.losses.loss import Floats, Mask
from sidelight.regression.losses.regression_targets import Range, admit_numbers, check_range, describe_range


@dataclass(frozen=True, kw_only=True)
class ClippedSquaredLoss:
    """Least squares whose records pull with a gradient of norm at most `clip`.

    Guarantee: L = C, β = R². The slope changes sign: the generic bound. (The squared loss itself has no finite L.)
    """

    clip: Amount = 1
    target_range: Range = None
    target_centre: float = 0.0

    def __post_init__(self) -> None:
        positive(self.clip, name="clip")
        check_range(self.target_range, self.target_centre)

    @property
    def name(self) -> str:
        return "squared_clipped"

    @property
    def outputs(self) -> int:
        return 1

    def shape(self, row_norm: Fraction) -> LossShape:
        return LossShape(gradient=positive(self.clip, name="clip"), curvature=row_norm * row_norm)

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        return admit_numbers(labels, self.target_range, self.target_centre)

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        return huber_value(predictor - targets, self._kappa(norms))

    def slope(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        kappa = self._kappa(norms)
        return np.asarray(np.clip(predictor - targets, -kappa, kappa))

    def fine_slope(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        kappa = DoubleDouble.nearest(positive(self.clip, name="clip")).over(DoubleDouble.of(np.maximum(norms, 1e-130)))
        return predictor.minus(DoubleDouble.of(targets)).clipped(kappa.negated(), kappa)

    def bend(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        return np.asarray(np.where(np.abs(predictor - targets) < self._kappa(norms), along, 0.0))

    def slope_error(self, row_norm: Fraction) -> float:
        return 32 * float(self.shape(row_norm).gradient)

    def to_json(self) -> dict[str, str]:
        written = {"loss": self.name, "clip": decimal_text(positive(self.clip, name="clip"))}
        return written | describe_range(self.target_range, self.target_centre)

    def _kappa(self, norms: Floats) -> Floats:
        # a row without length pulls nowhere; 1e300 keeps its threshold finite
        return np.asarray(float(positive(self.clip, name="clip")) / np.maximum(norms, 1e-300))
