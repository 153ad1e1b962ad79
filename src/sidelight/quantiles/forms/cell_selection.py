"""Public cells of a grid: where they lie, how many records they hold, and quantiles selected inside one of them.

A point is a fine index. Cells are half-open in fine indices, so that a record is in exactly one of them; only the cell
that is last by its place holds the records at the last index (`descend.Cell`). Positions are integers over one
denominator, so that their differences are exact: records far from zero and close together stay distinct.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.ranks import Ranks
from sidelight.grid import Outcomes, exact_position
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.units import Row
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.predictions import Cauchy, Mixture, Prior
from sidelight.predictions.compiled import UNIT, CompiledPrior, ConditionedPart
from sidelight.predictions.pieces import Pieces, PiecewiseCDF
from sidelight.quantiles.descend import Cell, descend
from sidelight.quantiles.tree import QuantileTree, quantile_tree

# --- positions and cells ----------------------------------------------------------------------------------------------


def common_positions(grid: Outcomes, indices: Sequence[int]) -> tuple[list[int], int]:
    """Return the numerators of the positions of indices, and the denominator that they share.

    >>> from sidelight.grid import Grid
    >>> common_positions(Grid(resolution=Fraction(1), first=0, last=9, dither_bits=1), [0, 1, 6])
    ([0, 2, 12], 4)
    """
    stretches = [grid.stretch(index) for index in indices]
    divisor = math.lcm(1, *(stretch.divisor for stretch in stretches))
    numerators = [
        (stretch.slope * index + stretch.offset) * (divisor // stretch.divisor)
        for index, stretch in zip(indices, stretches, strict=True)
    ]
    return numerators, divisor


def index_at_or_below(grid: Outcomes, numerator: int, divisor: int) -> int:
    """Return the largest index whose position is at most numerator / divisor, within the grid.

    >>> from sidelight.grid import FloatGrid
    >>> grid = FloatGrid()
    >>> index_at_or_below(grid, 1, 2) == grid.index_of(0.5)
    True
    """
    try:
        index = grid.index_of(numerator / divisor)
    except OverflowError:
        return grid.fine_last if numerator > 0 else grid.fine_first
    while True:  # a stretch or two: the float was correctly rounded, and neighbouring lines meet
        stretch = grid.stretch(index)
        exact = (numerator * stretch.divisor - stretch.offset * divisor) // (stretch.slope * divisor)
        if exact < stretch.start:
            if stretch.start <= grid.fine_first:
                return grid.fine_first
            index = stretch.start - 1
        elif exact >= stretch.end:
            if stretch.end > grid.fine_last:
                return grid.fine_last
            index = stretch.end
        else:
            return min(max(exact, grid.fine_first), grid.fine_last)


def cells_between(grid: Outcomes, points: Sequence[int]) -> list[Cell]:
    """Return the cells that distinct, increasing points cut the whole grid into."""
    return cells_within(whole_cell(grid), points)


def whole_cell(grid: Outcomes) -> Cell:
    """Return the cell of all indices of a grid."""
    return Cell(grid.fine_first, grid.fine_last, grid.fine_last + 1)


def cells_within(cell: Cell, points: Sequence[int]) -> list[Cell]:
    """Return the cells that distinct, increasing points of a cell cut it into; the last one ends where the cell does.

    >>> cells_within(Cell(0, 9, 10), [4])
    [Cell(first=0, last=4, end=4), Cell(first=4, last=9, end=10)]
    """
    cuts = [cell.first, *points, cell.last]
    found = [Cell(low, high, high) for low, high in pairwise(cuts)]
    found[-1] = found[-1]._replace(end=cell.end)
    return found


def counts_of(ranks: Ranks, cells: Sequence[Cell]) -> Bounded:
    """Count the records of disjoint cells: adding or removing one record moves one count by one."""
    below = {cut: ranks.below(cut) for cut in {edge for cell in cells for edge in (cell.first, cell.end)}}
    counts = np.array([max(below[cell.end] - below[cell.first], 0) for cell in cells], np.int64)
    return Bounded(counts, Fraction(1), "l1", Neighbours.ADD_REMOVE, Row())


def spans_of(cells: Sequence[Cell]) -> list[tuple[int, int]]:
    """Return the half-open intervals of fine indices whose records the cells hold."""
    return [(cell.first, cell.end) for cell in cells]


# --- a tree of selections inside one cell -----------------------------------------------------------------------------

#: Relative levels are multiples of 2**-40, at least this far from 0 and 1, and this far apart.
_STEP = 2**40
_MARGIN, _APART = _STEP // 1000 + 1, _STEP // 2**30


def inner_levels(levels: Sequence[Fraction | float]) -> tuple[Fraction, ...]:
    """Return levels relative to a cell that a tree can take: inside (0, 1), strictly increasing, short fractions.

    Public post-processing: the levels come from released counts, which may be anything.

    >>> [round(float(each), 4) for each in inner_levels([-3.0, 0.5, 0.5, 7.0])]
    [0.001, 0.5, 0.5, 0.999]
    """
    found: list[int] = []
    for level in levels:
        inside = min(max(round(min(max(level, 0), 1) * _STEP), _MARGIN), _STEP - _MARGIN)
        found.append(max(inside, found[-1] + _APART) if found else inside)
    return tuple(Fraction(each, _STEP) for each in found)


def cell_tree(levels: Sequence[Fraction | float], budget: Budget) -> QuantileTree:
    """Return the binary tree for relative levels that costs a record at most the budget."""
    return quantile_tree(inner_levels(levels), epsilon=budget.epsilon, rho=budget.rho)


def select_in_cell(
    ranks: Ranks,
    cell: Cell,
    levels: Sequence[Fraction | float],
    *,
    budget: Budget,
    priors: CompiledPrior | Sequence[CompiledPrior],
    source: Source,
) -> tuple[int, ...]:
    """Release an outcome of the cell for each increasing, relative level, from the records of the cell alone.

    Guarantee: at most `budget` for adding or removing one record, and nothing for a record outside the cell (quantiles
    proof page, Theorem 4, on the records first <= index < end).
    """
    if not levels:
        return ()
    return descend(cell_tree(levels, budget), ranks, priors=priors, source=source, cell=cell)


# --- priors around released numbers -----------------------------------------------------------------------------------
#
# A prior may be any function of public numbers and earlier outputs, so focusing it is free. That takes the sixty empty
# powers of two of a scale-free prior out of the tails (quantiles proof page, section 5.2).

#: The prior keeps one in this many of the mass when it is mixed with a Cauchy around released numbers.
_KEPT = 4


class Spot(NamedTuple):
    """The location and the positive scale of a Cauchy, both doubles."""

    location: float
    scale: float


def spot(location: Fraction, scale: Fraction) -> Spot | None:
    """Round an exact location and scale to doubles; None where no Cauchy has such a scale."""
    width = as_float(scale)
    return Spot(as_float(location), width) if width > 0 else None


def as_float(place: Fraction) -> float:
    """Return the nearest double; the largest one beyond it."""
    largest = sys.float_info.max
    return float(min(max(place, Fraction(-largest)), Fraction(largest)))


def middle_spot(grid: Outcomes, low: int, middle: int, high: int) -> Spot | None:
    """Return the Cauchy of three released quartiles: around the median, half their distance wide."""
    distance = exact_position(grid, high) - exact_position(grid, low)
    return spot(exact_position(grid, middle), distance / 2)


class LevelPriors:
    """The compiled prior of any level: that of the nearest requested level, mixed with Cauchys at released spots.

    Of one release: what its selections look up at records is remembered here, and ends with it.
    """

    __slots__ = ("_compiled", "_levels", "_priors", "grid", "single")

    def __init__(
        self,
        grid: Outcomes,
        levels: Sequence[Fraction],
        priors: Sequence[Prior],
        compiled: Sequence[CompiledPrior] = (),
    ) -> None:
        self.grid = grid
        self._levels = tuple(levels)
        self._priors = tuple(priors)
        self.single = all(prior is self._priors[0] for prior in self._priors)
        given = {id(prior): each for prior, each in zip(priors, compiled, strict=False)}
        self._compiled: dict[tuple[int, tuple[Spot, ...]], CompiledPrior] = {
            (prior, ()): each.fresh() for prior, each in given.items()
        }

    def at(self, level: Fraction | float, *spots: Spot | None) -> CompiledPrior:
        """Return the prior for a level: three quarters a Cauchy at the first spot, the rest as for the others."""
        prior = self.nearest(level)
        around = tuple(each for each in spots if each is not None)
        key = (id(prior), around)
        if key not in self._compiled:
            self._compiled[key] = _mixed(self.grid, prior, around)
        return self._compiled[key]

    def each(self, levels: Sequence[Fraction | float], *spots: Spot | None) -> list[CompiledPrior]:
        """Return the prior for each of several levels."""
        return [self.at(level, *spots) for level in levels]

    def nearest(self, level: Fraction | float) -> Prior:
        """Return the prior of the requested level that is nearest to a level."""
        if self.single:
            return self._priors[0]
        asked = Fraction(level)
        place = min(range(len(self._levels)), key=lambda i: abs(self._levels[i] - asked))
        return self._priors[place]


def _mixed(grid: Outcomes, prior: Prior, spots: Sequence[Spot]) -> CompiledPrior:
    """Compile a mixture from its integer masses, for one release.

    Nothing here can be refused after a charge, as a `Mixture` could.
    """
    if not spots:
        return prior.compile(grid).fresh()
    weights, left = [], UNIT
    for _ in spots:
        weights.append(left - left // _KEPT)
        left //= _KEPT
    around = [
        (weight, Cauchy(each.location, each.scale).piecewise_cdfs(grid, weight))
        for weight, each in zip(weights, spots, strict=True)
    ]
    components: list[PiecewiseCDF] = [component for _, own in around for component in own]
    if not (isinstance(prior, Mixture) and prior.conditioned == "parts"):
        pieces = Pieces([*components, *prior.piecewise_cdfs(grid, left)], kept=True)
        return CompiledPrior(grid.fine_first, grid.fine_last, (), pieces=pieces)
    # A prior whose parts are conditioned one by one stays so: its parts and the Cauchys keep their weights everywhere.
    parts = [ConditionedPart(len(own), weight) for weight, own in around]
    shares = [Fraction(repr(weight)) for weight in prior.weights]
    for share, part in zip(shares, prior.priors, strict=True):
        own = part.piecewise_cdfs(grid, UNIT)
        components += own
        parts.append(ConditionedPart(len(own), int(left * share / sum(shares))))
    pieces = Pieces(components, kept=True)
    return CompiledPrior(grid.fine_first, grid.fine_last, (), parts=parts, pieces=pieces)


def tail_spots(grid: Outcomes, points: Sequence[int], counts: Sequence[float]) -> tuple[Spot | None, Spot | None]:
    """Return the Cauchys of the two tails: from the outermost point on, as wide as the neighbouring spacing suggests.

    `counts` are the released ones of the cells around the points, one more than points, the tails included.
    """
    if len(points) < 2:
        return None, None
    places = [exact_position(grid, points[i]) for i in (0, 1, -2, -1)]

    def stretch(distance: Fraction, outer: float, inner: float) -> Fraction:
        return distance * Fraction(max(outer, 1.0)) / Fraction(max(inner, 1.0))

    below = spot(places[0], stretch(places[1] - places[0], counts[0], counts[1]))
    above = spot(places[3], stretch(places[3] - places[2], counts[-1], counts[-2]))
    return below, above
