"""The two formulas in machine arithmetic that the vector samplers rely on, each with a proved error.

They use IEEE + - × ÷ and wrapping uint64 operations only, so that what they decide is the same on every platform; the
self-check runs both against exact rationals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LOW_HALF = np.uint64(2**32 - 1)
_HALF = np.uint64(32)


def taylor_exp_neg(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp(-y) for 0 <= y <= 1/8 within 2**-49 (noise proof page, section 5): Horner's rule, degree 10."""
    s = 1.0 - y / 10.0
    for n in range(9, 0, -1):
        s *= y
        s /= float(n)
        np.subtract(1.0, s, out=s)
    return s


def high_product(words: NDArray[np.uint64], factor: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """Return floor(words · factor / 2**64) exactly, for factors below 2**53; by 32-bit halves, no step overflows."""
    low, high = words & _LOW_HALF, words >> _HALF
    factor_low, factor_high = factor & _LOW_HALF, factor >> _HALF
    if np.ndim(factor_low) == 0 and factor_low == 0:  # public scales with a short numerator: half the products
        low *= factor_high
        low >>= _HALF
        high *= factor_high
        high += low
        return high
    middle = high * factor_low
    middle += (low * factor_low) >> _HALF
    high *= factor_high
    high += middle >> _HALF
    low *= factor_high
    middle &= _LOW_HALF
    low += middle
    low >>= _HALF
    high += low
    return high
