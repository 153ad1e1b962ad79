"""The Euclidean regulariser on a box, a ball or the whole space: lazily projected gradient descent."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Box:
    """All parameters with lower <= theta <= upper, entry by entry."""

    lower: ArrayLike
    upper: ArrayLike

    def project(self, theta: Floats) -> Floats:
        """Return the nearest point of the box."""
        return np.clip(theta, np.asarray(self.lower, dtype=np.float64), np.asarray(self.upper, dtype=np.float64))

    def farthest(self, theta: Floats) -> float:
        """Return the largest distance of a point of the box from theta."""
        low, high = np.asarray(self.lower, dtype=np.float64), np.asarray(self.upper, dtype=np.float64)
        return float(np.linalg.norm(np.maximum(np.broadcast_to(high, theta.shape) - theta, theta - low)))


@dataclass(frozen=True, eq=False)
class Ball:
    """All parameters within `radius` of `centre`, in the Euclidean norm of all entries."""

    centre: ArrayLike
    radius: float

    def project(self, theta: Floats) -> Floats:
        """Return the nearest point of the ball."""
        centre = np.broadcast_to(np.asarray(self.centre, dtype=np.float64), theta.shape)
        away = theta - centre
        length = float(np.linalg.norm(away))
        return np.asarray(theta if length <= self.radius else centre + away * (self.radius / length))

    def farthest(self, theta: Floats) -> float:
        """Return the largest distance of a point of the ball from theta."""
        return float(np.linalg.norm(theta - np.asarray(self.centre, dtype=np.float64))) + self.radius


@dataclass(frozen=True, eq=False, kw_only=True)
class Euclidean:
    """phi = ||theta - start||^2 / 2 on a box or a ball: theta = Proj(start - step g).

    >>> Euclidean(start=[0.0, 0.0], domain=Box(-1, 1)).minimiser(np.array([3.0, -0.5]), step_size=1.0)
    array([-1. ,  0.5])
    """

    start: ArrayLike
    domain: Box | Ball
    _start: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        start = np.array(self.start, dtype=np.float64)
        start.setflags(write=False)
        object.__setattr__(self, "_start", start)
        if not np.allclose(self.domain.project(start), start, rtol=1e-12, atol=1e-12):
            raise RangeError("the start of a Euclidean learner must lie inside its domain")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the start."""
        return self._start.shape

    @property
    def size(self) -> int:
        """The number of entries."""
        return self._start.size

    @property
    def radius_squared(self) -> float:
        """Half the squared distance of the farthest point."""
        return self.domain.farthest(self._start) ** 2 / 2

    @property
    def gaussian_width(self) -> float:
        """E ||z||_2 <= sqrt(size)."""
        return math.sqrt(self.size)

    @property
    def dual_lipschitz(self) -> float:
        """The norm is its own dual."""
        return 1.0

    def to_vector(self, gradient: ArrayLike) -> Floats:
        """Return the entries in order."""
        return np.asarray(gradient, dtype=np.float64).reshape(self.size)

    def minimiser(self, gradient_sum: Floats, *, step_size: float) -> Floats:
        """Project the start minus step_size times the sum."""
        return self.domain.project(self._start - step_size * gradient_sum.reshape(self.shape))
