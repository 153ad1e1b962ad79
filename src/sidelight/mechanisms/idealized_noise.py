"""Pure noise that is shaped like the norm it protects, drawn in floats: spherical for vectors, two-sided Wishart for
symmetric matrices.

Its claims are idealized: they hold for the real-number mechanism. What leaves the library is integers plus noise,
rounded to a coarse public grid, and the integers are split at the grid first, so that only their rest within one cell
meets a float: the rounding error is that of the noise, however large the integers are (noise proof page, Theorem 5).

Hand-made because no library has the two-sided Wishart law. The published mechanism that adds one Wishart matrix is not
private at all: what it releases minus the data is positive semidefinite, which tells neighbours apart for certain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims, Numerics, PureDP, native_claims, positive
from sidelight.mechanisms.additive import Law
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Source, directions, gamma, public_grid, standard_normal, to_grid

#: Beyond 2**50 steps, which is 2**40 standard deviations, noise is clamped: to_grid wants a public range.
_STEPS = 50


@dataclass(frozen=True, eq=False)
class IdealizedNoise:
    """What both laws share: pure noise of a scale Δ/ε, drawn in floats, of deviation √(d+1)·Δ/ε."""

    bounded: Bounded
    epsilon: Amount
    numerics: ClassVar[Numerics] = "idealized"

    def __post_init__(self) -> None:
        _ = self.scale

    @cached_property
    def scale(self) -> Fraction:
        """The scale Δ/ε, in units of the statistic."""
        if self.bounded.sensitivity == 0:
            raise RangeError("a statistic of sensitivity 0 depends on no record; release it without noise")
        return self.bounded.sensitivity / positive(self.epsilon, name="epsilon")

    @property
    def deviation(self) -> float:
        """The standard deviation √(d+1)·Δ/ε of an entry; of a matrix, on the diagonal."""
        return sqrt(self.bounded.shape[0] + 1) * float(self.scale)

    def _claim(self) -> PureDP:
        given = self.bounded
        ratio = given.sensitivity / self.scale
        return PureDP(ratio, neighbours=given.neighbours, unit=given.unit, numerics="idealized")


@dataclass(frozen=True, eq=False)
class SphericalNoise(IdealizedNoise):
    """A uniform direction times a gamma length of shape d and scale Δ₂/ε on a vector: density ∝ exp(-ε‖z‖/Δ₂).

    Guarantee: PureDP(epsilon), idealized: the triangle inequality bounds the log density's change by ε‖shift‖/Δ₂.

    Accuracy: standard deviation √(d+1)·Δ₂/ε an entry; Laplace noise on the entries has √(2d)·Δ₂/ε.

    Args:
        bounded: A vector with a sensitivity in l2.
        epsilon: The cost.
    """

    law: ClassVar[Law] = "spherical"

    def __post_init__(self) -> None:
        if len(self.bounded.shape) != 1 or self.bounded.norm != "l2":
            raise RangeError(
                f"spherical noise wants a vector with a sensitivity in l2, got {self.bounded.shape}, "
                f"{self.bounded.norm}"
            )
        super().__post_init__()

    @property
    def claims(self) -> Claims:
        """What `release` proves."""
        return Claims.of(self._claim())

    def release(self, source: Source) -> NDArray[np.float64]:
        """Return the vector with fresh noise, on a grid of 2**-10 of it."""
        assert not isinstance(self.bounded.value, int)
        size = self.bounded.shape[0]
        with source.paying(DrawPrice(law="spherical", claims=self.claims, statistic=f"a vector of {size} numbers")):
            length = gamma(size, 1, source)[0] * (self.deviation / sqrt(size + 1))
            noise = directions(1, size, source)[0] * length
        return gridded_sum(self.bounded.value, noise, smallest_deviation=self.deviation)


@dataclass(frozen=True, eq=False)
class WishartNoise(IdealizedNoise):
    """The difference of two Wishart matrices with d + 1 degrees of freedom and rate c = ε/Δ, on a symmetric matrix.

    Guarantee: PureDP(epsilon), idealized: log densities of the noise at two matrices differ by at most c times the
    trace norm of their difference (covariance proof page, Theorem 3). The noise is drawn and added in floats.

    Accuracy: standard deviation √(d+1)/c on the diagonal and 1/√2 of it off it; Frobenius error about √d times
    smaller than that of Laplace noise on the entries (√(d/2) when a row is replaced).

    Args:
        bounded: A symmetric matrix with a sensitivity in trace norm.
        epsilon: The cost.
    """

    law: ClassVar[Law] = "wishart"

    def __post_init__(self) -> None:
        shape = self.bounded.shape
        if len(shape) != 2 or shape[0] != shape[1] or self.bounded.norm != "trace":
            raise RangeError(
                f"Wishart noise wants a square matrix with a sensitivity in trace norm, got shape {shape} and "
                f"{self.bounded.norm}; `Moments.second_in_trace` is one"
            )
        super().__post_init__()

    @property
    def claims(self) -> Claims:
        """What `release` proves."""
        return native_claims(self._claim(), mechanism="two_sided_wishart")

    def release(self, source: Source) -> NDArray[np.float64]:
        """Return the matrix with fresh noise, on a grid of 2**-10 of it."""
        assert not isinstance(self.bounded.value, int)
        size = self.bounded.shape[0]
        with source.paying(DrawPrice(law="two-sided Wishart", claims=self.claims, statistic=f"{size} by {size}")):
            noise = wishart_matrices(1, size, sqrt(size + 1) / self.deviation, source)[0]
        return gridded_sum(self.bounded.value, noise, smallest_deviation=self.deviation / sqrt(2))


def wishart_matrices(count: int, size: int, rate: float, source: Source) -> NDArray[np.float64]:
    """Return `count` matrices Z = G₁G₁ᵀ - G₂G₂ᵀ, G of size × (size + 1) independent N(0, 1/(2·rate)) entries.

    Mean 0, uncorrelated entries, variance (size + 1)/rate² on the diagonal and half of that off it.
    """
    factors = standard_normal(2 * count * size * (size + 1), source).reshape(2, count, size, size + 1)
    first, second = (factor @ factor.transpose(0, 2, 1) for factor in factors)
    upper = np.triu(first - second) / (2.0 * rate)  # one triangle: a BLAS need not give two equal halves
    return np.asarray(upper + np.triu(upper, 1).transpose(0, 2, 1))


def gridded_sum(
    values: NDArray[np.int64], noise: NDArray[np.float64], *, smallest_deviation: float
) -> NDArray[np.float64]:
    """Return values + noise on a grid of 2**-10 of the noise's smallest standard deviation, as floats.

    The grid point is found from exact integers and the noise; that it is handed out as a float is post-processing.
    """
    exponent = public_grid(smallest_deviation)
    if 0 < exponent < 62:
        whole = values >> exponent
        rest = (values - (whole << exponent)).astype(np.float64)
    elif exponent >= 62:  # a cell holds every value a statistic can have
        whole, rest = np.zeros_like(values), values.astype(np.float64)
    else:
        whole, rest = values.astype(object) << -exponent, np.zeros(values.shape)
    steps = to_grid(rest + noise, exponent, limit=math.ldexp(1.0, exponent + _STEPS))
    return np.ldexp((whole + steps).astype(np.float64), exponent)
