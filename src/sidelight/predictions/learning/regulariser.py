"""What follow-the-regularised-leader needs of a geometry: where to start, where to go, and its constants."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Regulariser(Protocol):
    """A function phi on a set of parameters, 1-strongly convex with respect to a norm, with a minimiser in closed form.

    Gradients travel as vectors: `to_vector` is an isometry between gradients with the Frobenius norm and vectors with
    the Euclidean norm, in which the private sums add their noise.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of parameters and gradients."""

    @property
    def size(self) -> int:
        """The number of coordinates of a gradient as a vector."""

    @property
    def radius_squared(self) -> float:
        """R^2, at least phi(comparator) - min phi."""

    @property
    def gaussian_width(self) -> float:
        """At least E ||z||_* for standard normal coordinates z."""

    @property
    def dual_lipschitz(self) -> float:
        """The Lipschitz constant of ||.||_* with respect to the Euclidean norm."""

    def to_vector(self, gradient: ArrayLike) -> Floats:
        """Return a gradient as a vector."""

    def minimiser(self, gradient_sum: Floats, *, step_size: float) -> Floats:
        """Return argmin phi(theta) + step_size <g, theta> for a vector g."""
