"""Poisson regression of counts with clipped gradients (experimental): f = e^u - yu, its slope held within ±C/‖x‖."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.guarantees import Amount, decimal_text, positive
from sidelight.mechanisms.objective_perturbation import LossShape
from sidelight.regression.double_double import DoubleDouble
from sidelight.regression.losses.loss import Floats, Mask, numbers_of

#: A predictor beyond it is a count beyond all floats; the slope is clipped long before.
_LARGEST_LOG = 700.0


@dataclass(frozen=True, kw_only=True)
class PoissonLoss:
    """Counts are clamped to 0..largest_count; a record pulls with a gradient of norm at most `clip`. Experimental.

    Guarantee: L = C, β = Y·R² + C·R (inside the clipping e^u <= y + C/‖x‖). The slope changes sign.
    """

    largest_count: Amount
    clip: Amount = 1

    def __post_init__(self) -> None:
        positive(self.largest_count, name="largest_count")
        positive(self.clip, name="clip")

    @property
    def name(self) -> str:
        return "poisson"

    @property
    def outputs(self) -> int:
        return 1

    def shape(self, row_norm: Fraction) -> LossShape:
        clip = positive(self.clip, name="clip")
        largest = positive(self.largest_count, name="largest_count")
        return LossShape(gradient=clip, curvature=largest * row_norm * row_norm + clip * row_norm)

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        targets, keep = numbers_of(labels)
        return np.clip(targets, 0.0, float(positive(self.largest_count, name="largest_count"))), keep

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        edge, low, high = self._edges(targets, norms)
        bounded = np.clip(predictor, low, high)
        inside = np.exp(bounded) - targets * bounded
        return np.asarray((inside + edge * np.abs(predictor - bounded))[:, 0])

    def slope(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        # Not at the logarithm of the edge: one of size 500 is off by 500 units, and its exponential by that share.
        edge = self._edge(norms)
        return np.asarray(np.clip(np.exp(np.minimum(predictor, _LARGEST_LOG)) - targets, -edge, edge))

    def fine_slope(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        edge = DoubleDouble.nearest(positive(self.clip, name="clip")).over(DoubleDouble.of(np.maximum(norms, 1e-130)))
        # beyond e^300 the slope is clipped, whatever it is: y and the edge are below 1e130
        bounded = predictor.where(predictor.high > 300.0, DoubleDouble.of(np.full_like(predictor.high, 300.0)))
        return bounded.exponential().minus(DoubleDouble.of(targets)).clipped(edge.negated(), edge)

    def bend(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        _, low, high = self._edges(targets, norms)
        inside = (predictor > low) & (predictor < high)
        return np.asarray(np.where(inside, np.exp(np.minimum(predictor, high)) * along, 0.0))

    def slope_error(self, row_norm: Fraction) -> float:
        # Where the slope is not clipped, e^u <= y + C/‖x‖, so that an exponential of 8 ulp, the difference (1 ulp) and
        # the edge (3 ulp of C/‖x‖) are off by at most 12 ulp of Y‖x‖ + C <= YR + C = β/R. Where exp's error decides
        # whether it is clipped, the slope is continuous and moves by the same. 32 units of L + β/R are twice that.
        return 32 * float(self.shape(row_norm).gradient + self.shape(row_norm).curvature / row_norm)

    def to_json(self) -> dict[str, str]:
        largest, clip = positive(self.largest_count, name="largest_count"), positive(self.clip, name="clip")
        return {"loss": self.name, "largest_count": decimal_text(largest), "clip": decimal_text(clip)}

    def _edge(self, norms: Floats) -> Floats:
        return np.asarray(float(positive(self.clip, name="clip")) / np.maximum(norms, 1e-300))

    def _edges(self, targets: Floats, norms: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the clip of the slope and the predictors where it is reached: e^u = y ± C/‖x‖."""
        edge = self._edge(norms)
        with np.errstate(divide="ignore"):
            low = np.where(targets > edge, np.log(np.maximum(targets - edge, 1e-300)), -np.inf)
        return edge, low, np.log(targets + edge)
