"""Continuous draws as floats within one ulp of an exact variate, for mechanisms labelled numerics="idealized".

For the few mechanisms without an exact integer form. Each draw tells the source, and through it the release, that it is
only as good as floating point. None is ever added to data and released unrounded: round to a coarse public grid
(noise proof page, Theorem 5; `public_grid` and `to_grid`).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.noise.enclosures import EXPONENTIAL, GAUSS, LazyReal, Strips
from sidelight.noise.source import Source, check_size
from sidelight.noise.strips import CHUNK, draw

_MANTISSA = 2**53


def standard_normal(size: int, source: Source) -> NDArray[np.float64]:
    """Return `size` independent N(0, 1) variates as floats, each within one ulp of an exact one.

    Accuracy: full mantissa near 0, tails without end.

    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     standard_normal(3, source).shape, source.numerics
    ((3,), 'idealized')
    """
    return _variates(GAUSS, size, source, signed=True)


def standard_exponential(size: int, source: Source) -> NDArray[np.float64]:
    """Return `size` independent exponential variates of mean 1 as floats, each within one ulp of an exact one."""
    return _variates(EXPONENTIAL, size, source, signed=False)


def uniform(size: int, source: Source) -> NDArray[np.float64]:
    """Return `size` independent uniforms of (0, 1): the first 53 significant bits of an exact one.

    Accuracy: every float of (0, 1) can occur, with probability exactly its distance to the next (Downey 2007), unlike
    the multiples of 2**-53 of other generators.
    """
    check_size(size)
    source.note_idealized()
    out = np.empty(size)
    for start in range(0, size, CHUNK):
        words = source.words(out[start : start + CHUNK].size)
        # all ones below the 53 leading bits of the word: what a float cannot hold
        lost = words >> np.uint64(53)
        for shift in (1, 2, 4, 8):
            lost |= lost >> np.uint64(shift)
        part = (words & ~lost) * 2.0**-64
        for i in np.flatnonzero(words < _MANTISSA).tolist():
            part[i] = _leading_bits(LazyReal(int(words[i]), 64, source))
        out[start : start + CHUNK] = part
    return out


def gamma(shape: int, size: int, source: Source) -> NDArray[np.float64]:
    """Return `size` independent gamma variates of integer shape: sums of `shape` exponentials.

    The norm of a vector of `shape` coordinates with density ∝ exp(-|x|) has this law.
    """
    if shape < 1:
        raise RangeError(f"shape must be a positive integer, got {shape}")
    check_size(size)
    terms = standard_exponential(shape * size, source).reshape(size, shape)
    # one after the other: a pairwise sum would differ between platforms
    return np.add.accumulate(terms, axis=1)[:, -1]


def directions(size: int, dimension: int, source: Source) -> NDArray[np.float64]:
    """Return `size` independent uniform unit vectors: normal vectors divided by their norm, one to a row."""
    if dimension < 1:
        raise RangeError(f"dimension must be a positive integer, got {dimension}")
    check_size(size)
    vectors = standard_normal(size * dimension, source).reshape(size, dimension)
    norms = np.sqrt(np.add.accumulate(vectors * vectors, axis=1)[:, -1:])
    return vectors / norms


def _variates(law: Strips, size: int, source: Source, *, signed: bool) -> NDArray[np.float64]:
    """Return (J + U) / 2**digits: 53 bits of U suffice for J >= 1, and J = 0 needs 53 bits after the leading zeros."""
    check_size(size)
    source.note_idealized()
    out = np.empty(size)
    for start in range(0, size, CHUNK):
        part = out[start : start + CHUNK]
        draws = draw(law, part.size, source)
        first_strip = draws.strip == 0
        fixed = draws.strip.astype(np.uint64) << np.uint64(53) | draws.words >> np.uint64(11)
        values = fixed.astype(np.float64) * 2.0 ** -(53 + law.digits)
        small = np.flatnonzero(first_strip)
        values[small] = draws.words[small].astype(np.float64) * 2.0 ** -(64 + law.digits)
        tiny = small[draws.words[small] < _MANTISSA].tolist()
        for i in sorted({*tiny, *draws.deep}):
            j, u = draws.deep.get(i) or (0, LazyReal(int(draws.words[i]), 64, source))
            values[i] = _nearest(j, u, law.digits)
        part[:] = np.where(draws.negative, -values, values) if signed else values
    return out


def _nearest(j: int, u: LazyReal, digits: int) -> float:
    """Return (j + u) / 2**digits within one ulp: the prefix needs 53 bits, and the division rounds once."""
    while (j << u.bits) + u.n < _MANTISSA:
        u.extend()
    return float(Fraction((j << u.bits) + u.n, 1 << (u.bits + digits)))


def _leading_bits(u: LazyReal) -> float:
    """Return the first 53 significant bits of u, cut off, never rounded up."""
    while u.n < _MANTISSA:
        u.extend()
    lost = u.n.bit_length() - 53
    return math.ldexp(u.n >> lost, lost - u.bits)


# The public grid on which idealized outputs are released, and what rounding errors can cost there.
#
# Floats that depend on data leak through their last bits. Rounded to a coarse public grid, the computed and the ideal
# output agree except with a small probability η that can be proved and charged (noise proof page, Theorem 5).


#: The grid is 2**-10 of the smallest noise standard deviation: variance grows by a factor 1 + 2**-20/12. A finer grid
#: than 2**-16 of the noise would protect too little.
_FINENESS = 10


def public_grid(smallest_deviation: float) -> int:
    """Return the exponent j of the grid width 2**j for noise whose smallest standard deviation is given.

    >>> public_grid(3.0)
    -9
    """
    if not (smallest_deviation > 0 and math.isfinite(smallest_deviation)):
        raise RangeError(f"the noise's standard deviation must be positive and finite, got {smallest_deviation}")
    return math.frexp(smallest_deviation)[1] - 1 - _FINENESS


def to_grid(values: NDArray[np.float64], exponent: int, *, limit: float) -> NDArray[np.int64]:
    """Return the grid integers floor(value / 2**exponent + 1/2), after clamping to the public range ±limit.

    The clamp bounds the rounding error, which grows with the value. The sum with 1/2 rounds, too: it belongs to the
    error that Theorem 5 bounds.
    """
    if not (limit > 0 and math.frexp(limit)[1] - exponent <= 52):
        raise RangeError(f"limit must be positive and at most 2**51 grid steps, got {limit} at width 2**{exponent}")
    clamped = np.nan_to_num(np.clip(values, -limit, limit), nan=0.0)
    return np.floor(np.ldexp(clamped, -exponent) + 0.5).astype(np.int64)
