"""The hinge loss of a linear support-vector machine with its corner rounded over a width h."""

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
class SmoothedHingeLoss:
    """Two declared classes; the second is the positive one.

    Guarantee: L = R, β = R²/(2h), and f' keeps its sign.
    """

    classes: tuple[Any, Any]
    width: Amount = Fraction(1, 2)

    def __post_init__(self) -> None:
        if len(self.classes) != 2 or self.classes[0] == self.classes[1]:
            raise RangeError(f"the hinge loss needs two different classes, got {len(self.classes)}")
        positive(self.width, name="width")

    @property
    def name(self) -> str:
        return "smoothed_hinge"

    @property
    def outputs(self) -> int:
        return 1

    def shape(self, row_norm: Fraction) -> LossShape:
        curvature = row_norm * row_norm / (2 * positive(self.width, name="width"))
        return LossShape(gradient=row_norm, curvature=curvature, sign_definite=True)

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        position, keep = positions_of(labels, self.classes)
        return np.where(position == 1, 1.0, -1.0)[:, None], keep

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        h = self._h
        short = 1 + h - targets * predictor
        inside = np.clip(short, 0.0, 2 * h)
        return np.asarray((inside * inside / (4 * h) + np.maximum(short - 2 * h, 0.0))[:, 0])

    def slope(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        return np.asarray(-targets * np.clip((1 + self._h - targets * predictor) / (2 * self._h), 0.0, 1.0))

    def fine_slope(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        width = positive(self.width, name="width")
        signs = DoubleDouble.of(targets)
        short = DoubleDouble.nearest(1 + width).minus(signs.times(predictor))
        inside = short.over(DoubleDouble.nearest(2 * width)).clipped(DoubleDouble.of(0.0), DoubleDouble.of(1.0))
        return signs.times(inside).negated()

    def bend(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        return np.asarray(np.where(np.abs(1 - targets * predictor) < self._h, along / (2 * self._h), 0.0))

    def slope_error(self, row_norm: Fraction) -> float:
        # 1 + h - s rounds relative to 1 + h before the division by 2h
        return 16 * float(row_norm) * (1 + 1 / self._h)

    def to_json(self) -> dict[str, str]:
        width = decimal_text(positive(self.width, name="width"))
        return {"loss": self.name, "classes": repr(list(self.classes)), "width": width}

    @property
    def _h(self) -> float:
        return float(positive(self.width, name="width"))
