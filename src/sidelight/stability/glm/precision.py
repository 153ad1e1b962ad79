"""What floats prove about a computed minimum, for a bound of the number of rows: how near it and its strength are.

The number of rows is private where records are added and removed, so the bound is one that was released with noise; a
bound that somebody declared would be a promise about private rows (stability proof page, Theorem 14).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sidelight.noise import Source
from sidelight.stability.glm.divergence import CURVATURE
from sidelight.stability.posterior_sampling.ridge import EIGENVALUE_TOLERANCE
from sidelight.stability.private_bounds import private_upper_bound

#: Of the budget, what the bound of the number of rows takes: it need not be tight, floats are precise enough.
COUNT_SHARE = Fraction(1, 1000)
#: Of delta, what it may fail with.
COUNT_FAILURE = Fraction(1, 60)


@dataclass(frozen=True)
class Precision:
    """How near a certified minimum is to the true one if there are at most `rows` rows of length 1."""

    rows: float
    penalty: float

    @property
    def tolerance(self) -> float:
        """What the gradient at the minimum is certified to: what floats can prove for so many rows, with room.

        |θ|² <= 2 ln 2 n/λ, because the objective at 0 is n ln 2; the certificate grows with rows and |θ|.
        """
        longest = math.sqrt(1.4 * self.rows / self.penalty)
        return max(1e-10 * self.penalty, 2.0**-51 * (24 + 2 * longest) * self.rows)

    @property
    def inexactness(self) -> float:
        """How far the certified point is from the minimum, at most: g/λ."""
        return self.tolerance / self.penalty

    @property
    def largest_eigenvalue(self) -> float:
        """The largest eigenvalue that the Hessian can have."""
        return CURVATURE * self.rows + self.penalty

    @property
    def slack(self) -> float:
        """How far the computed strength is from the true one: the point's inexactness, and that of eigenvalues.

        Over a distance s the Hessian changes by a factor of at most e^s, and no eigenvalue exceeds the largest.
        """
        change = math.expm1(self.inexactness) if self.inexactness < 1 else 1.0
        return 1.01 * self.largest_eigenvalue * min(1.0, change) + EIGENVALUE_TOLERANCE * self.rows


def private_precision(rows: int, *, penalty: float, mu: float, failure: float, source: Source) -> Precision:
    """Return the precision for a private bound of the number of rows, of this table and of every neighbour's.

    Guarantee: GDP(mu) for one row added or removed; below rows + 1 with probability at most `failure`.
    """
    bound = private_upper_bound(rows + 1, sensitivity=1, mu=mu, failure=failure, source=source)
    return Precision(max(bound, 1.0), penalty)
