"""The law of the gap between the largest and the second largest of n standard normals.

Hand-made: no library has it. Equal means are the worst case, so a table of this law bounds the gap of every sequence of
gains (experts proof page, Theorem 6).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from sidelight.errors import RangeError
from sidelight.experts.leader_change import Floats

#: Gauss-Legendre on this interval, with this many points: error below 1e-10 up to n = 10,000.
_LIMIT, _POINTS = 14.0, 600
#: Raised by more than the quadrature's error, so that the table is an upper bound of the law.
_SLACK = 1e-9


def gap_cdf(gap: ArrayLike, *, actions: int) -> Floats:
    """Return P(gap <= e) = n ∫ φ(x) Φ(x)^(n-1) [-expm1((n-1)(ln Φ(x-e) - ln Φ(x)))] dx.

    >>> gap_cdf([0.05, 0.1, 0.5], actions=25).round(8).tolist()
    [0.09443301, 0.18147415, 0.65928209]
    """
    from scipy.special import log_ndtr

    n = _checked(actions)
    e = np.maximum(np.asarray(gap, dtype=np.float64), 0.0)[..., None]
    x, weights = _quadrature()
    here = log_ndtr(x)
    density = n * _phi(x) * np.exp((n - 1) * here)
    inside = -np.expm1((n - 1) * (log_ndtr(x - e) - here))  # no cancellation where the gap is small
    return np.asarray(np.clip((weights * density * inside).sum(axis=-1), 0.0, 1.0))


def gap_density(gap: ArrayLike, *, actions: int) -> Floats:
    """Return the density n(n-1) ∫ φ(x) φ(x-e) Φ(x-e)^(n-2) dx of the gap.

    >>> gap_density([0.1, 0.5, 1.0], actions=25).round(8).tolist()
    [1.66963215, 0.79865689, 0.2619343]
    """
    from scipy.special import log_ndtr

    n = _checked(actions)
    e = np.asarray(gap, dtype=np.float64)[..., None]
    x, weights = _quadrature()
    inside = _phi(x) * _phi(x - e) * np.exp((n - 2) * log_ndtr(x - e))
    return np.asarray(np.where(e[..., 0] >= 0, n * (n - 1) * (weights * inside).sum(axis=-1), 0.0))


def gap_cdf_above(gap: ArrayLike, *, actions: int) -> Floats:
    """Return an upper bound of the law from a table of 3,000 points: its value at the next point to the right.

    Interpolating would be below the law wherever it is concave.
    """
    points, values = _table(_checked(actions))
    e = np.asarray(gap, dtype=np.float64)
    bound = values[np.searchsorted(points, e, side="left")]
    return np.asarray(np.where(e < 0, 0.0, bound))


def _checked(actions: int) -> int:
    if actions < 2:
        raise RangeError(f"a gap needs at least 2 actions, got {actions}")
    return actions


@cache
def _table(actions: int) -> tuple[Floats, Floats]:
    points = np.geomspace(1e-4, 12, 3000)
    values = np.concatenate([gap_cdf(part, actions=actions) for part in np.array_split(points, 10)])
    bounds = np.append(np.minimum(1.0, np.maximum.accumulate(values) + _SLACK), 1.0)  # beyond the table: 1
    return points, bounds


@cache
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    return _LIMIT * nodes, _LIMIT * weights


def _phi(x: Floats) -> Floats:
    return np.asarray(np.exp(-x * x / 2) / np.sqrt(2 * np.pi))
