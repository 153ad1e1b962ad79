"""Objective perturbation as a value: its public parameters, and what they prove.

θᴾ minimises Σ f(xᵢᵀθ; yᵢ) + λ/2·‖θ‖² + bᵀθ with b ~ N(0, σ²I). The solver finds a point where the gradient is certified
to be at most τ; λ-strong convexity puts it within τ/λ of θᴾ, and Gaussian output noise hides where within. Released is
that point plus the output noise (objective-perturbation proof page, Theorems 1 to 4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.accounting import to_pld
from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import (
    RDP,
    Amount,
    ApproxDP,
    Claims,
    EnvelopeCurve,
    HalfNormalCurve,
    HingedGaussianCurve,
    HingedGaussiansCurve,
    Profile,
    ProfileCurve,
    RenyiOrders,
    Row,
    Unit,
    exact,
    native_claims,
    positive,
    short_text,
)
from sidelight.guarantees.intervals import Interval, normal_cdf, round_up
from sidelight.noise import Source, rounded_gaussian, standard_normal

if TYPE_CHECKING:
    from sidelight.guarantees import Numerics


# The directions differ: only the removal of a record pays for its curvature (objective-perturbation proof page,
# Theorem 1). The divergences are certified decimals, from the laws that bound the loss.

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


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation:
    """The public parameters of one fit.

    Guarantee: for neighbours that differ in one row, the profiles of `profile()`, one per direction; adding a row never
    pays for curvature, so the two differ. Composable adaptively, per direction.

    Args:
        shape: The bounds of the loss.
        noise_scale: σ, the standard deviation of every entry of the linear term.
        regularisation: λ; any positive number is private, a small one costs more noise.
        tolerance: τ, the certified bound of the gradient's norm at the released point before its output noise.
        output_noise_scale: The standard deviation of the output noise. With tolerance 0 it may be 0: the exact minimum,
            for analysis only.
        bound: "tight" (this library's theorem), "generic" (the same without the loss's envelope) or "thesis".
    """

    shape: LossShape
    noise_scale: Fraction
    regularisation: Fraction
    tolerance: Fraction = Fraction(0)
    output_noise_scale: Fraction = Fraction(0)
    bound: Bound = "tight"

    def __post_init__(self) -> None:
        if self.noise_scale <= 0 or self.regularisation <= 0:
            raise RangeError("objective perturbation needs a positive noise scale and a positive regularisation")
        if self.tolerance < 0 or self.output_noise_scale < 0 or (self.tolerance > 0) != (self.output_noise_scale > 0):
            raise RangeError("an approximate minimum needs output noise: give tolerance and output noise, or neither")

    @property
    def mu(self) -> Fraction:
        """The Gaussian mechanism that hides one gradient, s = L/σ: a lower bound of what any such fit costs."""
        return self.shape.gradient / self.noise_scale

    @property
    def output_mu(self) -> Fraction:
        """The Gaussian mechanism of the output noise: two points within τ/λ of the same θᴾ."""
        if not self.tolerance:
            return Fraction(0)
        return 2 * self.tolerance / (self.regularisation * self.output_noise_scale)

    @property
    def _numbers(self) -> dict[str, Any]:
        return {
            "mu": self.mu,
            "regularisation": self.regularisation,
            "output_mu": self.output_mu,
            "bound": self.bound,
        }

    def profile(self, *, unit: Unit = Row(), numerics: Numerics = "idealized") -> Profile:  # noqa: B008  # frozen
        """Return the two profiles as a claim."""
        remove, add = remove_curve(self.shape, **self._numbers), add_curve(self.shape, **self._numbers)
        return Profile(remove, add, unit=unit, numerics=numerics)

    def deltas(self, epsilon: Amount) -> tuple[Fraction, Fraction]:
        """Return the proven delta at an epsilon: a record removed, a record added."""
        at = exact(epsilon, name="epsilon")
        profile = self.profile()
        return profile.remove.delta(at), profile.add.delta(at)

    def renyi(self, orders: Iterable[Fraction] = ORDERS) -> RDP:
        """Return the Rényi divergences at some orders, the larger direction's."""
        return RDP(renyi_curve(self.shape, orders=orders, **self._numbers), numerics="idealized")

    def claims(self, *, epsilon: Amount, delta: Amount, unit: Unit = Row()) -> Claims:  # noqa: B008  # frozen
        """Return all that holds: the profiles, Rényi orders, and (ε, δ) at the calibrated point, proved again here.

        GDP and zCDP follow from the profiles by domination (`Claims.gdp`).

        Raises:
            RangeError: the parameters do not give (ε, δ).
        """
        return _proved(self, exact(epsilon, name="epsilon"), positive(delta, name="delta"), unit)

    def loss_distribution(self, *, step: float = 1e-4) -> Any:
        """Return dp_accounting's privacy loss distribution, pessimistic, both directions, to compose with others."""
        return to_pld(self.profile(), step=step)


