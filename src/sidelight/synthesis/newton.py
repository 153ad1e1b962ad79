"""Newton's method for a fit of few measured cells: all factors at once, where sweeps through them come near slowly.

The dual of the fit, D(θ) = log Σ w·exp(Σ θ) - ⟨θ, y⟩/N + (τ/2N) Σ σ²θ² with one θ a measured cell, is smooth and
strictly convex (`loglinear.fit_weights`, which has too many cells for this). Its second derivative is the covariance of
the cells' indicators under W, plus τσ²/N on the diagonal. The mass that two cells have in common is one cell of the
marginal of the columns of both: so the table is only summed, and what is solved has the size of the measured cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import prod

import numpy as np

from sidelight.synthesis.spaces import Floats, Space
from sidelight.synthesis.workload import Marginal

#: Measured cells, which are as many equations; and cells of the marginals that any two measured ones have together.
MOST_EQUATIONS, MOST_JOINED = 1000, 1 << 21
#: The cube of the equations of a step takes as long as this times the points of a marginal in a sweep, to which its
#: calls add as many points. Measured; how accurate a fit is depends little on it.
CUBE_PER_POINT, CALL_POINTS = 45, 20_000
#: Of an array.
MOST_AXES = 32
#: A fit takes three to eight steps: none after one that moves no cell by more than this share of its noise.
_MOST_STEPS, _UNMOVED = 30, 0.1
#: Of the second derivative, which is singular where measurements have no noise to speak of; and of a step's length.
_LEAST_STIFFNESS, _SHORTEST = 1e-13, 1e-4


def few_cells(space: Space, measured: Sequence[Marginal]) -> bool:
    """Return whether so few cells were measured that a step is cheap."""
    domain = space.domain
    if sum(each.cells(domain) for each in measured) > MOST_EQUATIONS:
        return False
    axes = [frozenset(domain.axes(each.columns)) for each in measured]
    joined = (first | second for first, second in combinations_with_replacement(axes, 2))
    most = sum(prod(domain.sizes[axis] for axis in each) for each in joined)
    return most <= MOST_JOINED and len(frozenset().union(*axes)) <= MOST_AXES


def sweeps_before(space: Space, measured: Sequence[Marginal]) -> int:
    """Return how many sweeps take about as long as a Newton step: marginals that hardly overlap settle in fewer."""
    cells = sum(each.cells(space.domain) for each in measured)
    return max(2, cells**3 // (CUBE_PER_POINT * len(measured) * (CALL_POINTS + space.points)))


class DualFit:
    """The dual of a fit to measured marginals with their `shares` y/N and the `noise` σ/N of each of their cells."""

    def __init__(
        self, space: Space, measured: Sequence[Marginal], *, shares: Floats, noise: Floats, stiffness: Floats
    ) -> None:
        self._space, self._measured = space, measured
        self._shares, self._noise, self._stiffness = shares, noise, stiffness  # y/N, σ/N, τσ²/N
        domain = space.domain
        sizes = [each.cells(domain) for each in measured]
        self._ends = np.cumsum(sizes)[:-1]
        used = sorted({axis for each in measured for axis in domain.axes(each.columns)})
        numbers = []  # of each marginal's cells, with one axis for each column that was measured in any
        for each, start in zip(measured, np.cumsum(sizes) - sizes, strict=True):
            own = each.spread(np.arange(start, start + each.cells(domain)).reshape(each.shape(domain)), domain)
            axes = domain.axes(each.columns)
            numbers.append((axes, own.reshape([domain.sizes[axis] if axis in axes else 1 for axis in used])))
        pairs = list(combinations_with_replacement(numbers, 2))
        # of two cells, in the order of the cells of the marginal of the columns of both
        self._places = np.concatenate([(first * len(shares) + second).reshape(-1) for (_, first), (_, second) in pairs])
        joined = [tuple(sorted({*first, *second})) for (first, _), (second, _) in pairs]
        order = {axes: place for place, axes in enumerate(dict.fromkeys(joined))}
        self._order = [order[axes] for axes in joined]
        self._tables = [Marginal(tuple(domain.columns[axis] for axis in axes)) for axes in order]

    def minimise(self, weights: Floats, theta: Floats) -> tuple[Floats, Floats]:
        """Return the weights and θ where D is least, from weights that are the prior times exp(Σ θ).

        A function of released numbers that does not fail: where rounding is in the way the last point is the result.
        """
        first_logs = np.log(weights)
        self._add(first_logs, -theta)
        value, weights = self._value(first_logs, theta)
        for _ in range(_MOST_STEPS):
            slope, step = self._step(weights, theta)
            length, gain = 1.0, float(slope @ step)
            reached = self._value(first_logs, theta + step)
            while not reached[0] <= value + 0.1 * length * gain:
                length /= 2
                if length < _SHORTEST:
                    return weights, theta
                reached = self._value(first_logs, theta + length * step)
            theta = theta + length * step
            value, weights = reached
            moves = np.abs(slope + self._stiffness * step)  # to first order
            if length == 1.0 and bool((moves <= _UNMOVED * self._noise).all()):
                break
        return weights, theta

    def _add(self, logs: Floats, theta: Floats) -> None:
        """Add to the logarithm of each point the θ of its cells."""
        for each, part in zip(self._measured, np.split(theta, self._ends), strict=True):
            self._space.add(logs, part.reshape(each.shape(self._space.domain)), each)

    def _value(self, first_logs: Floats, theta: Floats) -> tuple[float, Floats]:
        """Return D and the weights."""
        logs = first_logs.copy()
        self._add(logs, theta)
        top = float(logs.max())
        weights = np.exp(logs - top)
        total = float(weights.sum())
        value = top + np.log(total) + float(theta @ (self._stiffness * theta / 2 - self._shares))
        return value, weights / total

    def _step(self, weights: Floats, theta: Floats) -> tuple[Floats, Floats]:
        """Return the slope, and the step to where the expansion of second order is least."""
        masses = [each.reshape(-1) for each in self._space.marginals(weights, self._tables)]
        cells = len(theta)
        common = np.bincount(self._places, np.concatenate([masses[place] for place in self._order]), cells * cells)
        upper = np.asarray(common, np.float64).reshape(cells, cells)
        own = upper.diagonal()
        slope = own - self._shares + self._stiffness * theta
        second = upper + upper.T - np.multiply.outer(own, own)
        second.reshape(-1)[:: cells + 1] += self._stiffness + _LEAST_STIFFNESS - own
        try:
            return slope, np.asarray(np.linalg.solve(second, -slope), np.float64)
        except np.linalg.LinAlgError:
            return slope, -slope
