"""How far one record moves a regularised logistic regression, and what that costs, given how convex the data make it.

Rows are scaled to length 1. The objective is Σ l(y xᵀθ) + λ/2 |θ|², with |l'| <= 1, l'' <= 1/4 and |l'''| <= l''; its
strength a is the smallest eigenvalue of its Hessian at the minimum, λ included (stability proof page, Theorem 12).
Hand-made: the published tails are too short, and the published move of the strength assumes what it should prove.
"""

from __future__ import annotations

import math

from sidelight.errors import RangeError
from sidelight.stability.posterior_sampling.divergence import Directions

#: Of the logistic loss: the largest slope and the largest curvature.
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
