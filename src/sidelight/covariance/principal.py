"""Principal components of a released covariance matrix, with error bars by public formula: post-processing, free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.covariance.released import matrix_of
from sidelight.errors import RangeError
from sidelight.mechanisms.denoise import Floats, eigenvectors
from sidelight.release import Release


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
