"""The entropic regulariser on rows of probabilities with a floor: exponential weights and water-filling."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError

Floats = NDArray[np.float64]


def water_fill(weights: Floats, floor: float) -> Floats:
    """Return max(floor, c_i * weights_ij) with row sums 1: the entropic projection of each row.

    Each row needs a positive entry. With the weights in falling order, the entries above the floor are the first k, the
    largest k with c v_k >= floor, c = (1 - (d - k) floor) / (v_1 + ... + v_k).

    >>> water_fill(np.array([[4.0, 1.0, 0.0]]), 0.1)
    array([[0.72, 0.18, 0.1 ]])
    """
    bins = weights.shape[-1]
    falling = -np.sort(-weights, axis=-1)
    kept = np.arange(1, bins + 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factors = (1 - (bins - kept) * floor) / np.cumsum(falling, axis=-1)
        above = factors * falling >= floor
    last = bins - 1 - np.argmax(above[..., ::-1], axis=-1)
    last = np.where(above.any(axis=-1), last, 0)  # floor = 1/d: rounding may put every entry below it
    factor = np.take_along_axis(factors, last[..., None], axis=-1)
    return np.maximum(floor, factor * weights)


@dataclass(frozen=True, kw_only=True)
class Entropic:
    """phi(W) = m sum W log W on m rows of d probabilities, each at least `floor`.

    1-strongly convex in the entrywise l1 norm of the m x d matrix (Pinsker, Cauchy-Schwarz); dual: the largest entry.
    """

    rows: int
    bins: int
    floor: float

    def __post_init__(self) -> None:
        if self.rows < 1 or self.bins < 2:
            raise RangeError(f"at least 1 row of at least 2 bins is needed, got {self.rows} rows of {self.bins}")
        if not 0 <= self.floor <= 1 / self.bins:
            raise RangeError(f"the floor of {self.bins} probabilities lies in 0..{1 / self.bins:g}, got {self.floor}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and bins."""
        return (self.rows, self.bins)

    @property
    def size(self) -> int:
        """All entries."""
        return self.rows * self.bins

    @property
    def radius_squared(self) -> float:
        """m^2 log d: from a certain bin to the uniform start, in every row."""
        return self.rows**2 * math.log(self.bins)

    @property
    def gaussian_width(self) -> float:
        """E max |z_ij| <= sqrt(2 log(2 m d))."""
        return math.sqrt(2 * math.log(2 * self.size))

    @property
    def dual_lipschitz(self) -> float:
        """The largest entry is at most the Euclidean norm."""
        return 1.0

    def to_vector(self, gradient: ArrayLike) -> Floats:
        """Return the rows one after the other."""
        return np.asarray(gradient, dtype=np.float64).reshape(self.size)

    def minimiser(self, gradient_sum: Floats, *, step_size: float) -> Floats:
        """Return exponential weights of each row, filled up to the floor."""
        sums = gradient_sum.reshape(self.shape)
        with np.errstate(under="ignore", over="ignore"):
            weights = np.exp(-(step_size / self.rows) * (sums - sums.min(axis=-1, keepdims=True)))
        return water_fill(weights, self.floor)
