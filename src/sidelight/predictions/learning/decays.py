"""exp(-rate g) for many ranks g at once, as mantissa and power of two: no underflow, no trust in libm.

Privacy of the histogram learner needs these weights to a relative 1e-12, also for gaps at which exp would be 0. Factors
come from 80-digit decimals, rounded once; products of nine floats are within 20 roundings.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PRECISE = Context(prec=80)
_LN2 = _PRECISE.ln(Decimal(2))
_DIGIT_BITS = 8


def exp_as_power(exponent: Fraction) -> tuple[float, int]:
    """Return (m, e) with m 2^e = exp(-exponent), 1/2 < m <= 1.

    >>> exp_as_power(Fraction(0)), exp_as_power(Fraction(10**6))[1]
    ((1.0, 0), -1442695)
    """
    y = _PRECISE.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    halvings = int(_PRECISE.divide(y, _LN2))
    rest = _PRECISE.subtract(y, _PRECISE.multiply(Decimal(halvings), _LN2))
    mantissa, extra = math.frexp(float(_PRECISE.exp(_PRECISE.minus(rest))))
    return (1.0, -halvings) if (mantissa, extra) == (0.5, 1) else (mantissa, extra - halvings)


@lru_cache(maxsize=512)
def _digit_factors(rate: Fraction, place: int) -> tuple[Floats, Ints]:
    """Return exp(-rate k 256^place) for the digits k = 0..255."""
    pairs = [exp_as_power(rate * (k << (_DIGIT_BITS * place))) for k in range(1 << _DIGIT_BITS)]
    return np.array([m for m, _ in pairs]), np.array([e for _, e in pairs], dtype=np.int64)


def decays(
    rate: Fraction, whole: Ints, late: NDArray[np.bool_], parts: tuple[Fraction, Fraction]
) -> tuple[Floats, Ints]:
    """Return exp(-rate (whole + parts[late])) as mantissas and powers of two; whole >= 0."""
    firsts = [exp_as_power(rate * part) for part in parts]
    mantissas = np.where(late, firsts[1][0], firsts[0][0])
    powers = np.where(late, firsts[1][1], firsts[0][1]).astype(np.int64)
    largest = int(whole.max(initial=0))
    place = 0
    while largest >> (_DIGIT_BITS * place):
        digit = (whole >> (_DIGIT_BITS * place)) & ((1 << _DIGIT_BITS) - 1)
        factor, power = _digit_factors(rate, place)
        mantissas = mantissas * factor[digit]
        powers = powers + power[digit]
        place += 1
    return mantissas, powers
