"""The public grid on which idealized outputs are released, and what rounding errors can cost there.

Floats that depend on data leak through their last bits. Rounded to a coarse public grid, the computed and the ideal
output agree except with a small probability η that can be proved and charged (noise proof page, Theorem 5).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError

#: The default grid is 2**-10 of the smallest noise standard deviation: variance grows by a factor 1 + 2**-20/12.
DEFAULT_FINENESS = 10
#: A finer grid than 2**-16 of the noise protects too little.
FINEST = 16


def public_grid(smallest_deviation: float, *, fineness: int = DEFAULT_FINENESS) -> int:
    """Return the exponent j of the grid width 2**j for noise whose smallest standard deviation is given.

    >>> public_grid(3.0)
    -9
    """
    if not (smallest_deviation > 0 and math.isfinite(smallest_deviation)):
        raise RangeError(f"the noise's standard deviation must be positive and finite, got {smallest_deviation}")
    if not 0 <= fineness <= FINEST:
        raise RangeError(f"fineness must lie in 0..{FINEST} (a finer grid protects too little), got {fineness}")
    return math.frexp(smallest_deviation)[1] - 1 - fineness


def to_grid(values: NDArray[np.float64], exponent: int, *, limit: float) -> NDArray[np.int64]:
    """Return the grid integers floor(value / 2**exponent + 1/2), after clamping to the public range ±limit.

    The clamp bounds the rounding error, which grows with the value. The sum with 1/2 rounds, too: it belongs to the
    error that `disagreement` is told.
    """
    if not (limit > 0 and math.frexp(limit)[1] - exponent <= 52):
        raise RangeError(f"limit must be positive and at most 2**51 grid steps, got {limit} at width 2**{exponent}")
    clamped = np.nan_to_num(np.clip(values, -limit, limit), nan=0.0)
    return np.floor(np.ldexp(clamped, -exponent) + 0.5).astype(np.int64)


def disagreement(error: float, exponent: int, densities: Iterable[float]) -> float:
    """Return η, a bound of P(computed and ideal grid points differ): the sum of 2e(1/g + 2D_i).

    Guarantee: an ideal (ε, δ)-DP output gives (ε, δ + (1 + exp ε) η)-DP bits (noise proof page, Theorem 5), when every
    coordinate is unimodal with density at most D_i and its computed value within `error` of the ideal one.

    >>> disagreement(2.0**-45, -10, [0.4]) < 2.0**-33
    True
    """
    width = math.ldexp(1.0, exponent)
    if not 0 <= 2 * error <= width:
        raise RangeError(f"the error must lie in 0..width/2, got {error} at width {width}")
    return math.fsum(2 * error * (1 / width + 2 * density) for density in densities)
