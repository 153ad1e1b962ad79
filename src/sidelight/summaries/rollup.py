"""Margins that agree: least squares over all measured margins of a table, in closed form, and how to share a budget.

A table over several axes splits into components, one for each set of axes (for each axis: its mean, or the deviation
from it). Every measured margin sees a component with noise of its own, and the pooled components make margins that add
up (summaries proof page, Theorem 13). Post-processing of released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError

Floats: TypeAlias = NDArray[np.float64]
#: A margin by the places of its axes in `sizes`, in order; () is the total.
Axes: TypeAlias = tuple[int, ...]

_MOST_AXES = 10
_SHARE_UNIT = 1024


@dataclass(frozen=True, eq=False, kw_only=True)
class Consistent:
    """Every margin of a table after least squares: `table(axes)`, its cell variance, and what shrinkage needs."""

    sizes: tuple[int, ...]
    _components: dict[Axes, Floats]
    _variances: dict[Axes, float]

    def table(self, axes: Axes) -> Floats:
        """Return the margin over these axes; all margins agree."""
        out = np.zeros(tuple(self.sizes[i] for i in axes))
        for part in _subsets(axes):
            shape = tuple(self.sizes[i] if i in part else 1 for i in axes)
            out = out + self._components[part].reshape(shape) / self._outside(axes, part)
        return np.asarray(out)

    def variance(self, axes: Axes) -> float:
        """Return the variance of each cell of a margin."""
        return cell_variance(self.sizes, self._variances, axes)

    def largest_eigenvalue(self, axes: Axes) -> float:
        """Return the largest eigenvalue of the covariance of a margin's cells, for `shrink(largest_eigenvalue=)`."""
        return max(self._variances[part] / self._outside(axes, part) for part in _subsets(axes))

    def _outside(self, axes: Axes, part: Axes) -> int:
        return _cells(self.sizes, (i for i in axes if i not in part))


def pool_margins(sizes: Sequence[int], margins: Mapping[Axes, tuple[Floats, float]]) -> Consistent:
    """Pool measured margins by generalised least squares.

    Args:
        sizes: The number of cells of each axis.
        margins: For each measured set of axes the noisy table, of shape sizes[i] for i of it, and the noise variance of
            a cell. The finest table must be among them; () is the total.

    >>> both = pool_margins([2], {(0,): (np.array([3.0, 5.0]), 1.0), (): (np.array(10.0), 1.0)})
    >>> both.table((0,)).round(3).tolist(), both.table(()).round(3).tolist()
    ([3.667, 5.667], 9.333)
    """
    shape = _checked(sizes)
    finest = tuple(range(len(shape)))
    tables: dict[Axes, tuple[Floats, float]] = {}
    for axes, (table, variance) in margins.items():
        values = np.asarray(table, dtype=np.float64)
        wanted = tuple(shape[i] for i in axes)
        if tuple(sorted(set(axes))) != tuple(axes) or values.shape != wanted or not variance > 0:
            raise RangeError(f"the margin {axes} needs shape {wanted} and a positive variance, got {values.shape}")
        tables[tuple(axes)] = (values, float(variance))
    if finest not in tables:
        raise RangeError(f"the finest table {finest} must be among the measured margins, got {sorted(tables)}")
    variances = component_variances(shape, {axes: variance for axes, (_, variance) in tables.items()})
    components: dict[Axes, Floats] = {}
    for part in _subsets(finest):
        pooled = np.zeros(tuple(shape[i] for i in part))
        for axes, (values, variance) in tables.items():
            if set(part) <= set(axes):
                outside = tuple(place for place, i in enumerate(axes) if i not in part)
                seen = values.sum(axis=outside)
                for place in range(len(part)):
                    seen = seen - seen.mean(axis=place, keepdims=True)
                apart = _cells(shape, (i for i in axes if i not in part))
                pooled = pooled + seen * (variances[part] / (variance * apart))
        components[part] = pooled
    return Consistent(sizes=shape, _components=components, _variances=variances)


def component_variances(sizes: Sequence[int], variances: Mapping[Axes, float]) -> dict[Axes, float]:
    """Return v_S = 1/Σ over measured T ⊇ S of 1/(σ_T² N_{T∖S}) for every set of axes."""
    finest = tuple(range(len(sizes)))
    return {
        part: 1
        / math.fsum(
            1 / (variance * _cells(sizes, (i for i in axes if i not in part)))
            for axes, variance in variances.items()
            if set(part) <= set(axes)
        )
        for part in _subsets(finest)
    }


def cell_variance(sizes: Sequence[int], components: Mapping[Axes, float], axes: Axes) -> float:
    """Return the variance of a cell of a margin: Σ over S ⊆ T of v_S·Π(1 - 1/n_i)/N²_{T∖S}."""
    return math.fsum(
        components[part]
        * math.prod(1 - 1 / sizes[i] for i in part)
        / _cells(sizes, (i for i in axes if i not in part)) ** 2
        for part in _subsets(axes)
    )


def cell_weights(sizes: Sequence[int], variances: Mapping[Axes, float], axes: Axes) -> list[tuple[Axes, float, int]]:
    """Return how a cell of a margin is made of measured cells: by margin, the weights, and how many have each.

    The weight of a measured cell depends on which coordinates it has in common with the pooled one.

    >>> cell_weights([2], {(0,): 1.0, (): 1.0}, ())
    [((0,), 0.333..., 2), ((), 0.666..., 1)]
    """
    components = component_variances(sizes, variances)
    found = []
    for measured, variance in variances.items():
        shared = tuple(i for i in measured if i in axes)
        apart = _cells(sizes, (i for i in measured if i not in axes))
        for same in _subsets(shared):
            weight = math.fsum(
                components[part]
                / (variance * _cells(sizes, (i for i in measured if i not in part)))
                / _cells(sizes, (i for i in axes if i not in part))
                * math.prod((i in same) - 1 / sizes[i] for i in part)
                for part in _subsets(shared)
            )
            found.append((measured, weight, apart * math.prod(sizes[i] - 1 for i in shared if i not in same)))
    return found


