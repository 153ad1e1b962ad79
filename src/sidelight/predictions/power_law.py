"""The prior of a clipping radius: flat up to an anchor, a power law beyond. It has no location, only a size.

Its tail must fall faster than the square: the noise of a clipped sum grows with the radius, and its expected square
R² would be infinite otherwise (summaries proof page, section 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.grid import Outcomes
from sidelight.predictions.compiled import UNIT, UNIT_BITS, CompiledPrior, Staircase
from sidelight.predictions.knots import Ladder, StandardLaw
from sidelight.predictions.priors import Numeric, exact_positive


@dataclass(frozen=True)
class PowerLaw:
    """Mass of {R <= t} in proportion to t up to the anchor s, of {R > t} to t^-p beyond, the density continuous at s.

    Knots lie at s i/16 and s 2^(i/16). Compiled on a grid of distances, whose first outcome is 0.

    Accuracy: beyond the largest row R / max is Pareto(p), so E R² = max² p / (p - 2).

    Args:
        anchor: s, in the unit of the grid; a quartile range of the data that was released before, or a prediction.
        exponent: p, a whole number from 3 to 16.

    >>> float(PowerLaw(10).cdf(10)), float(PowerLaw(10).sf(20))
    (0.8, 0.0125)
    """

    anchor: Numeric
    exponent: int = 4

    def __post_init__(self) -> None:
        advice = "the resolution of the column is a good least value"
        exact = exact_positive(self.anchor, name="anchor", advice=advice)
        if isinstance(self.exponent, bool) or not isinstance(self.exponent, int) or not 3 <= self.exponent <= 16:
            raise RangeError(
                f"exponent must be a whole number from 3 to 16, got {self.exponent!r}; with 2 or less the expected "
                "noise variance is infinite"
            )
        object.__setattr__(self, "anchor", exact)

    def cdf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return the mass of radii up to t."""
        return 1.0 - self.sf(t)

    def sf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return the mass of radii beyond t."""
        z = np.maximum(np.asarray(t, dtype=np.float64) / float(Fraction(self.anchor)), 0.0)
        p = self.exponent
        near = 1.0 - np.minimum(z, 1.0) * p / (p + 1)
        return np.asarray(np.where(z <= 1, near, np.maximum(z, 1.0) ** -float(p) / (p + 1)))

    def staircases(self, grid: Outcomes, weight: int) -> tuple[Staircase, ...]:
        """Return the integer masses at the knots of this prior."""
        law = _standard(self.exponent)
        return (Ladder(grid, law, location=Fraction(0), scale=Fraction(self.anchor), weight=weight),)

    def compile(self, grid: Outcomes) -> CompiledPrior:
        """Return the exact integer masses that a selection on this grid uses."""
        return CompiledPrior(grid.fine_first, grid.fine_last, self.staircases(grid, UNIT))


@lru_cache(maxsize=16)
def _standard(exponent: int) -> StandardLaw:
    """Return the law of R/s. From knot to knot the tail falls by 2^(-p/16), 12 % or more: no rounding reorders it."""

    def below(z: float) -> int:
        if z <= 1:
            return int(math.ldexp(z, UNIT_BITS)) * exponent // (exponent + 1)
        return UNIT - int(math.ldexp(z**-exponent, UNIT_BITS)) // (exponent + 1)

    return StandardLaw(below, per_scale=16, linear_until=1, two_sided=False)
