"""What a model is to learn, and its public parameters: before any data.

Classes are a public declaration: never learned from labels, sorted as scikit-learn sorts them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal, TypedDict, get_args

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, SchemaError, WeakFitWarning, nearest
from sidelight.guarantees import Amount, positive
from sidelight.mechanisms.objective_perturbation import Bound
from sidelight.records import Category, Number, Table
from sidelight.regression.descent.plan import GeometryChoice
from sidelight.regression.descent.shrinkage import Shrinkage
from sidelight.regression.descent.targets import Targets
from sidelight.regression.losses import Loss
from sidelight.regression.rows import OnViolation
from sidelight.regression.solver import Solver

OnMissing = Literal["drop", "raise"]
ModelSolver = Literal["descent", "objective"]


class ObjectiveSettings(TypedDict, total=False):
    """Settings of objective perturbation, and of both solvers the odds of a prediction."""

    odds: Amount
    intercept_value: Amount | None
    regularisation: Amount | None
    theta_norm: Amount | None
    rows_at_most: int | None
    tolerance: Amount | None
    bound: Bound
    minimiser: Solver


class SolverSettings(ObjectiveSettings, total=False):
    """Settings of both solvers."""

    geometry: GeometryChoice
    shrinkage: Shrinkage
    passes: int | None


class RegressorSettings(SolverSettings, total=False):
    """Settings of a linear regression."""

    scale: Amount | None


_NEEDED = {
    "epsilon": "the privacy budget of this fit; 1 is a common choice, 0.1 is strict",
    "delta": "there is no default; 1e-6 is usual, and it should be far below one over the number of people",
    "data_norm": "the public bound of a row's Euclidean norm; scale each feature by a public range to [-1, 1], divide "
    "by the square root of their number, and it is 1",
}
#: Parameters of a model that `plan_linear` and `plan_descent` take as they are.
_BOTH = ("epsilon", "delta", "on_violation")
OBJECTIVE_SETTINGS = (*_BOTH, "regularisation", "theta_norm", "tolerance", "rows_at_most", "bound")
DESCENT_SETTINGS = (*_BOTH, "geometry", "odds", "rows", "shrinkage", "passes")
#: Settings that one of the solvers alone has.
_OF_SOLVER = {
    "objective": ("regularisation", "theta_norm", "tolerance", "bound", "minimiser"),
    "descent": ("geometry", "shrinkage", "passes"),
}
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
    """Check the solver, and that no parameter of the other one is given: it would be ignored silently."""
    name = type(model).__name__
    if model.solver not in get_args(ModelSolver):
        hint = nearest(str(model.solver), get_args(ModelSolver))
        if model.solver in get_args(Solver):
            hint = f"write solver='objective', minimiser={model.solver!r}"
        raise RangeError(f"solver is {model.solver!r}, which is not an option; {hint}")
    if model.settings is not None:
        raise RangeError(f"settings of {name} are given by their names, such as odds=1; leave out settings=...")
    owner = "objective" if model.solver == "descent" else "descent"
    for parameter in _OF_SOLVER[owner]:
        if getattr(model, parameter) != getattr(type(model), parameter):
            raise RangeError(
                f"{parameter} of {name} belongs to solver={owner!r}; leave it out, or say solver={owner!r}"
            )


def check_price(model: Any) -> None:
    """Check what every model needs to be paid for: a price, and one source of noise."""
    for name in ("epsilon", "delta"):
        needed(model, name)
    model._check_session()
    if model.session is not None and model.random_state is not None:
        raise RangeError(
            "random_state and session cannot be had together: a budget pays for private noise; for reproducible "
            "tests pass session=sidelight.testing.SeededSession(..., seed=...), which brands the model"
        )


def check_choices(model: Any, choices: Mapping[str, Sequence[str]]) -> None:
    """Check parameters with closed choices."""
    for name, known in choices.items():
        given = getattr(model, name)
        if given not in known:
            raise RangeError(f"{name} is {given!r}, which is not an option; {nearest(str(given), known)}")


def check_table(table: Any) -> None:
    """Refuse rows without declarations where a table is wanted."""
    if not isinstance(table, Table):
        raise SchemaError(
            f"fit_table wants a sidelight.Table, got {type(table).__name__}; write sl.Table(data, schema=[...]), "
            "or fit(X, y) for arrays"
        )


def warn_of_noise(privacy: Any, what: str) -> None:
    """Warn where released numbers say that the noise outweighs the rows."""
    if privacy.noise_to_signal > 1:
        mostly = "its prediction" if privacy.chosen is not None else "noise"
        warnings.warn(
            f"the noise outweighs the rows, so {what} mostly {mostly}; more rows, a larger epsilon, fewer columns or a "
            "better prediction would help",
            WeakFitWarning,
            stacklevel=4,
        )


def check_parameters(model: Any) -> None:
    """Check the public parameters that linear models have."""
    check_price(model)
    if model.fit_intercept and model.intercept_value is not None:
        positive(model.intercept_value, name="intercept_value")
    if not isinstance(model.rows_at_most, Integral | None):
        raise RangeError(f"rows_at_most must be a whole number or None, got {type(model.rows_at_most).__name__}")
    check_choices(model, _CHOICES)


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What is minimised, the NumPy kinds that y may have, and for a classifier its classes.

    `loss` is for objective perturbation, `targets` for descent: one of the two. `middle` is the public number that
    targets are counted from, `half` their unit, `target_range` their range.
    """

    loss: Loss | None = None
    targets: Targets | None = None
    target_kinds: str
    classes: NDArray[Any] | None = None
    middle: float = 0.0
    half: float = 1.0
    target_range: tuple[float, float] | None = None


