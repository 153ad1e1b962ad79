"""What is computed from a covariance release, or from a plain matrix: correlations and principal components. Free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.mechanisms.denoise import Floats, eigenvectors
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
