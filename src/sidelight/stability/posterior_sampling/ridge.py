"""The ridge problem of private rows, scaled to length 1, and what is drawn from its posterior. All secret.

How private one sample is, given the data, are exact Renyi divergences. Rows and targets are scaled to length 1: |x| <=
1, |y| <= 1. The sample is N(θ, (γH)^-1) with H = XᵀX + λI and θ = H^-1 Xᵀy; h bounds the leverage xᵀH^-1x (1 over the
smallest eigenvalue of H), R the residual |y - xᵀθ| (1 + |θ|). Hand-made because the printed formulas of the literature
use a tail that is too short and count additions only (stability proof page, Theorem 9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.collect import collect
from sidelight.errors import RangeError
from sidelight.guarantees import RDP, Claims
from sidelight.mechanisms.additive import priced_normals
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Source, public_grid, to_grid
from sidelight.records import Table
from sidelight.regression.least_squares_codes import LeastSquaresCodes
from sidelight.session import Answer

Floats = NDArray[np.float64]

#: Floating-point eigenvalues are lowered by this share of the largest possible one, a public number.
EIGENVALUE_TOLERANCE = 1e-9
_LIMIT_STEPS = 2.0**48


#: "forward": M(X) from M(X') for every neighbour X' of X. "both": M(X') from M(X), too, by numbers of X alone.
Directions: TypeAlias = Literal["forward", "both"]


@dataclass(frozen=True, repr=False)
class Ridge:
    """XᵀX by its eigenvalues and eigenvectors, and Xᵀy in these axes; rows and targets have length at most 1."""

    values: Floats = field(repr=False)
    vectors: Floats = field(repr=False)
    cross: Floats = field(repr=False)

    @classmethod
    def of(cls, gram: Floats, cross: Floats) -> Ridge:
        """Decompose once: every penalty after that costs no more than a product."""
        values, vectors = np.linalg.eigh(gram)
        return cls(np.maximum(values, 0.0), vectors, vectors.T @ cross)

    @classmethod
    def look(cls, table: Table, codes: LeastSquaresCodes) -> Ridge:
        """Read the rows, once, and scale the integers that come out."""
        moments = collect(table, codes.statistics)
        length = codes.statistics.squared_length
        height = math.sqrt(length) * codes.statistics.target_bound
        return cls.of(np.asarray(moments.gram.value, np.float64) / length, np.asarray(moments.cross.value) / height)

    def smallest_eigenvalue(self, rows_at_most: int) -> float:
        """Return the smallest eigenvalue of XᵀX, lowered by a public tolerance. One record moves it by at most 1."""
        return float(self.values[0]) - EIGENVALUE_TOLERANCE * rows_at_most

    def log_residual(self, penalty: float) -> float:
        """Return ln(1 + |θ|), which bounds every residual's logarithm."""
        return math.log1p(float(np.linalg.norm(self.cross / (self.values + penalty))))

    def solution(self, penalty: float) -> Floats:
        """Return θ = (XᵀX + λ)^-1 Xᵀy."""
        return np.asarray(self.vectors @ (self.cross / (self.values + penalty)))

    def sample(self, penalty: float, precision: float, price: DrawPrice, source: Source) -> Floats:
        """Draw from N(θ, (γ(XᵀX + λ))^-1): the density exp(-γ/2 (|y - Xθ|² + λ|θ|²))."""
        spread = np.sqrt(precision * (self.values + penalty))
        noise = priced_normals(len(self.values), price=price, source=source) / spread
        return np.asarray(self.vectors @ (self.cross / (self.values + penalty) + noise))

    def __repr__(self) -> str:
        return "Ridge(private)"


def answer_on_grid(point: Floats, codes: LeastSquaresCodes, *, least_deviation: float) -> Answer:
    """Round a noisy θ to the public grid of its smallest possible noise, and give it in the units of the columns."""
    exponent = public_grid(least_deviation)
    rounded = np.ldexp(to_grid(point, exponent, limit=math.ldexp(_LIMIT_STEPS, exponent)).astype(np.float64), exponent)
    height = codes.statistics.target_bound / math.sqrt(codes.statistics.squared_length)
    coefficients, intercept = codes.in_units(rounded * height)
    return Answer(value=np.append(coefficients, intercept), labels=codes.labels)


def posterior_answer(
    ridge: Ridge,
    codes: LeastSquaresCodes,
    *,
    penalty: float,
    precision: float,
    price: DrawPrice,
    rows_at_most: int,
    source: Source,
) -> Answer:
    """Draw one posterior sample and round it."""
    least = 1 / math.sqrt(precision * (penalty + rows_at_most))
    return answer_on_grid(ridge.sample(penalty, precision, price, source), codes, least_deviation=least)


def posterior_price(
    order: Fraction, *, leverage: float, residual: float, precision: float, directions: Directions
) -> DrawPrice:
    """Return what a sample of this precision costs a row, at one Renyi order."""
    divergence = posterior_divergence(
        float(order), leverage=leverage, residual=residual, precision=precision, directions=directions
    )
    return DrawPrice(
        law="a posterior sample",
        claims=Claims.of(RDP({order: Fraction(divergence)}, numerics="idealized")),
        statistic=f"coefficients at precision {precision:.6g}",
        theorem="stability proof page, section on posterior samples",
    )


def checked_rows(rows_at_most: int) -> int:
    """Refuse what is no bound of a number of rows."""
    if isinstance(rows_at_most, bool) or not isinstance(rows_at_most, int) or not 1 <= rows_at_most <= 10**12:
        raise RangeError(f"rows_at_most is a public whole number from 1 to 1e12, got {rows_at_most!r}")
    return rows_at_most


def checked_shares(**shares: Fraction) -> Fraction:
    """Return what shares of a budget leave; each is at least 0, and something must be left."""
    left = Fraction(1) - sum(shares.values())
    if min(shares.values()) < 0 or left <= 0:
        raise RangeError(f"{' and '.join(shares)} are shares of the budget and must leave some of it to the release")
    return left


def penalty_grid(lowest: float, highest: float, points: int) -> tuple[float, ...]:
    """Return penalties, evenly spaced in logarithms."""
    return tuple(float(x) for x in np.geomspace(lowest, highest, points))


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
