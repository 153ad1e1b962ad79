"""Released points with the ranks that counts give them, and the curve through both: what every later step reads off."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sidelight.grid import Outcomes
from sidelight.quantiles.forms.interpolation import Curve
from sidelight.quantiles.forms.positions import common_positions, index_at_or_below

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Outline:
    """Public points on a grid, and how many records lie below each of them.

    Args:
        grid: The grid.
        points: Fine indices, distinct and increasing.
        ends: Ranks at the grid's beginning, at every point, and at the grid's end: from 0 to N, not decreasing.

    >>> from fractions import Fraction
    >>> from sidelight.grid import Grid
    >>> grid = Grid(resolution=Fraction(1), first=0, last=9)
    >>> outline = Outline(grid, (2, 6), np.array([0.0, 10.0, 30.0, 40.0]))
    >>> outline.total, outline.index_of(outline.curve.places_of([20.0])[0])
    (40.0, 4)
    """

    grid: Outcomes
    points: tuple[int, ...]
    ends: Floats

    @property
    def total(self) -> float:
        """The number of records: N."""
        return float(self.ends[-1])

    @property
    def ranks(self) -> Floats:
        """The ranks at the points."""
        return self.ends[1:-1]

    @property
    def places(self) -> list[int]:
        """The points' positions, as integers over one denominator."""
        return self._common[0]

    @cached_property
    def curve(self) -> Curve:
        """The curve through the points, in these integers."""
        return Curve(self.places, self.ranks, self.total)

    def index_of(self, place: int) -> int:
        """Return the largest index of the grid that lies at a place or below it."""
        return index_at_or_below(self.grid, place, self._common[1])

    @cached_property
    def _common(self) -> tuple[list[int], int]:
        return common_positions(self.grid, self.points)
