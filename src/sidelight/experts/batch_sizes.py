"""How small the batch of one report can be: an upper bound of the distribution function of its size.

For gains fixed in advance and clients that follow the protocol (experts proof page, Theorem 7; the index is the
source's, corrected by one).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.experts.delay import DelayRule
from sidelight.experts.gap import gap_cdf_above
from sidelight.experts.leader_change import Floats, change_probability

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
