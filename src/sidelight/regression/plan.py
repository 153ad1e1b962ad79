"""A private linear model before any data: its public parameters, its price, and how its rows are bounded."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, get_args

from sidelight.errors import RangeError, nearest
from sidelight.guarantees import (
    Amount,
    Claims,
    Person,
    Row,
    Unit,
    decimal_text,
    exact,
    positive,
    short_text,
    unit_to_text,
)
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.mechanisms.objective_perturbation import Bound, ObjectivePerturbation, calibrate_objective
from sidelight.regression.certificate import CERTIFIED_BLOCK
from sidelight.regression.clipping import OnViolation
from sidelight.regression.losses import Loss
from sidelight.regression.rows import RowPolicy
from sidelight.regression.solver import Solver


@dataclass(frozen=True, kw_only=True)
class LinearPlan:
    """Everything public about one fit; `claims` is its price, known before any data is opened."""

    loss: Loss
    features: int
    data_norm: Fraction
    intercept: Fraction | None
    on_violation: OnViolation
    row_norm: Fraction
    mechanism: ObjectivePerturbation
    epsilon: Fraction
    delta: Fraction
    rows_at_most: int | None
    solver: Solver
    unit: Unit

    @property
    def coefficients(self) -> int:
        """The number of coefficients a predictor has, the intercept included."""
        return self.features + (self.intercept is not None)

    @property
    def numerics(self) -> Literal["idealized"]:
        """The linear term is drawn as floats; the output noise is exact."""
        return "idealized"

    @cached_property
    def claims(self) -> Claims:
        """What the release proves: profiles per direction, Rényi orders, and (ε, δ)."""
        return self.mechanism.claims(epsilon=self.epsilon, delta=self.delta, unit=self.unit)

    @property
    def policy(self) -> RowPolicy:
        """How a raw record becomes a bounded one."""
        intercept = None if self.intercept is None else float(self.intercept)
        return RowPolicy(
            loss=self.loss,
            features=self.features,
            data_norm=self.data_norm,
            intercept=intercept,
            on_violation=self.on_violation,
        )

    def request(self) -> dict[str, str]:
        """Describe the fit for a ledger, with strings only."""
        m = self.mechanism
        amounts = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "data_norm": self.data_norm,
            "row_norm": self.row_norm,
            "noise_scale": m.noise_scale,
            "regularisation": m.regularisation,
            "tolerance": m.tolerance,
            "output_noise_scale": m.output_noise_scale,
        }
        words = {
            "kind": "linear_model",
            "features": str(self.features),
            "intercept": "none" if self.intercept is None else decimal_text(self.intercept),
            "on_violation": self.on_violation,
            "bound": m.bound,
            "unit": unit_to_text(self.unit),
        }
        return words | self.loss.to_json() | {name: decimal_text(value) for name, value in amounts.items()}

    def cautions(self) -> tuple[str, ...]:
        """Give public warnings about the parameters, for people."""
        found = []
        if self.epsilon > 10:
            found.append(f"epsilon {short_text(self.epsilon)} is above 10: hardly any privacy")
        if self.delta >= Fraction(1, 1000):
            found.append(f"delta {short_text(self.delta)} is 1e-3 or more: that share of people may be revealed")
        shape = self.mechanism.shape
        if self.rows_at_most and self.mechanism.regularisation > self.rows_at_most * shape.curvature / 4:
            found.append("the regularisation outweighs the rows: the model will be mostly prior")
        return tuple(found)


def plan_linear(
    *,
    loss: Loss,
    features: int,
    epsilon: Amount,
    delta: Amount,
    data_norm: Amount,
    intercept: Amount | None = 1,
    on_violation: OnViolation = "clip",
    regularisation: Amount | None = None,
    noise_scale: Amount | None = None,
    theta_norm: Amount | None = None,
    tolerance: Amount | None = None,
    rows_at_most: int | None = None,
    bound: Bound = "tight",
    solver: Solver = "auto",
    unit: Unit = Row(),  # noqa: B008  # frozen
) -> LinearPlan:
    """Plan a private linear model: calibrate, price and check it. Reads no data.

    Args:
        loss: One of `sidelight.regression.losses`.
        features: The number of feature columns, public.
        epsilon: The target; there is no default.
        delta: The target; there is no default.
        data_norm: The public bound of a row's Euclidean norm, without the intercept; longer rows are clipped.
        intercept: The value of the constant column, or None. It is penalised like every coefficient: without that there
            is no guarantee. The norm bound of the proof is √(data_norm² + intercept²).
        on_violation: "clip" shortens long rows, "normalize" gives every row the full length.
        regularisation: λ of λ/2·‖θ‖² beside the *sum* of losses (scikit-learn's C is 1/λ); default: the least.
        noise_scale: σ, if it must be fixed.
        theta_norm: A public guess of the coefficients' norm, which raises λ.
        tolerance: τ, if it must be fixed.
        rows_at_most: A public bound of the number of rows; with more than a million a good idea.
        bound: "tight", "generic" or "thesis".
        solver: "auto", "newton", "newton_cg" or "accelerated". Outside the privacy proof.
        unit: What one row is: the guarantee is for one row, so a person has one.

    Raises:
        RangeError: a parameter makes no sense, or floats cannot certify the tolerance for `rows_at_most` rows.
    """
    if features < 1:
        raise RangeError(f"a linear model needs at least one feature, got {features}")
    if on_violation not in ("clip", "normalize"):
        raise RangeError(f"on_violation is 'clip' or 'normalize', got {on_violation!r}")
    for name, given, known in (("bound", bound, get_args(Bound)), ("solver", solver, get_args(Solver))):
        if given not in known:
            raise RangeError(f"{name} {given!r} is not known; {nearest(str(given), known)}")
    if isinstance(unit, Person) and unit.max_rows != 1:
        raise RangeError(
            f"the guarantee is for one row, and a person may have {unit.max_rows}; bound persons to one row, or "
            "convert the claims for a group"
        )
    bounded = positive(data_norm, name="data_norm")
    constant = None
    if intercept is not None:
        constant = Fraction(float(positive(intercept, name="intercept")))  # the very float of the column
    row_norm = bounded if constant is None else _norm(bounded * bounded + constant * constant)
    mechanism = calibrate_objective(
        loss.shape(row_norm),
        epsilon=epsilon,
        delta=delta,
        regularisation=regularisation,
        noise_scale=noise_scale,
        tolerance=tolerance,
        rows_at_most=rows_at_most,
        theta_norm=theta_norm,
        dimension=(features + (constant is not None)) * loss.outputs,
        bound=bound,
    )
    if rows_at_most is not None:
        least = rows_at_most * (float(mechanism.shape.gradient) * CERTIFIED_BLOCK) * 2.0**-53
        if least > float(mechanism.tolerance) / 2:
            raise RangeError(
                f"floats cannot certify a gradient below {short_text(mechanism.tolerance)} for {rows_at_most} rows; "
                f"a tolerance of {4 * least:.1g} is possible"
            )
    return LinearPlan(
        loss=loss,
        features=features,
        data_norm=bounded,
        intercept=constant,
        on_violation=on_violation,
        row_norm=row_norm,
        mechanism=mechanism,
        epsilon=exact(epsilon, name="epsilon"),
        delta=exact(delta, name="delta"),
        rows_at_most=rows_at_most,
        solver=solver,
        unit=unit,
    )


def _norm(square: Fraction) -> Fraction:
    """Give the square root as a rational: exact where it is one, else rounded up in the twentieth digit."""
    root = round_up(Interval.of(square).sqrt().upper, digits=20)
    for digits in range(1, 16):
        short = round(root, digits)
        if short * short == square:
            return short
    return root
