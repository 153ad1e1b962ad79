"""The prior of someone who knows nothing: equal mass on every power of two of the resolution.

Hand-made because no library has it. It makes a release without any hint possible, and what that costs is known: at most
(2Δ/ε) log(number of cells) ranks more than the best-scaled Cauchy around zero (quantiles proof page, section 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.grid import FLOAT_CODE_LIMIT, Grid, Outcomes
from sidelight.predictions.compiled import UNIT, CompiledPrior, Staircase
from sidelight.predictions.histogram import Histogram
from sidelight.predictions.knots import IndexLine, ListedKnots, WholeNumbers
from sidelight.predictions.origin import Origin, guess
from sidelight.predictions.priors import Numeric, exact_positive

Signs = Literal["both", "positive"]

#: Cells reach 2**61 resolutions: beyond every code of every grid of the same resolution.
OCTAVES = 61
#: The resolution on a grid of floats, which has none of its own: values from 2**-20 to 2**41 have their own cells.
FLOAT_RESOLUTION = Fraction(1, 2**20)
#: On a grid of floats this share lies evenly on the indices themselves: on all powers of two that a double can have.
EVERYWHERE_BITS = 6
#: ... and this share on whole numbers alone, for columns whose granularity nobody declared.
_WHOLE_BITS = 3


@dataclass(frozen=True)
class ScaleFree:
    """Predict without any hint: equal mass on every power of two of the resolution.

    The cells are |x| < r/2 and (2^k - 1/2) r <= |x| < (2^(k+1) - 1/2) r for k = 0..60, for one sign or both. On data
    declared with granularity r they are the codes 0, ±1, ±(2, 3), ±(4..7) and so on. A narrower grid has what lies in
    it, with the same density. On a grid of floats 1/64 of the mass lies evenly on all powers of two, so that numbers
    beyond the cells (nanoseconds since 1970, Planck's constant) have their share, too, and 1/8 on the whole numbers
    below 2^24.

    Accuracy: `rank_cost` ranks more than the Cauchy prior around zero whose scale is the best for the data.

    Args:
        resolution: r; that of the grid if left out, or 2^-20 on a grid of floats.
        signs: "both", or "positive" for data that are never negative.
        origin: Where the prediction came from; "no knowledge" if left out.

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
        exact = exact_positive(self.resolution, name="resolution", advice="leave it out to take the grid's")
        object.__setattr__(self, "resolution", exact)

    @property
    def needs_hedge(self) -> bool:
        """Return False: every scale has its share already."""
        return False

    def cells(self, grid: Outcomes | None = None) -> int:
        """Return the number of cells of equal mass that a grid meets; without a grid, of all cells: at most 130."""
        ends = self._half_steps()
        if grid is None:
            return len(ends) - 1
        half = self._resolution_on(grid) / 2
        low, high = _position(grid, grid.fine_first) / half, _position(grid, grid.fine_last + 1) / half
        return max(1, sum(left < high and right > low for left, right in pairwise(ends)))

    def share_of_cells(self, grid: Outcomes) -> float:
        """Return how much of the mass is spread over the cells: all of it, but on a grid of floats."""
        return 1.0 if isinstance(grid, Grid) else 1.0 - 2.0**-EVERYWHERE_BITS - 2.0**-_WHOLE_BITS

    def rank_cost(self, *, level: float, epsilon: float, grid: Outcomes | None = None) -> float:
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

    def staircases(self, grid: Outcomes, weight: int) -> tuple[Staircase, ...]:
        """Return equal integer masses on all cells, the same whatever the ends of the grid."""
        half, ends = self._resolution_on(grid) / 2, self._half_steps()
        everywhere, whole = (0, 0) if isinstance(grid, Grid) else (weight >> EVERYWHERE_BITS, weight >> _WHOLE_BITS)
        rest = weight - everywhere - whole
        cells = ListedKnots(grid, ((end * half, k * rest // (len(ends) - 1)) for k, end in enumerate(ends)))
        if isinstance(grid, Grid):
            return (cells,)
        limit = (FLOAT_CODE_LIMIT + 1) << grid.dither_bits
        both = self.signs == "both"
        return (
            cells,
            IndexLine(-limit if both else 0, limit, weight=everywhere),
            WholeNumbers(grid, weight=whole, both_signs=both),
        )

    def compile(self, grid: Outcomes) -> CompiledPrior:
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

    def _resolution_on(self, grid: Outcomes) -> Fraction:
        if self.resolution is not None:
            return Fraction(self.resolution)
        return grid.resolution if isinstance(grid, Grid) else FLOAT_RESOLUTION

    def _histogram(self) -> Histogram:
        if self.resolution is None:
            raise RangeError(
                "this scale-free prior takes the resolution of a grid; give resolution= to use it without one"
            )
        ends = [float(Fraction(end, 2) * Fraction(self.resolution)) for end in self._half_steps()]
        return Histogram(ends, [1.0] * (len(ends) - 1), origin=self.origin)


def _position(grid: Outcomes, index: int) -> Fraction:
    _, _, slope, offset, divisor = grid.stretch(index)
    return Fraction(slope * index + offset, divisor)
