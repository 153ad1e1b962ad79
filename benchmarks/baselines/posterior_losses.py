"""NOT PRIVATE: the true loss of Gaussian pieces on given data, to audit constants with.

These functions take secret numbers (a leverage, a residual, two posteriors) and return what really was lost. Nothing
they return may be published; their names say so. No mechanism calls them.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError

#: A record is added or removed; the loss of what the data set gave ("forward") or of what its neighbour gave.
Kind: TypeAlias = Literal["add", "add backward", "remove", "remove backward"]


def nonprivate_posterior_loss(leverage: float, residual: float, precision: float, epsilon: float, kind: Kind) -> float:
    """NOT PRIVATE: return the smallest delta that a posterior sample keeps at epsilon against one given record.

    `leverage` is xᵀH^-1x and `residual` y - xᵀθ, both at the data set itself; exact to double precision.

    >>> f"{nonprivate_posterior_loss(0.01, 10, 1, 4, 'add'):.7e}"
    '5.8882330e-05'
    """
    mean, variance = _pair(leverage, residual, precision, kind)
    if kind.endswith("backward"):
        return gaussian_pair_delta(-mean / math.sqrt(variance), 1 / variance, epsilon)
    return gaussian_pair_delta(mean, variance, epsilon)


def nonprivate_posterior_divergence(
    leverage: float, residual: float, precision: float, order: float, kind: Kind
) -> float:
    """NOT PRIVATE: return the Renyi divergence of a posterior sample against one given record."""
    mean, variance = _pair(leverage, residual, precision, kind)
    if kind.endswith("backward"):
        mean, variance = -mean / math.sqrt(variance), 1 / variance
    wide = order * variance - (order - 1)
    if wide <= 0:
        return math.inf
    return order * mean**2 / (2 * wide) - math.log(wide / variance**order) / (2 * (order - 1))


def nonprivate_gaussian_divergence(
    order: float,
    first_mean: NDArray[np.float64],
    first_precision: NDArray[np.float64],
    second_mean: NDArray[np.float64],
    second_precision: NDArray[np.float64],
) -> float:
    """NOT PRIVATE: return the Renyi divergence of two multivariate Gaussians, given their precision matrices."""
    first, second = np.linalg.inv(first_precision), np.linalg.inv(second_precision)
    mixed = order * second + (1 - order) * first
    if np.linalg.eigvalsh(mixed)[0] <= 0:
        return math.inf
    gap = second_mean - first_mean
    logs = (
        np.linalg.slogdet(mixed)[1] - (1 - order) * np.linalg.slogdet(first)[1] - order * np.linalg.slogdet(second)[1]
    )
    return float(order / 2 * gap @ np.linalg.solve(mixed, gap) - logs / (2 * (order - 1)))


def gaussian_pair_delta(mean: float, variance: float, epsilon: float) -> float:
    """Return H_epsilon(N(0, 1) || N(mean, variance)): where the loss a + bz + cz² exceeds epsilon, by its two roots."""
    a = (math.log(variance) + mean**2 / variance) / 2 - epsilon
    b, c = -mean / variance, (1 / variance - 1) / 2
    deviation = math.sqrt(variance)

    def excess(low: float, high: float) -> float:
        p, q = _mass(low, high), _mass((low - mean) / deviation, (high - mean) / deviation)
        return p - math.exp(epsilon) * q

    if abs(c) < 1e-14:
        if b == 0:
            return max(0.0, -math.expm1(epsilon)) if a > 0 else 0.0
        root = -a / b
        return max(0.0, excess(root, math.inf) if b > 0 else excess(-math.inf, root))
    square = b * b - 4 * a * c
    if square <= 0:  # the loss is on one side of epsilon everywhere
        return max(0.0, -math.expm1(epsilon)) if c > 0 else 0.0
    far = -(b + math.copysign(math.sqrt(square), b)) / 2  # no cancellation
    low, high = sorted((far / c, a / far))
    if c > 0:
        return max(0.0, excess(-math.inf, low) + excess(high, math.inf))
    return max(0.0, excess(low, high))


def _mass(low: float, high: float) -> float:
    """Return the mass of N(0, 1) between two points, from the tail where both lie."""
    from scipy.special import ndtr

    return float(ndtr(high) - ndtr(low)) if low + high < 0 else float(ndtr(-low) - ndtr(-high))


def _pair(leverage: float, residual: float, precision: float, kind: Kind) -> tuple[float, float]:
    """Return mean and variance of the neighbour's law along x, where the data set's own law is N(0, 1)."""
    if kind not in ("add", "add backward", "remove", "remove backward"):
        raise RangeError(f"kind is 'add', 'remove', 'add backward' or 'remove backward', got {kind!r}")
    sign = 1 if kind.startswith("add") else -1
    if not (leverage >= 0 and sign * leverage > -1):
        raise RangeError(f"a record's leverage is at least 0, and below 1 if it is removed, got {leverage}")
    wide = 1 + sign * leverage
    return sign * residual * math.sqrt(precision * leverage) / wide, 1 / wide
