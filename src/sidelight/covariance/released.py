"""What is computed from a covariance release, or from a plain matrix: correlations and principal components. Free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.covariance.predicted import PredictedMatrix
from sidelight.errors import RangeError
from sidelight.mechanisms.denoise import Floats, eigenvectors, with_eigenvalues
from sidelight.mechanisms.noisy_moments import MatrixLaw, effective_scale
from sidelight.predictions.origin import guess, released
from sidelight.release import Release


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


def correlation(released: Any) -> Floats:
    """Return the correlation matrix of a covariance release, or of a matrix.

    A variance that the noise has hidden (0 or less) has correlation 0 with everything; all others lie within [-1, 1].
    Of a release without centring these are the cosines of the columns, not their correlations.

    >>> correlation([[4.0, 1.0], [1.0, 1.0]]).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    matrix = matrix_of(released)
    variances = np.diag(matrix)
    known = variances > 0
    roots = np.sqrt(np.where(known, variances, 1.0))
    found = np.where(np.outer(known, known), matrix / np.outer(roots, roots), 0.0)
    found = np.clip(found, -1.0, 1.0)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class PrincipalComponents:
    """Directions of largest variance, one to a row, and their variances, the largest first.

    `variance_error` is the half width of the error bars of all variances at once: by Weyl, no eigenvalue is off by more
    than the operator norm of the matrix's error. None where there is no public bound.
    """

    components: Floats
    explained_variance: Floats
    explained_variance_ratio: Floats
    variance_error: float | None
    confidence: float


def principal_components(
    released: Any, n_components: int | float | None = None, *, confidence: float = 0.95
) -> PrincipalComponents:
    """Return the leading components of a covariance release, or of a matrix.

    Args:
        released: A release of `sl.Covariance`, or a symmetric matrix.
        n_components: How many; all if None; for a number below 1 as many as explain that share of the variance.
        confidence: Of the error bars.

    >>> found = principal_components([[0.5, 0.0], [0.0, 2.0]])
    >>> found.components.tolist(), found.explained_variance.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [2.0, 0.5])
    """
    matrix = matrix_of(released)
    values, vectors = eigenvectors(matrix.copy())
    variances, components = np.maximum(values[::-1], 0.0), vectors.T[::-1]
    # the sign of a component is arbitrary: its largest entry is positive, as in scikit-learn
    largest = np.abs(components).argmax(axis=1)
    signs = np.where(components[np.arange(len(components)), largest] < 0, -1.0, 1.0)
    components = components * signs[:, None] + 0.0  # no negative zeros
    total = float(variances.sum())
    ratios = variances / total if total > 0 else np.zeros_like(variances)
    kept = _number(n_components, ratios)
    error = float(released.error_bound(confidence)[0]) if isinstance(released, Release) and released.error else None
    return PrincipalComponents(
        components=components[:kept],
        explained_variance=variances[:kept],
        explained_variance_ratio=ratios[:kept],
        variance_error=error,
        confidence=confidence,
    )


def _number(wanted: int | float | None, ratios: Floats) -> int:
    size = len(ratios)
    if wanted is None:
        return size
    if isinstance(wanted, float | np.floating) and 0 < wanted < 1:
        return min(size, int(np.searchsorted(np.cumsum(ratios), wanted)) + 1)
    if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer) or not 1 <= wanted <= size:
        raise RangeError(
            f"n_components must be a whole number from 1 to the number of columns ({size}), a share below 1, or None, "
            f"got {wanted!r}"
        )
    return int(wanted)


def learned_prediction(releases: Iterable[Release]) -> PredictedMatrix:
    """Average earlier covariance releases, the more precise ones more, as the prediction of the next.

    Guarantee: free, because the releases were paid for. Accuracy: the unshrunk matrices enter, each with weight 1/σ²;
    shrunk ones would carry the old predictions along as if they were data.

    >>> import numpy as np
    >>> from sidelight.covariance import Covariance
    >>> rows = np.random.default_rng(0).normal(size=(5000, 3)) * 0.3
    >>> days = [Covariance(radius=1, rho="0.1").release(rows) for _ in range(3)]
    >>> better = Covariance(radius=1, rho="0.1", prediction=learned_prediction(days)).release(rows)
    """
    given = list(releases)
    if not given:
        raise RangeError("a prediction is learned from at least one release, got none; start without a prediction")
    parts = [read_release(each) for each in given]
    if len({part.noisy.shape for part in parts}) > 1:
        raise RangeError("the releases have matrices of different sizes; learn from releases of the same columns")
    weights = [effective_scale(part.noise_scale, part.noise, len(part.noisy)) ** -2 for part in parts]
    mean = sum(weight * part.noisy for weight, part in zip(weights, parts, strict=True)) / sum(weights)
    entries = [each.circumstances.entry_id for each in given if each.circumstances.entry_id is not None]
    origin = released(entries) if entries else guess("the average of earlier releases, which no ledger names")
    return PredictedMatrix(nearest_covariance(mean), origin)
