"""The Huber loss: squared up to the threshold, then linear."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.guarantees import Amount, decimal_text, positive
from sidelight.mechanisms.objective_perturbation import LossShape
from sidelight.regression.double_double import DoubleDouble
from sidelight.regression.losses.loss import Floats, Mask
from sidelight.regression.losses.regression_targets import Range, admit_numbers, check_range, describe_range


@dataclass(frozen=True, kw_only=True)
class HuberLoss:
    """Robust regression with a kink in the slope, which the privacy proof allows.

    Guarantee: L = κR, β = R². The slope changes sign and the curvature does not fall before L: the generic bound.
    """

    threshold: Amount = 1
    target_range: Range = None
    target_centre: float = 0.0

    def __post_init__(self) -> None:
        positive(self.threshold, name="threshold")
        check_range(self.target_range, self.target_centre)

    @property
    def name(self) -> str:
        return "huber"

    @property
    def outputs(self) -> int:
        return 1

    def shape(self, row_norm: Fraction) -> LossShape:
        return LossShape(gradient=positive(self.threshold, name="threshold") * row_norm, curvature=row_norm * row_norm)

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        return admit_numbers(labels, self.target_range, self.target_centre)

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        return huber_value(predictor - targets, np.full_like(norms, self._kappa))

    def slope(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        return np.asarray(np.clip(predictor - targets, -self._kappa, self._kappa))

    def fine_slope(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        kappa = DoubleDouble.nearest(positive(self.threshold, name="threshold"))
        return predictor.minus(DoubleDouble.of(targets)).clipped(kappa.negated(), kappa)

    def bend(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        return np.asarray(np.where(np.abs(predictor - targets) < self._kappa, along, 0.0))

    def slope_error(self, row_norm: Fraction) -> float:
        return 16 * float(self.shape(row_norm).gradient)

    def to_json(self) -> dict[str, str]:
        written = {"loss": self.name, "threshold": decimal_text(positive(self.threshold, name="threshold"))}
        return written | describe_range(self.target_range, self.target_centre)

    @property
    def _kappa(self) -> float:
        return float(positive(self.threshold, name="threshold"))


def huber_value(error: Floats, kappa: Floats) -> Floats:
    """Return e²/2 within ±κ and κ|e| - κ²/2 beyond."""
    size = np.abs(error)
    capped = np.minimum(size, kappa)
    return np.asarray((capped * (size - capped / 2))[:, 0])
