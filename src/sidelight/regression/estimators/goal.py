"""What a model is to learn: its loss, how a target is read, and its classes; of public parameters, before any data.

Classes are a public declaration: never learned from labels, sorted as scikit-learn sorts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Amount, positive
from sidelight.records import Category, Number
from sidelight.regression.descent.targets import Targets
from sidelight.regression.losses import Loss


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What is minimised, the NumPy kinds that y may have, and for a classifier its classes.

    `loss` is for objective perturbation, `targets` for descent: one of the two. `middle` is the public number that
    targets are counted from, `half` their unit, `target_range` their range. `one_vs_rest`: one model a class.
    """

    loss: Loss | None = None
    targets: Targets | None = None
    target_kinds: str
    classes: NDArray[Any] | None = None
    middle: float = 0.0
    half: float = 1.0
    target_range: tuple[float, float] | None = None
    one_vs_rest: bool = False


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
