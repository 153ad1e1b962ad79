"""Priors of even pieces: trusted bounds, a histogram, and the scale-free prior of someone who knows nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.grid import FLOAT_CODE_LIMIT, Grid, Outcomes, exact_position
from sidelight.predictions.compiled import Numeric, PriorLaw, as_decimal, exact_positive, finite
from sidelight.predictions.knots import IndexLine, ListedKnots, WholeNumbers
from sidelight.predictions.origin import Origin, guess
from sidelight.predictions.pieces import PiecewiseCDF

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Uniform(PriorLaw):
    """Predict with equal density on [lower, upper]. Outside, a release is possible and next to impossible.

    Accuracy: (2Δ/ε) log((upper - lower) / width of the best interval) ranks.

    Args:
        lower, upper: The bounds that the answer is known to keep.
        origin: Where the prediction came from (`predictions.public`, `released` or `guess`); a guess if left out.

    >>> float(Uniform(0, 16).cdf(4))
    0.25
    """

    lower: float
    upper: float
    origin: Origin = field(default=guess(), kw_only=True, repr=False)

    family = "uniform"
    needs_hedge = False  # bounds are meant as bounds

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", finite(self.lower, name="lower"))
        object.__setattr__(self, "upper", finite(self.upper, name="upper"))
        if not self.lower < self.upper or not np.isfinite(self.upper - self.lower):
            raise RangeError(
                f"a uniform prior needs lower < upper, got lower={self.lower}, upper={self.upper}; "
                "for data without bounds use Cauchy or ScaleFree"
            )

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return log mu((lower, upper])."""
        low, high = self._cut(lower, upper)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(high - low, 0.0)) - np.log(self.upper - self.lower))

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> Floats:
        """Map uniform v to a draw from mu on (lower, upper]."""
        low, high = self._cut(lower, upper)
        return np.clip(low + np.asarray(v, dtype=np.float64) * (high - low), low, np.maximum(low, high))

    def cdf(self, x: ArrayLike) -> Floats:
        """Return mu((-inf, x])."""
        share = (np.asarray(x, dtype=np.float64) - self.lower) / (self.upper - self.lower)
        return np.clip(share, 0.0, 1.0)

    def sf(self, x: ArrayLike) -> Floats:
        """Return mu((x, inf))."""
        share = (self.upper - np.asarray(x, dtype=np.float64)) / (self.upper - self.lower)
        return np.clip(share, 0.0, 1.0)

    def piecewise_cdfs(self, grid: Outcomes, weight: int) -> tuple[PiecewiseCDF, ...]:
        """Return the integer masses at the knots of this prior."""
        return (ListedKnots(grid, [(as_decimal(self.lower), 0), (as_decimal(self.upper), weight)]),)

    def _cut(self, lower: ArrayLike, upper: ArrayLike) -> tuple[Floats, Floats]:
        low = np.clip(np.asarray(lower, dtype=np.float64), self.lower, self.upper)
        return low, np.clip(np.asarray(upper, dtype=np.float64), self.lower, self.upper)


