"""What the fit needs of a loss: targets, slope, curvature, and the bounds that the privacy proof rests on."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.guarantees import Amount, positive
from sidelight.mechanisms.objective_perturbation import LossShape
from sidelight.records.cells import numbers_of as numbers_of_cells
from sidelight.regression.double_double import DoubleDouble

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


class Loss(Protocol):
    """A convex loss f(u; y) of a linear predictor u = xᵀθ (a vector of predictors for several classes).

    Arrays have one row per record: `predictor` is (n, outputs); `targets` and `norms` are (n, 1). `norms` bound ‖x‖
    from above, the intercept included.
    """

    @property
    def name(self) -> str:
        """The name in requests and releases."""
        ...

    @property
    def outputs(self) -> int:
        """How many predictors a record has: 1, or the number of classes."""
        ...

    def shape(self, row_norm: Fraction) -> LossShape:
        """Bound slope and curvature for rows of norm at most `row_norm`, the intercept included."""
        ...

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        """Turn labels into targets, record by record, and say which records take part."""
        ...

    def value(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        """Return f, one number per record. For tests and evaluation: the solver needs slopes only."""
        ...

    def first_derivative(self, predictor: Floats, targets: Floats, norms: Floats) -> Floats:
        """Return f', in the predictor's shape."""
        ...

    def fine_derivative(self, predictor: DoubleDouble, targets: Floats, norms: Floats) -> DoubleDouble:
        """Return f' with an error of at most 2⁻³⁰ of `derivative_error`: for the last certificate."""
        ...

    def second_derivative(self, predictor: Floats, targets: Floats, norms: Floats, along: Floats) -> Floats:
        """Return f'' times a change of the predictor."""
        ...

    def derivative_error(self, row_norm: Fraction) -> float:
        """Bound |computed f' - f'|·‖x‖ in units of 2⁻⁵³, with room for a libm of a few ulp."""
        ...

    def to_json(self) -> dict[str, str]:
        """Write the public parameters with strings only."""
        ...


def numbers_of(labels: Any) -> tuple[Floats, Mask]:
    """Read numeric targets; what is no finite number drops its record and never raises."""
    raw = _each(labels)
    if raw.dtype.kind in "fiub":
        values = raw.astype(np.float64).reshape(-1)
    else:
        values = numbers_of_cells(raw.reshape(-1).tolist())
    keep = np.isfinite(values)
    return np.where(keep, values, 0.0)[:, None], keep


def positions_of(labels: Any, classes: tuple[Any, ...]) -> tuple[NDArray[np.int64], Mask]:
    """Return the position of every label among the declared classes; others drop their record."""
    raw = _each(labels).reshape(-1)
    position = np.full(raw.shape[0], -1, dtype=np.int64)
    for i, label in enumerate(classes):
        if raw.dtype == object:
            same = np.fromiter((_same(item, label) for item in raw), dtype=bool, count=len(raw))
        else:
            same = np.asarray(raw == label)
        if same.shape == position.shape:  # NumPy answers one False for types that cannot be compared
            position[same.astype(bool)] = i
    return np.maximum(position, 0), position >= 0


def weights_of(given: Iterable[Amount]) -> list[Fraction]:
    """Read the weights of classes."""
    return [positive(weight, name="class weight") for weight in given]


def _each(labels: Any) -> NDArray[Any]:
    """Return an array of the labels; a bare list keeps its items, because one odd item would change the type of all."""
    if isinstance(labels, list | tuple):
        out = np.empty(len(labels), dtype=object)
        out[:] = labels
        return out
    return np.asarray(labels)


def _same(item: Any, label: Any) -> bool:
    """Compare one label; an item that cannot be compared (NA and the like) is no label, and does not raise."""
    try:
        return bool(item == label)
    except Exception:
        return False
