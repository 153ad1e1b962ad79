"""Integer noise: rounded Gaussian, discrete Laplace, and the discrete Gaussian for cross-checks.

Hand-made: exact laws with infinite tails at 5-7 times the cost of NumPy's normal; the oracle in tests is OpenDP.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.noise.enclosures import EXPONENTIAL, GAUSS
from sidelight.noise.integers_and_coins import check_size, exp_coin
from sidelight.noise.scales import exact_scale, fixed_point, scaled_floor, wrapped
from sidelight.noise.source import Source
from sidelight.noise.strips import CHUNK, draw


def rounded_gaussian(
    size: int, scale: Rational | Sequence[Rational], source: Source, *, which: ArrayLike | None = None
) -> NDArray[Any]:
    """Return `size` independent integers round(scale · N(0, 1)).

    Guarantee: P(K = k) = Φ((k+½)/b) - Φ((k-½)/b) exactly. For an integer x, x + K = round(x + b·N) almost surely: a
    post-processing of the Gaussian mechanism with standard deviation b, so its GDP, zCDP and approximate guarantees
    hold for the released bits (noise proof page, section 6).

    Accuracy: variance about b² + 1/12 from b = ½ on.

    Args:
        size: How many.
        scale: The standard deviation b in units of the integers, an exact rational (`scale_up` makes one); or several,
            with `which`.
        source: The release's source.
        which: For each draw, the index of its scale.

    Returns:
        int64; Python integers (dtype object, some 30 µs a draw) if a scale is beyond about 2**50.

    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     rounded_gaussian(1000, Fraction(7, 2), source).dtype
    dtype('int64')
    """
    check_size(size)
    scales, index = _scales(size, scale, which)
    source.sampling("rounded_gaussian", scales)
    prepared = [fixed_point(b, GAUSS.digits) for b in scales]
    out = np.zeros(size, np.int64 if all(b.fast for b in prepared) else object)
    for start in range(0, size, CHUNK):
        part = out[start : start + CHUNK]
        draws = draw(GAUSS, part.size, source)
        chosen = None if index is None else index[start : start + CHUNK]
        floors = scaled_floor(GAUSS, draws, prepared, chosen, source, halves=1)
        _assign(part, np.where(draws.negative, -floors, floors))
    return out


def discrete_laplace(size: int, scale: Rational, source: Source) -> NDArray[Any]:
    """Return `size` independent integers with P(z) = (1-a)/(1+a) · a^|z|, a = exp(-1/scale).

    Guarantee: exact. Added to an integer statistic of L1 sensitivity Δ: pure ε-DP with ε = Δ/scale.

    Accuracy: mean absolute error 2a/(1-a²), near the scale when it is large; variance 2a/(1-a)².

    Args:
        size: How many.
        scale: Any positive exact rational.
        source: The release's source.

    Returns:
        int64; Python integers (dtype object) if the scale is beyond about 2**49.

    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     discrete_laplace(5, Fraction(10, 7), source).shape
    (5,)
    """
    check_size(size)
    b = exact_scale(scale)
    source.sampling("discrete_laplace", [b])
    prepared = [fixed_point(b, EXPONENTIAL.digits)]
    out = np.zeros(size, np.int64 if prepared[0].fast else object)
    for start in range(0, size, CHUNK):
        part = out[start : start + CHUNK]
        have = 0
        while have < part.size:
            need = part.size - have
            # in rationals: a float overflows at large scales, and its last bit would enter the seeded contract
            surplus = min(need, need * b.denominator // (2 * b.numerator))
            draws = draw(EXPONENTIAL, need + surplus + 8, source)
            floors = scaled_floor(EXPONENTIAL, draws, prepared, None, source, halves=0)
            values = np.where(draws.negative, -floors, floors)
            # both signs give zero: one of the two is discarded, or zero would be twice as likely
            values = values[~(draws.negative & (floors == 0))][:need]
            _assign(part[have : have + values.size], values)
            have += values.size
    return out


def discrete_gaussian(size: int, variance: Rational, source: Source) -> NDArray[np.int64]:
    """Return `size` independent integers with P(k) ∝ exp(-k²/(2·variance)). For cross-checks with other libraries.

    Guarantee: exact (Canonne, Kamath and Steinke 2020). Releases use `rounded_gaussian`: the same ρ, GDP besides, and
    a third of the cost.
    """
    check_size(size)
    sigma2 = exact_scale(variance)
    if not Fraction(1, 2**100) <= sigma2 <= 2**90:
        raise RangeError(f"variance must lie in 2**-100..2**90, got about {float(sigma2):.3g}; use rounded_gaussian")
    t = math.isqrt(sigma2.__floor__()) + 1
    centre = sigma2 / t
    out = np.empty(size, np.int64)
    have = 0
    while have < size:
        need = min(size - have, CHUNK)
        proposals = discrete_laplace(need + need // 2 + 16, Fraction(t), source)
        magnitudes = np.abs(proposals)

        def exact(i: int, magnitudes: NDArray[np.int64] = magnitudes) -> Fraction:
            return (int(magnitudes[i]) - centre) ** 2 / (2 * sigma2)

        # within 2^-50 (1 + z) of the exact exponent, four times better than exp_coin asks for
        exponents = (magnitudes - float(centre)) ** 2 / float(2 * sigma2)
        kept = proposals[exp_coin(exponents, exact, source)][:need]
        out[have : have + kept.size] = kept
        have += kept.size
    return out


def _assign(part: NDArray[Any], values: NDArray[Any]) -> None:
    part[:] = values if part.dtype == object else wrapped(values)


def _scales(
    size: int, scale: Rational | Sequence[Rational], which: ArrayLike | None
) -> tuple[list[Fraction], NDArray[np.intp] | None]:
    if which is None:
        if isinstance(scale, Sequence):
            raise RangeError(f"{len(scale)} scales were given; say with which= which draw has which")
        return [exact_scale(scale)], None
    if not isinstance(scale, Sequence) or not scale:
        raise RangeError("which= picks from a list of scales, but scale is not a list of at least one")
    index = np.asarray(which, np.intp)
    if index.shape != (size,) or (size and not 0 <= index.min() <= index.max() < len(scale)):
        raise RangeError(f"which= must hold {size} indices of 0..{len(scale) - 1}, got an array of shape {index.shape}")
    return [exact_scale(b) for b in scale], index
