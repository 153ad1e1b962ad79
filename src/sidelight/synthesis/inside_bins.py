"""Where numbers lie inside their bins: by a smooth density that has the released mass of every bin.

The distribution function is known at the edges. Between them it is the monotone cubic of Fritsch and Carlson, with the
slopes of Fritsch and Butland at the edges: a bin next to an emptier one has more of its numbers on the other side.
Public arithmetic on a released distribution, and a few lines, so that every machine makes the same rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_HALVINGS = 48


def edge_slopes(masses: Floats, widths: Floats) -> tuple[Floats, Floats]:
    """Return the density at both ends of each bin, as multiples of its mean density: 1 is uniform, at most 3.

    >>> [each.round(2).tolist() for each in edge_slopes(np.array([0.9, 0.1]), np.array([1.0, 1.0]))]
    [[1.44, 1.8], [0.2, 0.0]]
    """
    density = masses / widths
    slopes = np.zeros(len(masses) + 1)
    if len(masses) < 2:
        return np.ones(len(masses)), np.ones(len(masses))
    left, right = density[:-1], density[1:]
    first, second = 2 * widths[1:] + widths[:-1], widths[1:] + 2 * widths[:-1]
    both = (left > 0) & (right > 0)
    inner = np.divide(first, left, out=np.ones_like(left), where=both)
    inner = inner + np.divide(second, right, out=np.zeros_like(left), where=both)
    slopes[1:-1] = np.where(both, (first + second) / inner, 0.0)
    for end, beside in ((0, 1), (-1, -2)):
        near, far = widths[end], widths[beside]
        slope = ((2 * near + far) * density[end] - near * density[beside]) / (near + far)
        slopes[end] = min(max(slope, 0.0), 3 * density[end])
    low, high = (
        np.divide(each, density, out=np.ones_like(density), where=density > 0) for each in (slopes[:-1], slopes[1:])
    )
    return np.minimum(low, 3.0), np.minimum(high, 3.0)


def smooth_positions(parts: Floats, places: NDArray[np.int64], masses: Floats, widths: Floats) -> Floats:
    """Return where in its bin each number lies, from 0 to below 1, by uniform numbers and the smooth density.

    With densities a and b at its ends, the distribution function of a bin is a·t + (3 - 2a - b)·t² + (a + b - 2)·t³. It
    rises for a, b of 0..3, and is inverted by halving.

    Args:
        parts: Uniform numbers from 0 to below 1.
        places: The bin of each.
        masses: The released share of every bin.
        widths: The width of every bin.
    """
    low, high = edge_slopes(masses, widths)
    a, b = low[places], high[places]
    square, cube = 3 - 2 * a - b, a + b - 2
    start, size = np.zeros(len(parts)), 0.5
    for _ in range(_HALVINGS):
        middle = start + size
        below = ((cube * middle + square) * middle + a) * middle <= parts
        start = np.where(below, middle, start)
        size /= 2
    return start
