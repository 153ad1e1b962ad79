"""The log-cosh loss, f = κ²·log cosh((u - y)/κ): squared near zero, absolute far out, and smooth."""

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

    def fine_slope(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        """κ·tanh(z) = κ·(1 - q)/(1 + q)·sign z, q = e^(-2|z|): within 2⁻⁸⁵ of κ, which is what counts."""
        kappa, one = DoubleDouble.nearest(positive(self.scale, name="scale")), DoubleDouble.of(1.0)
        z = predictor.minus(DoubleDouble.of(targets)).over(kappa).times_power_of_two(1)
        positive_side = z.high > 0
        q = z.where(positive_side, z.negated()).exponential()
        size = one.minus(q).over(one.plus(q)).times(kappa)
        return size.negated().where(positive_side, size)

    def bend(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        from scipy.special import expit

        twice = 2 * ((predictor - targets) / self._kappa)
        return np.asarray(4 * expit(twice) * expit(-twice) * along)  # 1 - tanh², without the difference

    def slope_error(self, row_norm: Fraction) -> float:
        return 16 * float(self.shape(row_norm).gradient)

    def to_json(self) -> dict[str, str]:
        written = {"loss": self.name, "scale": decimal_text(positive(self.scale, name="scale"))}
        return written | describe_range(self.target_range, self.target_centre)

    @property
    def _kappa(self) -> float:
        return float(positive(self.scale, name="scale"))
