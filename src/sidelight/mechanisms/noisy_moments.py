"""The three private primitives on clipped rows: noisy count, noisy vector sum, noisy second moment.

They take the `Moments` of one pass (`clipped_moments`, `mapped_moments`, `moments_by_cell`) and give floats in the
user's units with the noise level, which is public. The price is `rho` (zCDP, Gaussian noise) or `epsilon` (pure); the
neighbours are those of the moments. Several releases of the same moments add their costs up.

    noisy_count(moments, rho= | epsilon=, source=)                      -> NoisyCount(value, deviation)
    noisy_vector_sum(moments, rho= | epsilon=, noise=, source=)         -> NoisyVector(value, deviation, noise)
    noisy_second_moment(moments, rho= | epsilon=, noise=, source=)      -> NoisyMatrix(value, noise_scale, shape)

Claims and noise levels are known before any data: `count_claims`, `vector_sum_claims`, `second_moment_claims`,
`count_deviation`, `vector_sum_deviation`, `second_moment_scale` use the public parts of the moments alone, and
`aggregate.finish(aggregate.empty())` has them.

Pure noise has an idealized form, the default (`"spherical"`, `"wishart"`), and an exact one, noisier (`"laplace"`). One
number or one column is always exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.moments import Moments
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims, Numerics
from sidelight.mechanisms.additive import (
    gaussian,
    gaussian_claims,
    gaussian_scale,
    laplace,
    laplace_claims,
    laplace_scale,
)
from sidelight.mechanisms.spherical import spherical_claims, spherical_deviation, spherical_laplace
from sidelight.mechanisms.symmetric_gaussian import symmetric_gaussian
from sidelight.mechanisms.two_sided_wishart import two_sided_wishart, wishart_claims, wishart_deviation
from sidelight.noise import Source

VectorNoise = Literal["gaussian", "spherical", "laplace"]
MatrixNoise = Literal["goe", "wishart", "laplace"]

_ROOT2 = sqrt(2)


@dataclass(frozen=True)
class NoisyCount:
    """A released number of rows and the standard deviation of its noise."""

    value: float
    deviation: float


@dataclass(frozen=True, eq=False)
class NoisyVector:
    """A released sum of rows, in the user's units, and the standard deviation of each entry's noise."""

    value: NDArray[np.float64]
    deviation: float
    noise: VectorNoise


@dataclass(frozen=True, eq=False)
class NoisyMatrix:
    """A released symmetric matrix, in the user's units.

    `noise_scale` is the standard deviation of the noise on the diagonal. Off it the noise has 1/√2 of that for "goe"
    and "wishart", and the same for "laplace".
    """

    value: NDArray[np.float64]
    noise_scale: float
    shape: MatrixNoise


def noisy_count(
    moments: Moments, *, rho: Amount | None = None, epsilon: Amount | None = None, source: Source
) -> NoisyCount:
    """Release the number of rows with rounded Gaussian or discrete Laplace noise; exact on the machine."""
    deviation = count_deviation(moments, rho=rho, epsilon=epsilon)
    if rho is not None:
        return NoisyCount(float(gaussian(moments.count, rho=rho, source=source)), deviation)
    return NoisyCount(float(laplace(moments.count, epsilon=_pure(epsilon), source=source)), deviation)


def count_deviation(moments: Moments, *, rho: Amount | None = None, epsilon: Amount | None = None) -> float:
    """Return the standard deviation of the count's noise: k/√(2ρ), or √2 k/ε."""
    _one_price(rho, epsilon)
    if rho is not None:
        return float(gaussian_scale(moments.count, rho=rho))
    return _ROOT2 * float(laplace_scale(moments.count, epsilon=_pure(epsilon)))


def count_claims(moments: Moments, *, rho: Amount | None = None, epsilon: Amount | None = None) -> Claims:
    """Return what `noisy_count` proves."""
    _one_price(rho, epsilon)
    if rho is not None:
        return gaussian_claims(moments.count, rho=rho)
    return laplace_claims(moments.count, epsilon=_pure(epsilon))


