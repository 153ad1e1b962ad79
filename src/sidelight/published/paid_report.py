"""Privacy reports that are paid for: a noisy gradient and a noisy Hessian with a fit by objective perturbation.

After Redberg and Wang (2021), "Privately publishable per-instance privacy", as the thesis splits its budget. The extra
releases make each person's bound narrower, and cost: the noise of the fit grows so that all of it together keeps
(ε, δ). Use `model.privacy_report()` instead, which is free and usually narrower for linear models; this is for
research, few features and well-determined models.

The gradient of the objective at its minimum is minus the noise of the fit, which is drawn as floats, so the release is
idealized like the fit itself; what is added to gradient and Hessian are exact rounded Gaussians on public grids.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sidelight.accounting import batch
from sidelight.accounting.loss_distributions import compose, interval_for
from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.mapped_vector import affine
from sidelight.errors import RangeError, nearest
from sidelight.guarantees import GDP, Amount, Claims, HingedGaussianCurve, Neighbours, decimal_text, exact
from sidelight.guarantees.amounts import grid_ceil
from sidelight.guarantees.conversions import root_of_sum_of_squares
from sidelight.mechanisms.additive import SymmetricGaussianNoise, priced_gaussian
from sidelight.mechanisms.goe_norm import goe_norm_quantile
from sidelight.mechanisms.objective_perturbation import on_grid
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Source
from sidelight.privacy_page import Feature, PublishedReport
from sidelight.privacy_page.build import FitConstants, chi_upper, report_quantiles
from sidelight.privacy_page.losses import LogCosh, lipschitz_bounds
from sidelight.privacy_page.published import DataDependent
from sidelight.records import Schema, Table
from sidelight.regression.curator import PrivateFit
from sidelight.regression.estimators.examples import Examples, examples
from sidelight.regression.estimators.goal import label_kinds
from sidelight.regression.fit_core import private_fit
from sidelight.regression.losses import Floats, Loss
from sidelight.regression.plan import LinearPlan, plan_linear
from sidelight.regression.rows import Block
from sidelight.release import Release
from sidelight.session import Answer
from sidelight.session.paid_estimator import check_rows_of_unit
from sidelight.session.query import SurePrepared

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


#: Rows whose d x d matrices are held at once.
_CELLS = 1 << 21
#: The largest sum of codes that meets noise.
_LARGEST = 1 << 61


@dataclass(frozen=True, kw_only=True)
class PaidFit:
    """A query: fit `loss` to rows X and labels y, and release gradient and Hessian with it.

    Use `model.privacy_report()` instead, which is free, unless few features and many rows make this one narrower.

    Guarantee: ApproxDP(epsilon, delta) for everything together; numerics "idealized" (per-instance proof page,
    Theorem 6).

    Args:
        loss: A loss of one predictor (`sidelight.regression.losses`); a Hessian wants the logistic or log-cosh loss.
        X: Rows of numbers, derived from the rows of the session's table: an array, a sparse matrix, a frame or a list
            of rows. Their columns and types are public and checked before the charge, cells are read after it: a row
            with one that is no finite number takes no part.
        y: One label per row; a row with another label than the declared ones takes no part.
        epsilon, delta: The target of everything together.
        data_norm: The public bound of a row's norm.
        preset: "free" (no extra release), "gradient", or "thesis" (gradient and Hessian).
        settings: Other arguments of `plan_paid`.
    """

    loss: Loss
    X: Any
    y: Any
    epsilon: Any
    delta: Any
    data_norm: Any
    preset: Preset = "gradient"
    settings: Mapping[str, Any] | None = None

    def prepare(self, schema: Schema) -> PreparedPaidFit:
        """Plan and price it for the schema's protected unit. Reads no row."""
        classes = getattr(self.loss, "classes", None)
        kinds = "Ofiub" if classes is None else label_kinds(np.asarray(classes))
        found = examples(self.X, self.y, target_kinds=kinds)
        check_rows_of_unit(schema)
        plan = plan_paid(
            loss=self.loss,
            features=found.features,
            epsilon=self.epsilon,
            delta=self.delta,
            data_norm=self.data_norm,
            preset=self.preset,
            unit=schema.unit,
            **(self.settings or {}),
        )
        return PreparedPaidFit.of(plan, found)

    def __repr__(self) -> str:
        return f"PaidFit({self.loss.name}, preset={self.preset!r})"  # never the rows


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PreparedPaidFit(SurePrepared):
    """A planned fit with its extra releases; everything but `run` and the rows is public."""

    plan: PaidPlan
    examples: Examples
    brings_private_data: ClassVar[bool] = True  # the rows X and their labels

    @classmethod
    def of(cls, plan: PaidPlan, found: Examples) -> Self:
        """Price everything together."""
        return cls(claims=plan.claims, request=plan.request(), plan=plan, examples=found)

    def run(self, table: Table, source: Source) -> Answer:
        """Fit, then add noise to gradient and Hessian."""
        price = DrawPrice(
            law="objective perturbation, with a noisy gradient and Hessian",
            claims=self.claims,
            statistic=f"the minimum of {self.plan.fit.coefficients} coefficients and what it is made of",
            theorem="per-instance proof page, Theorem 6",
        )
        with source.paying(price):
            return self._released(table, source)

    def _released(self, table: Table, source: Source) -> Answer:
        plan = self.plan.fit
        fit = private_fit(plan, self.examples.bounded(table, plan.policy), source=source)
        value = fit.model()
        if self.plan.gradient_noise is not None:
            value["gradient"] = noisy_gradient(fit, self.plan.gradient_noise, source)
        if self.plan.hessian_noise is not None:
            value["hessian"] = noisy_hessian(fit, self.plan, source)
        return Answer(value=value)


