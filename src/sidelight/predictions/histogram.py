"""The histogram prior: masses on bins, from a public table or from an earlier release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.grid import Outcomes
from sidelight.predictions.compiled import UNIT, CompiledPrior, Staircase
from sidelight.predictions.knots import ListedKnots
from sidelight.predictions.origin import Origin, guess
from sidelight.predictions.priors import as_decimal, finite


@dataclass(frozen=True)
class Histogram:
    """Predict with mass masses[i] / sum(masses) spread evenly on (edges[i], edges[i+1]].

    Empty bins are possible outputs all the same: every index of a grid has some mass.

    Args:
        edges: Increasing, one more than masses.
        masses: Not negative, of any positive sum; noisy counts are cut at zero first.
        origin: Where the prediction came from (`predictions.public`, `released` or `guess`); a guess if left out.

    >>> float(Histogram([0, 4, 8], [1, 3]).cdf(6))
    0.625
    """

    edges: Sequence[float]
    masses: Sequence[float]
    origin: Origin = field(default=guess(), kw_only=True, repr=False)

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

    @property
    def needs_hedge(self) -> bool:
        """Return False: a histogram is taken as it is: bins without mass were chosen so."""
        return False

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> NDArray[np.float64]:
        """Return log mu((lower, upper]): parts of bins from widths, whole bins from the cumulative sum."""
        low, high = self._cut(lower, upper)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.where(high > low, sum(self._pieces(low, high)), 0.0)))

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> NDArray[np.float64]:
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

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((-inf, x])."""
        edges, _, cumulative = self._arrays()
        return np.asarray(np.interp(np.asarray(x, dtype=np.float64), edges, cumulative))

    def sf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((x, inf)), summed from the right."""
        edges, masses, _ = self._arrays()
        beyond = np.concatenate([np.cumsum(masses[::-1])[::-1], [0.0]])
        return np.asarray(np.interp(np.asarray(x, dtype=np.float64), edges, beyond))

    def staircases(self, grid: Outcomes, weight: int) -> tuple[Staircase, ...]:
        """Return the integer masses at the edges: exact fractions of the weight, rounded down."""
        shares = [Fraction(mass) for mass in self.masses]  # floats are dyadic: the largest denominator serves all
        denominator = max(share.denominator for share in shares)
        cumulative = [0, *accumulate(share.numerator * (denominator // share.denominator) for share in shares)]
        heights = (weight * below // cumulative[-1] for below in cumulative)
        return (ListedKnots(grid, zip(map(as_decimal, self.edges), heights, strict=True)),)

    def compile(self, grid: Outcomes) -> CompiledPrior:
        """Return the exact integer masses that a release on this grid uses."""
        return CompiledPrior(grid.fine_first, grid.fine_last, self.staircases(grid, UNIT))

    def to_json(self) -> dict[str, object]:
        """Return strings only."""
        return {
            "family": "histogram",
            "edges": [repr(edge) for edge in self.edges],
            "masses": [repr(mass) for mass in self.masses],
            "origin": self.origin.to_json(),
        }

    def _arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        masses = np.asarray(self.masses, dtype=np.float64)
        masses = masses / masses.sum()
        return np.asarray(self.edges, dtype=np.float64), masses, np.concatenate([[0.0], np.cumsum(masses)])

    def _bins(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the bins that hold the two ends of intervals inside the edges."""
        left = np.searchsorted(self.edges, low, "right") - 1
        right = np.searchsorted(self.edges, high, "left") - 1
        return np.clip(left, 0, len(self.masses) - 1), np.clip(right, 0, len(self.masses) - 1)

    def _pieces(
        self, low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the masses of an interval in its first bin, in whole bins, and in its last bin."""
        edges, masses, cumulative = self._arrays()
        left, right = self._bins(low, high)
        density = masses / np.diff(edges)
        same = left >= right
        first = np.where(same, 0.0, density[left] * (edges[left + 1] - low))
        whole = np.where(same, 0.0, np.maximum(cumulative[right] - cumulative[left + 1], 0.0))
        last = np.where(same, density[left] * np.maximum(high - low, 0.0), density[right] * (high - edges[right]))
        return first, whole, last

    def _cut(self, lower: ArrayLike, upper: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = np.broadcast_arrays(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))
        return np.clip(low, self.edges[0], self.edges[-1]), np.clip(high, self.edges[0], self.edges[-1])
