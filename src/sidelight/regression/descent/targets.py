"""What a descent learns, and how a target, its error and its loss are integers: a number, two classes, or several.

Public parameters alone. Weights of classes are divided by the largest: only their ratios matter to a descent, whose
clip and steps are made for errors of at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, decimal_text
from sidelight.regression.descent.geometry import Floats
from sidelight.regression.descent.integer_rows import (
    ERROR_BITS,
    Integers,
    logistic_errors,
    logistic_losses,
    softmax_errors,
    softmax_losses,
    squared_errors,
    squared_votes,
)
from sidelight.regression.descent.rules import CURVATURE, Kind
from sidelight.regression.losses.loss import Mask, numbers_of, positions_of, weights_of

#: Of the largest class weight, the least that another may be.
_LEAST_WEIGHT = 1e-9


@dataclass(frozen=True, kw_only=True)
class Targets:
    """A number of a public range by least squares, or declared classes by the logistic loss or a softmax.

    Args:
        kind: The loss: "squared", "logistic" (two classes) or "softmax".
        target_range: The public range of a number.
        target_centre: The public number that it is counted from.
        classes: The declared labels, sorted.
        class_weights: Public weights, one per class; empty for equal ones.
    """

    kind: Kind
    target_range: tuple[float, float] | None = None
    target_centre: float = 0.0
    classes: tuple[Any, ...] = ()
    class_weights: tuple[Amount, ...] = ()

    def __post_init__(self) -> None:
        if self.kind == "squared":
            if self.target_range is None or not self.half > 0:
                raise RangeError("a descent for a number needs target_range, the lower bound first")
        elif len(self.classes) < 2 or (self.kind == "logistic" and len(self.classes) != 2):
            raise RangeError(f"the {self.kind} loss got {len(self.classes)} classes; two, or for a softmax more")
        if self.class_weights and len(self.class_weights) != len(self.classes):
            raise RangeError(f"{len(self.classes)} classes got {len(self.class_weights)} weights; give one per class")
        if min(self.weights, default=1.0) < _LEAST_WEIGHT:
            raise RangeError(
                "class weights must lie within a factor of a billion of each other: a class that weighs less is not "
                "learned at all; leave its rows out, or weigh it more"
            )

    @property
    def outputs(self) -> int:
        """How many predictors a row has."""
        return len(self.classes) if self.kind == "softmax" else 1

    @property
    def half(self) -> float:
        """The unit of a numeric target: the farthest that it can be from its centre; 1 for classes."""
        if self.target_range is None:
            return 1.0
        low, high = self.target_range
        return max(high - self.target_centre, self.target_centre - low)

    @property
    def curvature(self) -> float:
        """The bound of the loss's curvature in its predictor."""
        return CURVATURE[self.kind]

    @property
    def as_softmax(self) -> Targets:
        """The same classes as a softmax; a number stays one."""
        return self if self.kind == "squared" else replace(self, kind="softmax")

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        """Turn labels into whole numbers, (rows, 1), each by itself, and say which rows take part.

        Codes of 2⁻¹⁴ half ranges for a number, -1 and 1 for two classes, places for several.
        """
        if self.kind == "squared":
            assert self.target_range is not None
            values, keep = numbers_of(labels)
            whole = 2.0**ERROR_BITS
            codes = np.rint((np.clip(values, *self.target_range) - self.target_centre) * (whole / self.half))
            return np.clip(codes, -whole, whole), keep
        places, keep = positions_of(labels, self.classes)
        if self.kind == "logistic":
            return np.where(places == 1, 1.0, -1.0)[:, None], keep
        return places.astype(np.float64)[:, None], keep

    def errors(self, u: Floats, targets: Floats) -> Floats:
        """Return the derivative of the loss in its predictors, in units of 2⁻¹⁴."""
        if self.kind == "squared":
            return squared_errors(u, targets)
        weights = self.weights
        if self.kind == "logistic":
            return logistic_errors(u, targets, (weights[0], weights[1]) if weights else (1.0, 1.0))
        return softmax_errors(u, targets[:, 0].astype(np.intp), weights)

    def votes(self, u: Floats, other: Floats, targets: Floats) -> Integers:
        """Return which of two predictions of a number is nearer in each row: 1, 0 or -1."""
        return squared_votes(u, other, targets)

    def losses(self, u: Floats, targets: Floats) -> Integers:
        """Return the losses of the choice between classifiers, 0..1024 per row."""
        if self.kind == "logistic":
            return logistic_losses(u, targets)
        return softmax_losses(u, targets[:, 0].astype(np.intp))

    def to_json(self) -> dict[str, str]:
        """Write the public parameters with strings only."""
        if self.kind == "squared":
            written = {"loss": "squared", "target_range": repr(self.target_range), "half_range": repr(self.half)}
            return written | ({"target_centre": repr(self.target_centre)} if self.target_centre else {})
        written = {"loss": self.kind, "classes": repr(list(self.classes))}
        if self.class_weights:
            written["class_weights"] = " ".join(map(decimal_text, weights_of(self.class_weights)))
        return written

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the classes over the largest; empty for equal ones."""
        weights = weights_of(self.class_weights)
        return tuple(float(weight / max(weights)) for weight in weights)