def declared_classes(
    classes: Any, column: Number | Category | None = None, *, at_most: int | None = None
) -> NDArray[Any]:
    """Check and sort declared classes: all texts, or all numbers. A category of a table declares its own.

    >>> declared_classes(["yes", "no"]).tolist()
    ['no', 'yes']
    """
    if isinstance(column, Number):
        raise SchemaError(
            f"the target {column.name!r} is a number, and a classifier wants labels; declare "
            f"Category({column.name!r}, [...]), or use LinearRegression"
        )
    if classes is None and column is not None:
        classes = column.categories
    if classes is None:
        raise RangeError(
            "classes=... must be declared, for example classes=[0, 1]: which labels occur is private, so they are not "
            "learned from y; rows with other labels take no part"
        )
    if isinstance(classes, str) or not hasattr(classes, "__len__"):
        raise RangeError(f"classes must be a list of labels, got {type(classes).__name__}")
    given = classes.tolist() if isinstance(classes, np.ndarray) else list(classes)
    texts = all(isinstance(label, str) for label in given)
    if not texts and not all(isinstance(label, Real | np.bool_) for label in given):
        raise RangeError("classes must be all texts or all numbers; map the labels to one of them first")
    if not texts and not np.isfinite(np.asarray(given, dtype=np.float64)).all():
        raise RangeError("classes must be finite numbers; a missing label is no class, its row takes no part")
    found = np.unique(np.asarray(given))
    if len(found) != len(given) or len(found) < 2:
        raise RangeError(f"classes must be at least two different labels, got {len(found)} different of {len(given)}")
    if at_most is not None and len(found) > at_most:
        raise RangeError(f"this model separates {at_most} classes, got {len(found)}; LogisticRegression takes more")
    return found


def class_weights(given: Any, labels: tuple[Any, ...]) -> tuple[Amount, ...]:
    """Check weights, explicit public numbers by label; labels that are not named weigh 1. None gives none."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise RangeError(
            "class_weight must map labels to public numbers, such as {0: 1, 1: 5}; weights computed from the "
            "labels ('balanced') would reveal how many there are"
        )
    unknown = [label for label in given if label not in labels]
    if unknown:
        raise RangeError(f"class_weight has labels that are not declared in classes: {unknown}")
    for label, weight in given.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float | Fraction | Decimal | np.number):
            raise RangeError(f"class_weight of {label!r} must be an explicit number, got {type(weight).__name__}")
    weights = {label: positive(_plain(weight), name=f"class_weight of {label!r}") for label, weight in given.items()}
    return tuple(weights.get(label, Fraction(1)) for label in labels)


def label_kinds(classes: NDArray[Any]) -> str:
    """Return the NumPy kinds of labels that can be among the classes; "O" cells are looked at one by one."""
    return "OUT" if classes.dtype.kind == "U" else "Ofiub"


def _plain(weight: Any) -> Any:
    return weight.item() if isinstance(weight, np.number) else weight
