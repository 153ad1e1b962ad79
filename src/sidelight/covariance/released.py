"""Reading a covariance release: the matrix, the unshrunk matrix and its noise, from a release or a plain matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.mechanisms.denoise import Floats
from sidelight.mechanisms.noisy_moments import MatrixLaw
from sidelight.release import Release


@dataclass(frozen=True, eq=False)
class ReleasedMatrix:
    """What later computations need of a covariance release."""

    matrix: Floats
    noisy: Floats
    noise_scale: float
    noise: MatrixLaw
    rows: float


def read_release(release: Any) -> ReleasedMatrix:
    """Return the parts of a covariance release."""
    if not isinstance(release, Release) or release.kind != "covariance":
        kind = release.kind if isinstance(release, Release) else type(release).__name__
        raise RangeError(f"expected the release of a sl.Covariance query, got {kind}")
    value = release.value
    if value.get("noisy") is None:
        raise RangeError("this covariance release has no unshrunk matrix; release with method 'denoise' or 'gauss'")
    return ReleasedMatrix(
        matrix=np.asarray(value["matrix"]),
        noisy=np.asarray(value["noisy"]),
        noise_scale=float(value["noise_scale"]),
        noise=value["noise"],
        rows=float(value["rows"]),
    )


def matrix_of(released: Any) -> Floats:
    """Return the matrix of a release, or a matrix as it is."""
    if isinstance(released, Release):
        if released.kind != "covariance":
            raise RangeError(f"expected the release of a sl.Covariance query, got {released.kind}")
        return np.asarray(released.value["matrix"], np.float64)
    matrix = np.asarray(released, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise RangeError(f"expected a covariance release or a square matrix, got shape {matrix.shape}")
    return matrix
