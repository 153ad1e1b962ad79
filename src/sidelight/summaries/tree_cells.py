"""The cells of the other columns of a hierarchy: which of their margins are measured, and how these are pooled.

Every margin T is measured with a variance of κ/w_T at every level, with the same weights w everywhere. Then the pooled
measurements of a node have the covariance κ·C with one public C (hierarchies proof page, Theorem 4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
#: A margin by the places of its columns; () is the total over all of them.
Axes: TypeAlias = tuple[int, ...]

#: With more combinations of the other columns only the cells themselves are measured: C would be too large.
MOST_POOLED = 2000
#: The weight of the cells where margins are measured as well, and the rest, in equal parts, of the margins.
_CELLS = 0.9


@dataclass(frozen=True, eq=False, kw_only=True)
class OtherCells:
    """The cells of the other columns, and the weights of their margins.

    Args:
        labels: Of each other column.
        weights: The weight of each measured margin; the finest is among them, and they add up to 1.
        possible: Which cells can hold rows at all.
        power: 1 for Gaussian noise; 2 for Laplace noise, whose variances fall with the square of a share.
    """

    labels: tuple[tuple[str, ...], ...]
    weights: Mapping[Axes, float]
    possible: NDArray[np.bool_]
    power: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of labels of each column."""
        return tuple(len(each) for each in self.labels)

    @property
    def size(self) -> int:
        """The number of combinations, possible or not."""
        return math.prod(self.shape)

    @property
    def finest(self) -> Axes:
        """The margin of all columns."""
        return tuple(range(len(self.labels)))

    @cached_property
    def shown(self) -> tuple[Axes, ...]:
        """All margins, from the cells to the total."""
        return tuple(axes for size in range(len(self.labels), -1, -1) for axes in combinations(self.finest, size))

    def width(self, axes: Axes) -> int:
        """Return the number of cells of a margin."""
        return math.prod(self.shape[axis] for axis in axes)

    def names(self) -> tuple[NDArray[np.int64], ...]:
        """Return for each column the codes of its labels in all shown cells, "all" behind the last label."""
        columns: list[list[int]] = [[] for _ in self.labels]
        for axes in self.shown:
            every = product(*(range(size) if axis in axes else (size,) for axis, size in enumerate(self.shape)))
            for cell in every:
                for column, code in zip(columns, cell, strict=True):
                    column.append(code)
        return tuple(np.array(column, np.int64) for column in columns)

    def summed(self, values: NDArray[Any], axes: Axes) -> NDArray[Any]:
        """Add the cells of every node (a row each) up to a margin."""
        outside = tuple(1 + axis for axis in self.finest if axis not in axes)
        return np.asarray(values.reshape(len(values), *self.shape).sum(axis=outside)).reshape(len(values), -1)

    def all_margins(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the cells of every node with all their margins."""
        return np.concatenate([self.summed(values, axes) for axes in self.shown], axis=1)

    def places(self, axes: Axes) -> NDArray[np.int64]:
        """Return the cell of a margin that each cell falls into."""
        grid = np.indices(self.shape).reshape(len(self.shape), -1) if self.shape else np.zeros((0, 1), np.int64)
        found = np.zeros(self.size, np.int64)
        for axis in axes:
            found = found * self.shape[axis] + grid[axis]
        return found

    @property
    def independent(self) -> bool:
        """Whether only the cells themselves are measured: C is diagonal, and too large to be written out."""
        return list(self.weights) == [self.finest]

    @cached_property
    def variances(self) -> Floats:
        """C_aa of each cell."""
        return self._alone() if self.independent else np.diagonal(self.covariance()).astype(np.float64)

    def row_sums(self, *, without_total: bool = False) -> Floats:
        """Return C1."""
        if self.independent:
            return self._alone()
        return np.asarray(self.covariance(without_total=without_total).sum(axis=1))

    def _alone(self) -> Floats:
        """Return the diagonal of C where only the cells are measured."""
        return np.asarray(self.possible / self.weights[self.finest] ** self.power, np.float64)

    def covariance(self, *, without_total: bool = False) -> Floats:
        """Return C = (Σ w_T·M_TᵀM_T)⁻¹ over possible cells; impossible ones have none."""
        if without_total not in self._inverses:
            self._inverses[without_total] = self._covariance(without_total=without_total)
        return self._inverses[without_total]

    @cached_property
    def _inverses(self) -> dict[bool, Floats]:
        return {}

    def _covariance(self, *, without_total: bool) -> Floats:
        weights = self._measured(without_total=without_total)
        if list(weights) == [self.finest]:
            return np.diag(self._alone())
        there = np.flatnonzero(self.possible)
        normal = np.zeros((len(there), len(there)))
        for axes, weight in weights.items():
            place = self.places(axes)[there]
            normal += weight**self.power * (place[:, None] == place[None, :])
        found = np.zeros((self.size, self.size))
        found[np.ix_(there, there)] = np.linalg.inv(normal)
        return found

    def _measured(self, *, without_total: bool) -> dict[Axes, float]:
        return {axes: weight for axes, weight in self.weights.items() if axes or not (without_total and self.labels)}

    def pooled(self, measured: Mapping[Axes, Floats]) -> Floats:
        """Return the pooled cells of every node from its noisy margins: C·Σ w_T·M_Tᵀy_T."""
        if list(measured) == [self.finest]:
            return np.where(self.possible, measured[self.finest], 0.0)
        covariance = self.covariance(without_total=() not in measured)
        weighted: Any = 0.0
        for axes, noisy in measured.items():
            weighted = weighted + self.weights[axes] ** self.power * noisy[:, self.places(axes)]
        return np.asarray(weighted @ covariance)

    @cached_property
    def factors(self) -> tuple[Floats, Floats]:
        """bᵀCb less what the total has of it, and (bᵀe)²·1ᵀC1, of each shown cell b, e = C1/1ᵀC1 (Theorem 4)."""
        row = self.row_sums()
        whole = float(row.sum())
        covariance = None if self.independent else self.covariance()
        of_cells, of_total = [], []
        for axes in self.shown:
            place, width = self.places(axes), self.width(axes)
            in_cell = np.bincount(place, weights=row, minlength=width) / whole
            if width == self.size:
                own = self.variances
            elif covariance is None:
                own = in_cell * whole
            else:
                inside = np.zeros((width, self.size))
                np.add.at(inside, place, covariance)
                inner = np.bincount(place, weights=inside[place, np.arange(self.size)], minlength=width)
                own = np.asarray(inner, np.float64)
            rest = own - in_cell**2 * whole
            of_cells.append(np.where(rest > 1e-9 * own, rest, 0.0))
            of_total.append(in_cell**2 * whole)
        return np.concatenate(of_cells), np.concatenate(of_total)

    def split_parts(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return mean and largest over possible cells of both factors: those of the total, then of the rest."""
        rest, total = (each[: self.size][self.possible] for each in self.factors)
        if not self.labels:
            rest = rest * 0.0
        return (float(total.mean()), float(total.max())), (float(rest.mean()), float(rest.max()))


def other_cells(
    labels: tuple[tuple[str, ...], ...],
    possible: NDArray[np.bool_] | None = None,
    *,
    power: int = 1,
    pooled: bool = True,
) -> OtherCells:
    """Return the cells of the other columns with the usual weights of their margins.

    Args:
        labels: Of each other column.
        possible: Which cells can hold rows; all if left out.
        power: 1 for Gaussian noise, 2 for Laplace noise.
        pooled: Whether margins are measured as well.
    """
    shape = tuple(len(each) for each in labels)
    finest = tuple(range(len(labels)))
    margins: list[Axes] = [()] if len(labels) == 1 else [(axis,) for axis in finest]
    if labels and pooled and math.prod(shape) <= MOST_POOLED:
        weights = {finest: _CELLS, **{axes: (1 - _CELLS) / len(margins) for axes in margins}}
    else:
        weights = {finest: 1.0}
    every = np.ones(math.prod(shape), bool) if possible is None else np.asarray(possible, bool)
    return OtherCells(labels=labels, weights=weights, possible=every, power=power)
