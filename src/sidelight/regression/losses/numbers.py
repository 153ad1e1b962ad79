"""Losses of numbers: log-cosh, Huber and clipped least squares for a target, and Poisson for a count.

Targets are clamped to a declared public range, each record by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, decimal_text, positive
from sidelight.mechanisms.objective_perturbation import LossShape
from sidelight.regression.double_double import DoubleDouble
from sidelight.regression.losses.loss import Floats, Mask, numbers_of

Range = tuple[float, float] | None
#: A predictor beyond it is a count beyond all floats; the slope is clipped long before.
_LARGEST_LOG = 700.0


@dataclass(frozen=True, kw_only=True)
class _NumberTarget:
    """A numeric target: its public range, and the public centre that it is counted from.

    A loss of one has a name and one positive parameter, which `parameter` names.
    """

    name: ClassVar[str]
    parameter: ClassVar[str]
    outputs: ClassVar[int] = 1
    target_range: Range = None
    target_centre: float = 0.0

    def __post_init__(self) -> None:
        _ = self._amount
        if not np.isfinite(self.target_centre):
            raise RangeError(f"target_centre must be a finite number, got {self.target_centre}")
        if self.target_range is not None and not (
            np.isfinite(self.target_range).all() and self.target_range[0] < self.target_range[1]
        ):
            raise RangeError(f"target_range must be two finite numbers, the lower first, got {self.target_range}")

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        """Read the targets, clamp them, and count them from the centre; without a range they stay within ±1e15."""
        targets, keep = numbers_of(labels)
        low, high = self.target_range or (self.target_centre - 1e15, self.target_centre + 1e15)
        return np.clip(targets, low, high) - self.target_centre, keep

    def to_json(self) -> dict[str, str]:
        written = {"loss": self.name, self.parameter: decimal_text(self._amount)}
        written |= {"target_range": repr(self.target_range)} if self.target_range else {}
        return written | ({"target_centre": repr(self.target_centre)} if self.target_centre else {})

    @property
    def _amount(self) -> Fraction:
        return positive(getattr(self, self.parameter), name=self.parameter)


@dataclass(frozen=True, kw_only=True)
class LogCoshLoss(_NumberTarget):
    """Robust regression, f = κ²·log cosh((u - y)/κ): squared near zero, absolute far out, and smooth.

    `scale` κ is fixed beforehand from the public range of the target.

    Guarantee: L = κR, β = R², f''‖x‖² <= R² - (a/κ)² at slope a. The slope changes sign.
    """

    name: ClassVar[str] = "log_cosh"
    parameter: ClassVar[str] = "scale"
    scale: Amount = 1

    def shape(self, row_norm: Fraction) -> LossShape:
        return LossShape(gradient=self._amount * row_norm, curvature=row_norm * row_norm, envelope="log_cosh")

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        kappa = float(self._amount)
        size = np.abs(predictor - targets) / kappa
        return np.asarray((kappa * kappa * (size + np.log1p(np.exp(-2 * size)) - np.log(2.0)))[:, 0])

    def first_derivative(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        kappa = float(self._amount)
        return np.asarray(kappa * np.tanh((predictor - targets) / kappa))

    def fine_derivative(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        """κ·tanh(z) = κ·(1 - q)/(1 + q)·sign z, q = e^(-2|z|): within 2⁻⁸⁵ of κ, which is what counts."""
        kappa, one = DoubleDouble.nearest(self._amount), DoubleDouble.of(1.0)
        z = predictor.minus(DoubleDouble.of(targets)).over(kappa).times_power_of_two(1)
        positive_side = z.high > 0
        q = z.where(positive_side, z.negated()).exponential()
        size = one.minus(q).over(one.plus(q)).times(kappa)
        return size.negated().where(positive_side, size)

    def second_derivative(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        from scipy.special import expit

        twice = 2 * ((predictor - targets) / float(self._amount))
        return np.asarray(4 * expit(twice) * expit(-twice) * along)  # 1 - tanh², without the difference

    def derivative_error(self, row_norm: Fraction) -> float:
        return 16 * float(self.shape(row_norm).gradient)


class _CutSlope(_NumberTarget):
    """Least squares whose slope u - y is cut at an edge, the same for all records or one for each."""

    def _edge(self, norms: Floats) -> Floats:
        raise NotImplementedError

    def _fine_edge(self, norms: Floats) -> DoubleDouble:
        raise NotImplementedError

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        """e²/2 within ±κ and κ|e| - κ²/2 beyond."""
        size = np.abs(predictor - targets)
        capped = np.minimum(size, self._edge(norms))
        return np.asarray((capped * (size - capped / 2))[:, 0])

    def first_derivative(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        kappa = self._edge(norms)
        return np.asarray(np.clip(predictor - targets, -kappa, kappa))

    def fine_derivative(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        kappa = self._fine_edge(norms)
        return predictor.minus(DoubleDouble.of(targets)).clipped(kappa.negated(), kappa)

    def second_derivative(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        return np.asarray(np.where(np.abs(predictor - targets) < self._edge(norms), along, 0.0))


@dataclass(frozen=True, kw_only=True)
class HuberLoss(_CutSlope):
    """Robust regression, squared up to the threshold and then linear: a kink in the slope, which the proof allows.

    Guarantee: L = κR, β = R². The slope changes sign and the curvature does not fall before L: the generic bound.
    """

    name: ClassVar[str] = "huber"
    parameter: ClassVar[str] = "threshold"
    threshold: Amount = 1

    def shape(self, row_norm: Fraction) -> LossShape:
        return LossShape(gradient=self._amount * row_norm, curvature=row_norm * row_norm)

    def _edge(self, norms: Floats) -> Floats:
        return np.full_like(norms, float(self._amount))

    def _fine_edge(self, norms: Floats) -> DoubleDouble:
        return DoubleDouble.nearest(self._amount)

    def derivative_error(self, row_norm: Fraction) -> float:
        return 16 * float(self.shape(row_norm).gradient)


@dataclass(frozen=True, kw_only=True)
class ClippedSquaredLoss(_CutSlope):
    """Least squares whose records pull with a gradient of norm at most `clip`: Huber with a threshold C/‖x‖ of its own.

    Guarantee: L = C, β = R². The slope changes sign: the generic bound. (The squared loss itself has no finite L.)
    """

    name: ClassVar[str] = "squared_clipped"
    parameter: ClassVar[str] = "clip"
    clip: Amount = 1

    def shape(self, row_norm: Fraction) -> LossShape:
        return LossShape(gradient=self._amount, curvature=row_norm * row_norm)

    def _edge(self, norms: Floats) -> Floats:
        return _edge(self.clip, norms)

    def _fine_edge(self, norms: Floats) -> DoubleDouble:
        return _fine_edge(self.clip, norms)

    def derivative_error(self, row_norm: Fraction) -> float:
        return 32 * float(self.shape(row_norm).gradient)


@dataclass(frozen=True, kw_only=True)
class PoissonLoss:
    """Regression of counts, f = e^u - yu with its slope held within ±C/‖x‖. Experimental.

    Counts are clamped to 0..largest_count; a record pulls with a gradient of norm at most `clip`.

    Guarantee: L = C, β = Y·R² + C·R (inside the clipping e^u <= y + C/‖x‖). The slope changes sign.
    """

    name: ClassVar[str] = "poisson"
    outputs: ClassVar[int] = 1
    largest_count: Amount
    clip: Amount = 1

    def __post_init__(self) -> None:
        positive(self.largest_count, name="largest_count")
        positive(self.clip, name="clip")

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

    def first_derivative(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        # Not at the logarithm of the edge: one of size 500 is off by 500 units, and its exponential by that share.
        edge = _edge(self.clip, norms)
        return np.asarray(np.clip(np.exp(np.minimum(predictor, _LARGEST_LOG)) - targets, -edge, edge))

    def fine_derivative(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        edge = _fine_edge(self.clip, norms)
        # beyond e^300 the slope is clipped, whatever it is: y and the edge are below 1e130
        bounded = predictor.where(predictor.high > 300.0, DoubleDouble.of(np.full_like(predictor.high, 300.0)))
        return bounded.exponential().minus(DoubleDouble.of(targets)).clipped(edge.negated(), edge)

    def second_derivative(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        _, low, high = self._edges(targets, norms)
        inside = (predictor > low) & (predictor < high)
        return np.asarray(np.where(inside, np.exp(np.minimum(predictor, high)) * along, 0.0))

    def derivative_error(self, row_norm: Fraction) -> float:
        # Where the slope is not clipped, e^u <= y + C/‖x‖, so that an exponential of 8 ulp, the difference (1 ulp) and
        # the edge (3 ulp of C/‖x‖) are off by at most 12 ulp of Y‖x‖ + C <= YR + C = β/R. Where exp's error decides
        # whether it is clipped, the slope is continuous and moves by the same. 32 units of L + β/R are twice that.
        return 32 * float(self.shape(row_norm).gradient + self.shape(row_norm).curvature / row_norm)

    def to_json(self) -> dict[str, str]:
        largest, clip = positive(self.largest_count, name="largest_count"), positive(self.clip, name="clip")
        return {"loss": self.name, "largest_count": decimal_text(largest), "clip": decimal_text(clip)}

    def _edges(self, targets: Floats, norms: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the clip of the slope and the predictors where it is reached: e^u = y ± C/‖x‖."""
        edge = _edge(self.clip, norms)
        with np.errstate(divide="ignore"):
            low = np.where(targets > edge, np.log(np.maximum(targets - edge, 1e-300)), -np.inf)
        return edge, low, np.log(targets + edge)


def _edge(clip: Amount, norms: Floats) -> Floats:
    """Return C/‖x‖, where a slope is clipped; a row without length pulls nowhere, and 1e300 keeps its edge finite."""
    return np.asarray(float(positive(clip, name="clip")) / np.maximum(norms, 1e-300))


def _fine_edge(clip: Amount, norms: Floats) -> DoubleDouble:
    """Return C/‖x‖ with twice the digits."""
    return DoubleDouble.nearest(positive(clip, name="clip")).over(DoubleDouble.of(np.maximum(norms, 1e-130)))
