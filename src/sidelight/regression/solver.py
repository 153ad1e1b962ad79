"""Minimisers of the perturbed objective: Newton's method in floats, and with twice the digits what always converges.

Privacy does not rest on how the point was found, only on its certificate: the path may use anything. But the proof
needs a certified point on *every* data set, so the last stage is part of it: `refine`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeVar

import numpy as np

from sidelight.regression.double_double import DoubleDouble, floats_of
from sidelight.regression.losses import Floats
from sidelight.regression.objective import Objective, fine_gradient

Solver = Literal["auto", "newton", "newton_cg", "accelerated"]
_Point = TypeVar("_Point", Floats, DoubleDouble)
_DIRECT_UP_TO = 2000
#: The same for several classes, whose Hessian takes a matrix for each pair of them; for streamed rows only.
_DIRECT_CLASSES_UP_TO = 500
_MOST_STEPS = 100
_MOST_CONJUGATE = 600
#: Steps of one search along a line: enough to come down to 2⁻⁴⁰, and near the goal, where rounding may be all there is.
_MOST_TRIALS = 40
_FEW_TRIALS = 6
_NEAR = 64.0
#: A sample that stands for fewer rows than this costs more than it saves.
_WORTH_A_SAMPLE = 3
#: How far to go for a sample, as a share of the linear term: its minimum is not the one that is looked for.
_SAMPLE_GOAL = 1e-3


def minimise(objective: Objective, *, goal: float, solver: Solver = "auto") -> Floats:
    """Look for a point whose gradient is below `goal`; whether it is one, the certificate decides."""
    start = objective.start
    if solver == "accelerated":
        return accelerated(objective, start, goal=goal)
    near = near_minimum(objective, start, goal=goal, solver=solver)
    return newton(objective, near, goal=goal, direct=_direct(objective, solver))


def near_minimum(objective: Objective, start: Floats, *, goal: float, solver: Solver) -> Floats:
    """Minimise for a sample of the rows first: a few cheap steps instead of a few passes over everything."""
    rows, weight = objective.rows.sample()
    if weight < _WORTH_A_SAMPLE:
        return start
    few = replace(  # divided by the weight, so that it is an objective of the same form
        objective,
        rows=rows,
        regularisation=objective.regularisation / weight,
        linear=objective.linear / weight,
        public=None if objective.public is None else objective.public.divided(weight),
    )
    enough = max(goal / weight, _SAMPLE_GOAL * float(np.linalg.norm(few.linear)))
    return newton(few, start, goal=enough, direct=_direct(few, solver))


def _direct(objective: Objective, solver: Solver) -> bool:
    """Return whether to factor the Hessian: conjugate gradients need a pass a step, cheaper where passes are."""
    if solver != "auto":
        return solver == "newton"
    if objective.loss.outputs == 1:
        return objective.linear.size <= _DIRECT_UP_TO
    return objective.linear.size <= _DIRECT_CLASSES_UP_TO and not objective.rows.in_memory


def newton(objective: Objective, theta: Floats, *, goal: float, direct: bool = True) -> Floats:
    """Newton's method in floats; it returns where it stands when floats, or its steps, come to an end."""
    both = direct and not objective.rows.in_memory  # one pass for gradient and Hessian where passes are dear

    def look(point: Floats) -> tuple[Floats, Floats | None]:
        return objective.gradient_and_hessian(point) if both else (objective.gradient(point), None)

    return _descend(objective, theta, look, lambda point, step: point + step, goal=goal, direct=direct)


def refine(objective: Objective, start: Floats, *, goal: float) -> DoubleDouble:
    """Go on with twice the digits until the gradient is below `goal`, which it reaches on every data set.

    Newton's method first, whose steps are as long as the convex function along them allows; and should it not have
    ended after `_MOST_STEPS`, Nesterov's method, whose number of steps is bounded beforehand (objective-perturbation
    proof page, Theorem 5).
    """

    def look(point: DoubleDouble) -> tuple[Floats, Floats | None]:
        with np.errstate(over="ignore", invalid="ignore"):
            return fine_gradient(objective, point)[0], None

    def move(point: DoubleDouble, step: Floats) -> DoubleDouble:
        return point.plus(DoubleDouble.of(step))

    begin = DoubleDouble.of(np.where(np.isfinite(start).all(), start, objective.start))
    direct = _direct(objective, "auto")
    point = _descend(objective, begin, look, move, goal=goal, direct=direct)
    return _nesterov(objective, point, look, move, goal=goal)


def accelerated(objective: Objective, theta: Floats, *, goal: float) -> Floats:
    """Nesterov's method in floats."""
    return _nesterov(
        objective, theta, lambda point: (objective.gradient(point), None), lambda point, step: point + step, goal=goal
    )


