"""What an estimate may spend, and how: one price in parts, drawn on moments with the matching noise.

All private access of this package goes through the three methods here, on sums of clipped rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from sidelight.aggregates.moments import Moments
from sidelight.covariance.prepared import effective_scale
from sidelight.covariance.price import Price
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Claims, Neighbours, PureDP
from sidelight.guarantees.claims import Unit
from sidelight.mechanisms.noisy_moments import (
    NoisyMatrix,
    NoisyVector,
    count_deviation,
    matrix_noise,
    noisy_count,
    noisy_second_moment,
    noisy_vector_sum,
    numerics_of,
    second_moment_scale,
    vector_noise,
    vector_sum_deviation,
)
from sidelight.noise import Source

#: Kept back of rho, so that rounding the claim up in its fortieth digit stays within what the user allowed.
_ROUNDING = Fraction(1, 1 << 40)


@dataclass(frozen=True, kw_only=True)
class Spending:
    """A price, the law of pure noise, and the public number of rows if there is one (neighbours then replace a row).

    `moments` are those of no rows, clipped to length 1: they hold sensitivities, unit and neighbours.
    """

    price: Price
    moments: Moments
    noise: Literal["laplace"] | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.noise is not None and (self.noise != "laplace" or self.price.epsilon is None):
            raise RangeError(f"noise must be 'laplace', with a pure price, or left out; got {self.noise!r}")

    @cached_property
    def _within(self) -> Price:
        if self.price.rho is None:
            return self.price
        return Price(self.price.rho * (1 - _ROUNDING), None)

    @property
    def size(self) -> int:
        """The number of columns."""
        return int(self.moments.total.shape[0])

    def count(self, moments: Moments, share: Fraction, source: Source) -> float:
        """Return the number of rows: the public one, or a noisy one of at least 1."""
        if self.rows is not None:
            return float(self.rows)
        return max(1.0, noisy_count(moments, **self._within.part(share), source=source).value)

    def total(self, moments: Moments, share: Fraction, source: Source) -> NoisyVector:
        """Return a noisy sum of rows."""
        return noisy_vector_sum(moments, **self._within.part(share), noise=self.noise, source=source)

    def second(self, moments: Moments, share: Fraction, source: Source) -> NoisyMatrix:
        """Return a noisy sum of x xᵀ."""
        return noisy_second_moment(moments, **self._within.part(share), noise=self.noise, source=source)

    def count_deviation(self, share: Fraction) -> float:
        """Return the noise of the count; 0 where it is public."""
        return 0.0 if self.rows is not None else count_deviation(self.moments, **self._within.part(share))

    def total_deviation(self, share: Fraction, radius: float) -> float:
        """Return the noise of an entry of a sum of rows of at most this length."""
        return vector_sum_deviation(self.moments, **self._within.part(share), noise=self.noise) * radius

    def second_scale(self, share: Fraction, radius: float) -> float:
        """Return the noise of a diagonal entry of Σ x xᵀ, for rows of at most this length; that of GOE shape."""
        scale = second_moment_scale(self.moments, **self._within.part(share), noise=self.noise)
        return effective_scale(scale, self.matrix_law, self.size) * radius**2

    @cached_property
    def matrix_law(self) -> Literal["goe", "wishart", "laplace"]:
        """The law of the noise on matrices."""
        part = self._within.part(Fraction(1))
        return matrix_noise(self.moments, rho=part.get("rho"), epsilon=part.get("epsilon"), noise=self.noise)

    @property
    def neighbours(self) -> Neighbours:
        """Replace one where the number of rows is public."""
        return Neighbours.ADD_REMOVE if self.rows is None else Neighbours.REPLACE

    @property
    def numerics(self) -> Literal["exact", "idealized"]:
        """Exact for integer noise."""
        part = self._within.part(Fraction(1))
        given = {"rho": part.get("rho"), "epsilon": part.get("epsilon"), "noise": self.noise}
        laws = (self.matrix_law, vector_noise(self.moments, **given))  # type: ignore[arg-type]
        return "idealized" if any(numerics_of(law) == "idealized" for law in laws) else "exact"

    def claims(self, unit: Unit) -> Claims:
        """Return what all parts together cost, however their number depends on what was released before.

        The shares add up to 1 for every course that the estimate can take, and for every value released so far the
        next part keeps to its share, so adaptive composition gives the whole price (Gaussians proof page, Theorem 1).
        """
        within = self._within
        if within.rho is not None:
            claim: GDP | PureDP = GDP.from_squares(2 * within.rho, neighbours=self.neighbours, unit=unit)
        else:
            assert within.epsilon is not None
            claim = PureDP(within.epsilon, neighbours=self.neighbours, unit=unit, numerics=self.numerics)
        return Claims.of(claim)
