"""SeparateCov with a prediction: eigenvalues and eigenvectors of the difference to it, released apart.

After Dong, Liang and Yi (2022) and Khodak, Amin, Dick and Vassilvitskii (2023), Algorithms 1 and 6, with shaped noise:
half the variance off the diagonal, and two-sided Wishart noise for pure privacy. For comparison: the default method
releases one matrix with the whole budget, and was better in every experiment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.moments import Moments
from sidelight.covariance.noisy_eigenvalues import difference, eigenvalue_noise, in_steps
from sidelight.guarantees import Amount, Claims
from sidelight.mechanisms.budget import Budget, share_of, together
from sidelight.mechanisms.noisy_moments import MatrixLaw, matrix_noise
from sidelight.noise import Source

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Separated:
    """The estimate for one row's second moment, the noisy sum that gave its eigenvectors, and that one's deviation."""

    matrix: Floats
    noisy: Floats
    noise_scale: float


def separate(
    moments: Moments,
    *,
    rows: float,
    prediction: Floats,
    budget: Budget,
    value_share: Amount = "1/2",
    law: MatrixLaw | None = None,
    source: Source,
) -> Separated:
    """Estimate the second moment of a row: noisy eigenvalues of S - n̂W on the eigenvectors of S - n̂W + Z.

    Guarantee: `separate_claims` of the same arguments, for the neighbours of the moments; idealized, because
    eigenvalues are computed in floats (covariance proof page, Theorem 4). Whatever the prediction is.

    Accuracy: ‖Ĉ - C‖_F² <= 5 (‖z‖² + ‖Z‖_op · min over c of ‖C - W - cI‖_tr); adding a multiple of the identity to W
    changes nothing.

    Args:
        moments: of the clipped rows.
        rows: the public number of rows, or a noisy count that was released (and paid for) before.
        prediction: W, the guess of the second moment of one row; symmetrised, and entries beyond radius² are cut.
        budget: for both parts together.
        value_share: the eigenvalues' share of it.
        law: of the matrix's noise: "goe"; for a pure budget "wishart" (the default) or "laplace".
        source: of the noise.
    """
    for_values, for_matrix = _divided(budget, value_share)
    divisor = max(rows, 1.0)
    private = np.asarray(np.linalg.eigvalsh(difference(moments, prediction, rows=divisor)), np.float64)
    released = eigenvalue_noise(moments, for_values, private).release(source)
    noise = matrix_noise(moments, for_matrix, law)
    noisy = noise.release(source)
    unit = float(moments.scale) ** 2
    subtracted = in_steps(moments, prediction, rows=divisor).astype(np.float64)
    vectors = np.linalg.eigh(noisy / unit - subtracted)[1]
    matrix = paired(released * (unit / divisor), vectors) + subtracted * (unit / divisor)
    return Separated(matrix, noisy, noise.deviation)


def paired(values: Floats, vectors: Floats) -> Floats:
    """Return U diag(values) Uᵀ: both ascending, so that ranks meet."""
    return np.asarray((vectors * values) @ vectors.T)


def separate_claims(
    moments: Moments, *, budget: Budget, value_share: Amount = "1/2", law: MatrixLaw | None = None
) -> Claims:
    """Return what `separate` proves; needs the public parts of the moments only."""
    for_values, for_matrix = _divided(budget, value_share)
    matrix = matrix_noise(moments, for_matrix, law).claims.with_numerics("idealized")
    return together([(1, eigenvalue_noise(moments, for_values).claims), (1, matrix)])


def _divided(budget: Budget, value_share: Amount) -> tuple[Budget, Budget]:
    """Divide the budget: what both parts release is seen, so their costs add up."""
    share = share_of(value_share, name="value_share")
    return budget.part(share), budget.part(1 - share)
