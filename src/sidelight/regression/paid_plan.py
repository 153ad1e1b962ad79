"""A fit with a paid privacy report before any data: how much noise the gradient and the Hessian get beside it.

The extra releases make each person's bound narrower, and cost: the noise of the fit grows so that all of it together
keeps (ε, δ). For linear models the free report is usually the better choice; this is for research, few features and
well-determined models.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import Any, Literal

from sidelight.accounting import batch
from sidelight.accounting.loss_distributions import compose, interval_for
from sidelight.errors import RangeError, nearest
from sidelight.guarantees import GDP, Amount, Claims, HingedGaussianCurve, decimal_text, exact
from sidelight.guarantees.amounts import grid_ceil
from sidelight.guarantees.conversions import root_of_sum_of_squares
from sidelight.regression.losses import Loss
from sidelight.regression.plan import LinearPlan, plan_linear

Preset = Literal["free", "gradient", "thesis"]
#: μ of the gradient and of the Hessian as multiples of the fit's L/σ. The thesis splits ε as 0.2, 0.7 and 0.1.
PRESETS: dict[Preset, tuple[Fraction, Fraction]] = {
    "free": (Fraction(0), Fraction(0)),
    "gradient": (Fraction(1), Fraction(0)),
    "thesis": (Fraction(7, 2), Fraction(1, 2)),
}
#: Losses whose curvature changes smoothly, |f'''| <= M·f'': the only ones for which a Hessian elsewhere says anything.
SMOOTH = ("logistic", "log_cosh")
#: Entries of the Hessian are counted in β·2⁻⁴⁰, so that sums of this many rows fit an int64.
MOST_ROWS = 1 << 21
_STEPS = 25
#: How much of the target's epsilon may be left unused.
_CLOSE = Fraction(1, 1000)


@dataclass(frozen=True, kw_only=True)
class PaidPlan:
    """The public parameters of a fit, a noisy gradient and a noisy Hessian; `claims` prices all of them together.

    Guarantee: the privacy loss of the fit composed with one Gaussian of mu = √(μ₂² + μ₃²), per direction
    (per-instance proof page, Theorem 6).
    """

    fit: LinearPlan
    gradient_mu: Fraction
    hessian_mu: Fraction

    @property
    def gradient_noise(self) -> Fraction | None:
        """σ₂ = L/μ₂, the standard deviation of every entry of the released gradient; None where it is not released."""
        return grid_ceil(self.fit.mechanism.shape.gradient / self.gradient_mu) if self.gradient_mu else None

    @property
    def hessian_unit(self) -> Fraction:
        """The grid of the released Hessian's entries."""
        return self.fit.mechanism.shape.curvature / 2**40

    @property
    def hessian_sensitivity(self) -> int:
        """How far one row moves the Hessian in Frobenius norm, in grid units, the rounding of its entries included."""
        return 2**40 + self.fit.coefficients

    @property
    def hessian_noise(self) -> Fraction | None:
        """σ₃, the standard deviation off the diagonal (√2·σ₃ on it); None where no Hessian is released."""
        if not self.hessian_mu:
            return None
        on_diagonal = self.hessian_sensitivity * self.hessian_unit / self.hessian_mu
        return _root_half(on_diagonal)

    @cached_property
    def claims(self) -> Claims:
        """What everything together proves."""
        fit = self.fit
        if not self.gradient_mu and not self.hessian_mu:
            return fit.claims
        extra = Claims.of(GDP(self.extra_mu, unit=fit.unit, numerics="idealized"))
        profile = fit.mechanism.profile(unit=fit.unit)
        return batch([Claims.of(profile), extra], delta=fit.delta)

    @property
    def extra_mu(self) -> Fraction:
        """The Gaussian mechanism of both extra releases, rounded up."""
        return root_of_sum_of_squares(self.gradient_mu**2 + self.hessian_mu**2)

    def request(self) -> dict[str, str]:
        """Describe it for a ledger, with strings only."""
        described = self.fit.request() | {"kind": "linear_model_with_paid_report"}
        for name, amount in (("gradient_noise", self.gradient_noise), ("hessian_noise", self.hessian_noise)):
            described[name] = "none" if amount is None else decimal_text(grid_ceil(amount))
        return described


