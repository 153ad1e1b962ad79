"""The public parameters of a linear model: which of them belong to which solver, and what makes no sense."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, get_args

from sidelight.errors import RangeError, nearest
from sidelight.guarantees import positive
from sidelight.mechanisms.objective_perturbation import Bound
from sidelight.regression.clipping import OnViolation
from sidelight.regression.solver import Solver

OnMissing = Literal["drop", "raise"]
_NEEDED = {
    "epsilon": "the privacy budget of this fit; 1 is a common choice, 0.1 is strict",
    "delta": "there is no default; 1e-6 is usual, and it should be far below one over the number of people",
    "data_norm": "the public bound of a row's Euclidean norm; scale each feature by a public range to [-1, 1], divide "
    "by the square root of their number, and it is 1",
}
ModelSolver = Literal["descent", "objective"]
#: Parameters of a model that `plan_linear` takes as they are.
OBJECTIVE_SETTINGS = (
    "epsilon",
    "delta",
    "on_violation",
    "regularisation",
    "theta_norm",
    "tolerance",
    "rows_at_most",
    "bound",
)
#: Parameters of a model that `plan_descent` takes as they are.
DESCENT_SETTINGS = ("epsilon", "delta", "on_violation", "geometry", "odds", "rows", "shrinkage", "passes")
#: Parameters of one of the solvers, with what they are where they are left out.
_OBJECTIVE_ONLY: dict[str, Any] = {
    "regularisation": None,
    "theta_norm": None,
    "tolerance": None,
    "bound": "tight",
    "minimiser": "auto",
}
_DESCENT_ONLY: dict[str, Any] = {"geometry": "auto", "shrinkage": "evidence", "passes": None}
_CHOICES = {
    "bound": get_args(Bound),
    "minimiser": get_args(Solver),
    "on_violation": get_args(OnViolation),
    "on_missing": get_args(OnMissing),
}


def needed(model: Any, name: str, hint: str = "") -> Any:
    """Return a parameter that has no default, or say what to give."""
    value = getattr(model, name)
    if value is None:
        raise RangeError(f"{type(model).__name__} wants {name}=...: {hint or _NEEDED[name]}")
    return value


def check_solver(model: Any) -> None:
    """Check the solver, and that no parameter of the other one is given: it would be ignored in silence."""
    name = type(model).__name__
    if model.solver not in get_args(ModelSolver):
        hint = nearest(str(model.solver), get_args(ModelSolver))
        if model.solver in get_args(Solver):
            hint = f"write solver='objective', minimiser={model.solver!r}"
        raise RangeError(f"solver is {model.solver!r}, which is no choice; {hint}")
    others, owner = (_OBJECTIVE_ONLY, "objective") if model.solver == "descent" else (_DESCENT_ONLY, "descent")
    for parameter, default in others.items():
        if getattr(model, parameter, default) != default:
            raise RangeError(
                f"{parameter} of {name} belongs to solver={owner!r}; leave it out, or say solver={owner!r}"
            )


def check_parameters(model: Any) -> None:
    """Check the other public parameters that all models have."""
    if model.session is not None and model.random_state is not None:
        raise RangeError(
            "random_state and session cannot be had together: a budget pays for private noise; for reproducible "
            "tests pass session=sidelight.testing.SeededSession(..., seed=...), which brands the model"
        )
    if model.fit_intercept and model.intercept_value is not None:
        positive(model.intercept_value, name="intercept_value")
    if not isinstance(model.rows_at_most, Integral | None):
        raise RangeError(f"rows_at_most must be a whole number or None, got {type(model.rows_at_most).__name__}")
    for name, choices in _CHOICES.items():
        if getattr(model, name) not in choices:
            hint = nearest(str(getattr(model, name)), choices)
            raise RangeError(f"{name} is {getattr(model, name)!r}, which is no choice; {hint}")
