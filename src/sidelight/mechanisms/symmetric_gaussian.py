"""Gaussian noise on a symmetric integer matrix, shaped so that it costs the Frobenius sensitivity and no more."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import VALUE_LIMIT, Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import Amount
from sidelight.mechanisms.additive import gaussian_scale
from sidelight.noise import Source, rounded_gaussian, scale_up

_ROOT_BITS = 256


def symmetric_gaussian(
    bounded: Bounded, *, mu: Amount | None = None, rho: Amount | None = None, source: Source
) -> NDArray[Any]:
    """Add rounded Gaussian noise of standard deviation σ on the diagonal and σ/√2 off it, mirrored.

    Guarantee: GDP(Δ_F/σ), `gaussian_claims` of the same statistic: a change D of a symmetric matrix costs
    Σ_i D_ii²/σ² + Σ_{i<j} D_ij²/(σ²/2) = ‖D‖_F²/σ². Noise of σ on every entry above the diagonal, which is common,
    has the same guarantee and √2 times the error. Exact on the machine (noise proof page).

    Accuracy: the noise has operator norm above σ(√(2d) + t) with probability at most 2 exp(-t²/2), rounding aside.
    """
    if len(bounded.shape) != 2 or bounded.shape[0] != bounded.shape[1] or bounded.norm != "l2":
        raise RangeError(f"symmetric noise wants a square matrix with a sensitivity in l2, got shape {bounded.shape}")
    diagonal = gaussian_scale(bounded, mu=mu, rho=rho)
    size = bounded.shape[0]
    on = rounded_gaussian(size, diagonal, source)
    off = rounded_gaussian(size * (size - 1) // 2, root_half_up(diagonal), source)
    noisy = np.array(bounded.value)
    if any(part.dtype == object or _largest(part) >= VALUE_LIMIT for part in (on, off)):  # int64 could not hold the sum
        noisy, on, off = noisy.astype(object), on.astype(object), off.astype(object)
    noisy[np.arange(size), np.arange(size)] += on
    start = 0
    for row in range(size - 1):  # row by row: a matrix of 1000 columns and more wants no copies
        noisy[row, row + 1 :] += off[start : start + size - 1 - row]
        noisy[row + 1 :, row] = noisy[row, row + 1 :]
        start += size - 1 - row
    return noisy


def _largest(noise: NDArray[Any]) -> int:
    return max(int(noise.max()), -int(noise.min())) if noise.size else 0


def root_half_up(scale: Fraction) -> Fraction:
    """Return scale/√2, rounded up to a dyadic number."""
    half = scale * scale / 2
    return scale_up(Fraction(isqrt(int(half * (1 << 2 * _ROOT_BITS))) + 1, 1 << _ROOT_BITS))
