"""How far off quantiles are where records are about evenly spread around them (quantiles proof page, section 4.6).

The bound of `gap_bounds_tree` charges a node for the prior mass of its single best interval. Neighbouring intervals
have mass, too: where that mass grows about as the ranks do, the gap of a node is at most a variable with a known tail,
whatever its ancestors released, and the gaps along a path add up as such variables do, not as their worst cases.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sidelight.quantiles.tree import Node, Pick, QuantileTree

Floats = NDArray[np.float64]

#: The assumption: t ranks around a quantile hold at most FACTOR W(t)/W(g) times the prior mass of g < t ranks, where
#: W(t) = (t+1) (1 + (t / (_NEAR s))**4), s = 2 Delta / epsilon: even near the quantile, and free far from it.
FACTOR = 2.0
_NEAR = 10.0
#: Where the tail is integrated, in units of 2 Delta / epsilon: what lies beyond weighs less than 1e-30.
_REACH, _POINTS = 120.0, 4001
#: Exponents that are tried, as shares of the largest possible one, and the confidence that they are chosen for.
_SHARES = np.linspace(0.02, 0.96, 48)
_TABLE = np.concatenate(([0.0], _SHARES))
_CHOSEN_AT = math.log(20)
#: Sums are convolved up to where moments say that exp(-_FAR) is left, in this many cells, for up to this many levels.
_FAR, _CELLS, _MOST_CONVOLVED = 16.0, 768, 32
#: What is inherited at least, so that products of many small shares stay far from zero: more is a bound, too.
_LEAST_WEIGHT = 1e-100
#: The gap of the best output of a node: 1/2 at most, with records that differ (or are dithered).
_BEST = 0.5


@lru_cache(maxsize=64)
def spread_bounds(tree: QuantileTree) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bound the gap of all levels at once, as fixed + per_log * log(1/beta), for binary trees, exact score.

    Accuracy: with F(g) the prior mass, in a node's range, of outputs within g ranks of the best gap, and
    F(t) <= FACTOR W(t)/W(g) F(g) for all t >= g >= 0, the own gap of a pick exceeds its best one by more than t with
    probability at most S(t), whatever its ancestors released (proof page, Theorem 10). A node inherits
    (1-q~) g_lo + q~ g_hi of its ends, so every gap is at most a weighted sum of independent variables with these tails.
    Only for binary trees: sorting siblings mixes their gaps.

    >>> from sidelight.quantiles.tree import quantile_tree
    >>> fixed, per_log = spread_bounds(quantile_tree([0.5], epsilon="0.1"))
    >>> 60 < fixed[0] + per_log[0] * math.log(20) < 65  # 2 Delta / epsilon is 10; made are 30 at 95 %
    True
    """
    laws = {scale: _Law(scale) for scale in {_scale(pick) for pick in tree.picks}}
    own = [laws[_scale(pick)] for pick in tree.picks]
    weights: dict[int | None, dict[int, float]] = {None: {}}  # by level: how much it inherits of each level's own gap
    fixed, per_log = [0.0] * len(tree.levels), [0.0] * len(tree.levels)
    for node in tree.nodes():  # parents first
        (pick,) = node.picks
        weights[pick.position] = found = _weights(node, pick, weights)
        line = _line([(own[place], weight) for place, weight in found.items()], union=len(tree.levels))
        fixed[pick.position], per_log[pick.position] = (_up(part) for part in line)
    return tuple(fixed), tuple(per_log)


def _weights(node: Node, pick: Pick, weights: dict[int | None, dict[int, float]]) -> dict[int, float]:
    q, found = float(pick.relative_level), {pick.position: 1.0}
    for end, share in ((node.lower, 1 - q), (node.upper, q)):
        for place, weight in weights[end].items():
            found[place] = found.get(place, 0.0) + max(share * weight, _LEAST_WEIGHT)
    return found


def _scale(pick: Pick) -> float:
    return float(2 * pick.sensitivity("exact") / pick.epsilon)


_GRID = np.linspace(0.0, _REACH, _POINTS)
_ENDS = np.exp(np.outer(_SHARES, _GRID))


