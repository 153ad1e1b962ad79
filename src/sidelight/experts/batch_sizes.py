"""How small the batch of one report can be: an upper bound of the distribution function of its size.

For gains fixed in advance and clients that follow the protocol (experts proof page, Theorem 7; the index is the
source's, corrected by one).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.experts.delay import DelayRule
from sidelight.experts.leader_change import Floats, change_probability

# The law of the gap between the largest and the second largest of n standard normals.
#
# Hand-made: no library has it. Equal means are the worst case, so a table of this law bounds the gap of every
# sequence of gains (experts proof page, Theorem 6).

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


#: Points of the upper sum over the starting gap, in units of the margin x.
_MARGINS = np.linspace(0.0, 9.0, 600)


def size_cdf_bound(rule: DelayRule, *, time: int, sizes: ArrayLike) -> Floats:
    """Bound P(the batch of the report of round `time` has at most b reports) for each b of an increasing list.

    Each value holds by itself; later ones also bound earlier ones, since a distribution function rises.

    >>> rule = DelayRule(actions=25, noise_scale=5.0)
    >>> size_cdf_bound(rule, time=10_000, sizes=[1, 5, 10, 50]).round(3).tolist()
    [0.122, 0.374, 0.511, 0.87]
    """
    if time < 1:
        raise RangeError(f"rounds are numbered from 1, got {time}")
    wanted = np.atleast_1d(np.asarray(sizes, dtype=np.int64))
    if wanted.size == 0 or wanted[0] < 1 or (np.diff(wanted) <= 0).any():
        raise RangeError("sizes must be an increasing list of whole numbers of at least 1")
    values = np.array([_one(rule, time, int(b)) for b in wanted])
    return np.asarray(np.minimum.accumulate(values[::-1])[::-1])


def size_weights(rule: DelayRule, *, time: int, largest: int = 2000) -> tuple[NDArray[np.int64], Floats]:
    """Return batch sizes and weights that are stochastically smaller than the true size: the worst case to charge.

    Sizes are evaluated at 1..32 and at about 150 more up to `largest`; the mass of a skipped range (b_i, b_i+1] lies
    on b_i + 1, and what is left beyond the last on the next.
    """
    last = largest if rule.largest_batch is None else min(largest, rule.largest_batch - 1)
    if time == 1 or last < 1:
        return np.array([1]), np.array([1.0])
    grid = np.unique(np.rint(np.concatenate([np.arange(1, 33), np.geomspace(33, 2000, 150) * largest / 2000])))
    evaluated = grid[(grid >= 1) & (grid <= last)].astype(np.int64)
    bounds = np.append(size_cdf_bound(rule, time=time, sizes=evaluated), 1.0)
    places = np.concatenate([[1], evaluated + 1])
    weights = np.diff(np.concatenate([[0.0], bounds]))
    kept = weights > 0
    return places[kept], weights[kept]


def _one(rule: DelayRule, time: int, size: int) -> float:
    if size >= time or time == 1 or (rule.largest_batch is not None and size >= rule.largest_batch):
        return 1.0  # the first batch has one report whatever the gap
    threshold = float(rule.threshold(time, size))
    deviation = rule.noise_scale * np.sqrt(time - size + 1)  # of each coordinate of G at round time - size
    if size == 1:
        return float(gap_cdf_above(threshold / deviation, actions=rule.actions))
    # the gap k at that round, then at most size - 1 reports in which it may fall below the threshold
    step = rule.noise_scale * np.sqrt(2.0 * (size - 1))
    gaps = threshold + rule.gain_range * (size - 1) + step * _MARGINS
    below = gap_cdf_above(gaps / deviation, actions=rule.actions)
    falls = change_probability(_MARGINS, actions=rule.actions, bound=rule.bound)
    falls[0] = 1.0
    # an upper sum: the falling probability at the left end of each piece
    total = below[0] + (falls[:-1] * np.diff(below)).sum() + falls[-1] * (1 - below[-1])
    return float(min(1.0, total))
