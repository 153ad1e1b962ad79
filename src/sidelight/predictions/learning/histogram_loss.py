"""How well histogram priors would have served a data set: the loss, its gradient, and the weights of the bins.

Psi_i = sum_j s_ij W_ij is the quality of row i for level q_i: s_ij is the average over bin j of
exp(-eps_i gap_i(o) / (2 Delta_i)). The loss log sum_i 1/Psi_i is convex in W. Hand-made with care for the last digits:
a private learner relies on a gradient that is right to 5e-10 of its bound whatever the data (learning proof page, 4.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError

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


#: Pieces are added in runs of this length first, so that the rounding of n numbers is that of n/4096.
_RUN = 4096


@dataclass(frozen=True, eq=False, repr=False)
class BinWeights:
    """s_ij = values[i, j] * 2^powers[i]; the largest piece of each row is near 1. Private: they come from records."""

    values: Floats
    powers: Ints

    def __repr__(self) -> str:
        return f"BinWeights(private, shape={self.values.shape})"


def bin_weights(
    records: ArrayLike,
    *,
    edges: Floats,
    levels: Sequence[Fraction],
    epsilons: Sequence[Fraction],
    score: Literal["exact", "floor"] = "exact",
) -> BinWeights:
    """Return s_ij for one data set: every piece between records and edges is added, nothing is subtracted.

    gap_i is the gap of level q_i on all records, and Delta_i its own sensitivity: max(q, 1-q), or 1 for the floor
    score. No record at all is nothing special: the gap is 0 and every weight 1. NaN is left out.
    """
    values = np.asarray(records, dtype=np.float64).ravel()
    values = np.sort(values[~np.isnan(values)])
    inside = values[(values > edges[0]) & (values < edges[-1])]
    cuts = np.sort(np.concatenate([edges, inside]), kind="stable")
    left, right = cuts[:-1], cuts[1:]
    real = right > left
    left, right = left[real], right[real]
    ranks = np.searchsorted(values, left, side="right").astype(np.int64)  # records below any output of (left, right]
    bins = np.searchsorted(edges, left, side="right") - 1
    share, share_power = np.frexp(right - left)
    whole_bin, whole_power = np.frexp(np.diff(edges))
    share = share / whole_bin[bins]
    share_power = share_power.astype(np.int64) - whole_power[bins]
    rows, powers = [], []
    for level, epsilon in zip(levels, epsilons, strict=True):
        mantissas, exponents = _kept_score(ranks, level, epsilon, len(values), score=score)
        mantissas, exponents = mantissas * share, exponents + share_power
        top = int(exponents.max())
        with np.errstate(under="ignore"):
            pieces = np.ldexp(mantissas, np.maximum(exponents - top, -2000).astype(np.int32))
        rows.append(_sums_of_bins(pieces, bins, len(edges) - 1))
        powers.append(top)
    return BinWeights(np.array(rows), np.array(powers, dtype=np.int64))


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


def _kept_score(
    ranks: Ints, level: Fraction, epsilon: Fraction, size: int, *, score: Literal["exact", "floor"]
) -> tuple[Floats, Ints]:
    """Return exp(-eps gap / (2 Delta)) of each rank; the gap is a whole number plus one of two exact fractions."""
    below, numerator = divmod(level.numerator * size, level.denominator)
    part = Fraction(numerator, level.denominator) if score == "exact" else Fraction(0)
    sensitivity = max(level, 1 - level) if score == "exact" else Fraction(1)
    late = ranks > below  # the gap is rank - below - part there, below + part - rank before
    whole = np.where(late, ranks - below - 1, below - ranks)
    return decays(epsilon / (2 * sensitivity), whole, late, (part, 1 - part))


def _sums_of_bins(pieces: Floats, bins: Ints | NDArray[np.intp], count: int) -> Floats:
    """Add the pieces of each bin, in runs; the bins come in order and every bin has a piece."""
    starts = np.flatnonzero(np.diff(bins, prepend=-1))
    starts = np.union1d(starts, np.arange(0, len(pieces), _RUN))
    runs = np.add.reduceat(pieces, starts)
    return np.asarray(np.bincount(bins[starts], weights=runs, minlength=count), dtype=np.float64)
