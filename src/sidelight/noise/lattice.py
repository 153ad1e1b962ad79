"""Integer noise: rounded Gaussian, discrete Laplace, and the discrete Gaussian for cross-checks.

Hand-made: exact laws with infinite tails at 5-7 times the cost of NumPy's normal; the oracle in tests is OpenDP.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.noise.enclosures import EXPONENTIAL, GAUSS
from sidelight.noise.integers_and_coins import check_size
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


# Noise that turns fine discrete Laplace noise into coarse noise: subtracting it later refines a release.
#
# Lap(e_2) + Z ~ Lap(e_1) with Z independent of the first term (quantiles proof page, Theorem 7). A count released with
# both costs e_1; the same count with the first alone, afterwards, costs e_2 in all and not e_1 + e_2, because the first
# release is then the second one with noise that knows nothing of the data. The ratio e_2 = 3 e_1 makes Z exact in
# integers: its one coin is a residue of a geometric number.


#: How many times the epsilon of the first release the refined one has. Exactly: any other ratio needs another coin.
REFINEMENT_RATIO = 3


def geometric(size: int, scale: Rational, source: Source) -> NDArray[Any]:
    """Return `size` independent integers with P(k) = (1-a) · a^k for k >= 0, a = exp(-1/scale).

    Guarantee: exact: the floor of scale · X for an exponential variate X (noise proof page, Theorem 3).

    Returns:
        int64; Python integers (dtype object) if the scale is beyond about 2**49.

    >>> from fractions import Fraction
    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     bool((geometric(100, Fraction(3), source) >= 0).all())
    True
    """
    check_size(size)
    prepared = [fixed_point(exact_scale(scale), EXPONENTIAL.digits)]
    out = np.zeros(size, np.int64 if prepared[0].fast else object)
    for start in range(0, size, CHUNK):
        part = out[start : start + CHUNK]
        draws = draw(EXPONENTIAL, part.size, source)
        floors = scaled_floor(EXPONENTIAL, draws, prepared, None, source, halves=0)
        # beyond int64 with probability below 2^-5900, and only where the scale says int64
        part[:] = floors if part.dtype == object else np.minimum(floors, 2**62)
    return out


def refinement_noise(size: int, scale: Rational, source: Source) -> NDArray[Any]:
    """Return `size` integers Z such that discrete Laplace noise of a third of this scale, plus Z, has this scale.

    Guarantee: exact (quantiles proof page, Theorem 7). Z = G - G' with G = 0 if a geometric number of this scale is a
    multiple of three, which has probability 1/(1 + a + a²) = (1-a)/(1-a³), and else 1 + another geometric number.

    >>> from fractions import Fraction
    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     refinement_noise(5, Fraction(30), source).shape
    (5,)
    """
    return np.asarray(_one_side(size, scale, source) - _one_side(size, scale, source))


def _one_side(size: int, scale: Rational, source: Source) -> NDArray[Any]:
    nothing = geometric(size, scale, source) % REFINEMENT_RATIO == 0
    more = 1 + geometric(size, scale, source)
    return np.where(nothing, 0 * more, more)
