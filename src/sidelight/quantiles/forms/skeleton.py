"""The skeleton of `cells`: a few points by selection that find the scale and place of the data."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from sidelight.aggregates.ranks import Ranks
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.predictions import Mixture, Prior
from sidelight.quantiles.descend import Cell
from sidelight.quantiles.forms.cell_tree import select_in_cell
from sidelight.quantiles.forms.cells_of_points import cells_between
from sidelight.quantiles.forms.cells_plan import QUARTILES
from sidelight.quantiles.forms.focus import LevelPriors, Spot, middle_spot

_HALF = Fraction(1, 2)


class Skeleton(NamedTuple):
    """Released points, distinct and increasing, and the Cauchy that the three quartiles make."""

    points: tuple[int, ...]
    focus: Spot | None


def release_skeleton(
    ranks: Ranks, levels: Sequence[Fraction], *, budget: Budget, priors: LevelPriors, source: Source
) -> Skeleton:
    """Release the quartiles with half the budget, then the other levels inside the four cells with the other half.

    Guarantee: `budget` for adding or removing one record: two trees follow one another, and the four of the second step
    see disjoint records (quantiles proof page, Theorem 8).
    """
    grid = priors.grid
    half = budget.part(_HALF)
    everything = Cell(grid.fine_first, grid.fine_last, grid.fine_last + 1)
    quartiles = select_in_cell(ranks, everything, QUARTILES, budget=half, priors=priors.each(QUARTILES), source=source)
    focus = middle_spot(grid, *quartiles)
    points = set(quartiles)
    edges = (Fraction(0), *QUARTILES, Fraction(1))
    # Two quartiles may be equal: the cell between them is empty, is drawn in all the same, and yields that point.
    for cell, (low, high) in zip(cells_between(grid, quartiles), pairwise(edges), strict=True):
        inside = [level for level in levels if low < level < high]
        relative = [(level - low) / (high - low) for level in inside]
        points.update(
            select_in_cell(ranks, cell, relative, budget=half, priors=priors.each(inside, focus), source=source)
        )
    return Skeleton(tuple(sorted(points)), focus)


def predicted_skeleton(levels: Sequence[Fraction], *, priors: LevelPriors) -> Skeleton:
    """Return a skeleton that nobody selected: where a prediction puts the quartiles and the other levels.

    Public, and free. One prediction for all levels is read at each level; of one for each, the middle of the nearest.
    """
    grid = priors.grid

    def place(level: Fraction) -> int:
        masses = _without_hedge(priors.nearest(level)).compile(grid)
        return masses.inverse(int((level if priors.single else _HALF) * masses.total))

    quartiles = tuple(sorted(place(level) for level in QUARTILES))
    points = {*quartiles, *(place(level) for level in levels)}
    return Skeleton(tuple(sorted(points)), middle_spot(grid, *quartiles))


def _without_hedge(prior: Prior) -> Prior:
    """Return the prediction inside a hedge: the part with the most weight, whose tails are its own."""
    while isinstance(prior, Mixture):
        weights = list(prior.weights)
        prior = prior.priors[weights.index(max(weights))]
    return prior
