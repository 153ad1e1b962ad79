"""Objective perturbation as a value: its public parameters, and what they prove.

θᴾ minimises Σ f(xᵢᵀθ; yᵢ) + λ/2·‖θ‖² + bᵀθ with b ~ N(0, σ²I). The solver finds a point where the gradient is certified
to be at most τ; λ-strong convexity puts it within τ/λ of θᴾ, and Gaussian output noise hides where within. Released is
that point plus the output noise (objective-perturbation proof page, Theorems 1 to 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sidelight.accounting import to_pld
from sidelight.errors import RangeError
from sidelight.guarantees import RDP, Amount, ApproxDP, Claims, Profile, Row, Unit, exact, native_claims, positive
from sidelight.mechanisms.objective_perturbation.privacy_loss import (
    ORDERS,
    Bound,
    LossShape,
    add_curve,
    remove_curve,
    renyi_curve,
)

if TYPE_CHECKING:
    from sidelight.guarantees import Numerics


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
