"""Integers plus continuous noise, rounded to a coarse public grid: how idealized noise leaves the library.

The integers are split at the grid first, so that only their rest within one cell meets a float: the rounding error is
that of the noise, however large the integers are (noise proof page, Theorem 5).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sidelight.noise import public_grid, to_grid

#: Beyond 2**50 steps, which is 2**40 standard deviations, noise is clamped: to_grid wants a public range.
_STEPS = 50


def gridded_sum(
    values: NDArray[np.int64], noise: NDArray[np.float64], *, smallest_deviation: float
) -> NDArray[np.float64]:
    """Return values + noise on a grid of 2**-10 of the noise's smallest standard deviation, as floats.

    The grid point is found from exact integers and the noise; that it is handed out as a float is post-processing.
    """
    exponent = public_grid(smallest_deviation)
    if 0 < exponent < 62:
        whole = values >> exponent
        rest = (values - (whole << exponent)).astype(np.float64)
    elif exponent >= 62:  # a cell holds every value a statistic can have
        whole, rest = np.zeros_like(values), values.astype(np.float64)
    else:
        whole, rest = values.astype(object) << -exponent, np.zeros(values.shape)
    steps = to_grid(rest + noise, exponent, limit=math.ldexp(1.0, exponent + _STEPS))
    return np.ldexp((whole + steps).astype(np.float64), exponent)
