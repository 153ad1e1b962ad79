"""Predictions of a covariance matrix: a matrix with its origin, or public rows that become one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.predictions import PublicData
from sidelight.predictions.origin import Origin, guess, joint_origin
from sidelight.predictions.public_data import refuse_look_alike, refuse_private

Floats = NDArray[np.float64]
#: Entries (i, j) and (j, i) may differ by this share of the largest entry: what computing a matrix leaves.
_ROUNDING = 1e-8


@dataclass(frozen=True, eq=False, repr=False)
class PredictedMatrix:
    """A guess of the matrix that will be released, and where it came from. It is never charged.

    >>> PredictedMatrix([[1.0, 0.2], [0.2, 0.5]])
    PredictedMatrix(2 columns, a guess)
    """

    matrix: Any
    origin: Origin = field(default_factory=guess)

    def __post_init__(self) -> None:
        try:
            given = np.array(self.matrix, np.float64)
        except (TypeError, ValueError):
            raise RangeError("a prediction must be a square matrix of numbers") from None
        if given.ndim != 2 or given.shape[0] != given.shape[1]:
            raise RangeError(f"a prediction must be a square matrix, one row and column each, got shape {given.shape}")
        if not np.isfinite(given).all():
            raise RangeError("a prediction must hold finite numbers only; leave it out where nothing is known")
        halved = given / 2  # no sum of two entries overflows
        largest = float(np.abs(halved).max(initial=0.0))
        if float(np.abs(halved - halved.T).max(initial=0.0)) > _ROUNDING * largest:
            raise RangeError("a prediction must be symmetric; if both halves are estimates, give (W + W.T) / 2")
        given = given if np.array_equal(given, given.T) else halved + halved.T
        given.setflags(write=False)
        object.__setattr__(self, "matrix", given)

    def for_columns(self, width: int) -> PredictedMatrix:
        """Check that the matrix is of the right size."""
        if len(self.matrix) != width:
            raise RangeError(
                f"a prediction must have the shape ({width}, {width}) of the columns, got {self.matrix.shape}"
            )
        return self

    def within(self, largest: float) -> PredictedMatrix:
        """Cut entries beyond what any second moment has: it never takes the prediction further from the truth."""
        if float(np.abs(self.matrix).max(initial=0.0)) <= largest:
            return self
        return PredictedMatrix(np.clip(self.matrix, -largest, largest), self.origin)

    @property
    def digest(self) -> str:
        """The SHA-256 of the numbers, for the ledger."""
        return hashlib.sha256(np.ascontiguousarray(self.matrix, "<f8").tobytes()).hexdigest()

    def __repr__(self) -> str:
        return f"PredictedMatrix({len(self.matrix)} columns, {self.origin})"


Prediction = PredictedMatrix | PublicData


def predict_matrix(
    given: PublicData, *, radius: float, centre: Floats | Literal["mean", "pairs"] | None = None
) -> PredictedMatrix:
    """Return the matrix of public rows, clipped and centred as the query does with the private ones."""
    rows = given.matrix()
    if isinstance(centre, np.ndarray):
        if centre.shape != (rows.shape[1],):
            raise RangeError(f"the public rows have {rows.shape[1]} columns, the query {len(centre)}")
        rows = rows - centre
    if isinstance(centre, str) and centre == "pairs":
        rows = (rows - np.roll(rows, 1, axis=0)) / np.sqrt(2) if len(rows) > 1 else np.zeros_like(rows)
    rows = rows * np.minimum(1.0, radius / np.maximum(np.linalg.norm(rows, axis=1), radius))[:, None]
    matrix = rows.T @ rows / len(rows)
    if isinstance(centre, str) and centre == "mean":
        mean = rows.mean(axis=0)
        matrix = matrix - np.outer(mean, mean)
    return PredictedMatrix((matrix + matrix.T) / 2, given.origin)


def as_predictions(given: Any, columns: Sequence[str] | None = None) -> tuple[Prediction, ...]:
    """Read what a user may pass: nothing, a matrix, public rows of these columns, or a list of them."""
    refuse_private(given)
    refuse_look_alike(given, PredictedMatrix)
    if given is None:
        return ()
    if isinstance(given, Prediction):
        return (_read(given, columns),)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        parts = list(given)
        # a list of matrices or predictions, or one matrix written as a list of rows
        if all(isinstance(part, Prediction) or np.ndim(part) == 2 for part in parts):
            return tuple(_read(part, columns) for part in parts)
    if isinstance(given, np.ndarray) and given.ndim == 3:
        return tuple(PredictedMatrix(part) for part in given)
    return (PredictedMatrix(given),)


def _read(given: Any, columns: Sequence[str] | None) -> Prediction:
    """Return a prediction of our own; public rows as an array, so that what is wrong with them is found now."""
    refuse_look_alike(given, PublicData, PredictedMatrix)
    if isinstance(given, PublicData):
        return given.read(columns)
    return PredictedMatrix(given.matrix, given.origin) if isinstance(given, PredictedMatrix) else PredictedMatrix(given)


def described(predictions: Sequence[PredictedMatrix]) -> Mapping[str, Any] | None:
    """Return what a release says about its predictions."""
    if not predictions:
        return None
    origin = joint_origin(each.origin for each in predictions)
    count = "a predicted matrix" if len(predictions) == 1 else f"{len(predictions)} predicted matrices"
    return {
        "description": f"{count} ({'; '.join(dict.fromkeys(str(each.origin) for each in predictions))})",
        "origin": origin.to_json(),
        "sha256": [each.digest for each in predictions],
    }