@lru_cache(maxsize=256)  # fits of one price are planned many times in a search or a forecast
def _proved(mechanism: ObjectivePerturbation, at: Fraction, chance: Fraction, unit: Unit) -> Claims:
    if max(mechanism.deltas(at)) > chance:
        raise RangeError(f"these parameters do not prove ({float(at):g}, {float(chance):g}); calibrate them")
    profile = mechanism.profile(unit=unit)
    point = ApproxDP(at, chance, **profile.context)
    orders = mechanism.renyi().under(unit=unit)
    return native_claims(profile, orders, point, mechanism="objective_perturbation")


# The linear term has no integer form and is drawn as floats ("idealized"; the solver's certificate counts their
# rounding). The output noise is exact: the certified point has integer coordinates on a public grid of powers of two,
# to which rounded Gaussian integers are added (objective-perturbation proof page, section 6).

#: The certified point is put on a grid this much finer than the output noise: nothing of its accuracy is lost.
_FINE = 40
#: Published coordinates are multiples of about an eighth of the output noise: finer digits are noise alone.
_SHOWN = 3


def linear_term(size: int, noise_scale: Fraction, source: Source) -> NDArray[np.float64]:
    """Draw b ~ N(0, σ²) for every coefficient; each entry within 2⁻⁵¹ relative of an exact variate."""
    return standard_normal(size, source) * float(noise_scale)


def grid_exponent(output_noise_scale: Fraction) -> int:
    """Return the exponent of the public grid on which the point is certified."""
    if output_noise_scale <= 0:
        raise RangeError("a released point needs output noise; the exact minimum is for analysis only")
    return math.frexp(float(output_noise_scale))[1] - 1 - _FINE


def on_grid(point: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """Round to multiples of 2**exponent; floats that are too coarse for it already are multiples."""
    scaled = np.ldexp(point, -exponent)
    return np.ldexp(np.where(np.abs(scaled) < 2.0**52, np.rint(scaled), scaled), exponent)


def grid_indices(point: Sequence[Fraction], exponent: int) -> list[int]:
    """Round every coordinate to the nearest multiple of 2**exponent; one that is a multiple stays what it is."""
    unit = Fraction(2) ** exponent
    return [round(coordinate / unit) for coordinate in point]


def noisy_point(
    indices: Sequence[int], exponent: int, output_noise_scale: Fraction, source: Source
) -> NDArray[np.float64]:
    """Add exact rounded Gaussian noise to a point of the grid, and publish few digits of the sum.

    Guarantee: a function of point + N(0, output_noise_scale²·I), bit for bit; `indices` are the point's coordinates in
    units of the grid.
    """
    unit = Fraction(2) ** exponent
    noise = rounded_gaussian(len(indices), output_noise_scale / unit, source)
    shift = math.frexp(float(output_noise_scale))[1] - 1 - _SHOWN - exponent
    half, step = 1 << (shift - 1), 1 << shift
    noisy = [index + extra for index, extra in zip(indices, noise.tolist(), strict=True)]
    return np.array([float(Fraction((each + half) // step * step) * unit) for each in noisy])
