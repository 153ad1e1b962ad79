"""Noise scales as exact rationals, and floor(scale · X + offset) for strip variates, exact at every scale.

A vector path in uint64 gives the answer wherever 64 bits of the variate decide it (noise proof page, Theorem 3); the
rest goes to exact rational arithmetic on the same bits.
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
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.noise.enclosures import LazyReal, Strips, exact_floor
from sidelight.noise.source import Source
from sidelight.noise.strips import Draws
from sidelight.noise.tables import high_product

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
class FixedPoint:
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
def fixed_point(scale: Fraction, digits: int) -> FixedPoint:
    """Prepare a scale, which is public, for variates with the given number of strip digits."""
    e = min(50, 52 - _lg(scale))
    shifted = scale * Fraction(2) ** e
    factor = shifted.__floor__()
    return FixedPoint(scale, factor, e + digits, factor != shifted)


def scaled_floor(
    law: Strips,
    draws: Draws,
    scales: Sequence[FixedPoint],
    which: NDArray[np.intp] | None,
    source: Source,
    *,
    halves: int,
) -> NDArray[Any]:
    """Return floor(scale · X + halves/2) for each draw, as int64, or as Python integers where int64 cannot hold them.

    `which` gives each draw's place in `scales`; without it all draws use the first.
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


def _each(scales: Sequence[FixedPoint], which: NDArray[np.intp] | None, name: str) -> NDArray[np.uint64] | np.uint64:
    """Return an attribute of each draw's scale: one word, or an array when the draws differ."""
    values = np.array([int(getattr(scale, name)) for scale in scales], np.uint64)
    if which is None:
        only: np.uint64 = values[0]
        return only
    picked: NDArray[np.uint64] = values[which]
    return picked
