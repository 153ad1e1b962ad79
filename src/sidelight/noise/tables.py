"""Tables of the strip samplers and of exp(-l/64), built at first use from enclosures and checked by digest.

Built instead of shipped, so that a reader can follow every number to its proof; some 20-30 ms each, once a process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import NoiseError
from sidelight.noise.enclosures import EXPONENTIAL, GAUSS, Strips, exp_neg
from sidelight.noise.selfcheck import check_arithmetic, check_table

#: Bits of R (which strip) and V (keep or not) that the first and second stage of a trial reveal.
STRIP_BITS, STRIP_BITS_2 = 16, 44
KEEP_BITS, KEEP_BITS_2 = 15, 51

#: The step table covers exponents up to 700: beyond it exp is below every tolerance that uses it.
STEPS_PER_UNIT = 64
LAST_STEP = 44_800

_PRECISION = 160


@dataclass(frozen=True, eq=False)
class StripTables:
    """Thresholds τ_j = floor(2^44 P(J <= j)), squeezes floor(2^15 g_j(1)), and the guide from 16 bits to a strip.

    `cells` packs what the first stage looks up: strip << 16 | squeeze, and 0 (never squeezed) where the 16 bits do not
    decide the strip.
    """

    thresholds: NDArray[np.uint64]
    squeezes: NDArray[np.uint16]
    guide: NDArray[np.int16]
    cells: NDArray[np.uint32]


@cache
def strip_tables(name: Literal["gauss", "exponential"]) -> StripTables:
    """Return the tables of the law "gauss" or "exponential"."""
    check_arithmetic()
    law: Strips = GAUSS if name == GAUSS.name else EXPONENTIAL
    thresholds = _thresholds(law)
    squeezes = np.array(
        [exp_neg(*law.exponent(j, 1, 0), 128)[0] >> (128 - KEEP_BITS) for j in range(thresholds.size + 1)], np.uint16
    )
    cell_bits = np.uint64(STRIP_BITS_2 - STRIP_BITS)
    starts = np.arange(1 << STRIP_BITS, dtype=np.uint64) << cell_bits
    guide = np.searchsorted(thresholds, starts, "left").astype(np.int16)
    guide[(thresholds >> cell_bits).astype(np.intp)] = -1
    check_table(f"{name} thresholds", thresholds)
    check_table(f"{name} squeezes", squeezes)
    check_table(f"{name} guide", guide)
    strip = np.maximum(guide, 0).astype(np.uint32)
    cells = np.where(guide < 0, 0, strip << np.uint32(16) | squeezes[strip]).astype(np.uint32)
    return StripTables(thresholds, squeezes, guide, cells)


def _thresholds(law: Strips) -> NDArray[np.uint64]:
    top = (1 << STRIP_BITS_2) - 1
    shift = _PRECISION - STRIP_BITS_2
    found: list[int] = []
    while not found or found[-1] < top:
        lo, hi = law.cdf(len(found), _PRECISION)
        if lo >> shift != min(hi >> shift, top):
            raise NoiseError("an enclosure is too wide for the threshold table; raise its precision")
        found.append(lo >> shift)
    return np.array(found, np.uint64)


@cache
def step_table() -> NDArray[np.float64]:
    """Return T with T[l] >= exp(-l/64), relative excess below 2**-51, for l = 0..44800."""
    check_arithmetic()
    bits = 128
    _, factor = exp_neg(1, STEPS_PER_UNIT, bits)
    mantissa, exponent = 1 << bits, -bits  # an upper bound of exp(-l/64) as mantissa · 2^exponent
    steps = np.empty(LAST_STEP + 1)
    for step in range(LAST_STEP + 1):
        dropped = mantissa.bit_length() - 53
        steps[step] = math.ldexp((mantissa >> dropped) + 1, exponent + dropped)
        mantissa = -(-mantissa * factor >> bits)
        if mantissa.bit_length() < bits:
            mantissa <<= 1
            exponent -= 1
    check_table("steps", steps)
    return steps
