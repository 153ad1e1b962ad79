"""The uniform prior: all that is known are two bounds, and they are trusted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.grid import Outcomes
from sidelight.predictions.compiled import UNIT, CompiledPrior, Staircase
from sidelight.predictions.knots import ListedKnots
from sidelight.predictions.origin import Origin, guess
from sidelight.predictions.priors import as_decimal, finite


@dataclass(frozen=True)
class Uniform:
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", finite(self.lower, name="lower"))
        object.__setattr__(self, "upper", finite(self.upper, name="upper"))
        if not self.lower < self.upper or not np.isfinite(self.upper - self.lower):
            raise RangeError(
                f"a uniform prior needs lower < upper, got lower={self.lower}, upper={self.upper}; "
                "for data without bounds use Cauchy or ScaleFree"
            )

    @property
    def needs_hedge(self) -> bool:
        """Return False: bounds are meant as bounds."""
        return False

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> NDArray[np.float64]:
        """Return log mu((lower, upper])."""
        low, high = self._cut(lower, upper)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(high - low, 0.0)) - np.log(self.upper - self.lower))

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> NDArray[np.float64]:
        """Map uniform v to a draw from mu on (lower, upper]."""
        low, high = self._cut(lower, upper)
        return np.clip(low + np.asarray(v, dtype=np.float64) * (high - low), low, np.maximum(low, high))

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((-inf, x])."""
        share = (np.asarray(x, dtype=np.float64) - self.lower) / (self.upper - self.lower)
        return np.clip(share, 0.0, 1.0)

    def sf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((x, inf))."""
        share = (self.upper - np.asarray(x, dtype=np.float64)) / (self.upper - self.lower)
        return np.clip(share, 0.0, 1.0)

    def staircases(self, grid: Outcomes, weight: int) -> tuple[Staircase, ...]:
        """Return the integer masses at the knots of this prior."""
        return (ListedKnots(grid, [(as_decimal(self.lower), 0), (as_decimal(self.upper), weight)]),)

    def compile(self, grid: Outcomes) -> CompiledPrior:
        """Return the exact integer masses that a release on this grid uses."""
        return CompiledPrior(grid.fine_first, grid.fine_last, self.staircases(grid, UNIT))

    def to_json(self) -> dict[str, object]:
        """Return strings only."""
        return {
            "family": "uniform",
            "lower": repr(self.lower),
            "upper": repr(self.upper),
            "origin": self.origin.to_json(),
        }

    def _cut(self, lower: ArrayLike, upper: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low = np.clip(np.asarray(lower, dtype=np.float64), self.lower, self.upper)
        return low, np.clip(np.asarray(upper, dtype=np.float64), self.lower, self.upper)
