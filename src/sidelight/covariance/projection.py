"""The nearest matrix that can be, within public limits: free, and never further from the truth."""

from __future__ import annotations

from typing import Any

import numpy as np

from sidelight.mechanisms.denoise import Floats, eigenvectors, with_eigenvalues


def nearest_covariance(
    matrix: Any, *, largest_trace: float | None = None, largest_diagonal: Any = None, overwrite: bool = False
) -> Floats:
    """Return the nearest positive semidefinite matrix with a trace of at most `largest_trace`.

    Accuracy: this is the projection on a convex set that holds every second moment of rows of length at most
    √largest_trace, so it never increases the Frobenius error: negative eigenvalues become 0, and where the others sum
    up to too much, all are lowered by one number, as far as 0. With `largest_diagonal` (what each variance can be at
    most) rows and columns whose diagonal entry exceeds it are then scaled down: correlations stay. `overwrite` saves
    memory.

    >>> nearest_covariance([[1.0, 0.0], [0.0, -0.5]]).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    >>> nearest_covariance([[3.0, 0.0], [0.0, 2.0]], largest_trace=2.0).round(12).tolist()
    [[1.5, 0.0], [0.0, 0.5]]
    """
    given = np.asarray(matrix, np.float64) if overwrite else np.array(matrix, np.float64)
    if not is_possible(given, largest_trace=largest_trace):
        values, vectors = eigenvectors(given)
        given = with_eigenvalues(vectors, possible_eigenvalues(values, largest_trace), out=given)
    if largest_diagonal is not None:
        roots = np.sqrt(_within(np.diag(given), np.asarray(largest_diagonal, np.float64)))
        given *= roots[:, None]
        given *= roots
        np.fill_diagonal(given, np.minimum(np.diag(given), largest_diagonal))  # what rounding has left
    return given if largest_trace is None else _with_trace(given, largest_trace)


def is_possible(matrix: Floats, *, largest_trace: float | None = None, largest_diagonal: Any = None) -> bool:
    """Return whether there is nothing to project: a tenth of the cost, and the common case."""
    if largest_trace is not None and not float(np.trace(matrix)) <= largest_trace:
        return False
    if largest_diagonal is not None and (np.diag(matrix) > largest_diagonal).any():
        return False
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def possible_eigenvalues(values: Floats, largest_trace: float | None) -> Floats:
    """Return the nearest numbers of at least 0 with a sum of at most `largest_trace`, for ascending ones.

    Where the positive ones sum up to too much, these are max(λ - θ, 0) with the θ that makes the sum right.
    """
    positive = np.maximum(values, 0.0)
    if largest_trace is None or float(positive.sum()) <= largest_trace:
        return positive
    descending = positive[::-1]
    # θ if the k largest stay above 0; the largest k whose smallest does is the right one
    lowered = (np.cumsum(descending) - largest_trace) / np.arange(1, len(values) + 1)
    kept = int(np.flatnonzero(descending > lowered)[-1]) if (descending > lowered).any() else 0
    found = np.maximum(positive - lowered[kept], 0.0)
    total = float(found.sum())
    return np.asarray(found * (largest_trace / total) if total > largest_trace else found)  # what rounding has left


def _with_trace(matrix: Floats, largest: float) -> Floats:
    """Scale a matrix down IN PLACE by the last bits by which rounding has left its trace above the largest."""
    less = 2.0**-52
    while float(np.trace(matrix)) > largest:  # NaN ends it, and so does a factor of 0
        matrix *= 1.0 - less
        less *= 2.0
    return matrix


def _within(diagonal: Floats, largest: Floats) -> Floats:
    """Return by how much each entry is too large, as a factor of at most 1."""
    return np.where(diagonal > largest, largest / np.where(diagonal > largest, diagonal, 1.0), 1.0)