def noisy_vector_sum(
    moments: Moments,
    *,
    rho: Amount | None = None,
    epsilon: Amount | None = None,
    noise: VectorNoise | None = None,
    source: Source,
) -> NoisyVector:
    """Release the sum of the clipped rows.

    Guarantee: `vector_sum_claims` of the same arguments. With `rho` Gaussian noise of deviation Δ₂/√(2ρ), exact. With
    `epsilon` a uniform direction times a gamma length (idealized), or with noise="laplace" discrete Laplace noise of
    scale Δ₁/ε on every entry (exact, about √2 times the error).
    """
    law = vector_noise(moments, rho=rho, epsilon=epsilon, noise=noise)
    deviation = vector_sum_deviation(moments, rho=rho, epsilon=epsilon, noise=noise)
    noisy: Any
    if law == "gaussian":
        noisy = gaussian(moments.total, rho=rho, source=source)
    elif law == "spherical":
        noisy = spherical_laplace(moments.total, epsilon=_pure(epsilon), source=source)
    else:
        noisy = laplace(moments.total_in_l1, epsilon=_pure(epsilon), source=source)
    return NoisyVector(np.asarray(noisy).astype(np.float64) * float(moments.scale), deviation, law)


def vector_sum_deviation(
    moments: Moments, *, rho: Amount | None = None, epsilon: Amount | None = None, noise: VectorNoise | None = None
) -> float:
    """Return the standard deviation of an entry's noise in the user's units."""
    law = vector_noise(moments, rho=rho, epsilon=epsilon, noise=noise)
    if law == "gaussian":
        steps = float(gaussian_scale(moments.total, rho=rho))
    elif law == "spherical":
        steps = spherical_deviation(moments.total, epsilon=_pure(epsilon))
    else:
        steps = _ROOT2 * float(laplace_scale(moments.total_in_l1, epsilon=_pure(epsilon)))
    return steps * float(moments.scale)


def vector_sum_claims(
    moments: Moments, *, rho: Amount | None = None, epsilon: Amount | None = None, noise: VectorNoise | None = None
) -> Claims:
    """Return what `noisy_vector_sum` proves."""
    law = vector_noise(moments, rho=rho, epsilon=epsilon, noise=noise)
    if law == "gaussian":
        return gaussian_claims(moments.total, rho=rho)
    if law == "spherical":
        return spherical_claims(moments.total, epsilon=_pure(epsilon))
    return laplace_claims(moments.total_in_l1, epsilon=_pure(epsilon))


def vector_noise(
    moments: Moments, *, rho: Amount | None, epsilon: Amount | None, noise: VectorNoise | None
) -> VectorNoise:
    """Return the noise that a price means: Gaussian for rho, spherical for epsilon, Laplace if asked for or d = 1."""
    _one_price(rho, epsilon)
    allowed: tuple[VectorNoise, ...] = ("gaussian",) if rho is not None else ("spherical", "laplace")
    if noise is not None and noise not in allowed:
        raise RangeError(f"noise must be {' or '.join(map(repr, allowed))} for this price, got {noise!r}")
    law = allowed[0] if noise is None else noise
    return "laplace" if law == "spherical" and moments.total.shape[0] == 1 else law


def noisy_second_moment(
    moments: Moments,
    *,
    rho: Amount | None = None,
    epsilon: Amount | None = None,
    noise: MatrixNoise | None = None,
    source: Source,
) -> NoisyMatrix:
    """Release the second moment Σ x xᵀ of the clipped rows; the result is symmetric, and may have negative eigenvalues.

    Guarantee: `second_moment_claims` of the same arguments. With `rho` Gaussian noise of the Frobenius sensitivity,
    half the variance off the diagonal, exact. With `epsilon` two-sided Wishart noise (idealized), or with
    noise="laplace" discrete Laplace noise on the upper triangle, mirrored (exact, about √d times the error; √(d/2) when
    a row is replaced).
    """
    law = matrix_noise(moments, rho=rho, epsilon=epsilon, noise=noise)
    scale = second_moment_scale(moments, rho=rho, epsilon=epsilon, noise=noise)
    noisy: Any
    if law == "goe":
        noisy = symmetric_gaussian(moments.second, rho=rho, source=source)
    elif law == "wishart":
        noisy = two_sided_wishart(moments.second_in_trace, epsilon=_pure(epsilon), source=source)
    else:
        noisy = _mirrored(laplace(moments.upper_triangle, epsilon=_pure(epsilon), source=source), moments.second)
    return NoisyMatrix(_in_units(noisy, float(moments.scale**2)), scale, law)


