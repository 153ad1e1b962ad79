"""Whether tables, trials and floors of this machine agree with exact arithmetic, on bits that are drawn twice."""

from __future__ import annotations

from fractions import Fraction
from typing import NoReturn

import numpy as np

from sidelight.errors import NoiseError
from sidelight.noise.enclosures import EXPONENTIAL, GAUSS, LazyReal, Strips, exact_floor, exact_keep, exact_strip
from sidelight.noise.lattice import fixed_point, scaled_floor
from sidelight.noise.source import Entropy, Source
from sidelight.noise.strips import (
    KEEP_BITS,
    KEEP_BITS_2,
    STRIP_BITS,
    STRIP_BITS_2,
    Draws,
    check_arithmetic,
    run_trials,
    step_table,
    strip_tables,
)

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