def rollup_shares(
    sizes: Sequence[int],
    margins: Sequence[Axes],
    *,
    noise: Literal["laplace", "gaussian"],
    sensitivities: Mapping[Axes, float] | None = None,
    leaf_weight: float = 1.0,
) -> dict[Axes, Fraction]:
    """Return each margin's share of ε (Laplace) or μ² (Gaussian): least sum of the logarithms of cell variances.

    Logarithms make a total and a cell count alike, whatever their size. A margin whose share is 0 is not worth
    measuring: the sums of finer cells are as good.

    Args:
        sizes: The number of cells of each axis.
        margins: All margins that shall be shown; the finest is among them.
        noise: Which noise.
        sensitivities: L1 (Laplace) or L2² (Gaussian) of each margin's counts; 1 for rows.
        leaf_weight: How much more the finest table counts.

    >>> shares = rollup_shares([10], [(0,), ()], noise="gaussian")
    >>> round(float(shares[()]), 2)
    0.45
    """
    shape = _checked(sizes)
    finest = tuple(range(len(shape)))
    wanted = [tuple(axes) for axes in margins]
    if finest not in wanted:
        raise RangeError(f"the finest table {finest} must be among the margins, got {wanted}")
    if noise not in ("laplace", "gaussian"):
        raise RangeError(f"noise must be 'laplace' or 'gaussian', got {noise!r}")
    sensitivity = {axes: 1.0 if sensitivities is None else float(sensitivities[axes]) for axes in wanted}
    others = [axes for axes in wanted if axes != finest]

    def badness(weights: Mapping[Axes, float]) -> float:
        total = math.fsum(weights.values())
        measured = {}
        for axes, weight in weights.items():
            if weight > 0:
                share = weight / total
                unit = sensitivity[axes] / share
                measured[axes] = unit**2 if noise == "laplace" else unit
        components = component_variances(shape, measured)
        return math.fsum(
            (leaf_weight if axes == finest else 1.0) * math.log(cell_variance(shape, components, axes))
            for axes in wanted
        )

    best = {axes: 1.0 if axes == finest else 0.0 for axes in wanted}
    lowest = badness(best)
    for start in (1.0, 0.0):
        weights = {axes: 1.0 if axes == finest else start for axes in wanted}
        value = badness(weights)
        for _ in range(12):
            before = value
            for axes in others:
                weights, value = _searched(badness, weights, axes, value)
            if before - value < 1e-7:
                break
        if value < lowest - 1e-9:
            best, lowest = weights, value
    return _rounded(best, finest)


def _searched(
    badness: Callable[[Mapping[Axes, float]], float], weights: dict[Axes, float], axes: Axes, value: float
) -> tuple[dict[Axes, float], float]:
    """Look for a better weight of one margin: 0, a coarse scale, then a golden section around the best."""

    def at(weight: float) -> float:
        return badness({**weights, axes: weight})

    candidates = [0.0, *(2.0 ** (k / 2) for k in range(-12, 13))]
    values = [at(weight) for weight in candidates]
    place = min(range(len(candidates)), key=values.__getitem__)
    chosen, lowest = candidates[place], values[place]
    if chosen > 0:
        low, high = math.log(chosen) - 0.7, math.log(chosen) + 0.7
        golden = (math.sqrt(5) - 1) / 2
        left, right = high - golden * (high - low), low + golden * (high - low)
        f_left, f_right = at(math.exp(left)), at(math.exp(right))
        for _ in range(24):
            if f_left < f_right:
                high, right, f_right = right, left, f_left
                left = high - golden * (high - low)
                f_left = at(math.exp(left))
            else:
                low, left, f_left = left, right, f_right
                right = low + golden * (high - low)
                f_right = at(math.exp(right))
        refined = math.exp((low + high) / 2)
        if (found := at(refined)) < lowest:
            chosen, lowest = refined, found
    if lowest < value - 1e-12:
        return {**weights, axes: chosen}, lowest
    return weights, value


def _rounded(weights: Mapping[Axes, float], finest: Axes) -> dict[Axes, Fraction]:
    """Round shares to 1024ths; the finest table takes what is left, so that they add up to 1 exactly."""
    total = math.fsum(weights.values())
    shares = {axes: Fraction(round(_SHARE_UNIT * weight / total), _SHARE_UNIT) for axes, weight in weights.items()}
    shares[finest] = 1 - sum((share for axes, share in shares.items() if axes != finest), Fraction(0))
    return shares


def _subsets(axes: Axes) -> list[Axes]:
    return [part for size in range(len(axes) + 1) for part in combinations(axes, size)]


def _cells(sizes: Sequence[int], axes: Iterable[int]) -> int:
    return math.prod(sizes[i] for i in axes)


def _checked(sizes: Sequence[int]) -> tuple[int, ...]:
    if not 0 < len(sizes) <= _MOST_AXES or any(size < 1 for size in sizes):
        raise RangeError(f"a table has 1 to {_MOST_AXES} axes of at least one cell each, got sizes {list(sizes)}")
    return tuple(int(size) for size in sizes)