def second_moment_scale(
    moments: Moments, *, rho: Amount | None = None, epsilon: Amount | None = None, noise: MatrixNoise | None = None
) -> float:
    """Return the standard deviation of a diagonal entry's noise in the user's units."""
    law = matrix_noise(moments, rho=rho, epsilon=epsilon, noise=noise)
    if law == "goe":
        steps = float(gaussian_scale(moments.second, rho=rho))
    elif law == "wishart":
        steps = wishart_deviation(moments.second_in_trace, epsilon=_pure(epsilon))
    else:
        steps = _ROOT2 * float(laplace_scale(moments.upper_triangle, epsilon=_pure(epsilon)))
    return steps * float(moments.scale**2)


def second_moment_claims(
    moments: Moments, *, rho: Amount | None = None, epsilon: Amount | None = None, noise: MatrixNoise | None = None
) -> Claims:
    """Return what `noisy_second_moment` proves."""
    law = matrix_noise(moments, rho=rho, epsilon=epsilon, noise=noise)
    if law == "goe":
        return gaussian_claims(moments.second, rho=rho)
    if law == "wishart":
        return wishart_claims(moments.second_in_trace, epsilon=_pure(epsilon))
    return laplace_claims(moments.upper_triangle, epsilon=_pure(epsilon))


def matrix_noise(
    moments: Moments, *, rho: Amount | None, epsilon: Amount | None, noise: MatrixNoise | None
) -> MatrixNoise:
    """Return the noise that a price means: GOE for rho, Wishart for epsilon, Laplace if asked for or d = 1."""
    _one_price(rho, epsilon)
    allowed: tuple[MatrixNoise, ...] = ("goe",) if rho is not None else ("wishart", "laplace")
    if noise is not None and noise not in allowed:
        raise RangeError(f"noise must be {' or '.join(map(repr, allowed))} for this price, got {noise!r}")
    law = allowed[0] if noise is None else noise
    # at d = 1 the two-sided Wishart law is the Laplace law, which has an exact form
    return "laplace" if law == "wishart" and moments.second.shape[0] == 1 else law


def numerics_of(law: VectorNoise | MatrixNoise) -> Numerics:
    """Return whether a noise is exact on the machine."""
    return "idealized" if law in ("spherical", "wishart") else "exact"


def _in_units(noisy: NDArray[Any], unit: float) -> NDArray[np.float64]:
    """Turn steps into the user's units, in the matrix's own memory where its entries have the size of floats."""
    if noisy.dtype != np.int64:
        return np.asarray(noisy, np.float64) * unit
    floats = noisy.view(np.float64)
    for row in range(len(noisy)):
        floats[row] = noisy[row].astype(np.float64) * unit
    return floats


def _mirrored(upper: Any, matrix: Bounded) -> NDArray[Any]:
    rows, columns = np.triu_indices(matrix.shape[0])
    noisy = np.empty(matrix.shape, np.asarray(upper).dtype)
    noisy[rows, columns] = upper
    noisy[columns, rows] = upper
    return noisy


def _one_price(rho: Amount | None, epsilon: Amount | None) -> None:
    if (rho is None) == (epsilon is None):
        raise RangeError("the price is exactly one of rho (Gaussian noise, zCDP) and epsilon (pure)")


def _pure(epsilon: Amount | None) -> Amount:
    assert epsilon is not None
    return epsilon
