"""What every prior can do: the one seam between predictions and the algorithms that use them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.grid import Outcomes
from sidelight.predictions.compiled import CompiledPrior, Staircase
from sidelight.predictions.origin import Origin


@runtime_checkable
class Prior(Protocol):
    """A public law on the outputs: where the answer is expected. It changes accuracy, never the guarantee.

    `compile` and `staircases` serve the release path (integers only reach the records). The other methods are floats
    for simulation, bounds and diagnostics, vectorised, and stable in the tails; intervals are (lower, upper].
    """

    @property
    def origin(self) -> Origin:
        """Return where the prediction came from."""
        ...

    @property
    def needs_hedge(self) -> bool:
        """Return whether being wrong costs ranks in proportion to the mistake, so that mixing is advised."""
        ...

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> NDArray[np.float64]:
        """Return log mu((lower, upper]), -inf for an empty interval."""
        ...

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> NDArray[np.float64]:
        """Map uniform v in (0, 1) to a draw from mu restricted to (lower, upper]."""
        ...

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((-inf, x])."""
        ...

    def sf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((x, inf)), accurate where it is tiny."""
        ...

    def staircases(self, grid: Outcomes, weight: int) -> tuple[Staircase, ...]:
        """Return integer cumulative masses on the grid that add up to at most `weight`, each with its own knots."""
        ...

    def compile(self, grid: Outcomes) -> CompiledPrior:
        """Return the exact integer masses that a release on this grid uses."""
        ...

    def to_json(self) -> dict[str, object]:
        """Return nested strings; `prior_from_json` is the inverse."""
        ...
