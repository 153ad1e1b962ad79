"""What a model is to learn, and its public parameters: before any data.

Classes are a public declaration: never learned from labels, sorted as scikit-learn sorts them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal, get_args

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


@dataclass(frozen=True, kw_only=True)
class DescentSettings:
    """Describe noisy descent with settings of your own, as `solver=` of a linear model; for experts.

    Args:
        geometry: The coordinates: "private" releases them, "public" takes those of public rows, "none" does without.
            "auto" takes those of public rows if they are enough and chosen, and none for wide rows (more than 1000
            columns, of a sparse matrix 100).
        shrinkage: How the model is drawn to its prediction, or to 0: by "evidence", "stein" or "none".
        passes: The steps, instead of 8 or 16.

    >>> import sidelight as sl
    >>> model = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, solver=sl.DescentSettings(geometry="none"))
    """

    geometry: GeometryChoice = "auto"
    shrinkage: Shrinkage = "evidence"
    passes: int | None = None


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """Describe objective perturbation with settings of your own, as `solver=` of a model; for experts.

    Args:
        regularisation: λ of the penalty added to the sum of losses (scikit-learn's C is 1/λ), by default the least.
        theta_norm: A public guess of the coefficients' norm, which raises λ.
        intercept_value: The constant, by default `data_norm`: smaller costs less noise, and the intercept is shrunk
            more.
        rows_at_most: A public bound of the number of rows, to be given above a million (`fit` warns where the
            regularisation outweighs that many rows).
        tolerance: τ, the certified bound of the gradient at the released point, by default a millionth of L.
        bound: "tight", or "thesis" and "generic" for comparison.
        minimiser: "auto", "newton", "newton_cg" or "accelerated", outside the privacy proof.
        scale: Of a `LinearRegression`: errors beyond it count linearly (for "squared_clipped": the bound of a record's
            gradient). Default an eighth of the range. Smaller is less noise and more robust.

    >>> import sidelight as sl
    >>> model = sl.LinearSVC(epsilon=1, delta="1e-6", data_norm=1, solver=sl.ObjectiveSettings(theta_norm=3))
    """

    regularisation: Amount | None = None
    theta_norm: Amount | None = None
    intercept_value: Amount | None = None
    rows_at_most: int | None = None
    tolerance: Amount | None = None
    bound: Bound = "tight"
    minimiser: Solver = "auto"
    scale: Amount | None = None


#: The settings that a solver has by its name.
SOLVERS: Mapping[str, DescentSettings | ObjectiveSettings] = {
    "descent": DescentSettings(),
    "objective": ObjectiveSettings(),
}
#: The class of each setting.
SETTINGS = {each.name: type(usual) for usual in SOLVERS.values() for each in fields(usual)}
#: What `solver` of a model may be.
EitherSolver = Literal["descent", "objective"] | DescentSettings | ObjectiveSettings
OnlyObjective = Literal["objective"] | ObjectiveSettings


def with_settings(model: str, solver: Any, settings: Mapping[str, Any]) -> Any:
    """Return a solver, given by its name or its settings, with some other settings."""
    usual: Any = SOLVERS.get(solver, solver) if isinstance(solver, str) else solver
    for name in settings:
        if not isinstance(usual, SETTINGS[name]):
            raise RangeError(
                f"{name} of {model} is a setting of sl.{SETTINGS[name].__name__}; leave it out, or pass that as solver"
            )
    return replace(usual, **settings)


_NEEDED = {
    "epsilon": "the privacy budget of this fit; 1 is a common choice, 0.1 is strict",
    "delta": "there is no default; 1e-6 is usual, and it should be far below one over the number of people",
    "data_norm": "the public bound of a row's Euclidean norm; scale each feature by a public range to [-1, 1], divide "
    "by the square root of their number, and it is 1",
}
#: Settings of a solver that `plan_linear` or `plan_descent` takes as they are.
OBJECTIVE_SETTINGS = ("regularisation", "theta_norm", "tolerance", "rows_at_most", "bound")
DESCENT_SETTINGS = ("geometry", "shrinkage", "passes")
_CHOICES = {
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
    """Check the solver and that its settings are settings of this model."""
    name, known, given = type(model).__name__, model._solvers, model.solver
    if isinstance(given, str) and given not in known:
        hint = nearest(given, known)
        if given in get_args(Solver):
            hint = f"write solver=sl.ObjectiveSettings(minimiser={given!r})"
        raise RangeError(f"solver is {given!r}, which is not an option; {hint}")
    if type(model._settings) not in {type(SOLVERS[each]) for each in known}:
        words = ", ".join(f"sl.{type(SOLVERS[each]).__name__}(...)" for each in known)
        raise RangeError(f"solver of {name} is {', '.join(map(repr, known))} or {words}, got {given!r}")


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
    check_choices(model, _CHOICES)
    own = model._settings
    if not isinstance(own, ObjectiveSettings):
        return
    check_choices(own, {"bound": get_args(Bound), "minimiser": get_args(Solver)})
    if model.fit_intercept and own.intercept_value is not None:
        positive(own.intercept_value, name="intercept_value")
    if not isinstance(own.rows_at_most, Integral | None):
        raise RangeError(f"rows_at_most must be a whole number or None, got {type(own.rows_at_most).__name__}")


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
    plain = {label: each.item() if isinstance(each, np.number) else each for label, each in given.items()}
    weights = {label: positive(weight, name=f"class_weight of {label!r}") for label, weight in plain.items()}
    return tuple(weights.get(label, Fraction(1)) for label in labels)


def label_kinds(classes: NDArray[Any]) -> str:
    """Return the NumPy kinds of labels that can be among the classes; "O" cells are looked at one by one."""
    return "OUT" if classes.dtype.kind == "U" else "Ofiub"