def noisy_gradient(fit: PrivateFit, scale: Fraction, source: Source) -> Floats:
    """Release ∇J(θᴾ; D) = -b with noise N(0, scale²·I): exact rounded Gaussians on a grid of scale·2⁻⁴⁰."""
    exponent = math.frexp(float(scale))[1] - 1 - 40
    unit = Fraction(2) ** exponent
    own = on_grid(-fit.objective.linear[:, 0], exponent)
    price = DrawPrice(
        law="rounded Gaussian",
        claims=fit.plan.claims,
        samples=(("rounded_gaussian", scale / unit),),
        theorem="per-instance proof page, Theorem 6",
    )
    noise = priced_gaussian(own.size, scale / unit, price=price, source=source)
    entries = zip(own.tolist(), noise.tolist(), strict=True)
    return np.array([float(Fraction(entry) + extra * unit) for entry, extra in entries])


def noisy_hessian(fit: PrivateFit, plan: PaidPlan, source: Source) -> Floats:
    """Release the Hessian of J at the released point, with symmetric Gaussian noise.

    Every row's matrix f''·xxᵀ is put on a public grid by itself, so one row moves the sum of integers by at most
    `plan.hessian_sensitivity`; λ is public and added afterwards.
    """
    unit, columns = float(plan.hessian_unit), plan.fit.coefficients
    total = np.zeros((columns, columns), dtype=object)
    step = max(1, _CELLS // columns**2)
    for whole in fit.objective.rows.blocks():
        for start in range(0, whole.size, step):
            codes = hessian_codes(fit.objective.loss, whole.part(start, start + step), fit.released, unit)
            total += codes.sum(axis=0).astype(object)
    # more than MOST_ROWS rows meet the end of an int64: held there, which moves no two tables further apart
    held = np.clip(total, -_LARGEST, _LARGEST).astype(np.int64)
    bounded = Bounded(
        held,
        sensitivity=Fraction(plan.hessian_sensitivity),
        norm="l2",
        neighbours=Neighbours.ADD_REMOVE,
        unit=plan.fit.unit,
    )
    noisy = SymmetricGaussianNoise(bounded, mu=plan.hessian_mu).release(source)
    return np.asarray(noisy.astype(np.float64) * unit + float(plan.fit.mechanism.regularisation) * np.eye(columns))


def hessian_codes(loss: Loss, block: Block, theta: Floats, unit: float) -> NDArray[np.int64]:
    """Return the matrix f''·xxᵀ of every row in units of the grid, each a function of its row alone, bit for bit.

    So the predictor is summed column by column (a matrix product may round a row otherwise when another is added), and
    the curvatures are made of `expit`, which goes element by element.
    """
    x = block.dense
    predictor = affine(list(x.T), theta.T, np.zeros(x.shape[1])).T
    bend = loss.second_derivative(predictor, block.targets, block.norms, np.ones_like(predictor))
    each = (bend * x)[:, :, None] * x[:, None, :]
    each = (each + each.transpose(0, 2, 1)) / 2  # the two products may differ in the last bit
    return np.rint(each / unit).astype(np.int64)


def paid_report_of(
    release: Release,
    *,
    classes: Sequence[Any] | None,
    features: Sequence[Feature | dict[str, Any]] | None = None,
    rho: float = 1e-6,
) -> PublishedReport:
    """Write the report of a released `PaidFit`, for one person who is fixed beforehand."""
    from sidelight.regression.estimators.privacy_report import constants_of, loss_of, report_of

    request = release.query
    paid = None
    if request["gradient_noise"] != "none":
        columns = len(release.value["gradient"])
        quantiles = report_quantiles(rho, scope="one-person", columns=columns, paid=True)
        hessian = release.value.get("hessian")
        sigma3 = None if hessian is None else float(request["hessian_noise"])
        loss, norm = loss_of(request), float(request["row_norm"])
        paid = DataDependent(
            gradient=[float(entry) for entry in release.value["gradient"]],
            sigma2=float(request["gradient_noise"]),
            hessian=None if hessian is None else np.asarray(hessian).tolist(),
            sigma3=sigma3,
            kappa=None if sigma3 is None else hessian_reach(sigma3, columns, rho, lipschitz_bounds(loss, norm)[1]),
            zeta=None if sigma3 is None else drift(loss, constants_of(request), columns, norm, rho),
            q=quantiles.along,
        )
    found = report_of(release, classes=classes, features=features, rho=rho, data_dependent=paid)
    assert isinstance(found, PublishedReport)  # a paid report is one of objective perturbation
    return found


def hessian_reach(sigma3: float, columns: int, rho: float, curvature: float) -> float:
    """Return κ: the noise of the Hessian has norm above it with probability at most ρ/6; with room for its rounding.

    Up to 2²¹ rows are rounded by at most half a grid unit β·2⁻⁴⁰ in each entry.
    """
    return sigma3 * goe_norm_quantile(columns, rho / 6) * (1 + 1e-9) + curvature * columns * 2.0**-20


def drift(loss: Any, constants: FitConstants, columns: int, row_norm: float, rho: float) -> float:
    """Return ζ: between the released point and the exact minimum no curvature changes by more than a factor e^ζ."""
    pace = 2 / loss.kappa if isinstance(loss, LogCosh) else 1.0  # |f'''| <= M·f''
    return pace * row_norm * constants.slack(chi_upper(columns, rho / 6), columns)
