"""A fit together with a noisy gradient and a noisy Hessian, through the door, and the report that shows them.

The gradient of the objective at its minimum is minus the noise of the fit, which is drawn as floats, so the release is
idealized like the fit itself; what is added to gradient and Hessian are exact rounded Gaussians on public grids.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.mapped_vector import affine
from sidelight.errors import SchemaError
from sidelight.guarantees import Neighbours
from sidelight.mechanisms.additive import SymmetricGaussianNoise, priced_gaussian
from sidelight.mechanisms.goe_norm import goe_norm_quantile
from sidelight.mechanisms.objective_perturbation import on_grid
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Source
from sidelight.privacy_page import Feature, PublishedReport
from sidelight.privacy_page.build import FitConstants, chi_upper, report_quantiles
from sidelight.privacy_page.losses import LogCosh, steepness
from sidelight.privacy_page.published import DataDependent
from sidelight.records import Schema, Table
from sidelight.regression.curator import PrivateFit, dense_rows
from sidelight.regression.fit_core import private_fit
from sidelight.regression.losses import Floats, Loss
from sidelight.regression.paid_plan import PaidPlan, Preset, plan_paid
from sidelight.regression.rows import ArrayRows, Block
from sidelight.release import Release
from sidelight.session import Answer
from sidelight.session.query import SurePrepared

#: Rows whose d x d matrices are held at once.
_CELLS = 1 << 21
#: The largest sum of codes that meets noise.
_LARGEST = 1 << 61


@dataclass(frozen=True, kw_only=True)
class PaidFit:
    """A query: fit `loss` to rows X and labels y, and release gradient and Hessian beside it.

    Guarantee: ApproxDP(epsilon, delta) for everything together; numerics "idealized" (per-instance proof page,
    Theorem 6). `settings` are the other arguments of `plan_paid`.
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
        if np.shape(self.X)[0] != np.shape(self.y)[0]:
            raise SchemaError("X and y must have the same length: row i of X belongs to entry i of y")
        plan = plan_paid(
            loss=self.loss,
            features=int(np.shape(self.X)[1]),
            epsilon=self.epsilon,
            delta=self.delta,
            data_norm=self.data_norm,
            preset=self.preset,
            unit=schema.unit,
            **(self.settings or {}),
        )
        return PreparedPaidFit.of(plan, self.X, self.y)

    def __repr__(self) -> str:
        return f"PaidFit({self.loss.name}, preset={self.preset!r})"  # never the rows


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PreparedPaidFit(SurePrepared):
    """A planned fit with its extra releases; everything but `run` and the rows is public."""

    plan: PaidPlan
    X: Any
    y: Any

    @classmethod
    def of(cls, plan: PaidPlan, X: Any, y: Any) -> Self:  # noqa: N803 - the names of scikit-learn
        """Price everything together."""
        return cls(claims=plan.claims, request=plan.request(), plan=plan, X=X, y=y)

    def run(self, table: Table, source: Source) -> Answer:
        """Fit, then add noise to gradient and Hessian."""
        del table  # the session's; X was derived from it
        price = DrawPrice(
            law="objective perturbation, with a noisy gradient and Hessian",
            claims=self.claims,
            statistic=f"the minimum of {self.plan.fit.coefficients} coefficients and what it is made of",
            theorem="per-instance proof page, Theorem 6",
        )
        with source.paying(price):
            return self._released(source)

    def _released(self, source: Source) -> Answer:
        plan = self.plan.fit
        fit = private_fit(plan, ArrayRows(self.X, self.y, policy=plan.policy), source=source)
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
    x = dense_rows(block)
    predictor = affine(list(x.T), theta.T, np.zeros(x.shape[1])).T
    bend = loss.bend(predictor, block.targets, block.norms, np.ones_like(predictor))
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
            kappa=None if sigma3 is None else hessian_reach(sigma3, columns, rho, steepness(loss, norm)[1]),
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
