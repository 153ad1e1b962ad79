"""Losses of declared classes: logistic for two, softmax for several, a smoothed hinge."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, decimal_text, positive
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.mechanisms.objective_perturbation import LossShape
from sidelight.regression.double_double import DoubleDouble
from sidelight.regression.losses.loss import Floats, Mask, positions_of, weights_of


@dataclass(frozen=True, kw_only=True)
class _TwoClasses:
    """Two declared classes, the second the positive one: targets are -1 and 1."""

    name: ClassVar[str]
    outputs: ClassVar[int] = 1
    classes: tuple[Any, Any]

    def __post_init__(self) -> None:
        if len(self.classes) != 2 or self.classes[0] == self.classes[1]:
            raise RangeError(f"the {self.name} loss needs two different classes, got {len(self.classes)}")

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        position, keep = positions_of(labels, self.classes)
        return np.where(position == 1, 1.0, -1.0)[:, None], keep


@dataclass(frozen=True, kw_only=True)
class LogisticLoss(_TwoClasses):
    """Two declared classes, the second the positive one: f = w·log(1 + e^(-yu)).

    Weights are public numbers, never counts of the data.

    Guarantee: with W the largest weight and R the norm bound, L = WR, β = WR²/4, f''‖x‖² <= a(R - a/W) at slope a, and
    f' keeps its sign. That is what brings the cost down to the Gaussian mechanism's.
    """

    name: ClassVar[str] = "logistic"
    class_weights: tuple[Amount, Amount] = (1, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        weights_of(self.class_weights)

    def shape(self, row_norm: Fraction) -> LossShape:
        weight = max(weights_of(self.class_weights))
        return LossShape(
            gradient=weight * row_norm,
            curvature=weight * row_norm * row_norm / 4,
            envelope="logistic",
            sign_definite=True,
        )

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        return np.asarray((self._weights(targets) * np.logaddexp(0.0, -targets * predictor))[:, 0])

    def first_derivative(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        from scipy.special import expit

        return np.asarray(-targets * self._weights(targets) * expit(-targets * predictor))

    def fine_derivative(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        """-y·w/(1 + e^s), s = yu; by q = e^(-|s|), which never overflows."""
        low, high = map(DoubleDouble.nearest, weights_of(self.class_weights))
        signs, one = DoubleDouble.of(targets), DoubleDouble.of(1.0)
        s = signs.times(predictor)
        right = s.high > 0
        q = s.where(right, s.negated()).exponential()
        wrong = one.where(right, q).over(one.plus(q))
        return signs.times(low.where(targets > 0, high)).times(wrong).negated()

    def second_derivative(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        from scipy.special import expit

        return np.asarray(self._weights(targets) * expit(predictor) * expit(-predictor) * along)

    def derivative_error(self, row_norm: Fraction) -> float:
        return 16 * float(self.shape(row_norm).gradient)

    def to_json(self) -> dict[str, str]:
        weights = " ".join(map(decimal_text, weights_of(self.class_weights)))
        return {"loss": self.name, "classes": repr(list(self.classes)), "class_weights": weights}

    def _weights(self, targets: Floats) -> Floats:
        low, high = map(float, weights_of(self.class_weights))
        return np.where(targets > 0, high, low)


@dataclass(frozen=True, kw_only=True)
class SoftmaxLoss:
    """Declared classes, one column of coefficients each: f = -w_y·log p_y with p = softmax(Θᵀx).

    Weights are public numbers, one per class.

    Guarantee: with W the largest weight the gradient w_y·x ⊗ (p - e_y) has norm at most √2·WR, one record's Hessian
    eigenvalues are at most WR²/2 (objective-perturbation proof page, Theorem 3). Why a weight only scales both: with
    t = 1 - p_y the loss of privacy besides the determinant is convex in w_y·‖x‖·t, which lies in [0, WR] instead of
    [0, R]; and the Hessian is w_y·xxᵀ ⊗ M with w_y·‖x‖² at most WR², so the log-determinant is at most
    (K-1)·log(1 + WR²/(Kλ)).
    """

    name: ClassVar[str] = "softmax"
    classes: tuple[Any, ...]
    class_weights: tuple[Amount, ...] = ()

    def __post_init__(self) -> None:
        if self.class_weights and len(self.class_weights) != len(self.classes):
            raise RangeError(f"a softmax of {len(self.classes)} classes got {len(self.class_weights)} weights")
        weights_of(self.class_weights)
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            raise RangeError(f"a softmax needs at least two different classes, got {len(self.classes)}")

    @property
    def outputs(self) -> int:
        return len(self.classes)

    def shape(self, row_norm: Fraction) -> LossShape:
        weight = max(weights_of(self.class_weights), default=Fraction(1))
        return LossShape(
            gradient=round_up((Interval.of(2).sqrt() * Interval.of(weight * row_norm)).upper, digits=20),
            curvature=weight * row_norm * row_norm / 2,
            classes=len(self.classes),
        )

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        position, keep = positions_of(labels, self.classes)
        return position.astype(np.float64)[:, None], keep

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        from scipy.special import logsumexp

        chosen = np.take_along_axis(predictor, targets.astype(np.int64), axis=1)
        return np.asarray((logsumexp(predictor, axis=1) - chosen[:, 0]) * self._weights(targets)[:, 0])

    def first_derivative(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        p = _softmax(predictor)
        at = targets.astype(np.int64)
        # p_y - 1 cancels near 1; the sum of the others does not
        np.put_along_axis(p, at, 0.0, axis=1)
        np.put_along_axis(p, at, -p.sum(axis=1, keepdims=True), axis=1)
        return p * self._weights(targets) if self.class_weights else p

    def fine_derivative(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        """w·(p - e_y); the entry of y is minus the sum of the others, as in `slope`."""
        top = DoubleDouble.of(predictor.high.max(axis=1, keepdims=True))
        e = predictor.minus(top).exponential()
        own = targets.astype(np.int64) == np.arange(predictor.high.shape[1])
        total = DoubleDouble(e.high.T, e.low.T).column_sums()
        p = e.over(DoubleDouble(total.high[:, None], total.low[:, None]))
        others = p.where(own, DoubleDouble.of(np.zeros_like(p.high)))
        rest = DoubleDouble(others.high.T, others.low.T).column_sums()
        slope = others.where(own, DoubleDouble(-rest.high[:, None], -rest.low[:, None]))
        if not self.class_weights:
            return slope
        table = [DoubleDouble.nearest(weight) for weight in weights_of(self.class_weights)]
        at = targets.astype(np.int64)
        high, low = np.array([float(w.high) for w in table]), np.array([float(w.low) for w in table])
        return slope.times(DoubleDouble(high[at], low[at]))

    def second_derivative(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        p = _softmax(predictor)
        change = p * (along - np.sum(p * along, axis=1, keepdims=True))
        return np.asarray(change * self._weights(targets) if self.class_weights else change)

    def derivative_error(self, row_norm: Fraction) -> float:
        return (32 + 4 * len(self.classes)) * float(self.shape(row_norm).gradient)

    def to_json(self) -> dict[str, str]:
        written = {"loss": self.name, "classes": repr(list(self.classes))}
        if self.class_weights:
            written["class_weights"] = " ".join(map(decimal_text, weights_of(self.class_weights)))
        return written

    def _weights(self, targets: Floats) -> Floats:
        if not self.class_weights:
            return np.ones_like(targets)
        table = np.array([float(weight) for weight in weights_of(self.class_weights)])
        return table[targets.astype(np.int64)]


def _softmax(predictor: Floats) -> Floats:
    e = np.exp(predictor - predictor.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


@dataclass(frozen=True, kw_only=True)
class SmoothedHingeLoss(_TwoClasses):
    """The hinge of a support-vector machine, its corner rounded over a width h. Two classes, the second positive.

    Guarantee: L = R, β = R²/(2h), and f' keeps its sign.
    """

    name: ClassVar[str] = "smoothed_hinge"
    width: Amount = Fraction(1, 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.width, name="width")

    def shape(self, row_norm: Fraction) -> LossShape:
        curvature = row_norm * row_norm / (2 * positive(self.width, name="width"))
        return LossShape(gradient=row_norm, curvature=curvature, sign_definite=True)

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        h = self._h
        short = 1 + h - targets * predictor
        inside = np.clip(short, 0.0, 2 * h)
        return np.asarray((inside * inside / (4 * h) + np.maximum(short - 2 * h, 0.0))[:, 0])

    def first_derivative(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        return np.asarray(-targets * np.clip((1 + self._h - targets * predictor) / (2 * self._h), 0.0, 1.0))

    def fine_derivative(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        width = positive(self.width, name="width")
        signs = DoubleDouble.of(targets)
        short = DoubleDouble.nearest(1 + width).minus(signs.times(predictor))
        inside = short.over(DoubleDouble.nearest(2 * width)).clipped(DoubleDouble.of(0.0), DoubleDouble.of(1.0))
        return signs.times(inside).negated()

    def second_derivative(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        return np.asarray(np.where(np.abs(1 - targets * predictor) < self._h, along / (2 * self._h), 0.0))

    def derivative_error(self, row_norm: Fraction) -> float:
        # 1 + h - s rounds relative to 1 + h before the division by 2h
        return 16 * float(row_norm) * (1 + 1 / self._h)

    def to_json(self) -> dict[str, str]:
        width = decimal_text(positive(self.width, name="width"))
        return {"loss": self.name, "classes": repr(list(self.classes)), "width": width}

    @property
    def _h(self) -> float:
        return float(positive(self.width, name="width"))
