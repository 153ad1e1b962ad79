"""Correlations from a released covariance matrix: post-processing, free."""

from __future__ import annotations

from typing import Any

import numpy as np

from sidelight.covariance.released import matrix_of
from sidelight.mechanisms.denoise import Floats


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
