"""The strip sampler: exact half-normal and exponential variates X = (J + U) / 2**digits, with a fair sign, in bulk.

Hand-made because no library draws exact variates at this speed (OpenDP: some hundred times slower). The digits of the
output are raw random bits, so precision is free at any scale. Proof: noise proof page, Theorem 2. The order in which
words are consumed is part of the seeded contract.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import NoiseError
from sidelight.noise.enclosures import EXPONENTIAL, GAUSS, LazyReal, Strips, exact_keep, exact_strip, exp_neg
from sidelight.noise.source import Source

# The tables are built at first use from enclosures and checked by digest, so that every number can be followed to its
# proof; 20-30 ms each, once per process. The two formulas with a proved error use IEEE + - × ÷ and wrapping uint64
# operations only, and decide the same on every platform. Building a table first checks the assumptions of the proofs:
# float64 + - × ÷ round within 2**-52, uint64 wraps (noise proof page, section 5), and both formulas agree with exact
# rationals. A failure raises: there is no degraded mode.

_LOW_HALF = np.uint64(2**32 - 1)
_HALF = np.uint64(32)
#: SHA-256 (first 16 digits) of each table's little-endian bytes: thresholds, squeezes, guide; and the step table.
DIGESTS = {
    "gauss thresholds": "6accceca09cf260b",
    "gauss squeezes": "f8ff8de3864ccafa",
    "gauss guide": "f02a6618b6c12dd7",
    "exponential thresholds": "8b9fec3f8d0bae2c",
    "exponential squeezes": "a96ed19384314716",
    "exponential guide": "7f768bf01c6333c7",
    "steps": "6ab065b18b2a36bf",
}
_PAIRS = (
    (2**64 - 1, 2**53 - 1),
    (0x0123456789ABCDEF, 0x1234567890ABC),
    (0xFFFFFFFF00000001, 0x1FFFFF00000001),
    (2**63 + 2**31, 3 * 2**50),
)
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


def check_arithmetic() -> None:
    """Raise NoiseError unless float and integer arithmetic behave as the proofs assume."""
    one, third = np.array([1.0]), np.array([1.0]) / 3.0
    _demand((one + 2.0**-53)[0] in (1.0, 1.0 + 2.0**-52), "1 + 2**-53 does not round to a neighbour of 1")
    _demand(abs((third * 3.0)[0] - 1.0) <= 2.0**-52, "(1/3) * 3 is further than 2**-52 from 1")
    _demand((np.array([2**64 - 1], np.uint64) + np.uint64(2))[0] == 1, "uint64 addition does not wrap")
    for word, factor in _PAIRS:
        exact = word * factor >> 64
        scalar = high_product(np.array([word], np.uint64), np.uint64(factor))
        array = high_product(np.array([word], np.uint64), np.array([factor], np.uint64))
        _demand(int(scalar[0]) == int(array[0]) == exact, "the high product of two words is wrong")
    _demand(
        abs(Fraction(float(taylor_exp_neg(np.array([0.1]))[0])) - _series(Fraction(0.1))) < Fraction(1, 2**48),
        "the polynomial for exp(-1/10) is further than 2**-48 from the exact sum",
    )


def check_table(name: str, table: NDArray[np.generic]) -> None:
    """Raise NoiseError unless a freshly built table has the digest that the proofs were checked with."""
    little_endian = table.astype(table.dtype.newbyteorder("<"))
    digest = hashlib.sha256(little_endian.tobytes(), usedforsecurity=False).hexdigest()[:16]
    _demand(digest == DIGESTS[name], f"the table of {name} differs from the reference")


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


def _series(y: Fraction) -> Fraction:
    return sum(((-y) ** n / math.factorial(n) for n in range(25)), Fraction(0))


def _demand(holds: bool | np.bool_, what: str) -> None:  # noqa: FBT001 (an assertion that survives -O)
    if not holds:
        raise NoiseError(
            f"self-check of the noise samplers failed: {what}; no noise is drawn on this machine. "
            "Check the Python, NumPy and CPU combination, and report it"
        )


#: Draws to a chunk: about 200 kB of words, so that everything stays in the cache.
CHUNK = 1 << 14
#: The float filter leaves a case doubtful within this distance; the proved error is 500 times smaller.
_MARGIN = 2.0**-40

_SIGN = np.uint32(31)
_KEEP_MASK = np.uint32((1 << KEEP_BITS) - 1)
_CELL_MASK = np.uint32((1 << STRIP_BITS) - 1)


class Draws(NamedTuple):
    """Variates (strip + U) / 2**digits: `words` holds the first 64 bits of each U.

    `deep` holds the pair (J, U) of the draws that the slow method decided: J may be of any size there and U may have
    more than 64 bits. It must be used instead of the vector copy.
    """

    strip: NDArray[np.uint32]
    words: NDArray[np.uint64]
    negative: NDArray[np.bool_]
    deep: dict[int, tuple[int, LazyReal]]


def draw(law: Strips, n: int, source: Source) -> Draws:
    """Return n independent variates: the first n kept of enough trials; the surplus is thrown away, never saved."""
    parts: list[Draws] = []
    have = 0
    while have < n:
        need = n - have
        trials, kept = run_trials(law, need + need // 24 + 8, source)
        index = kept.nonzero()[0][:need]
        deep = {}
        for trial, pair in trials.deep.items():
            if kept[trial]:
                at = int(np.searchsorted(index, trial))
                if at < index.size:
                    deep[have + at] = pair
        parts.append(Draws(trials.strip[index], trials.words[index], trials.negative[index], deep))
        have += index.size
    if len(parts) == 1:
        return parts[0]
    return Draws(
        np.concatenate([np.empty(0, np.uint32), *(part.strip for part in parts)]),
        np.concatenate([np.empty(0, np.uint64), *(part.words for part in parts)]),
        np.concatenate([np.empty(0, np.bool_), *(part.negative for part in parts)]),
        {at: pair for part in parts for at, pair in part.deep.items()},
    )


def run_trials(law: Strips, m: int, source: Source) -> tuple[Draws, NDArray[np.bool_]]:
    """Make m independent trials; also say which are kept.

    Stage 1 spends 12 bytes a trial and settles 96-98 % of them by table look-up: where 16 bits of R decide the strip
    and 15 bits of V lie below the least keep probability of that strip.
    """
    tables = strip_tables(law.name)
    first = source.words32(m)
    words = source.words(m)
    cell = first >> np.uint32(KEEP_BITS)
    cell &= _CELL_MASK
    packed = tables.cells.take(cell.astype(np.intp), mode="wrap")
    keep = first & _KEEP_MASK
    kept = keep < (packed & np.uint32(0xFFFF))
    packed >>= np.uint32(16)
    trials = Draws(packed, words, (first >> _SIGN).view(np.int32).astype(np.bool_), {})
    open_trials = np.arange(m) if source.force_scalar else (~kept).nonzero()[0]
    if open_trials.size:
        _second_stage(law, tables, first, trials, kept, open_trials, source)
    return trials, kept


def _second_stage(
    law: Strips,
    tables: StripTables,
    first: NDArray[np.uint32],
    trials: Draws,
    kept: NDArray[np.bool_],
    open_trials: NDArray[np.intp],
    source: Source,
) -> None:
    """Settle the open trials with 8 bytes more each: 28 for R (44 bits now) and 36 for V (51 bits now)."""
    more = source.words(open_trials.size)
    start = first[open_trials].astype(np.uint64)
    strip_more, keep_more = STRIP_BITS_2 - STRIP_BITS, KEEP_BITS_2 - KEEP_BITS
    r = (start >> np.uint64(KEEP_BITS) & np.uint64(_CELL_MASK)) << np.uint64(strip_more) | more >> np.uint64(keep_more)
    v = (start & np.uint64(_KEEP_MASK)) << np.uint64(keep_more) | more & np.uint64((1 << keep_more) - 1)
    strip = np.searchsorted(tables.thresholds, r, "right")
    on_threshold = tables.thresholds[np.maximum(strip, 1) - 1] == r
    position = trials.words[open_trials].astype(np.float64) * 2.0**-64
    bound = taylor_exp_neg(law.float_exponent(strip, position))
    level = v.astype(np.float64) * 2.0**-KEEP_BITS_2
    keeps = level + (2.0**-KEEP_BITS_2 + _MARGIN) <= bound
    doubtful = on_threshold | ~(keeps | (level >= bound + _MARGIN))
    if source.force_scalar:
        doubtful[:] = True
    trials.strip[open_trials] = strip
    kept[open_trials] = keeps
    for i in doubtful.nonzero()[0].tolist():
        trial = int(open_trials[i])
        kept[trial] = _scalar_trial(law, int(r[i]), int(v[i]), trial, trials, source)


def _scalar_trial(law: Strips, r: int, v: int, trial: int, trials: Draws, source: Source) -> bool:
    source.fallbacks["strip"] += 1
    j = exact_strip(law, LazyReal(r, STRIP_BITS_2, source))
    u = LazyReal(int(trials.words[trial]), 64, source)
    kept = exact_keep(law, j, u, LazyReal(v, KEEP_BITS_2, source))
    trials.strip[trial] = 0  # a placeholder: the true strip may not fit
    trials.deep[trial] = (j, u)
    return kept
