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
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import NoiseError, RangeError
from sidelight.noise.enclosures import EXPONENTIAL, GAUSS, LazyReal, Strips, exact_floor, exact_keep, exact_strip
from sidelight.noise.source import Entropy, Source
from sidelight.noise.strips import (
    KEEP_BITS,
    KEEP_BITS_2,
    STRIP_BITS,
    STRIP_BITS_2,
    Draws,
    check_arithmetic,
    high_product,
    run_trials,
    step_table,
    strip_tables,
)

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
    values = np.array([int(getattr(scale, name)) for scale in scales], np.uint64)
    if which is None:
        only: np.uint64 = values[0]
        return only
    picked: NDArray[np.uint64] = values[which]
    return picked


_SCALES = (Fraction(3), Fraction(10, 7), Fraction(1, 5), Fraction(2**30), Fraction(2**45 + 1))


def full_check(entropy: Entropy, *, trials: int = 2000) -> None:
    """Raise NoiseError unless tables, trials and floors agree with exact arithmetic on this machine.

    >>> from sidelight.noise import OSEntropy
    >>> full_check(OSEntropy(), trials=50)
    """
    check_arithmetic()
    step_table.__wrapped__()
    for law in (GAUSS, EXPONENTIAL):
        strip_tables.__wrapped__(law.name)
        _replay(law, entropy, trials)


class _Recorder:
    """An entropy that remembers its answers for as long as the check runs; never part of a release."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self.branding = entropy.branding
        self.answers: list[bytes] = []

    def read(self, nbytes: int) -> bytes:
        self.answers.append(self._entropy.read(nbytes))
        return self.answers[-1]


class _Dry:
    """An entropy without bytes: the revealed bits must decide."""

    branding = "none"

    def read(self, nbytes: int) -> NoReturn:
        raise NoiseError(f"the noise check needed {nbytes} more bytes where the fast method had decided without them")


def _replay(law: Strips, entropy: Entropy, m: int) -> None:
    recorder = _Recorder(entropy)
    drawn, kept = run_trials(law, m, Source(recorder))
    first = np.frombuffer(recorder.answers[0], "<u4").tolist()
    more = iter(np.frombuffer(recorder.answers[2], "<u8").tolist() if len(recorder.answers) > 2 else ())
    cells = strip_tables(law.name).cells
    dry = Source(_Dry())
    for t in range(m):
        r, v = first[t] >> KEEP_BITS & ((1 << STRIP_BITS) - 1), first[t] & ((1 << KEEP_BITS) - 1)
        strip_bits, keep_bits = STRIP_BITS, KEEP_BITS
        if v >= int(cells[r]) & 0xFFFF:  # not settled by the first stage
            strip_bits, keep_bits = STRIP_BITS_2, KEEP_BITS_2
            word, low = next(more), KEEP_BITS_2 - KEEP_BITS
            r, v = r << (STRIP_BITS_2 - STRIP_BITS) | word >> low, v << low | word & ((1 << low) - 1)
        if t in drawn.deep:
            continue  # the slow method has decided this one already, with bits of its own
        strip = exact_strip(law, LazyReal(r, strip_bits, dry))
        u = LazyReal(int(drawn.words[t]), 64, dry)
        if strip != drawn.strip[t] or exact_keep(law, strip, u, LazyReal(v, keep_bits, dry)) != kept[t]:
            raise NoiseError(f"the fast and the exact method disagree on a {law.name} trial; draw no noise here")
    settled = Draws(drawn.strip, drawn.words, drawn.negative, {})
    for scale in _SCALES:
        _replay_floors(law, settled, scale, entropy)


def _replay_floors(law: Strips, draws: Draws, scale: Fraction, entropy: Entropy) -> None:
    halves = 1 if law is GAUSS else 0
    fast = scaled_floor(law, draws, [fixed_point(scale, law.digits)], None, Source(entropy), halves=halves)
    source = Source(entropy)
    for strip, word, floor in zip(draws.strip.tolist(), draws.words.tolist(), fast.tolist(), strict=True):
        if exact_floor(strip, LazyReal(word, 64, source), law.digits, scale, Fraction(halves, 2)) != floor:
            raise NoiseError(f"the fast and the exact floor at scale {scale} disagree; draw no noise here")