def plan_paid(
    *,
    loss: Loss,
    features: int,
    epsilon: Amount,
    delta: Amount,
    data_norm: Amount,
    preset: Preset = "gradient",
    shares: tuple[Amount, Amount] | None = None,
    regularisation: Amount | None = None,
    **settings: Any,
) -> PaidPlan:
    """Calibrate a fit and its extra releases to (ε, δ) together. Reads no data.

    Args:
        loss: One predictor only. A Hessian wants the logistic or the log-cosh loss.
        features: The number of feature columns.
        epsilon: The target of everything together.
        delta: The target of everything together.
        data_norm: The public bound of a row's norm.
        preset: "free" (no extra release), "gradient", or "thesis".
        shares: Instead of a preset: μ of the gradient and of the Hessian, as multiples of the fit's own L/σ.
        regularisation: λ; default what the fit alone would have.
        settings: Other arguments of `plan_linear`.

    Raises:
        RangeError: the loss has no such report, or nothing reaches the target.
    """
    if preset not in PRESETS:
        raise RangeError(f"unknown preset {preset!r}; {nearest(str(preset), PRESETS)}")
    gradient, hessian = PRESETS[preset]
    if shares is not None:
        gradient, hessian = (exact(share, name="share") for share in shares)
    if gradient < 0 or hessian < 0 or (hessian and not gradient):
        raise RangeError("shares must not be negative, and a Hessian comes with a gradient; (1, 0) is the first choice")
    if loss.outputs > 1 and gradient:
        raise RangeError("a paid report is for one predictor; a softmax has the free report only")
    if hessian and loss.name not in SMOOTH:
        raise RangeError(f"the curvature of the {loss.name} loss jumps, so no Hessian helps; use shares=(1, 0)")
    if hessian and (settings.get("rows_at_most") or 0) > MOST_ROWS:
        raise RangeError(f"the Hessian of a paid report counts up to {MOST_ROWS} rows; use shares=(1, 0)")
    more = {"loss": loss, "features": features, "epsilon": epsilon, "delta": delta, "data_norm": data_norm, **settings}
    alone = plan_linear(regularisation=regularisation, **more)
    if not gradient:
        return PaidPlan(fit=alone, gradient_mu=Fraction(0), hessian_mu=Fraction(0))
    more["regularisation"] = alone.mechanism.regularisation
    growth = root_of_sum_of_squares(1 + gradient**2 + hessian**2)
    sigma = grid_ceil(alone.mechanism.noise_scale * growth)
    for _ in range(_STEPS):  # ε falls about as 1/σ
        paid = _with_noise(sigma, (gradient, hessian), more)
        found = _epsilon(paid)
        if found is not None and paid.fit.epsilon * (1 - _CLOSE) <= found <= paid.fit.epsilon:
            return paid
        ratio = Fraction(2) if found is None else found / paid.fit.epsilon
        sigma = grid_ceil(sigma * ratio * (1 + _CLOSE / 3))
    raise RangeError("no noise scale reaches the target with these shares; give the extra releases less")


def _with_noise(sigma: Fraction, shares: tuple[Fraction, Fraction], more: dict[str, Any]) -> PaidPlan:
    fit = plan_linear(noise_scale=sigma, **more)
    gradient_mu, hessian_mu = (grid_ceil(share * fit.mechanism.mu) if share else Fraction(0) for share in shares)
    return PaidPlan(fit=fit, gradient_mu=gradient_mu, hessian_mu=hessian_mu)


def _epsilon(paid: PaidPlan) -> Fraction | None:
    """Return the epsilon of the composed privacy loss, the larger direction's."""
    profile, extra = paid.fit.mechanism.profile(), HingedGaussianCurve(paid.extra_mu)
    step = interval_for(float(paid.fit.epsilon))
    return compose([(profile.remove, profile.add), (extra, extra)], step=step).epsilon(paid.fit.delta)


def _root_half(scale: Fraction) -> Fraction:
    """Return scale/√2, rounded up."""
    return Fraction(isqrt(int(scale * scale / 2 * (1 << 200))) + 1, 1 << 100)
