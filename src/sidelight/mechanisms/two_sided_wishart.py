"""Pure noise for symmetric matrices: the difference of two Wishart matrices with d + 1 degrees of freedom.

Hand-made because no library has it. The published mechanism that adds one Wishart matrix is not private at all: what it
releases minus the data is positive semidefinite, which tells neighbours apart for certain.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims, PureDP, native_claims, positive
from sidelight.mechanisms.gridded import gridded_sum
from sidelight.noise import Source, standard_normal


def wishart_noise(count: int, size: int, rate: float, source: Source) -> NDArray[np.float64]:
    """Return `count` matrices Z = G₁G₁ᵀ - G₂G₂ᵀ, G of size × (size + 1) independent N(0, 1/(2·rate)) entries.

    Mean 0, uncorrelated entries, variance (size + 1)/rate² on the diagonal and half of that off it.
    """
    factors = standard_normal(2 * count * size * (size + 1), source).reshape(2, count, size, size + 1)
    first, second = (factor @ factor.transpose(0, 2, 1) for factor in factors)
    upper = np.triu(first - second) / (2.0 * rate)  # one triangle: a BLAS need not give two equal halves
    return np.asarray(upper + np.triu(upper, 1).transpose(0, 2, 1))


def two_sided_wishart(bounded: Bounded, *, epsilon: Amount, source: Source) -> NDArray[np.float64]:
    """Add two-sided Wishart noise of rate c = ε/Δ to a symmetric matrix, on a grid of 2**-10 of the noise.

    Guarantee: PureDP(epsilon), idealized: log densities of the noise at two matrices differ by at most c times the
    trace norm of their difference (covariance proof page, Theorem 3). The noise is drawn and added in floats.

    Accuracy: standard deviation √(d+1)/c on the diagonal and 1/√2 of it off it; Frobenius error about √d times
    smaller than that of Laplace noise on the entries (√(d/2) when a row is replaced).
    """
    deviation = wishart_deviation(bounded, epsilon=epsilon)
    assert not isinstance(bounded.value, int)
    size = bounded.shape[0]
    noise = wishart_noise(1, size, sqrt(size + 1) / deviation, source)[0]
    return gridded_sum(bounded.value, noise, smallest_deviation=deviation / sqrt(2))


def wishart_deviation(bounded: Bounded, *, epsilon: Amount) -> float:
    """Return the standard deviation √(d+1)·Δ/ε of a diagonal entry, in units of the statistic."""
    if len(bounded.shape) != 2 or bounded.shape[0] != bounded.shape[1] or bounded.norm != "trace":
        raise RangeError(
            f"Wishart noise wants a square matrix with a sensitivity in trace norm, got shape {bounded.shape} and "
            f"{bounded.norm}; `Moments.second_in_trace` is one"
        )
    if bounded.sensitivity == 0:
        raise RangeError("a statistic of sensitivity 0 depends on nobody; release it without noise")
    return sqrt(bounded.shape[0] + 1) * float(bounded.sensitivity / positive(epsilon, name="epsilon"))


def wishart_claims(bounded: Bounded, *, epsilon: Amount) -> Claims:
    """Return what `two_sided_wishart` proves; needs the public parts of the statistic only."""
    wishart_deviation(bounded, epsilon=epsilon)
    claim = PureDP(epsilon, neighbours=bounded.neighbours, unit=bounded.unit, numerics="idealized")
    return native_claims(claim, mechanism="two_sided_wishart")
