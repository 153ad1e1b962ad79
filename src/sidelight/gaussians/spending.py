"""What an estimate may spend, and how: one budget in parts, drawn on moments with the matching noise.

All private access of this package goes through the three methods here, on sums of clipped rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.moments import Moments
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Claims, Neighbours, PureDP
from sidelight.guarantees.claims import Unit
from sidelight.mechanisms.additive import Law
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.noisy_moments import count_noise, matrix_noise, vector_noise
from sidelight.noise import Source

Floats = NDArray[np.float64]
#: Kept back of rho, so that rounding the claim up in its fortieth digit stays within what the user allowed.
_ROUNDING = Fraction(1, 1 << 40)


@dataclass(frozen=True, kw_only=True)
class Spending:
    """A budget, the law of pure noise, and the public number of rows if there is one (neighbours then replace a row).

    `moments` are those of no rows, clipped to length 1: they hold sensitivities, unit and neighbours.
    """

    budget: Budget
    moments: Moments
    noise: Literal["laplace"] | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.noise is not None and (self.noise != "laplace" or not self.budget.is_pure):
            raise RangeError(f"noise must be 'laplace', with a pure price, or left out; got {self.noise!r}")

    @cached_property
    def _within(self) -> Budget:
        return self.budget if self.budget.is_pure else self.budget.part(1 - _ROUNDING)

    @property
    def size(self) -> int:
        """The number of columns."""
        return int(self.moments.total.shape[0])

    def count(self, moments: Moments, share: Fraction, source: Source) -> float:
        """Return the number of rows: the public one, or a noisy one of at least 1."""
        if self.rows is not None:
            return float(self.rows)
        return max(1.0, count_noise(moments, self._within.part(share)).release(source))

    def total(self, moments: Moments, share: Fraction, source: Source) -> Floats:
        """Return a noisy sum of rows."""
        return vector_noise(moments, self._within.part(share), self.noise).release(source)

    def second(self, moments: Moments, share: Fraction, source: Source) -> Floats:
        """Return a noisy sum of x xᵀ."""
        return matrix_noise(moments, self._within.part(share), self.noise).release(source)

    def count_deviation(self, share: Fraction) -> float:
        """Return the noise of the count; 0 where it is public."""
        return 0.0 if self.rows is not None else count_noise(self.moments, self._within.part(share)).deviation

    def total_deviation(self, share: Fraction, radius: float) -> float:
        """Return the noise of an entry of a sum of rows of at most this length."""
        return vector_noise(self.moments, self._within.part(share), self.noise).deviation * radius

    def second_scale(self, share: Fraction, radius: float) -> float:
        """Return the noise of a diagonal entry of Σ x xᵀ, for rows of at most this length; that of GOE shape."""
        return matrix_noise(self.moments, self._within.part(share), self.noise).effective_scale * radius**2

    @cached_property
    def matrix_law(self) -> Law:
        """The law of the noise on matrices."""
        return matrix_noise(self.moments, self._within, self.noise).law

    @property
    def neighbours(self) -> Neighbours:
        """Replace one where the number of rows is public."""
        return Neighbours.ADD_REMOVE if self.rows is None else Neighbours.REPLACE

    @property
    def numerics(self) -> Literal["exact", "idealized"]:
        """Exact for integer noise."""
        noises = [each(self.moments, self._within, self.noise) for each in (matrix_noise, vector_noise)]
        return "idealized" if any(noise.numerics == "idealized" for noise in noises) else "exact"

    def claims(self, unit: Unit) -> Claims:
        """Return what all parts together cost, however their number depends on what was released before.

        The shares add up to 1 for every course that the estimate can take, and for every value released so far the
        next part keeps to its share, so adaptive composition gives the whole price (Gaussians proof page, Theorem 1).
        """
        if self._within.rho is not None:
            claim: GDP | PureDP = GDP.from_squares(2 * self._within.rho, neighbours=self.neighbours, unit=unit)
        else:
            claim = PureDP(self._within.amount, neighbours=self.neighbours, unit=unit, numerics=self.numerics)
        return Claims.of(claim)
