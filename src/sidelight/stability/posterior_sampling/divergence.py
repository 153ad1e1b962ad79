"""How private one posterior sample is, given the data: exact Renyi divergences, and the precision that a budget allows.

Rows and targets are scaled to length 1: |x| <= 1, |y| <= 1. The sample is N(θ, (γH)^-1) with H = XᵀX + λI and
θ = H^-1 Xᵀy; h bounds the leverage xᵀH^-1x (1 over the smallest eigenvalue of H), R the residual |y - xᵀθ| (1 + |θ|).
Hand-made because the printed formulas of the literature use a tail that is too short and count additions only
(stability proof page, Theorem 9).
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from sidelight.errors import RangeError
from sidelight.stability.distance_test import upper_quantile

#: "forward": M(X) from M(X') for every neighbour X' of X. "both": M(X') from M(X), too, by numbers of X alone.
Directions: TypeAlias = Literal["forward", "both"]


def posterior_divergence(
    order: float, *, leverage: float, residual: float, precision: float, directions: Directions
) -> float:
    """Return the largest divergence of an order over all added and removed records; infinite where it has no bound.

    >>> round(posterior_divergence(8, leverage=0.02, residual=3, precision=0.5, directions="forward"), 10)
    0.4112684667
    """
    curvature, slope = _terms(order, leverage, directions)
    return curvature + slope * precision * residual * residual


def largest_precision(
    budget: float, order: float, *, leverage: float, residual: float, directions: Directions
) -> float | None:
    """Return the largest γ whose divergence is at most the budget; None if there is none. A NaN anywhere gives None.

    >>> round(largest_precision(1, 20, leverage=0.01, residual=2, directions="forward"), 6)
    2.044084
    """
    curvature, slope = _terms(order, leverage, directions)
    if not (math.isfinite(curvature) and slope > 0 and residual > 0 and math.isfinite(residual)):
        return None
    precision = (budget - curvature) / (slope * residual * residual) * (1 - 1e-12)
    return precision if precision > 0 and math.isfinite(precision) else None


def _terms(order: float, leverage: float, directions: Directions) -> tuple[float, float]:
    """Return the divergence as (what remains at γ = 0, what multiplies γR²); infinite outside the range of validity."""
    if not order >= 2:
        raise RangeError(f"posterior sampling is certified for orders of at least 2, got {order}")
    h, t = leverage, order - 1
    reach = t * h if directions == "forward" else order * h
    if not (h > 0 and reach < 1):
        return math.inf, math.inf
    if directions == "forward":
        return (
            -math.log1p(h) / 2 - math.log1p(-t * h) / (2 * t),
            order * h / (2 * (1 + h) * (1 - t * h)),
        )
    return (
        math.log1p(-h) / 2 + (math.log1p(-h) - math.log1p(-order * h)) / (2 * t),
        order * h / (2 * (1 - h) * (1 - order * h)),
    )


def residual_move(leverage: float) -> float:
    """Return how far one record moves ln(1 + |θ|), added or removed: -ln(1 - h) (Lemma 10); infinite for h >= 1.

    The smaller ln(1 + h) of the literature holds for additions only.
    """
    return -math.log1p(-leverage) if 0 <= leverage < 1 else math.inf


def tail_epsilon(*, leverage: float, residual: float, precision: float, delta: float) -> float:
    """Return an epsilon at `delta` by a tail bound, forward, added or removed: larger than what divergences give.

    t = z(δ/2): t R √(γh) + γR²h/(2(1 - h)) + max(t²h/2, -ln(1 - h)/2). For comparison with the literature, which writes
    √(ln(2/δ)) for t and is wrong.

    >>> round(tail_epsilon(leverage=0.01, residual=10, precision=1, delta=1e-6), 8)
    5.51632962
    """
    if not 0 <= leverage < 1:
        return math.inf
    t = upper_quantile(delta / 2)
    middle = precision * residual**2 * leverage / (2 * (1 - leverage))
    spread = max(t * t * leverage / 2, -math.log1p(-leverage) / 2)
    return t * residual * math.sqrt(precision * leverage) + middle + spread