def _descend(
    objective: Objective,
    theta: _Point,
    look: Callable[[_Point], tuple[Floats, Floats | None]],
    move: Callable[[_Point, Floats], _Point],
    *,
    goal: float,
    direct: bool,
) -> _Point:
    """Newton steps, damped along the line.

    A full step counts when it halves the smallest gradient so far. If not, the step ends where the slope along the line
    is between half of what it was and 0: the objective has fallen, because it is convex, and no number as large as the
    objective is ever subtracted. The first happens a bounded number of times and the second converges, so nothing goes
    round in circles, also where the slope of a loss has kinks and the Hessian is one of the generalised ones.
    """
    gradient, hessian = look(theta)
    size = best = float(np.linalg.norm(gradient))
    for _ in range(_MOST_STEPS):
        if not size > goal:
            break
        if direct and hessian is None:
            hessian = objective.hessian(floats_of(theta))
        step = _direction(objective, floats_of(theta), gradient, hessian)
        if step is None:
            break
        slope = float(np.vdot(step, gradient))
        if not slope < 0:
            break
        low, high, low_slope, high_slope = 0.0, math.inf, slope, math.inf
        reach = float(np.abs(step).max())
        digits = 2.0**-53 if isinstance(theta, np.ndarray) else 2.0**-106
        resolution = digits * float(np.abs(floats_of(theta)).max())
        length = 1.0
        for _ in range(_MOST_TRIALS if size > _NEAR * goal else _FEW_TRIALS):
            candidate = move(theta, length * step)
            new_gradient, new_hessian = look(candidate)
            new_size = float(np.linalg.norm(new_gradient))
            new_slope = float(np.vdot(step, new_gradient))
            if new_size <= max(best / 2, goal) or slope / 2 <= new_slope <= 0:
                break
            if new_slope < 0:
                low, low_slope = length, new_slope
            else:
                high, high_slope = length, new_slope
            length = 2 * length if math.isinf(high) else _between(low, high, low_slope, high_slope)
            if length * reach <= resolution:
                return theta  # a step that the digits of the point cannot hold
        else:
            break
        theta, gradient, hessian, size = candidate, new_gradient, new_hessian, new_size
        best = min(best, size)
    return theta


def _between(low: float, high: float, low_slope: float, high_slope: float) -> float:
    """Return where the slope may be a quarter of the one below: by the chord, kept away from both ends."""
    if not math.isfinite(high_slope):
        return (low + high) / 2
    share = (0.75 * -low_slope) / (high_slope - low_slope)
    return low + (high - low) * min(0.9, max(0.1, share))


def _nesterov(
    objective: Objective,
    theta: _Point,
    look: Callable[[_Point], tuple[Floats, Floats | None]],
    move: Callable[[_Point, Floats], _Point],
    *,
    goal: float,
) -> _Point:
    """Nesterov's method for a λ-strongly convex, (nβ+λ)-smooth objective.

    Accuracy: with q = √(λ/(nβ+λ)), the gap to the minimum falls by 1 - q a step, so the gradient is below the goal
    after log(2(nβ+λ)‖∇₀‖²/(λ·goal²))/q steps (objective-perturbation proof page, section 7).
    """
    gradient, _ = look(theta)
    size = float(np.linalg.norm(gradient))
    if size <= goal:
        return theta
    strong = float(objective.regularisation)
    smooth = objective.smoothness()
    q = math.sqrt(strong / smooth)
    momentum = (1 - q) / (1 + q)
    steps = math.ceil(max(0.0, math.log(max(1.0, 2 * smooth * size * size / (strong * goal * goal)))) / q) + 2
    moved_before = np.zeros_like(gradient)  # θ of the step before, as seen from where we look
    for _ in range(steps):
        step = -gradient / smooth
        ahead = step + momentum * (step - moved_before)
        moved_before = step - ahead
        theta = move(theta, ahead)
        gradient, _ = look(theta)
        size = float(np.linalg.norm(gradient))
        if size <= goal:
            break
    return theta


def _direction(objective: Objective, theta: Floats, gradient: Floats, hessian: Floats | None) -> Floats | None:
    """Solve H·move = -gradient, by Cholesky or by conjugate gradients; None when it fails."""
    if hessian is not None:
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        scale = float(np.trace(hessian))
        for ridge in (0.0, 1e-13, 1e-9):  # where rounding took the smallest eigenvalues away
            try:
                factor = cho_factor(hessian + ridge * scale * np.eye(hessian.shape[0]), check_finite=False)
                step = np.asarray(-cho_solve(factor, gradient.ravel()).reshape(gradient.shape))
            except (LinAlgError, ValueError):
                continue
            if np.isfinite(step).all() and float(np.vdot(step, gradient)) < 0:
                return step
        return None
    move, residual = np.zeros_like(gradient), -gradient
    size = float(np.linalg.norm(residual))
    enough = min(0.1, math.sqrt(size)) * size
    direction, square = residual, size * size
    for _ in range(_MOST_CONJUGATE):
        if math.sqrt(square) <= enough:
            break
        product = objective.hessian_times(theta, direction)
        length = square / float(np.vdot(direction, product))
        move, residual = move + length * direction, residual - length * product
        old, square = square, float(np.vdot(residual, residual))
        direction = residual + (square / old) * direction
    return move if np.isfinite(move).all() else None