@dataclass(frozen=True)
class HistogramPrior(PriorLaw):
    """Predict with mass masses[i] / sum(masses) spread evenly on (edges[i], edges[i+1]].

    Empty bins are possible outputs all the same: every index of a grid has some mass.

    Args:
        edges: Increasing, one more than masses.
        masses: Not negative, of any positive sum; noisy counts are cut at zero first.
        origin: Where the prediction came from (`predictions.public`, `released` or `guess`); a guess if left out.

    >>> float(HistogramPrior([0, 4, 8], [1, 3]).cdf(6))
    0.625
    """

    edges: Sequence[float]
    masses: Sequence[float]
    origin: Origin = field(default=guess(), kw_only=True, repr=False)

    family = "histogram"
    needs_hedge = False  # taken as it is: bins without mass were chosen so

    def __post_init__(self) -> None:
        edges = tuple(finite(edge, name="edges") for edge in self.edges)
        masses = tuple(finite(mass, name="masses") for mass in self.masses)
        if not masses or len(edges) != len(masses) + 1:
            raise RangeError(
                f"a histogram needs at least one mass and one more edge than masses, got {len(edges)} edges and "
                f"{len(masses)} masses"
            )
        if any(a >= b for a, b in pairwise(edges)):
            raise RangeError("the edges of a histogram must strictly increase; sort them and drop repetitions")
        if min(masses) < 0 or sum(masses) <= 0 or not np.isfinite(sum(masses)):
            raise RangeError(
                f"the masses of a histogram must not be negative and need a positive, finite sum, got {min(masses)} as "
                "the smallest; noisy counts must be cut at zero first"
            )
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "masses", masses)

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return log mu((lower, upper]): parts of bins from widths, whole bins from the cumulative sum."""
        low, high = self._cut(lower, upper)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.where(high > low, sum(self._pieces(low, high)), 0.0)))

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> Floats:
        """Map uniform v to a draw from mu on (lower, upper]; evenly where there is no mass at all."""
        edges, masses, cumulative = self._arrays()
        low, high, share = np.broadcast_arrays(*self._cut(lower, upper), np.asarray(v, dtype=np.float64))
        first, whole, last = self._pieces(low, high)
        target = share * (first + whole + last)
        left, right = self._bins(low, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            density = masses / np.diff(edges)
            # Distances from the nearer end of the interval where the draw falls into a cut bin.
            from_left = low + target / density[left]
            from_right = high - (first + whole + last - target) / density[right]
            middle = np.interp(cumulative[left + 1] + (target - first), cumulative, edges)
            x = np.where(target < first, from_left, np.where(target < first + whole, middle, from_right))
        x = np.where(first + whole + last > 0, x, low + share * (high - low))
        return np.asarray(np.clip(x, low, np.maximum(low, high)))

    def cdf(self, x: ArrayLike) -> Floats:
        """Return mu((-inf, x])."""
        edges, _, cumulative = self._arrays()
        return np.asarray(np.interp(np.asarray(x, dtype=np.float64), edges, cumulative))

    def sf(self, x: ArrayLike) -> Floats:
        """Return mu((x, inf)), summed from the right."""
        edges, masses, _ = self._arrays()
        beyond = np.concatenate([np.cumsum(masses[::-1])[::-1], [0.0]])
        return np.asarray(np.interp(np.asarray(x, dtype=np.float64), edges, beyond))

    def piecewise_cdfs(self, grid: Outcomes, weight: int) -> tuple[PiecewiseCDF, ...]:
        """Return the integer masses at the edges: exact fractions of the weight, rounded down."""
        shares = [Fraction(mass) for mass in self.masses]  # floats are dyadic: the largest denominator serves all
        denominator = max(share.denominator for share in shares)
        cumulative = [0, *accumulate(share.numerator * (denominator // share.denominator) for share in shares)]
        heights = (weight * below // cumulative[-1] for below in cumulative)
        return (ListedKnots(grid, zip(map(as_decimal, self.edges), heights, strict=True)),)

    def _arrays(self) -> tuple[Floats, Floats, Floats]:
        masses = np.asarray(self.masses, dtype=np.float64)
        masses = masses / masses.sum()
        return np.asarray(self.edges, dtype=np.float64), masses, np.concatenate([[0.0], np.cumsum(masses)])

    def _bins(self, low: Floats, high: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the bins that hold the two ends of intervals inside the edges."""
        left = np.searchsorted(self.edges, low, "right") - 1
        right = np.searchsorted(self.edges, high, "left") - 1
        return np.clip(left, 0, len(self.masses) - 1), np.clip(right, 0, len(self.masses) - 1)

    def _pieces(self, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the masses of an interval in its first bin, in whole bins, and in its last bin."""
        edges, masses, cumulative = self._arrays()
        left, right = self._bins(low, high)
        density = masses / np.diff(edges)
        same = left >= right
        first = np.where(same, 0.0, density[left] * (edges[left + 1] - low))
        whole = np.where(same, 0.0, np.maximum(cumulative[right] - cumulative[left + 1], 0.0))
        last = np.where(same, density[left] * np.maximum(high - low, 0.0), density[right] * (high - edges[right]))
        return first, whole, last

    def _cut(self, lower: ArrayLike, upper: ArrayLike) -> tuple[Floats, Floats]:
        low, high = np.broadcast_arrays(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))
        return np.clip(low, self.edges[0], self.edges[-1]), np.clip(high, self.edges[0], self.edges[-1])


Signs = Literal["both", "positive"]

#: Cells reach 2**61 resolutions: beyond every code of every grid of the same resolution.
OCTAVES = 61
#: The resolution on a grid of floats, which has none of its own: values from 2**-20 to 2**41 have their own cells.
FLOAT_RESOLUTION = Fraction(1, 2**20)
#: On a grid of floats this share lies evenly on the indices themselves: on all powers of two that a double can have.
EVERYWHERE_BITS = 6
#: ... and this share on whole numbers alone, for columns without a declared granularity.
_WHOLE_BITS = 3


@dataclass(frozen=True)
class ScaleFree(PriorLaw):
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

    family = "scale_free"
    needs_hedge = False  # every scale has its share already

    def __post_init__(self) -> None:
        if self.signs not in ("both", "positive"):
            raise RangeError(f"signs must be 'both' or 'positive', got {self.signs!r}")
        if self.resolution is None:
            return
        exact = exact_positive(self.resolution, name="resolution", advice="leave it out to take the grid's")
        object.__setattr__(self, "resolution", exact)

    def cells(self, grid: Outcomes | None = None) -> int:
        """Return the number of cells of equal mass that a grid meets; without a grid, of all cells: at most 130."""
        ends = _half_steps(self.signs)
        if grid is None:
            return len(ends) - 1
        half = self._resolution_on(grid) / 2
        low, high = exact_position(grid, grid.fine_first) / half, exact_position(grid, grid.fine_last + 1) / half
        return max(1, sum(left < high and right > low for left, right in pairwise(ends)))

    def rank_cost(self, *, level: float, epsilon: float, grid: Outcomes | None = None) -> float:
        """Return how many ranks not knowing the scale costs at most: (2 max(q, 1-q) / ε) log(cells)."""
        return 2 * max(level, 1 - level) / epsilon * math.log(self.cells(grid))

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> Floats:
        """Return log mu((lower, upper])."""
        return self._histogram().log_mass(lower, upper)

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> Floats:
        """Map uniform v to a draw from mu on (lower, upper]."""
        return self._histogram().inverse_in(lower, upper, v)

    def cdf(self, x: ArrayLike) -> Floats:
        """Return mu((-inf, x])."""
        return self._histogram().cdf(x)

    def sf(self, x: ArrayLike) -> Floats:
        """Return mu((x, inf))."""
        return self._histogram().sf(x)

    def piecewise_cdfs(self, grid: Outcomes, weight: int) -> tuple[PiecewiseCDF, ...]:
        """Return equal integer masses on all cells, the same whatever the ends of the grid."""
        return _scale_free(grid, self._resolution_on(grid), self.signs, weight)

    def to_json(self) -> dict[str, object]:
        """Return strings only."""
        return {
            "family": "scale_free",
            "resolution": "grid" if self.resolution is None else str(self.resolution),
            "signs": self.signs,
            "origin": self.origin.to_json(),
        }

    def _resolution_on(self, grid: Outcomes) -> Fraction:
        if self.resolution is not None:
            return Fraction(self.resolution)
        return grid.resolution if isinstance(grid, Grid) else FLOAT_RESOLUTION

    def _histogram(self) -> HistogramPrior:
        if self.resolution is None:
            raise RangeError(
                "this scale-free prior takes the resolution of a grid; give resolution= to use it without one"
            )
        ends = [float(Fraction(end, 2) * Fraction(self.resolution)) for end in _half_steps(self.signs)]
        return HistogramPrior(ends, [1.0] * (len(ends) - 1), origin=self.origin)


def _half_steps(signs: Signs) -> list[int]:
    """Return the ends of all cells in order, in units of half a resolution: ±(2^(k+1) - 1)."""
    right = [2 ** (k + 1) - 1 for k in range(OCTAVES + 1)]
    return [-end for end in reversed(right)] + right if signs == "both" else [-1, *right]


@lru_cache(maxsize=32)  # of public numbers: the default prior of a grid, which every release of a column has
def _scale_free(grid: Outcomes, resolution: Fraction, signs: Signs, weight: int) -> tuple[PiecewiseCDF, ...]:
    """Return the integer masses of a scale-free prior."""
    ends = _half_steps(signs)
    everywhere, whole = (0, 0) if isinstance(grid, Grid) else (weight >> EVERYWHERE_BITS, weight >> _WHOLE_BITS)
    rest = weight - everywhere - whole
    knots = ((end, k * rest // (len(ends) - 1)) for k, end in enumerate(ends))
    cells = ListedKnots(grid, knots, step=resolution / 2)
    if isinstance(grid, Grid):
        return (cells,)
    limit, both = (FLOAT_CODE_LIMIT + 1) << grid.dither_bits, signs == "both"
    return (
        cells,
        IndexLine(-limit if both else 0, limit, weight=everywhere),
        WholeNumbers(grid, weight=whole, both_signs=both),
    )
