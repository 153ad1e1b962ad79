"""How well histogram priors would have served a data set: the loss, its gradient, and how far one record moves that.

Psi_i = sum_j s_ij W_ij is the quality of row i for level q_i: s_ij is the average of exp(-eps_i gap_i(o) / (2 Delta_i))
over public points o of bin j. Only the ranks of the points are asked for, so a data set of any size costs the same. The
loss log sum_i 1/Psi_i is convex in W. Hand-made with care for the last digits: a private learner relies on a gradient
that is right to 5e-10 of its bound whatever the data (learning proof page, section 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.guarantees.intervals import Interval, round_up

# exp(-rate g) for many ranks g at once, as mantissa and power of two: no underflow, no trust in libm.
#
# Privacy of the histogram learner needs these weights to a relative 1e-12, also for gaps at which exp would be 0.
# Factors come from 80-digit decimals, rounded once; products of nine floats are within 20 roundings.
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


@dataclass(frozen=True, eq=False, repr=False)
class BinWeights:
    """s_ij = values[i, j] * 2^powers[i]; the largest piece of each row is near 1. Private: they come from records."""

    values: Floats
    powers: Ints

    def __repr__(self) -> str:
        return f"BinWeights(private, shape={self.values.shape})"


def bin_weights(below: Ints, *, size: int, levels: Sequence[Fraction], epsilons: Sequence[Fraction]) -> BinWeights:
    """Return s_ij for one data set of `size` records; below[j, k] is the rank of the k-th public point of bin j.

    gap_i is the gap of level q_i on all records, and Delta_i its own sensitivity: max(q, 1-q). No record at all is
    nothing special: the gap is 0 and every weight 1.
    """
    averages, powers = [], []
    for level, epsilon in zip(levels, epsilons, strict=True):
        mantissas, exponents = _kept_score(below, level, epsilon, size)
        top = int(exponents.max())
        with np.errstate(under="ignore"):
            pieces = np.ldexp(mantissas, np.maximum(exponents - top, -2000).astype(np.int32))
        averages.append(pieces.sum(axis=1) / below.shape[1])
        powers.append(top)
    return BinWeights(np.array(averages), np.array(powers, dtype=np.int64))


def histogram_loss(weights: BinWeights, masses: Floats) -> tuple[float, Floats]:
    """Return log sum_i 1/Psi_i at the row masses W, and its gradient -p_i s_ij / Psi_i, p_i prop. to 1/Psi_i.

    >>> loss, gradient = histogram_loss(BinWeights(np.array([[0.9, 0.5]]), np.array([0])), np.array([[0.5, 0.5]]))
    >>> round(loss, 12), gradient.round(12).tolist()
    (0.356674943939, [[-1.285714285714, -0.714285714286]])
    """
    if weights.values.shape != masses.shape:
        raise RangeError(f"masses of shape {weights.values.shape} are needed, got {masses.shape}")
    quality = np.sum(weights.values * masses, axis=1)
    lowest = int(weights.powers.min())
    with np.errstate(under="ignore"):
        inverse = np.ldexp(1 / quality, np.maximum(lowest - weights.powers, -2000).astype(np.int32))  # exact powers
    total = float(inverse.sum())
    gradient = -(inverse / total / quality)[:, None] * weights.values
    return math.log(total) - lowest * math.log(2.0), gradient


def _kept_score(ranks: Ints, level: Fraction, epsilon: Fraction, size: int) -> tuple[Floats, Ints]:
    """Return exp(-eps gap / (2 Delta)) of each rank; the gap is a whole number plus one of two exact fractions."""
    below, numerator = divmod(level.numerator * size, level.denominator)
    part = Fraction(numerator, level.denominator)
    late = ranks > below  # the gap is rank - below - part there, below + part - rank before
    whole = np.where(late, ranks - below - 1, below - ranks)
    return decays(epsilon / (2 * max(level, 1 - level)), whole, late, (part, 1 - part))


# How far one record can move the gradient: proved, and exact up to rounding for one level.

#: Projections in floats may miss the floor by rounding: bounds use a floor that much smaller.
FLOOR_SLACK = Fraction(1, 10**9)


def gradient_bound(*, bins: int, floor_weight: Fraction) -> Fraction:
    """Return d/gamma, which bounds the l1 norm of every gradient, hence all its norms."""
    if not 0 < floor_weight <= 1:
        raise RangeError(f"floor_weight must lie in (0, 1], got {float(floor_weight):g}; 0.5 is a good choice")
    return bins / (floor_weight * (1 - FLOOR_SLACK))


def gradient_sensitivity(*, bins: int, floor_weight: Fraction, epsilons: Sequence[Fraction]) -> Fraction:
    """Return the l2 sensitivity for adding or removing one record, rounded up (learning proof page, Theorem 4).

    (d/gamma) sqrt(2) tanh(eps/4) for one level, attained; (d/gamma) sqrt(2) min(1, 2 tanh(max eps / 4)) for several.

    >>> one = gradient_sensitivity(bins=1, floor_weight=Fraction(1), epsilons=[Fraction(1)])
    >>> round(float(one), 8)
    0.34636729
    """
    if not epsilons or min(epsilons) <= 0:
        raise RangeError("every level needs a positive epsilon: what its release will spend")
    total_variation = Interval.of(max(epsilons) / 4).tanh()
    if len(epsilons) > 1:
        total_variation = (total_variation + total_variation).lowest(Interval.of(1))
    largest = round_up((Interval.of(2).sqrt() * total_variation).upper)
    return gradient_bound(bins=bins, floor_weight=floor_weight) * largest


# Follow the leader on rows of probabilities with a floor: exponential weights and water-filling.


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


def exponential_weights(sums: Floats, *, step_size: float, floor: float) -> Floats:
    """Return argmin of sum W log W + step_size <sums, W> over rows W of probabilities, each at least `floor`.

    >>> exponential_weights(np.array([[0.0, np.log(3)]]), step_size=1.0, floor=0.1).round(3)
    array([[0.75, 0.25]])
    """
    with np.errstate(under="ignore", over="ignore"):
        weights = np.exp(-step_size * (sums - sums.min(axis=-1, keepdims=True)))
    return water_fill(weights, floor)
