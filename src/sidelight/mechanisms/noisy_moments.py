"""The noise of the three private primitives on clipped rows: count, vector sum, second moment.

They take the `Moments` of one pass (`clipped_moments`, `mapped_aggregate`, `moments_by_cell`) and a `Budget`, and give
a noise in the user's units. Law, claims and deviation are known before any data (`aggregate.finish(aggregate.empty())`
has the public parts); `release(source)` gives floats. Several releases of the same moments add their costs up.

    count_noise(moments, budget)               .release(source) -> float
    vector_noise(moments, budget, law=)        .release(source) -> a vector
    matrix_noise(moments, budget, law=)        .release(source) -> a symmetric matrix

Pure noise has an idealized form, the default (`"spherical"`, `"wishart"`), and an exact one, noisier (`"laplace"`). One
number or one column is always exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.moments import Moments
from sidelight.errors import RangeError
from sidelight.guarantees import Claims, Numerics
from sidelight.mechanisms.additive import Law, Noise
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source

VectorLaw = Literal["gaussian", "spherical", "laplace"]
MatrixLaw = Literal["goe", "wishart", "laplace"]


@dataclass(frozen=True, eq=False)
class NoiseInUnits:
    """Noise on a statistic that counts in steps of `unit`: the same noise in the user's units.

    Guarantee: that of `steps`; a public factor costs nothing.
    """

    steps: Noise
    unit: Fraction = Fraction(1)

    @property
    def law(self) -> Law:
        """The law of the noise."""
        return self.steps.law

    @property
    def claims(self) -> Claims:
        """What `release` proves."""
        return self.steps.claims

    @property
    def scale(self) -> Fraction:
        """The parameter of the law, in the user's units."""
        return self.steps.scale * self.unit

    @property
    def deviation(self) -> float:
        """The standard deviation of an entry's noise in the user's units."""
        return self.steps.deviation * float(self.unit)

    @property
    def numerics(self) -> Numerics:
        """Whether the claims hold for the released bits."""
        return self.steps.numerics


@dataclass(frozen=True, eq=False)
class CountNoise(NoiseInUnits):
    """Noise on the number of rows; exact on the machine."""

    def release(self, source: Source) -> float:
        """Return the noisy number of rows."""
        return float(self.steps.release(source))


@dataclass(frozen=True, eq=False)
class VectorNoise(NoiseInUnits):
    """Noise on the sum of the rows: `deviation` is that of every entry."""

    def release(self, source: Source) -> NDArray[np.float64]:
        """Return the noisy sum."""
        return np.asarray(np.asarray(self.steps.release(source)).astype(np.float64) * float(self.unit))


@dataclass(frozen=True, eq=False)
class MatrixNoise(NoiseInUnits):
    """Noise on a symmetric matrix of `size` columns.

    `deviation` is that on the diagonal. Off it the noise has 1/√2 of that for "goe" and "wishart", and the same for
    "laplace".
    """

    size: int = 1

    @property
    def effective_scale(self) -> float:
        """The diagonal deviation of GOE noise with the same Frobenius error."""
        return effective_scale(self.deviation, self.law, self.size)

    def release(self, source: Source) -> NDArray[np.float64]:
        """Return the noisy matrix: symmetric, and it may have negative eigenvalues."""
        noisy = self.steps.release(source)
        if self.law == "laplace":
            noisy = _mirrored(noisy, self.size)
        return _in_units(noisy, float(self.unit))


def count_noise(moments: Moments, budget: Budget) -> CountNoise:
    """Return the noise of the number of rows: of deviation k/√(2ρ), or √2 k/ε, for k rows of a unit; exact."""
    return CountNoise(budget.on(moments.count))


def vector_noise(moments: Moments, budget: Budget, law: VectorLaw | None = None) -> VectorNoise:
    """Return the noise of the sum of the clipped rows.

    Guarantee: its `claims`. Gaussian noise of deviation Δ₂/√(2ρ), exact. For a pure budget a uniform direction times a
    gamma length (idealized), or with law="laplace" discrete Laplace noise of scale Δ₁/ε on every entry (exact, about √2
    times the error).
    """
    chosen = _law(budget, law, ("gaussian", "spherical", "laplace"), columns=moments.total.shape[0])
    return VectorNoise(budget.on(moments.total_in_l1 if chosen == "laplace" else moments.total, chosen), moments.scale)


def matrix_noise(moments: Moments, budget: Budget, law: MatrixLaw | None = None) -> MatrixNoise:
    """Return the noise of the second moment Σ x xᵀ of the clipped rows.

    Guarantee: its `claims`. Gaussian noise of the Frobenius sensitivity, half the variance off the diagonal, exact. For
    a pure budget two-sided Wishart noise (idealized), or with law="laplace" discrete Laplace noise on the upper
    triangle, mirrored (exact, about √d times the error; √(d/2) when a row is replaced).
    """
    size = moments.second.shape[0]
    chosen = _law(budget, law, ("goe", "wishart", "laplace"), columns=size)
    # by name, because each of these properties makes a copy
    statistic = {"goe": "second", "wishart": "second_in_trace", "laplace": "upper_triangle"}[chosen]
    return MatrixNoise(budget.on(getattr(moments, statistic), chosen), moments.scale**2, size)


def effective_scale(deviation: float, law: Law, size: int) -> float:
    """Return the diagonal deviation of GOE noise with the same Frobenius error as noise of another law."""
    return deviation * sqrt(2 * size / (size + 1)) if law == "laplace" else deviation


def _law(budget: Budget, law: Law | None, known: tuple[Law, ...], *, columns: int) -> Law:
    """Return the law that a price means: the first that it can buy, or the one asked for; Laplace for one column."""
    allowed = budget.laws(*known)
    if law is not None and law not in allowed:
        raise RangeError(f"noise must be {' or '.join(map(repr, allowed))} for this price, got {law!r}")
    chosen = allowed[0] if law is None else law
    # at d = 1 the two-sided Wishart law and the spherical one are the Laplace law, which has an exact form
    return "laplace" if chosen in ("spherical", "wishart") and columns == 1 else chosen


def _in_units(noisy: NDArray[Any], unit: float) -> NDArray[np.float64]:
    """Turn steps into the user's units, in the matrix's own memory where its entries have the size of floats."""
    if noisy.dtype != np.int64:
        return np.asarray(noisy, np.float64) * unit
    floats = noisy.view(np.float64)
    for row in range(len(noisy)):
        floats[row] = noisy[row].astype(np.float64) * unit
    return floats


def _mirrored(upper: Any, size: int) -> NDArray[Any]:
    rows, columns = np.triu_indices(size)
    noisy = np.empty((size, size), np.asarray(upper).dtype)
    noisy[rows, columns] = upper
    noisy[columns, rows] = upper
    return noisy
