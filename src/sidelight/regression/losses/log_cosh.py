"""The log-cosh loss, f = κ²·log cosh((u - y)/κ): squared near zero, absolute far out, and smooth."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.guarantees import Amount, decimal_text, positive
from sidelight.mechanisms.objective_perturbation import LossShape
from sidelight.regression.losses.loss import Floats, Mask
from sidelight.regression.losses.regression_targets import Range, admit_numbers, check_range, describe_range


@dataclass(frozen=True, kw_only=True)
class LogCoshLoss:
    """Robust regression; `scale` κ is fixed beforehand from the public range of the target.

    Guarantee: L = κR, β = R², f''‖x‖² <= R² - (a/κ)² at slope a. The slope changes sign.
    """

    scale: Amount = 1
    target_range: Range = None
    target_centre: float = 0.0

    def __post_init__(self) -> None:
        positive(self.scale, name="scale")
        check_range(self.target_range, self.target_centre)

    @property
    def name(self) -> str:
        return "log_cosh"

    @property
    def outputs(self) -> int:
        return 1

    def shape(self, row_norm: Fraction) -> LossShape:
        return LossShape(
            gradient=positive(self.scale, name="scale") * row_norm,
            curvature=row_norm * row_norm,
            envelope="log_cosh",
        )

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        return admit_numbers(labels, self.target_range, self.target_centre)

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        kappa = self._kappa
        size = np.abs(predictor - targets) / kappa
        return np.asarray((kappa * kappa * (size + np.log1p(np.exp(-2 * size)) - np.log(2.0)))[:, 0])

    def slope(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        return np.asarray(self._kappa * np.tanh((predictor - targets) / self._kappa))

    def bend(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        tangent = np.tanh((predictor - targets) / self._kappa)
        return np.asarray((1 - tangent * tangent) * along)

    def slope_error(self, row_norm: Fraction) -> float:
        return 16 * float(self.shape(row_norm).gradient)

    def to_json(self) -> dict[str, str]:
        written = {"loss": self.name, "scale": decimal_text(positive(self.scale, name="scale"))}
        return written | describe_range(self.target_range, self.target_centre)

    @property
    def _kappa(self) -> float:
        return float(positive(self.scale, name="scale"))
