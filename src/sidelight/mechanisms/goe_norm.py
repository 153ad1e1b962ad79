"""How large symmetric Gaussian noise can get: a safe quantile of the operator norm of the Gaussian orthogonal ensemble.

A = (Z + Zᵀ)/√2 with standard normal Z: variance 1 off the diagonal, 2 on it; the largest eigenvalue is near 2√d. The
quantile is found from the expected number of eigenvalues above a level, which bounds the probability that there is one,
and whose density is known in closed form. Hand-made because nothing offers it: the Tracy-Widom approximations in use
are not bounds, and the normalisations in the literature differ by √2.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sidelight.errors import RangeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: The density is computed in double precision up to here; above, the closed form, which holds for every dimension.
LARGEST_EXACT = 400
#: Below this probability the Hermite functions underflow near the quantile.
_LEAST_RHO = 1e-30
_LENGTH = 8.0  # beyond this many units past the level nothing is left
_NODES = 300
#: More than the error of the quadrature and of the recurrence, relative in the expected number.
_MARGIN = 1e-6


def goe_norm_quantile(dimension: int, rho: float) -> float:
    """Return a level that ‖A‖₂ exceeds with probability at most rho, A a standard GOE matrix of this dimension.

    Guarantee: P(‖A‖₂ > t) <= rho. With N(t) the number of eigenvalues above t, P(λ₁ > t) <= E N(t) <= rho/2, and -A has
    the law of A (per-instance proof page, Theorem 7). For dimensions above 400, or rho below 1e-30, the closed form.

    Accuracy: for 1e-30 <= rho <= 1e-2 within 3e-5 of the exact quantile (compared up to dimension 50).

    >>> round(goe_norm_quantile(10, 1e-6), 4)
    10.335
    """
    if dimension < 1 or not 0 < rho < 1:
        raise RangeError(f"a quantile wants a dimension from 1 and 0 < rho < 1, got {dimension} and {rho:g}")
    ceiling = goe_norm_closed_form(dimension, rho)
    if dimension > LARGEST_EXACT or rho < _LEAST_RHO:
        return ceiling
    low, high = 0.0, ceiling
    while high - low > 1e-9 * ceiling:
        middle = (low + high) / 2
        if expected_above(dimension, middle) * (1 + _MARGIN) > rho / 2:
            low = middle
        else:
            high = middle
    return high


def goe_norm_closed_form(dimension: int, rho: float) -> float:
    """Return 2√d + 2√log(2/ρ): E λ₁ <= 2√d, and λ₁ is √2-Lipschitz in the independent standard normal entries.

    Guarantee: P(‖A‖₂ > t) <= rho in every dimension (per-instance proof page, Theorem 7).
    """
    return 2 * math.sqrt(dimension) + 2 * math.sqrt(math.log(2 / rho))


def expected_above(dimension: int, level: float) -> float:
    """Return the expected number of eigenvalues above a level."""
    start = level / math.sqrt(2)
    nodes, weights = _legendre(_NODES)
    end = max(start, math.sqrt(2 * dimension + 1)) + _LENGTH
    x = start + (end - start) * (nodes + 1) / 2
    return float(np.sum(weights * density(dimension, x)) * (end - start) / 2)


def density(dimension: int, x: Floats) -> Floats:
    """Return the density of eigenvalues λ = √2·x, as a function of x; it integrates to the dimension.

    Σ_{j<d} φⱼ² + √(d/2)·φ_{d-1}(x)·(½∫φ_d - ∫_x^∞ φ_d), plus φ_{d-1}(x)/∫φ_{d-1} for odd d; φⱼ are the orthonormal
    Hermite functions.
    """
    values = hermite_functions(dimension, x)
    total = np.sum(values[:dimension] ** 2, axis=0)
    last = values[dimension - 1]
    total = total + math.sqrt(dimension / 2) * last * (whole_integral(dimension) / 2 - upper_integral(dimension, x))
    if dimension % 2:
        total = total + last / whole_integral(dimension - 1)
    return np.asarray(total)


def hermite_functions(degree: int, x: Floats) -> Floats:
    """Return φ₀ .. φ_degree at the points, by their stable three-term recurrence; shape (degree + 1, points)."""
    values = np.zeros((degree + 1, len(x)))
    values[0] = math.pi**-0.25 * np.exp(-(x**2) / 2)
    if degree:
        values[1] = math.sqrt(2) * x * values[0]
    for j in range(1, degree):
        values[j + 1] = math.sqrt(2 / (j + 1)) * x * values[j] - math.sqrt(j / (j + 1)) * values[j - 1]
    return values


def upper_integral(degree: int, x: Floats) -> Floats:
    """Integrate φ_degree from the points to infinity.

    φⱼ' = √(j/2)·φ_{j-1} - √((j+1)/2)·φ_{j+1} gives I_{j+1} = √(2/(j+1))·φⱼ(x) + √(j/(j+1))·I_{j-1}.
    """
    from scipy.special import erfc

    values = hermite_functions(degree, x)
    if degree % 2:
        start, integral = 1, math.sqrt(2) * values[0]
    else:
        start, integral = 0, math.pi**-0.25 * math.sqrt(math.pi / 2) * erfc(x / math.sqrt(2))
    for j in range(start + 1, degree, 2):
        integral = math.sqrt(2 / (j + 1)) * values[j] + math.sqrt(j / (j + 1)) * integral
    return np.asarray(integral)


def whole_integral(degree: int) -> float:
    """Integrate φ_degree over the line: 0 for odd degrees."""
    if degree % 2:
        return 0.0
    integral: float = math.pi**-0.25 * math.sqrt(2 * math.pi)
    for j in range(1, degree, 2):
        integral *= math.sqrt(j / (j + 1))
    return integral


@lru_cache(maxsize=4)
def _legendre(count: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights
