"""Integer noise: rounded Gaussian, discrete Laplace, and the discrete Gaussian for cross-checks.

Hand-made: exact laws with infinite tails at 5-7 times the cost of NumPy's normal; the oracle in tests is OpenDP.

Noise scales are exact rationals, and floor(scale · X + offset) of strip variates is exact at every scale: a vector path
in uint64 gives the answer wherever 64 bits of the variate decide it (noise proof page, Theorem 3); the rest goes to
exact rational arithmetic on the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.noise.enclosures import EXPONENTIAL, GAUSS, LazyReal, Strips, exact_floor
from sidelight.noise.source import Source, check_size
from sidelight.noise.strips import CHUNK, Draws, draw, high_product

#: Below this many fractional bits too many draws are doubtful: every draw of such a scale takes the scalar path.
_FEWEST_FRACTION_BITS = 8


def scale_up(x: float | int | Fraction | Decimal) -> Fraction:
    """Return the least dyadic number with a 53-bit numerator that is at least x.

    A scale that came out of a formula with a square root is rounded up once, publicly, and the accountant uses what was
    returned: more noise is never less private. Dyadic scales are also the fastest.

    >>> scale_up(Fraction(1, 3)) - Fraction(1, 3) <= Fraction(1, 2**54)
    True
    >>> scale_up(2.5)
    Fraction(5, 2)
    """
    try:
        exact = Fraction(x)
    except (TypeError, ValueError, OverflowError) as error:
        raise RangeError(f"a scale must be a finite number, got {x!r}") from error
    if exact <= 0:
        raise RangeError(f"a scale must be positive, got {x}")
    exponent = _lg(exact) - 53
    while exact / Fraction(2) ** exponent > 2**53:
        exponent += 1
    unit = Fraction(2) ** exponent
    return unit * (exact / unit).__ceil__()


def exact_scale(scale: object) -> Fraction:
    """Return a scale as a Fraction; refuse floats, whose decimal meaning would be guessed, and what is not positive."""
    if isinstance(scale, bool) or not isinstance(scale, Rational):
        raise RangeError(
            f"a noise scale must be an exact rational, got {type(scale).__name__}; use Fraction(...) or scale_up(x)"
        )
    if scale <= 0:
        raise RangeError(f"a noise scale must be positive, got {scale}")
    return scale if type(scale) is Fraction else Fraction(scale)


def _lg(x: Fraction) -> int:
    """Return bit length of the numerator minus that of the denominator: 2^(lg-1) < x < 2^(lg+1)."""
    return x.numerator.bit_length() - x.denominator.bit_length()


@dataclass(frozen=True)
class FixedPointScale:
    """A scale b as floor(b · 2^e) < 2^53, the number t = e + digits of fractional bits, and whether bits were lost."""

    scale: Fraction
    factor: int
    fraction_bits: int
    rough: bool

    @property
    def fast(self) -> bool:
        """Return whether the vector path serves this scale, which then fits int64."""
        return self.fraction_bits >= _FEWEST_FRACTION_BITS


@lru_cache(maxsize=256)
def fixed_point(scale: Fraction, digits: int) -> FixedPointScale:
    """Prepare a scale, which is public, for variates with the given number of strip digits."""
    e = min(50, 52 - _lg(scale))
    shifted = scale * Fraction(2) ** e
    factor = shifted.__floor__()
    return FixedPointScale(scale, factor, e + digits, factor != shifted)


def scaled_floor(
    law: Strips,
    draws: Draws,
    scales: Sequence[FixedPointScale],
    which: NDArray[np.intp] | None,
    source: Source,
    *,
    halves: int,
) -> NDArray[Any]:
    """Return floor(scale · X + halves/2) for each draw, as int64, or as Python integers where int64 cannot hold them.

    `which` is the index of each draw's scale; without it all draws use the first.
    """
    offset = Fraction(halves, 2)

    def exactly(i: int) -> int:
        source.fallbacks["floor"] += 1
        j, u = draws.deep.get(i) or (int(draws.strip[i]), LazyReal(int(draws.words[i]), 64, source))
        return exact_floor(j, u, law.digits, scales[0 if which is None else int(which[i])].scale, offset)

    size = draws.words.size
    if not all(scale.fast for scale in scales):
        slow = np.empty(size, object)
        slow[:] = [exactly(i) for i in range(size)]
        return slow

    factor = _each(scales, which, "factor")
    fraction_bits = _each(scales, which, "fraction_bits")
    strip = draws.strip.astype(np.uint64)
    y = high_product(draws.words, factor)
    y += strip * factor
    if halves:
        y += np.uint64(halves) << (fraction_bits - np.uint64(1))
    answer = y >> fraction_bits
    # Theorem 3: the real lies in [y, y + 2 + rough (J + 1)), so its floor is decided if both ends have the same
    if any(scale.rough for scale in scales):
        strip += np.uint64(1)
        strip *= _each(scales, which, "rough")
        y += strip
    y += np.uint64(1)
    y >>= fraction_bits
    doubtful = np.arange(size) if source.force_scalar else (y != answer).nonzero()[0]
    floors: NDArray[Any] = answer.view(np.int64)
    for i in sorted({*doubtful.tolist(), *draws.deep}):
        floor = exactly(i)
        if floor >= 2**63 and floors.dtype != object:  # needs X >= 4096: probability below 2^-5900
            floors = floors.astype(object)
        floors[i] = floor
    return floors


def wrapped(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return integers modulo 2^64 as int64: a function of the exact integer, so privacy is untouched."""
    if values.dtype != object:
        return values
    return np.array([(int(k) + 2**63) % 2**64 - 2**63 for k in values], np.int64)


def _each(
    scales: Sequence[FixedPointScale], which: NDArray[np.intp] | None, name: str
) -> NDArray[np.uint64] | np.uint64:
    """Return an attribute of each draw's scale: one word, or an array when the draws differ."""
    if which is None:
        return np.uint64(getattr(scales[0], name))
    values = np.array([int(getattr(scale, name)) for scale in scales], np.uint64)
    picked: NDArray[np.uint64] = values[which]
    return picked


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
