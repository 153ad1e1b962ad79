"""Quantiles of weighted sums of discrete Laplace noise, where the normal quantile is too short.

Hand-made because no library has it. The law of such a sum is found from its characteristic function, a product. Every
approximation on the way makes the bound larger (summaries proof page, Theorem 15).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError

Floats = NDArray[np.float64]

#: Weights are rounded up to a 64th of the largest, which makes the quantile at most 2 % larger.
_WEIGHT_STEPS = 64
#: Equal weights are moved apart by this, upward: larger weights have larger quantiles.
_APART = 1e-3
#: Frequencies, and the half period in standard deviations of the sum.
_TERMS, _PERIOD = 1 << 17, 50.0
#: A smooth variable of at most this size, in standard deviations, is added: eight uniform ones.
_SMOOTHING, _UNIFORMS = 0.04, 8
#: What periods, cut frequencies and rounding take away at most, together.
_INEXACT = 1e-11
#: So many terms are followed exactly; what the smaller ones add is bounded.
_MOST_EXACT = 16
_SHARE_OF_THE_REST = 0.02


class LaplaceTerm(NamedTuple):
    """A number of independent discrete Laplace variables of one scale, each times a weight."""

    weight: float
    scale: float
    terms: int

    @property
    def spread(self) -> float:
        """The variance that continuous noise would have, which is no less."""
        return 2 * self.terms * (self.weight * self.scale) ** 2


def laplace_sum_bound(parts: Sequence[LaplaceTerm], *, miss: float) -> float:
    """Return a t with P(|sum| > t) <= miss, at most about 2 % above the least.

    Args:
        parts: What is added up.
        miss: The probability that the sum may be further off, at least 1e-9.

    >>> round(laplace_sum_bound([LaplaceTerm(1.0, 100.0, 1)], miss=0.05) / 100, 2)  # -ln 0.05 = 3.00 for a single one
    3.05
    """
    if not 0 < miss < 1:
        raise RangeError(f"miss must lie strictly between 0 and 1, got {miss}")
    miss = max(miss, 1e-9)
    ordered = sorted((part for part in parts if part.spread > 0), key=lambda part: part.spread, reverse=True)
    if not ordered:
        return 0.0
    rest = ordered[_MOST_EXACT:]
    if not rest:
        return _followed(ordered, miss)
    small = miss * _SHARE_OF_THE_REST
    return _followed(ordered[:_MOST_EXACT], miss - small) + _bounded(rest, small)


def _followed(parts: Sequence[LaplaceTerm], miss: float) -> float:
    """Invert the characteristic function of the sum, smoothed, on a period."""
    sd = math.sqrt(math.fsum(part.spread for part in parts))
    half = _PERIOD * sd
    frequencies = np.arange(1, _TERMS) * (math.pi / half)
    logs = np.zeros(_TERMS - 1)
    for weight, scale, count in parts:
        # E exp(iuZ) = 1/(1 + r (1 - cos u)), r = 1/(cosh(1/b) - 1)
        ratio = 0.5 / math.sinh(0.5 / scale) ** 2 if scale > 1e-3 else 0.0
        logs -= count * np.log1p(2 * ratio * np.sin(frequencies * (weight / 2)) ** 2)
    smooth = np.sinc(frequencies * (_SMOOTHING * sd / _UNIFORMS / math.pi)) ** _UNIFORMS
    # P(|Y| <= t) = t/L + sum over k of 2/(pi k) phi(pi k/L) sin(pi k t/L), at all t = j L/n by one transform
    series = np.zeros(_TERMS + 1, np.complex128)
    series[1:_TERMS] = -1j * np.exp(logs) * smooth / (math.pi * np.arange(1, _TERMS)) * (2 * _TERMS)
    inside = np.fft.irfft(series)[: _TERMS + 1] + np.arange(_TERMS + 1) / _TERMS
    enough: NDArray[np.intp] = np.flatnonzero(inside >= 1 - miss + _INEXACT)
    return float(enough[0]) * half / _TERMS + _SMOOTHING * sd


def _bounded(parts: Sequence[LaplaceTerm], miss: float) -> float:
    """Return Chernoff's bound: E exp(sZ) <= 1/(1 - s²b²) for discrete noise as for continuous noise."""
    largest = max(abs(weight) * scale for weight, scale, _ in parts)
    found = math.inf
    for share in np.linspace(0.02, 0.98, 49):
        s = share / largest
        log = math.fsum(-count * math.log1p(-((s * weight * scale) ** 2)) for weight, scale, count in parts)
        found = min(found, (log + math.log(2 / miss)) / s)
    return found


def laplace_sum_quantile(weights: Sequence[ArrayLike], *, confidence: float = 0.95) -> Floats:
    """Return q with P(|Σ wᵢZᵢ| > q) at most 1 - confidence, Zᵢ Laplace of scale 1; at most 2 % too large.

    Of two or three, for whole arrays of weights at once: the characteristic function Π 1/(1 + wᵢ²s²) is
    Σ Aᵢ/(1 + wᵢ²s²), Aᵢ = Π_{j≠i} wᵢ²/(wᵢ² - wⱼ²), for different weights, so that P(|Σ wᵢZᵢ| > t) = Σ Aᵢ exp(-t/wᵢ).

    Args:
        weights: Two or three, each a number or an array.
        confidence: Of the interval -q..q.

    >>> laplace_sum_quantile([1, 0, 0]).round(2), laplace_sum_quantile([1, 1, 1]).round(2)
    (np.float64(3.0), np.float64(4.97))
    """
    if not 0 < confidence < 1:
        raise RangeError(f"confidence must lie strictly between 0 and 1, got {confidence}; 0.95 is usual")
    given = [np.abs(np.asarray(each, np.float64)) for each in (*weights, 0.0)[:3]]
    last, middle, first = np.sort(np.stack(np.broadcast_arrays(*given)), axis=0)
    parts = _WEIGHT_STEPS / np.maximum(first, 1e-300)
    places = np.ceil(middle * parts).astype(np.intp), np.ceil(last * parts).astype(np.intp)
    return np.asarray(first * _table(confidence)[places])


@lru_cache(maxsize=16)
def _table(confidence: float) -> Floats:
    """Return the quantiles of weights 1, i/steps and j/steps."""
    miss = 1 - confidence
    second, third = np.meshgrid(*[np.linspace(0.0, 1.0, _WEIGHT_STEPS + 1)] * 2, indexing="ij")
    w3 = np.maximum(np.minimum(second, third), _APART)
    w2 = np.maximum(np.maximum(second, third), w3 + _APART)
    w = [np.maximum(1.0, w2 + _APART), w2, w3]
    squares = [each * each for each in w]
    shares = [
        squares[i] ** 2 / ((squares[i] - squares[j]) * (squares[i] - squares[k]))
        for i, j, k in ((0, 1, 2), (1, 0, 2), (2, 0, 1))
    ]
    low, high = np.zeros_like(second), np.full_like(second, 40.0 - 4 * math.log(miss))
    for _ in range(60):
        t = (low + high) / 2
        tail = sum((share * np.exp(-t / each) for share, each in zip(shares, w, strict=True)), np.zeros_like(t))
        low, high = np.where(tail > miss, t, low), np.where(tail > miss, high, t)
    return high
