"""Rényi divergences of objective perturbation, in certified decimals, from the laws that bound its privacy loss."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from sidelight.errors import RangeError
from sidelight.guarantees import RenyiOrders
from sidelight.guarantees.intervals import Interval, normal_cdf, round_up
from sidelight.mechanisms.objective_perturbation.directions import Bound, curvature_shift, remove_curve, thesis_shift
from sidelight.mechanisms.objective_perturbation.shape import LossShape

ORDERS = tuple(Fraction(a) for a in ("1.25", "1.5", "2", "3", "4", "6", "8", "12", "16", "24", "32", "64", "128"))


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
        return thesis_shift(shape, regularisation) + _half_normal(mu, order)
    plain = curvature_shift(shape, regularisation) + _hinged(mu, order, _count(shape))
    if bound == "generic" or shape.envelope == "flat":
        return plain
    curve = remove_curve(shape, mu=mu, regularisation=regularisation, output_mu=Fraction(0), bound="tight")
    return min(plain, _above(mu, order, curve.threshold))  # type: ignore[attr-defined]


def renyi_add(shape: LossShape, order: Fraction, *, mu: Fraction, regularisation: Fraction, bound: Bound) -> Fraction:
    """Bound D_α when a record is added: no term for the curvature."""
    if bound == "thesis":
        return thesis_shift(shape, regularisation) + _half_normal(mu, order)
    if shape.sign_definite or shape.classes is not None:
        return _hinged(mu, order, _count(shape))
    return _half_normal(mu, order)


def closed_form_zcdp(
    shape: LossShape, *, mu: Fraction, regularisation: Fraction, output_mu: Fraction, bound: Bound
) -> Fraction:
    """Bound D_α/α over all α > 1 by the closed forms: cells of orders, D rising, and a line beyond the last.

    For comparison: the two profiles together prove much less (`Claims.zcdp`).
    """
    orders = [1 + Fraction(k, 10**5) for k in (1, 100, 2000)] + [1 + Fraction(21, 20) ** k / 10 for k in range(200)]
    values = renyi_curve(
        shape, mu=mu, regularisation=regularisation, output_mu=output_mu, bound=bound, orders=orders
    ).points
    cells = [value / before for (before, _), (_, value) in zip([(Fraction(1), None), *values], values, strict=False)]
    # beyond the last order A: D_α <= shift + log(2 + count)/t + α·(mu² + output_mu²)/2, and each part of D_α/α falls
    last = orders[-1]
    shift = thesis_shift(shape, regularisation) if bound == "thesis" else curvature_shift(shape, regularisation)
    rest = shift / last + Fraction(2 + _count(shape)) / (last * (last - 1)) + (mu * mu + output_mu * output_mu) / 2
    return max(*cells, rest)


def _count(shape: LossShape) -> int:
    return 1 if shape.classes is None else shape.classes - 1


def _hinged(mu: Fraction, order: Fraction, count: int) -> Fraction:
    """(1/t)·log E exp(t·max(0, Z_1, ..)) <= (1/t)·log[Φ(-s/2) + count·exp(tm + t²s²/2)·Φ(s/2 + ts)], t = α - 1."""
    t = _excess(order)
    moment = Interval.of(t * mu * mu / 2 + t * t * mu * mu / 2).exp() * normal_cdf(Interval.of(mu / 2 + t * mu))
    inside = normal_cdf(Interval.of(-mu / 2)) + Interval.of(count) * moment
    return max(Fraction(0), round_up((inside.log() / Interval.of(t)).upper))


def _half_normal(mu: Fraction, order: Fraction) -> Fraction:
    """m + (1/t)·[log 2 + t²s²/2 + log Φ(ts)]."""
    t = _excess(order)
    inside = (Interval.of(2) * normal_cdf(Interval.of(t * mu))).log() + Interval.of(t * t * mu * mu / 2)
    return mu * mu / 2 + round_up((inside / Interval.of(t)).upper)


def _above(mu: Fraction, order: Fraction, threshold: Fraction) -> Fraction:
    """(1/t)·log E exp(t·max(h, Z)): e^(th)·Φ((h-m)/s) + exp(tm + t²s²/2)·Φ(-(h-m)/s + ts)."""
    t = _excess(order)
    edge = (threshold - mu * mu / 2) / mu
    low = Interval.of(t * threshold).exp() * normal_cdf(Interval.of(edge))
    high = Interval.of(t * mu * mu / 2 + t * t * mu * mu / 2).exp() * normal_cdf(Interval.of(t * mu - edge))
    return max(Fraction(0), round_up(((low + high).log() / Interval.of(t)).upper))


def _excess(order: Fraction) -> Fraction:
    if order <= 1:
        raise RangeError(f"a Rényi order must be above 1, got {float(order):g}")
    return order - 1
