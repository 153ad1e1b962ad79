"""Fit a private linear model: draw the noise, minimise, certify, add the output noise, release. One pure function.

The order matters: nothing leaves before the certificate holds, and a failed attempt is never repeated with new noise,
because an attempt that failed is an observation of the data.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sidelight.errors import NotCertifiedError
from sidelight.mechanisms.objective_perturbation import grid_exponent, grid_indices, linear_term, noisy_point, on_grid
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Source
from sidelight.regression.curator import PrivateFit, remember
from sidelight.regression.double_double import DoubleDouble
from sidelight.regression.losses import Floats
from sidelight.regression.objective import Objective, certify, error_bound
from sidelight.regression.plan import LinearPlan
from sidelight.regression.public_regulariser import PublicRegulariser
from sidelight.regression.rows import BoundedRows
from sidelight.regression.solver import Solver, minimise, refine

#: The solver aims this much below the tolerance, so that the certificate's error bound fits in between.
_AIM = 1 / 16
#: The same with twice the digits, whose error bound is below an eighth of the tolerance.
_FINE_AIM = 1 / 4


def private_fit(
    plan: LinearPlan, rows: BoundedRows, *, source: Source, public: PublicRegulariser | None = None
) -> PrivateFit:
    """Run a plan on bounded rows (`BoundedArrays` or `StreamedRows`, made with `plan.policy`).

    Guarantee: the plan's claims, for `released`; the rest of the returned inside is private. `public` is what is known
    about the coefficients, within the bounds that were planned.

    Raises:
        NotCertifiedError: no point could be certified, which cannot happen with fewer than `MOST_ROWS` rows
            (objective-perturbation proof page, Theorem 5).
    """
    with source.paying(objective_price(plan)):
        return _fitted(plan, rows, source=source, public=public)


def objective_price(plan: LinearPlan) -> DrawPrice:
    """Return the price of both noises of a fit, and of nothing else."""
    scale = plan.mechanism.output_noise_scale / Fraction(2) ** grid_exponent(plan.mechanism.output_noise_scale)
    return DrawPrice(
        law="objective perturbation",
        claims=plan.claims,
        samples=(("rounded_gaussian", scale),),
        statistic=f"the minimum of {plan.coefficients * plan.loss.outputs} coefficients, noise of scale "
        f"{float(plan.mechanism.noise_scale):.6g} in the objective",
        theorem="objective-perturbation proof page, Theorems 1 to 4",
    )


def _fitted(plan: LinearPlan, rows: BoundedRows, *, source: Source, public: PublicRegulariser | None) -> PrivateFit:
    mechanism = plan.mechanism
    exponent = grid_exponent(mechanism.output_noise_scale)
    size = plan.coefficients * plan.loss.outputs
    linear = linear_term(size, mechanism.noise_scale, source).reshape(plan.coefficients, plan.loss.outputs)
    objective = Objective(
        rows=rows,
        loss=plan.loss,
        row_norm=plan.row_norm,
        regularisation=mechanism.regularisation,
        linear=linear,
        public=public,
    )
    tolerance = math.nextafter(float(mechanism.tolerance), 0.0)
    point = certified_point(objective, tolerance=tolerance, exponent=exponent, solver=plan.solver)
    indices = grid_indices(point.fractions(), exponent)
    released = noisy_point(indices, exponent, mechanism.output_noise_scale, source).reshape(linear.shape)
    fit = PrivateFit(plan=plan, objective=objective, point=point.high, released=released)
    remember(fit)  # only for an audit that asked for it beforehand
    return fit


def certified_minimum(objective: Objective, *, tolerance: float, exponent: int, solver: Solver = "auto") -> Floats:
    """Find floats on the grid whose gradient is certified below the tolerance; where none are, raise."""
    point = _near(objective, tolerance=tolerance, exponent=exponent, solver=solver)
    if certify(objective, point, tolerance=tolerance).proves(tolerance):
        return point
    if np.isfinite(point).all() and error_bound(objective, point, rows=objective.count(), exact=True) > tolerance:
        raise _not_certified()  # a hopeless tolerance of another caller: no plan has one
    point = on_grid(refine(objective, point, goal=tolerance * _AIM).high, exponent)
    if certify(objective, point, tolerance=tolerance).proves(tolerance):
        return point
    raise _not_certified()


def certified_point(objective: Objective, *, tolerance: float, exponent: int, solver: Solver = "auto") -> DoubleDouble:
    """Find a point of the grid within tolerance/λ of the minimum: first with floats, then with twice the digits.

    Of the second kind a point is certified before it is rounded to the grid, below a tolerance that is smaller by
    what the rounding can do: half a grid unit in every coordinate, times λ (objective-perturbation proof page,
    Theorem 5).
    """
    near = _near(objective, tolerance=tolerance, exponent=exponent, solver=solver)
    if certify(objective, near, tolerance=tolerance).proves(tolerance):
        return DoubleDouble.of(near)
    fine = refine(objective, near, goal=tolerance * _FINE_AIM)
    moved = float(objective.regularisation) * math.sqrt(near.size) * math.ldexp(1.0, exponent)  # twice what it can be
    if certify(objective, fine, tolerance=tolerance - moved).proves(tolerance - moved):
        return fine
    raise _not_certified()


def _near(objective: Objective, *, tolerance: float, exponent: int, solver: Solver) -> Floats:
    return on_grid(minimise(objective, goal=tolerance * _AIM, solver=solver), exponent)


def _not_certified() -> NotCertifiedError:
    """A plan was checked beforehand, so this is for more rows than `MOST_ROWS`, and for a defect."""
    return NotCertifiedError(
        "no minimum could be certified; nothing is released, the budget is spent, and there is no second attempt"
    )
