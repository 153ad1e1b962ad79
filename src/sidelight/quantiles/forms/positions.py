"""Where fine indices lie on the number line, as integers over one denominator: what interpolation works with.

Differences of positions are then exact, so that records far from zero and close together are told apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sidelight.grid import Outcomes


def common_positions(grid: Outcomes, indices: Sequence[int]) -> tuple[list[int], int]:
    """Return the numerators of the positions of indices, and the denominator that they share.

    >>> from fractions import Fraction
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
