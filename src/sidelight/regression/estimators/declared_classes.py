"""Classes as a public declaration: never learned from labels, sorted as scikit-learn sorts them."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError


def declared_classes(classes: Any, *, at_most: int | None = None) -> NDArray[Any]:
    """Check and sort declared classes: all texts, or all numbers.

    >>> declared_classes(["yes", "no"]).tolist()
    ['no', 'yes']
    """
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


def label_kinds(classes: NDArray[Any]) -> str:
    """Give the NumPy kinds of labels that can be among the classes; "O" cells are looked at one by one."""
    return "OUT" if classes.dtype.kind == "U" else "Ofiub"
