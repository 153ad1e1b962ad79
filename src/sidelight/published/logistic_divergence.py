"""How far one record moves a regularised logistic regression, and what that costs, given how convex the data make it.

Rows are scaled to length 1. The objective is Σ l(y xᵀθ) + λ/2 |θ|², with |l'| <= 1, l'' <= 1/4 and |l'''| <= l''; its
strength a is the smallest eigenvalue of its Hessian at the minimum, λ included (stability proof page, Theorem 12).
Hand-made: the published tails are too short, and the published move of the strength assumes what it should prove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sidelight.errors import RangeError
from sidelight.mechanisms.tests_and_bounds import private_upper_bound
from sidelight.noise import Source
from sidelight.published.adaops import Directions
from sidelight.stability.propose_test_release import EIGENVALUE_TOLERANCE

#: Of the logistic loss: the largest first and the largest second derivative.
SLOPE, CURVATURE = 1.0, 0.25
#: One record, added or removed, moves the strength by at most this, whatever the penalty (Theorem 12).
STRENGTH_MOVE = SLOPE + CURVATURE


def minimum_move(strength: float, *, inexactness: float = 0.0) -> float:
    """Return how far one record moves the minimum: s = -ln(1 - 1/a); infinite for a <= 1, or a NaN.

    `inexactness` is how far a computed minimum may be from the true one; there are two of them.
    """
    if not strength > SLOPE:
        return math.inf
    return -math.log1p(-SLOPE / strength) + 2 * inexactness


def shaped_divergence(
    order: float, *, strength: float, precision: float, directions: Directions, inexactness: float = 0.0
) -> float:
    """Return the Renyi divergence of N(θ, (γH)^-1), H the Hessian, for records added or removed; infinite without one.

    >>> round(shaped_divergence(4, strength=50, precision=1, directions="forward"), 10)
    0.0459868754
    """
    shape, slope = _terms(order, strength, directions, inexactness)
    return shape + slope * precision


def largest_shaped_precision(
    budget: float, order: float, *, strength: float, directions: Directions, inexactness: float = 0.0
) -> float | None:
    """Return the largest γ within the budget; None if there is none, or if anything is NaN."""
    shape, slope = _terms(order, strength, directions, inexactness)
    if not (math.isfinite(shape) and slope > 0):
        return None
    precision = (budget - shape) / slope * (1 - 1e-12)
    return precision if precision > 0 and math.isfinite(precision) else None


def _terms(order: float, strength: float, directions: Directions, inexactness: float) -> tuple[float, float]:
    """Return (what the changed shape costs, what multiplies γ).

    w bounds the Frobenius distance of the whitened Hessians; above 1 the formulas would turn negative and pass every
    test, so they say infinite.
    """
    if not order >= 2:
        raise RangeError(f"the shaped noise is certified for orders of at least 2, got {order}")
    if not strength > SLOPE:
        return math.inf, math.inf
    tau = SLOPE / strength
    w = tau / (1 - tau) + CURVATURE / strength + 4 * inexactness
    if not w < 1:
        return math.inf, math.inf
    lift, ws = (1.0, w) if directions == "forward" else (1 + w, w / (1 - w))
    rest = 1 - (order - 1) * ws
    if not rest > 0:
        return math.inf, math.inf
    s = minimum_move(strength, inexactness=inexactness)
    shape = order * ws**2 / (4 * (1 + ws) * rest)
    return shape, order * lift * s * s * strength * (1 + ws) / (2 * rest)


@dataclass(frozen=True)
class Precision:
    """How near a certified minimum is to the true one if there are at most `rows` rows of length 1, proved by floats.

    The number of rows is private where records are added and removed, so the bound is one that was released with noise;
    a declared bound would be a promise about private rows (stability proof page, Theorem 14).
    """

    rows: float
    penalty: float

    @property
    def tolerance(self) -> float:
        """What the gradient at the minimum is certified to: what floats can prove for this number of rows, with room.

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
