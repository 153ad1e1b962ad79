"""A private linear model before any data: its public parameters, its price, and how its rows are bounded."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import get_args

from sidelight.errors import RangeError, nearest
from sidelight.guarantees import Amount, Claims, Row, Unit, decimal_text, exact, positive, short_text, unit_to_text
from sidelight.guarantees.amounts import grid_ceil
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.guarantees.units import rows_of_unit
from sidelight.mechanisms.budget import price_cautions
from sidelight.mechanisms.objective_calibration import calibrate_objective
from sidelight.mechanisms.objective_perturbation import Bound, ObjectivePerturbation, grid_exponent
from sidelight.readable import at_most
from sidelight.regression.losses import Loss, PoissonLoss
from sidelight.regression.objective import fine_error
from sidelight.regression.public_regulariser import PublicBounds
from sidelight.regression.rows import OnViolation, RowPolicy
from sidelight.regression.solver import Solver

#: Rows for which a fit cannot fail, where no smaller bound is given: a pass over this many takes hours.
MOST_ROWS = 1 << 30
#: Rows for which the number of steps is bounded, too.
SURE_ROWS = 10**7
#: Standard deviations beyond which no entry of the linear term lies: 1e12 of them, with probability 1e-870.
LARGEST_VARIATE = 64.0
#: A model that needs more rows than this to leave its prior is warned of.
_MANY_ROWS = 10_000
#: Public bounds are refused below it and above its inverse, so that no product of them leaves the floats.
_SMALLEST = Fraction(1, 10**40)


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
        """Return public warnings about the parameters, for people."""
        found = list(price_cautions(self.epsilon, self.delta))
        shape = self.mechanism.shape
        if self.rows_at_most and self.mechanism.regularisation > self.rows_at_most * shape.curvature / 4:
            found.append("the regularisation outweighs the rows: the model will be mostly prior")
        if isinstance(self.loss, PoissonLoss):
            # n records pull with nC at most, and λ·‖θ‖ pulls back: a mean of m wants an intercept that adds log(m)
            largest = float(positive(self.loss.largest_count, name="largest_count"))
            needed = float(self.mechanism.regularisation / shape.gradient) * math.log(max(1.0, largest / 5))
            if needed > _MANY_ROWS:
                found.append(
                    f"with clip {short_text(shape.gradient)} and counts of up to {largest:g} it takes more than "
                    f"{needed:.2g} rows to learn a mean of {largest / 5:g}: the model will predict far too little; "
                    f"raise clip towards {0.3 * largest:g}, or lower largest_count"
                )
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
        regularisation: λ of λ/2·‖θ‖² added to the *sum* of losses (scikit-learn's C is 1/λ); default: the least.
        noise_scale: σ, if it must be fixed.
        theta_norm: A public guess of the coefficients' norm, which raises λ.
        tolerance: τ, if it must be fixed.
        rows_at_most: A public bound of the number of rows; with more than a million a good idea.
        bound: "tight", "generic" or "thesis".
        solver: "auto", "newton", "newton_cg" or "accelerated". Outside the privacy proof.
        unit: What one row is: the guarantee is for one row, so a person has one.

    Raises:
        RangeError: a parameter makes no sense, or the tolerance cannot be certified on every data set (`certified`).
    """
    if features < 1:
        raise RangeError(f"a linear model needs at least one feature, got {features}")
    if on_violation not in ("clip", "normalize"):
        raise RangeError(f"on_violation is 'clip' or 'normalize', got {on_violation!r}")
    for name, given, known in (("bound", bound, get_args(Bound)), ("solver", solver, get_args(Solver))):
        if given not in known:
            raise RangeError(f"{name} {given!r} is not known; {nearest(str(given), known)}")
    if rows_of_unit(unit) != 1:
        raise RangeError(
            f"the guarantee is for one row, and a person may have {rows_of_unit(unit)}; bound persons to one row, or "
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
    plan = LinearPlan(
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
    return certified(plan, tolerance_is_given=tolerance is not None)


def certified(plan: LinearPlan, *, tolerance_is_given: bool, known: PublicBounds = PublicBounds()) -> LinearPlan:  # noqa: B008  # frozen
    """Return the plan with a tolerance that is certified on every data set, from public numbers alone.

    That is Theorem 5 of the objective-perturbation proof page: at every point that may be a minimum, of up to
    `rows_at_most` rows (or `MOST_ROWS`) and with every linear term within 64 standard deviations, the error of the last
    certificate is at most an eighth of the tolerance. Where it is not, the tolerance is raised, and the output noise
    with it; where that would cost accuracy, or the tolerance was given, the plan is refused. `known` bounds what will
    be known of the coefficients when the fit runs.

    Raises:
        RangeError: nothing could be certified for all data sets.
    """
    mechanism, loss, row_norm, coefficients = plan.mechanism, plan.loss, plan.row_norm, plan.coefficients
    shape, rows_at_most = mechanism.shape, plan.rows_at_most
    size = coefficients * loss.outputs
    public = (shape.gradient, shape.curvature, mechanism.regularisation, mechanism.noise_scale, row_norm)
    if not all(_SMALLEST <= amount <= 1 / _SMALLEST for amount in public):
        raise RangeError(
            "the bounds of the rows, of the loss, of the noise and of the regularisation must lie within "
            f"{float(_SMALLEST):g} and {float(1 / _SMALLEST):g}; count in other units"
        )
    rows = rows_at_most or MOST_ROWS
    linear = LARGEST_VARIATE * float(mechanism.noise_scale) * math.sqrt(size)

    def farthest(count: int) -> float:  # from the public centre: λ‖θ - θ₀‖ <= what rows and the linear term pull
        return ((count + known.rows) * float(shape.gradient) + linear) / float(mechanism.regularisation)

    def error(count: int, linear: float) -> float:
        return fine_error(
            gradient=float(shape.gradient),
            curvature=float(shape.curvature),
            derivative_error=loss.derivative_error(row_norm),
            regularisation=float(mechanism.regularisation),
            coefficients=coefficients,
            rows=count + known.rows,
            size=farthest(count) + known.centre,
            away=farthest(count),
            linear=linear,
        ) + 2.0**-102 * (2 * (coefficients + known.columns) + 16) * known.square * farthest(count)

    def condition(count: int) -> float:
        curvature = (count + known.rows) * float(shape.curvature) + known.square
        return curvature / float(mechanism.regularisation) + 1

    rounding = condition(rows) * float(mechanism.regularisation) * (farthest(rows) + known.centre) * 2.0**-104
    surely = min(rows, SURE_ROWS)  # what errors do to Nesterov's method on the way grows faster than e itself
    gathered = 2 * condition(surely) ** 0.75 * error(surely, 0.0)
    needed = grid_ceil(Fraction(8 * max(error(rows, linear) + rounding, gathered)))
    if needed <= mechanism.tolerance and _grid_is_fine(mechanism, size):
        return plan
    most = shape.gradient * Fraction(max(10**6, rows_at_most or 0), 10**9)
    if not tolerance_is_given and needed <= most:
        factor = needed / mechanism.tolerance
        output = grid_ceil(mechanism.output_noise_scale * max(factor, Fraction(1)))
        raised = replace(mechanism, tolerance=max(needed, mechanism.tolerance), output_noise_scale=output)
        if _grid_is_fine(raised, size):
            return replace(plan, mechanism=raised)
    possible = f"a tolerance of {at_most(float(needed))} is possible; or " if needed <= most else ""
    raise RangeError(
        f"a gradient below {short_text(mechanism.tolerance)} cannot be certified for every data set of up to {rows} "
        f"rows; {possible}give a larger regularisation, fewer columns, or a smaller rows_at_most"
    )


def _grid_is_fine(mechanism: ObjectivePerturbation, size: int) -> bool:
    """Return whether rounding to the output noise's grid moves the gradient by at most an eighth of the tolerance."""
    unit = math.ldexp(1.0, grid_exponent(mechanism.output_noise_scale))
    return float(mechanism.regularisation) * math.sqrt(size) * unit <= float(mechanism.tolerance) / 8


def _norm(square: Fraction) -> Fraction:
    """Return the square root as a rational: exact where it is one, else rounded up in the twentieth digit."""
    root = round_up(Interval.of(square).sqrt().upper, digits=20)
    for digits in range(1, 16):
        short = round(root, digits)
        if short * short == square:
            return short
    return root
