"""Public points on a grid: the cells between them, and how many records those hold.

A point is a fine index. Cells are half-open in fine indices, so that a record is in exactly one of them; only the one
that is last by its place holds the records at the last index (`descend.Cell`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.ranks import Ranks
from sidelight.grid import Outcomes
from sidelight.guarantees.claims import Neighbours, Row
from sidelight.quantiles.descend import Cell


def exact_position(grid: Outcomes, index: int) -> Fraction:
    """Return where a fine index lies on the number line.

    >>> from sidelight.grid import Grid
    >>> exact_position(Grid(resolution=Fraction(1, 2), dither_bits=1), 5)
    Fraction(5, 4)
    """
    stretch = grid.stretch(index)
    return Fraction(stretch.slope * index + stretch.offset, stretch.divisor)


def cells_between(grid: Outcomes, points: Sequence[int]) -> list[Cell]:
    """Return the cells that distinct, increasing points cut the whole grid into."""
    first, last = grid.fine_first, grid.fine_last
    return cells_within(Cell(first, last, last + 1), points)


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
