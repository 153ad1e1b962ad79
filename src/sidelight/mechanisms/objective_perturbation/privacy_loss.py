"""The privacy loss of objective perturbation from public numbers: its profile in each direction, Rényi divergences.

The directions differ: only the removal of a record pays for its curvature (objective-perturbation proof page,
Theorem 1). What the proof needs to know of a loss is how steep it is, how curved, and how the two hang together. The
divergences are certified decimals, from the laws that bound the loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import (
    EnvelopeCurve,
    HalfNormalCurve,
    HingedGaussianCurve,
    HingedGaussiansCurve,
    ProfileCurve,
    RenyiOrders,
    short_text,
)
from sidelight.guarantees.intervals import Interval, normal_cdf, round_up

ORDERS = tuple(Fraction(a) for a in ("1.25", "1.5", "2", "3", "4", "6", "8", "12", "16", "24", "32", "64", "128"))
Bound = Literal["tight", "generic", "thesis"]
Envelope = Literal["flat", "logistic", "log_cosh"]


@dataclass(frozen=True, kw_only=True)
class LossShape:
    """Bounds of one record's loss f(xᵀθ; y), over all records that the clipping lets through and all θ.

    Args:
        gradient: L, at least |f'|·‖x‖.
        curvature: β, at least f''·‖x‖². (For several classes: the largest eigenvalue of one record's Hessian.)
        envelope: How f''·‖x‖² is bounded where |f'|·‖x‖ = t·L: "flat" by β, "logistic" by 4β·t(1-t), "log_cosh" by
            β(1-t²).
        sign_definite: Whether f' keeps its sign as θ varies, for every fixed record.
        classes: The number of classes of a joint softmax, else None.
    """

    gradient: Fraction
    curvature: Fraction
    envelope: Envelope = "flat"
    sign_definite: bool = False
    classes: int | None = None

    def __post_init__(self) -> None:
        if self.gradient <= 0 or self.curvature <= 0:
            raise RangeError("a loss shape needs a positive bound of the gradient and of the curvature")
        if self.classes is not None and (self.classes < 2 or self.envelope != "flat"):
            raise RangeError(f"a softmax has at least two classes and a flat envelope, got {self.classes}")


def remove_curve(
    shape: LossShape, *, mu: Fraction, regularisation: Fraction, output_mu: Fraction, bound: Bound
) -> ProfileCurve:
    """Bound the loss of the fit with a record against the fit without it."""
    if bound == "thesis":
        return HalfNormalCurve(mu, thesis_shift(shape, regularisation), output_mu)
    if bound == "tight" and shape.envelope != "flat":
        factor = 4 if shape.envelope == "logistic" else 1
        return EnvelopeCurve(mu, factor * shape.curvature / regularisation, shape.envelope, output_mu)
    return _hinged(mu, curvature_shift(shape, regularisation), shape, output_mu)


def add_curve(
    shape: LossShape, *, mu: Fraction, regularisation: Fraction, output_mu: Fraction, bound: Bound
) -> ProfileCurve:
    """Bound the loss of the fit without a record against the fit with it."""
    if bound == "thesis":
        return HalfNormalCurve(mu, thesis_shift(shape, regularisation), output_mu)
    if shape.sign_definite or shape.classes is not None:
        return _hinged(mu, Fraction(0), shape, output_mu)
    return HalfNormalCurve(mu, Fraction(0), output_mu)


def curvature_shift(shape: LossShape, regularisation: Fraction) -> Fraction:
    """Bound the log-determinant from above: log(1 + β/λ), or (K-1)·log(1 + 2β/(Kλ)) for K classes."""
    if shape.classes is None:
        return _log(1 + shape.curvature / regularisation)
    return (shape.classes - 1) * _log(1 + 2 * shape.curvature / (shape.classes * regularisation))


def thesis_shift(shape: LossShape, regularisation: Fraction) -> Fraction:
    """Return -log(1 - β/λ), the looser term of the thesis (its Theorem 4.3.1, with the sign of its proof)."""
    if shape.classes is not None:
        raise ClaimError("the thesis bound is for one linear predictor, not for a softmax; use bound='tight'")
    if regularisation <= shape.curvature:
        raise RangeError(
            f"the thesis bound needs a regularisation above the curvature bound {short_text(shape.curvature)}, got "
            f"{short_text(regularisation)}; bound='tight' takes any"
        )
    return _log(1 / (1 - shape.curvature / regularisation))


def renyi_curve(
    shape: LossShape,
    *,
    mu: Fraction,
    regularisation: Fraction,
    output_mu: Fraction,
    bound: Bound,
    orders: Iterable[Fraction] = ORDERS,
) -> RenyiOrders:
    """Bound D_α at each order by the larger direction, with the output noise's α·μ²/2 on top."""
    return RenyiOrders.of(
        {
            order: max(
                renyi_remove(shape, order, mu=mu, regularisation=regularisation, bound=bound),
                renyi_add(shape, order, mu=mu, regularisation=regularisation, bound=bound),
            )
            + order * output_mu * output_mu / 2
            for order in orders
        }
    )


def renyi_remove(
    shape: LossShape, order: Fraction, *, mu: Fraction, regularisation: Fraction, bound: Bound
) -> Fraction:
    """Bound D_α when a record is removed."""
    if bound == "thesis":
        return thesis_shift(shape, regularisation) + _renyi_half_normal(mu, order)
    plain = curvature_shift(shape, regularisation) + _renyi_hinged(mu, order, _count(shape))
    if bound == "generic" or shape.envelope == "flat":
        return plain
    curve = remove_curve(shape, mu=mu, regularisation=regularisation, output_mu=Fraction(0), bound="tight")
    return min(plain, _renyi_above(mu, order, curve.threshold))  # type: ignore[attr-defined]


def renyi_add(shape: LossShape, order: Fraction, *, mu: Fraction, regularisation: Fraction, bound: Bound) -> Fraction:
    """Bound D_α when a record is added: no term for the curvature."""
    if bound == "thesis":
        return thesis_shift(shape, regularisation) + _renyi_half_normal(mu, order)
    if shape.sign_definite or shape.classes is not None:
        return _renyi_hinged(mu, order, _count(shape))
    return _renyi_half_normal(mu, order)


def _count(shape: LossShape) -> int:
    return 1 if shape.classes is None else shape.classes - 1


def _renyi_hinged(mu: Fraction, order: Fraction, count: int) -> Fraction:
    """(1/t)·log E exp(t·max(0, Z_1, ..)) <= (1/t)·log[Φ(-s/2) + count·exp(tm + t²s²/2)·Φ(s/2 + ts)], t = α - 1."""
    t = _order_excess(order)
    moment = Interval.of(t * mu * mu / 2 + t * t * mu * mu / 2).exp() * normal_cdf(Interval.of(mu / 2 + t * mu))
    inside = normal_cdf(Interval.of(-mu / 2)) + Interval.of(count) * moment
    return max(Fraction(0), round_up((inside.log() / Interval.of(t)).upper))


def _renyi_half_normal(mu: Fraction, order: Fraction) -> Fraction:
    """m + (1/t)·[log 2 + t²s²/2 + log Φ(ts)]."""
    t = _order_excess(order)
    inside = (Interval.of(2) * normal_cdf(Interval.of(t * mu))).log() + Interval.of(t * t * mu * mu / 2)
    return mu * mu / 2 + round_up((inside / Interval.of(t)).upper)


def _renyi_above(mu: Fraction, order: Fraction, threshold: Fraction) -> Fraction:
    """(1/t)·log E exp(t·max(h, Z)): e^(th)·Φ((h-m)/s) + exp(tm + t²s²/2)·Φ(-(h-m)/s + ts)."""
    t = _order_excess(order)
    edge = (threshold - mu * mu / 2) / mu
    low = Interval.of(t * threshold).exp() * normal_cdf(Interval.of(edge))
    high = Interval.of(t * mu * mu / 2 + t * t * mu * mu / 2).exp() * normal_cdf(Interval.of(t * mu - edge))
    return max(Fraction(0), round_up(((low + high).log() / Interval.of(t)).upper))


def _order_excess(order: Fraction) -> Fraction:
    if order <= 1:
        raise RangeError(f"a Rényi order must be above 1, got {float(order):g}")
    return order - 1


def _hinged(mu: Fraction, shift: Fraction, shape: LossShape, output_mu: Fraction) -> ProfileCurve:
    count = _count(shape)
    if count == 1 and not output_mu:
        return HingedGaussianCurve(mu, shift)
    return HingedGaussiansCurve(mu, shift, count, output_mu)


def _log(x: Fraction) -> Fraction:
    return round_up(Interval.of(x).log().upper)