class _Law:
    """A variable above the own gap of a pick, in ranks beyond the best: its tail on a grid, and its cumulants."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.tail = _tail(scale)
        # E exp(theta X) = 1 + ∫ theta exp(theta t) S(t) dt; S falls, so its left ends are above. Beyond the grid
        # S(t) is below 1e-40, and the last factor is more than what is left out.
        moments = (1 + np.diff(_ENDS, axis=1) @ self.tail[:-1]) * (1 + 1e-9)
        self._cumulants = np.concatenate(([0.0], np.log(moments)))

    def cumulant(self, thetas: Floats) -> Floats:
        """Bound log E exp(theta X) from above: it is convex, so chords of a table are; infinite beyond the table."""
        found = np.interp(thetas * self.scale, _TABLE, self._cumulants)
        return np.asarray(np.where(thetas * self.scale > _TABLE[-1], np.inf, found))


def _line(parts: list[tuple[_Law, float]], *, union: int) -> tuple[float, float]:
    """Return the best line in log(1/beta) above the tail of a weighted sum; each of `union` levels has a part of beta.

    A line a + b L is above the tail S if t <= a + b log(1/S(t)) for all t. By moments S(t) <= exp(K(theta) - theta t),
    which is such a line with b = 1/theta. Nearer ones are found from the convolution of the tails up to some t, and
    from the moments beyond it.
    """
    shift = _BEST * sum(weight for _, weight in parts)
    thetas = _SHARES / max(law.scale * weight for law, weight in parts)
    cumulants = np.sum([law.cumulant(thetas * weight) for law, weight in parts], axis=0) + math.log(union)
    plain = list(zip((cumulants / thetas).tolist(), (1 / thetas).tolist(), strict=True))
    best = min(plain, key=_at_choice)
    if union > _MOST_CONVOLVED:
        return best[0] + shift, best[1]
    last = min(a + b * _FAR for a, b in plain)
    at, tail = _convolved(parts, last)
    logs = -np.log(np.minimum(tail * union, 1.0) + 1e-300)
    beyond = np.outer(
        1 / thetas, np.ones(len(thetas))
    )  # lines of slope b; for t > last, by each theta with b theta > 1
    far = np.where(beyond * thetas > 1, last * (1 - beyond * thetas) + beyond * cumulants, np.inf).min(axis=1)
    near = np.array([(at - slope * logs).max() for slope in 1 / thetas])
    fixed = np.maximum(near, far)
    lines = list(zip(fixed.tolist(), (1 / thetas).tolist(), strict=True))
    best = min([best, *lines], key=_at_choice)
    return best[0] + shift, best[1]


def _convolved(parts: list[tuple[_Law, float]], last: float) -> tuple[Floats, Floats]:
    """Return points up to `last` and the tail of a weighted sum at the point before each: every term is rounded up."""
    step = last / _CELLS
    at = step * np.arange(_CELLS + 1)
    spectrum = np.ones(_CELLS + 2, np.complex128)
    for law, weight in parts:
        # the tail at the left end of a cell is on the grid's point before it, or sooner: S falls
        places = np.minimum(at / (weight * law.scale * _GRID[1]), _POINTS - 1).astype(np.int64)
        masses = -np.diff(law.tail[places], append=0.0)
        masses = np.concatenate(([1.0 - law.tail[0]], masses[:-1]))  # what lies in a cell is put at its right end
        spectrum = spectrum * np.fft.rfft(masses, 2 * _CELLS + 2)
    below = np.cumsum(np.fft.irfft(spectrum, 2 * _CELLS + 2)[: _CELLS + 1])
    tail = np.clip(1.0 - below + 1e-12, 0.0, 1.0)  # the guard is far above the roundings of the transform
    return np.asarray(at[1:], np.float64), np.asarray(tail[:-1], np.float64)


def _at_choice(line: tuple[float, float]) -> float:
    return line[0] + line[1] * _CHOSEN_AT


def _tail(scale: float) -> Floats:
    """Return S on a grid of x = t / s: (C² B - C W s exp(-x)) / (A + C² B), with A and B rounded against us."""
    weight = (scale * _GRID + 1) * (1 + (_GRID / _NEAR) ** 4)
    falling = np.exp(-_GRID)
    # W grows: on each step of the grid its right end is above, its left end below; exp(-x) is integrated exactly
    steps = falling[:-1] - falling[1:]
    inside = np.concatenate(([0.0], np.cumsum(weight[:-1] * steps)))
    beyond = np.concatenate((np.cumsum((weight[1:] * steps)[::-1])[::-1], [0.0])) + 1e-40
    over = FACTOR**2 * beyond - FACTOR * weight * falling
    found = np.clip(over / (inside + FACTOR**2 * beyond), 0.0, 1.0)
    return np.asarray(np.maximum.accumulate(found[::-1])[::-1])  # the chance of more than t falls with t


def _up(value: float) -> float:
    """Round up to seven digits: the same number on every machine."""
    if value == 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 6)
    return float(f"{math.ceil(value / step + 1e-6) * step:.8g}")
