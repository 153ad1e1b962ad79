"""The interval in which a quantile may be put without any error: what a prior should have put its mass on."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError


def optimal_intervals(
    sorted_values: ArrayLike, levels: Sequence[Fraction], granularity: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends (a, b] of the optimal interval of every level: (x_(k), x_(k+1)] with k = floor(q n).

    The values are sorted along the last axis, which becomes the axis of the levels; other axes are data sets of one
    size. Where k = 0 the lower end is -inf; without values both ends are infinite (no loss). An interval narrower than
    `granularity`, as ties make it, is widened around its centre to that width: its loss would be infinite.

    >>> [ends.tolist() for ends in optimal_intervals([1.0, 2.0, 2.0, 5.0], [Fraction(1, 10), Fraction(1, 2)], 1.0)]
    [[-inf, 1.5], [1.0, 2.5]]
    """
    values = np.asarray(sorted_values, dtype=np.float64)
    if not granularity > 0:
        raise RangeError(f"granularity must be positive, got {granularity}; give the step on which values lie")
    size = values.shape[-1]
    if size == 0:
        shape = (*values.shape[:-1], len(levels))
        return np.full(shape, -np.inf), np.full(shape, np.inf)
    ranks = np.array([(level.numerator * size) // level.denominator for level in levels], dtype=np.intp)  # floor(q n)
    low = np.where(ranks > 0, values[..., np.maximum(ranks - 1, 0)], -np.inf)
    high = values[..., ranks]
    with np.errstate(invalid="ignore"):
        narrow = high - low < granularity
        centre = low / 2 + high / 2
        low = np.where(narrow, np.minimum(centre - granularity / 2, np.nextafter(low, -np.inf)), low)
        high = np.where(narrow, np.maximum(centre + granularity / 2, np.nextafter(high, np.inf)), high)
    return low, high
