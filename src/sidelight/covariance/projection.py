"""The nearest positive semidefinite matrix, within a public trace if asked: free, and never further from the truth."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from sidelight.covariance.denoise import Floats, eigenvectors, with_eigenvalues


def nearest_covariance(matrix: Any, *, largest_trace: float | None = None, overwrite: bool = False) -> Floats:
    """Set negative eigenvalues to 0; with `largest_trace`, scale down to that trace.

    Accuracy: the first step is the projection on a convex set that holds every covariance matrix, so it never increases
    the Frobenius error. A trace above r² is impossible for rows of length at most r. `overwrite` saves memory.

    >>> nearest_covariance([[1.0, 0.0], [0.0, -0.5]]).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    given = np.asarray(matrix, np.float64) if overwrite else np.array(matrix, np.float64)
    if largest_trace is None or float(np.trace(given)) <= largest_trace:
        with suppress(np.linalg.LinAlgError):
            np.linalg.cholesky(given)  # a tenth of the cost: the common case has nothing to project
            return given
    values, vectors = eigenvectors(given)
    clipped = np.maximum(values, 0.0)
    trace = float(clipped.sum())
    if largest_trace is not None and trace > largest_trace:
        clipped *= largest_trace / trace
    return with_eigenvalues(vectors, clipped, out=given)
