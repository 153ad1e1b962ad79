"""SeparateCov with a prediction: eigenvalues and eigenvectors of the difference to it, released apart.

After Dong, Liang and Yi (2022) and Khodak, Amin, Dick and Vassilvitskii (2023), Algorithms 1 and 6, with shaped noise:
half the variance off the diagonal, and two-sided Wishart noise for pure privacy. For comparison: the default method
releases one matrix with the whole budget, and was better in every experiment.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.moments import Moments
from sidelight.covariance.noisy_eigenvalues import difference, in_steps, noisy_values, values_claims
from sidelight.covariance.price import together
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims, exact, positive
from sidelight.mechanisms.noisy_moments import MatrixNoise, NoisyMatrix, noisy_second_moment, second_moment_claims
from sidelight.noise import Source

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Separated:
    """The estimate for one row's second moment, and the noisy sum that gave its eigenvectors."""

    matrix: Floats
    noisy: NoisyMatrix


def separate(
    moments: Moments,
    *,
    rows: float,
    prediction: Floats,
    rho: Amount | None = None,
    epsilon: Amount | None = None,
    value_share: Amount = "1/2",
    noise: MatrixNoise | None = None,
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
        rho, epsilon: the price of both parts together.
        value_share: the eigenvalues' share of it.
        noise: of the matrix: "goe" for rho; "wishart" (the default) or "laplace" for epsilon.
        source: of the noise.
    """
    values_price, matrix_price = _split(rho, epsilon, value_share)
    divisor = max(rows, 1.0)
    private = np.asarray(np.linalg.eigvalsh(difference(moments, prediction, rows=divisor)), np.float64)
    released = noisy_values(moments, private, **values_price, source=source)
    noisy = noisy_second_moment(moments, **matrix_price, noise=noise, source=source)
    unit = float(moments.scale) ** 2
    subtracted = in_steps(moments, prediction, rows=divisor).astype(np.float64)
    vectors = np.linalg.eigh(noisy.value / unit - subtracted)[1]
    return Separated(paired(released * (unit / divisor), vectors) + subtracted * (unit / divisor), noisy)


def paired(values: Floats, vectors: Floats) -> Floats:
    """Return U diag(values) Uᵀ: both ascending, so that ranks meet."""
    return np.asarray((vectors * values) @ vectors.T)


def separate_claims(
    moments: Moments,
    *,
    rho: Amount | None = None,
    epsilon: Amount | None = None,
    value_share: Amount = "1/2",
    noise: MatrixNoise | None = None,
) -> Claims:
    """Return what `separate` proves; needs the public parts of the moments only."""
    values_price, matrix_price = _split(rho, epsilon, value_share)
    matrix = second_moment_claims(moments, **matrix_price, noise=noise).with_numerics("idealized")
    values = values_claims(moments, rho=values_price.get("rho"), epsilon=values_price.get("epsilon"))
    return together([values, matrix])


def _split(
    rho: Amount | None, epsilon: Amount | None, value_share: Amount
) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
    """Divide the budget: what both parts release is seen, so their prices add up."""
    share = exact(value_share, name="value_share")
    if not 0 < share < 1:
        raise RangeError(f"value_share must lie strictly between 0 and 1, got {value_share}")
    if (rho is None) == (epsilon is None):
        raise RangeError("the price is exactly one of rho (Gaussian noise, zCDP) and epsilon (pure)")
    name, total = ("rho", rho) if rho is not None else ("epsilon", epsilon)
    assert total is not None
    amount = positive(total, name=name)
    return {name: amount * share}, {name: amount * (1 - share)}
