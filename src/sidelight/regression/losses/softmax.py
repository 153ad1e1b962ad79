"""The joint softmax (multinomial logistic) loss of K classes, f = -log p_y with p = softmax(Θᵀx)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.mechanisms.objective_perturbation import LossShape
from sidelight.regression.losses.loss import Floats, Mask, positions_of


@dataclass(frozen=True, kw_only=True)
class SoftmaxLoss:
    """Declared classes, one column of coefficients each.

    Guarantee: the gradient x ⊗ (p - e_y) has norm at most √2·R, one record's Hessian eigenvalues at most R²/2
    (objective-perturbation proof page, Theorem 3).
    """

    classes: tuple[Any, ...]

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            raise RangeError(f"a softmax needs at least two different classes, got {len(self.classes)}")

    @property
    def name(self) -> str:
        return "softmax"

    @property
    def outputs(self) -> int:
        return len(self.classes)

    def shape(self, row_norm: Fraction) -> LossShape:
        return LossShape(
            gradient=round_up((Interval.of(2).sqrt() * Interval.of(row_norm)).upper, digits=20),
            curvature=row_norm * row_norm / 2,
            classes=len(self.classes),
        )

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        position, keep = positions_of(labels, self.classes)
        return position.astype(np.float64)[:, None], keep

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        from scipy.special import logsumexp

        chosen = np.take_along_axis(predictor, targets.astype(np.int64), axis=1)
        return np.asarray(logsumexp(predictor, axis=1) - chosen[:, 0])

    def slope(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        p = _softmax(predictor)
        at = targets.astype(np.int64)
        # p_y - 1 cancels near 1; the sum of the others does not
        np.put_along_axis(p, at, 0.0, axis=1)
        np.put_along_axis(p, at, -p.sum(axis=1, keepdims=True), axis=1)
        return p

    def bend(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        p = _softmax(predictor)
        return np.asarray(p * (along - np.sum(p * along, axis=1, keepdims=True)))

    def slope_error(self, row_norm: Fraction) -> float:
        return (32 + 4 * len(self.classes)) * float(self.shape(row_norm).gradient)

    def to_json(self) -> dict[str, str]:
        return {"loss": self.name, "classes": repr(list(self.classes))}


def _softmax(predictor: Floats) -> Floats:
    e = np.exp(predictor - predictor.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))
