"""The prior of someone who knows nothing: equal mass on every power of two of the resolution.

Hand-made because no library has it. It makes a release without any hint possible, and what that costs is known: at most
(2Δ/ε) log(number of cells) ranks more than the best-scaled Cauchy around zero (quantiles proof page, section 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.grid import Grid
from sidelight.predictions.compiled import UNIT, CompiledPrior, Staircase
from sidelight.predictions.histogram import Histogram
from sidelight.predictions.knots import ListedKnots
from sidelight.predictions.origin import Origin, guess
from sidelight.predictions.parameters import Numeric, fine_length

Signs = Literal["both", "positive"]

#: Cells reach 2**61 resolutions: beyond every code of every grid of the same resolution.
OCTAVES = 61


@dataclass(frozen=True)
class ScaleFree:
    """Equal mass on |x| < r/2 and on (2^k - 1/2) r <= |x| < (2^(k+1) - 1/2) r, k = 0..60, for one sign or both.

    r is the resolution; left out, it is that of the grid. On data declared with granularity r the cells are the codes
    0, ±1, ±(2, 3), ±(4..7) and so on. A narrower grid uses only the cells that it meets, with equal masses again.

    Accuracy: `rank_cost` ranks more than the Cauchy prior around zero whose scale is the best for the data.

    >>> prior = ScaleFree()
    >>> prior.cells(), round(prior.rank_cost(level=0.5, epsilon=1), 2)
    (123, 4.81)
    """

    resolution: Numeric | None = None
    signs: Signs = "both"
    origin: Origin = field(default=guess("no knowledge: every scale alike"), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.signs not in ("both", "positive"):
            raise RangeError(f"signs must be 'both' or 'positive', got {self.signs!r}")
        if self.resolution is None:
            return
        given = self.resolution
        try:
            exact = Fraction(repr(given) if isinstance(given, float) else given)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            raise RangeError(f"resolution must be a finite number, got {given!r}; write it as a decimal") from None
        if exact <= 0:
            raise RangeError(f"resolution must be positive, got {given}; leave it out to take the grid's")
        object.__setattr__(self, "resolution", exact)

    @property
    def needs_hedge(self) -> bool:
        """Say that every scale has its share already."""
        return False

    @property
    def scale_hint(self) -> float | None:
        """Return a length whose millionth part is the resolution, if one is given."""
        return None if self.resolution is None else float(self.resolution) * 2.0**20

    def cells(self, grid: Grid | None = None) -> int:
        """Return the number of cells of equal mass that a grid meets; without a grid, of all cells: at most 130."""
        if grid is None:
            return OCTAVES + 1 if self.signs == "positive" else 2 * OCTAVES + 1
        return self._met(grid)[1]

    def rank_cost(self, *, level: float, epsilon: float, grid: Grid | None = None) -> float:
        """Return how many ranks not knowing the scale costs at most: (2 max(q, 1-q) / ε) log(cells)."""
        return 2 * max(level, 1 - level) / epsilon * math.log(self.cells(grid))

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> NDArray[np.float64]:
        """Return log mu((lower, upper])."""
        return self._histogram().log_mass(lower, upper)

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> NDArray[np.float64]:
        """Map uniform v to a draw from mu on (lower, upper]."""
        return self._histogram().inverse_in(lower, upper, v)

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((-inf, x])."""
        return self._histogram().cdf(x)

    def sf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((x, inf))."""
        return self._histogram().sf(x)

    def staircases(self, grid: Grid, weight: int) -> tuple[Staircase, ...]:
        """Return equal integer masses on the cells that meet the grid."""
        places, cells, before = self._met(grid)
        knots = [(place, (number + before) * weight // cells) for number, place in enumerate(places)]
        return (ListedKnots(grid, knots, weight=weight),)

    def compile(self, grid: Grid) -> CompiledPrior:
        """Return the exact integer masses that a release on this grid uses."""
        return CompiledPrior(grid.fine_first, grid.fine_last, self.staircases(grid, UNIT))

    def to_json(self) -> dict[str, object]:
        """Return strings only."""
        return {
            "family": "scale_free",
            "resolution": "grid" if self.resolution is None else str(self.resolution),
            "signs": self.signs,
            "origin": self.origin.to_json(),
        }

    def _half_steps(self) -> list[int]:
        """Return the ends of all cells in order, in units of half a resolution: ±(2^(k+1) - 1)."""
        right = [2 ** (k + 1) - 1 for k in range(OCTAVES + 1)]
        return [-end for end in reversed(right)] + right if self.signs == "both" else [-1, *right]

    def _met(self, grid: Grid) -> tuple[list[int], int, int]:
        """Return the cell ends inside the grid, the number of cells met, and how many of them precede the ends."""
        length = grid.resolution if self.resolution is None else Fraction(self.resolution)
        half = fine_length(grid, length) / 2
        # floor(end * half + offset): one division of integers each.
        offset = Fraction(grid.half_step) * (1 << grid.dither_bits) / half
        top, bottom, shift, unit = half.numerator, half.denominator, offset.numerator, offset.denominator
        places = [(end * unit + shift) * top // (unit * bottom) for end in self._half_steps()]
        inside = [i for i, place in enumerate(places) if grid.fine_first < place <= grid.fine_last]
        if not inside:
            return [], 1, 0
        before, after = int(inside[0] > 0), int(inside[-1] < len(places) - 1)
        return [places[i] for i in inside], max(1, len(inside) - 1 + before + after), before

    def _histogram(self) -> Histogram:
        if self.resolution is None:
            raise RangeError(
                "this scale-free prior takes the resolution of a grid; give resolution= to use it without one"
            )
        ends = [float(Fraction(end, 2) * Fraction(self.resolution)) for end in self._half_steps()]
        return Histogram(ends, [1.0] * (len(ends) - 1), origin=self.origin)
