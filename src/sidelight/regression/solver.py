"""Minimisers of the perturbed objective: Newton's method, and a fallback that always converges.

Privacy does not rest on how the point was found, only on its certificate: the path may use anything. But the proof
needs a certified point on *every* data set, so the fallback is part of it: Nesterov's method with the two known
constants, λ and nβ + λ, whose number of steps is bounded beforehand.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np

from sidelight.regression.losses import Floats
from sidelight.regression.objective import Objective

Solver = Literal["auto", "newton", "newton_cg", "accelerated"]
_DIRECT_UP_TO = 2000
#: The same for several classes, whose Hessian takes a matrix for each pair of them; for streamed rows only.
_DIRECT_CLASSES_UP_TO = 500
_MOST_STEPS = 60
_SMALLEST_STEP = 2.0**-12
#: A sample that stands for fewer rows than this costs more than it saves.
_WORTH_A_SAMPLE = 3
#: How far to go for a sample, as a share of the linear term: its minimum is not the one that is looked for.
_SAMPLE_GOAL = 1e-3


def minimise(objective: Objective, *, goal: float, solver: Solver = "auto") -> Floats:
    """Look for a point whose gradient is below `goal`; whether it is one, the certificate decides."""
    start = np.zeros_like(objective.linear)
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
        objective, rows=rows, regularisation=objective.regularisation / weight, linear=objective.linear / weight
    )
    enough = max(goal / weight, _SAMPLE_GOAL * float(np.linalg.norm(few.linear)))
    return newton(few, start, goal=enough, direct=_direct(few, solver))


def _direct(objective: Objective, solver: Solver) -> bool:
    """Say whether to factor the Hessian: conjugate gradients need a pass a step, and are cheaper where passes are."""
    if solver != "auto":
        return solver == "newton"
    if objective.loss.outputs == 1:
        return objective.linear.size <= _DIRECT_UP_TO
    return objective.linear.size <= _DIRECT_CLASSES_UP_TO and not objective.rows.in_memory


def newton(objective: Objective, theta: Floats, *, goal: float, direct: bool = True) -> Floats:
    """Damped Newton: a step counts when the gradient's norm falls (differences of the objective drown in rounding).

    With a kink in the slope the Hessian is one of the generalised ones. It may stall; then it returns where it stands.
    """
    both = direct and not objective.rows.in_memory  # one pass for gradient and Hessian where passes are dear
    gradient, hessian = _look(objective, theta, both=both)
    size = float(np.linalg.norm(gradient))
    for _ in range(_MOST_STEPS):
        if size <= goal:
            break
        if direct and hessian is None:
            hessian = objective.hessian(theta)
        move = _direction(objective, theta, gradient, hessian)
        if move is None:
            break
        step = 1.0
        while step >= _SMALLEST_STEP:
            candidate = theta + step * move
            new_gradient, new_hessian = _look(objective, candidate, both=both)
            new_size = float(np.linalg.norm(new_gradient))
            if new_size <= (1 - 1e-4 * step) * size:
                break
            step /= 2
        else:
            break
        theta, gradient, hessian, size = candidate, new_gradient, new_hessian, new_size
    return theta


def accelerated(objective: Objective, theta: Floats, *, goal: float) -> Floats:
    """Nesterov's method for a λ-strongly convex, (nβ+λ)-smooth objective.

    Accuracy: with q = √(λ/(nβ+λ)), the gap to the minimum falls by 1 - q a step, so the gradient is below the goal
    after log(2(nβ+λ)‖∇₀‖²/(λ·goal²))/q steps (objective-perturbation proof page, section 7).
    """
    strong = float(objective.regularisation)
    curvature = float(objective.loss.shape(objective.row_norm).curvature)
    smooth = objective.count() * curvature * (1 + 1e-9) + strong * (1 + 1e-9)
    q = math.sqrt(strong / smooth)
    momentum = (1 - q) / (1 + q)
    gradient = objective.gradient(theta)
    size = float(np.linalg.norm(gradient))
    steps = math.ceil(max(0.0, math.log(max(1.0, 2 * smooth * size * size / (strong * goal * goal)))) / q) + 2
    ahead = theta
    for _ in range(steps):
        if size <= goal:
            return ahead
        moved = ahead - gradient / smooth
        ahead, theta = moved + momentum * (moved - theta), moved
        gradient = objective.gradient(ahead)
        size = float(np.linalg.norm(gradient))
    return theta


def _look(objective: Objective, theta: Floats, *, both: bool) -> tuple[Floats, Floats | None]:
    return objective.gradient_and_hessian(theta) if both else (objective.gradient(theta), None)


def _direction(objective: Objective, theta: Floats, gradient: Floats, hessian: Floats | None) -> Floats | None:
    """Solve H·move = -gradient, by Cholesky or by conjugate gradients; None when it fails."""
    if hessian is not None:
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        try:
            factor = cho_factor(hessian, overwrite_a=True, check_finite=False)
            return np.asarray(-cho_solve(factor, gradient.ravel()).reshape(gradient.shape))
        except (LinAlgError, ValueError):
            return None
    move, residual = np.zeros_like(gradient), -gradient
    size = float(np.linalg.norm(residual))
    enough = min(0.1, math.sqrt(size)) * size
    direction, square = residual, size * size
    for _ in range(10 * _MOST_STEPS):
        if math.sqrt(square) <= enough:
            break
        product = objective.hessian_times(theta, direction)
        length = square / float(np.vdot(direction, product))
        move, residual = move + length * direction, residual - length * product
        old, square = square, float(np.vdot(residual, residual))
        direction = residual + (square / old) * direction
    return move if np.isfinite(move).all() else None
