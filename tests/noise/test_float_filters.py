"""Decisions at their boundaries: cases that chance would not show in a lifetime are placed there by script."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import cast

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Played

from sidelight.noise import Source
from sidelight.noise.enclosures import (
    EXPONENTIAL,
    GAUSS,
    LazyReal,
    Strips,
    exact_exp,
    exact_floor,
    exact_keep,
    exact_strip,
)
from sidelight.noise.strips import run_trials, strip_tables

LAWS = pytest.mark.parametrize("law", [GAUSS, EXPONENTIAL], ids=lambda law: law.name)


@LAWS
@pytest.mark.parametrize("strip", [0, 37, 120])
def test_keep_filter(law: Strips, strip: int) -> None:
    """V within 2**-42 of the keep probability goes to the slow method; 2**-38 away the float decides; both rightly."""
    cell = int(np.flatnonzero(strip_tables(law.name).guide == strip)[0])
    u = 2**63 + 12345
    with mpmath.workprec(300):
        p, q = law.exponent(strip, u, 64)
        bound = int(mpmath.floor(mpmath.ldexp(mpmath.exp(-mpmath.mpf(p) / q), 51)))
    for offset, doubtful in ((-(2**9), True), (-1, True), (1, True), (2**9, True), (-(2**13), False), (2**13, False)):
        v = bound + offset
        first = cell << 15 | v >> 36
        second = v & (2**36 - 1)  # R goes on with zeros inside a pure cell
        source = Source(Played(first.to_bytes(4, "little"), u.to_bytes(8, "little"), second.to_bytes(8, "little")))
        _, kept = run_trials(law, 1, source)
        assert bool(kept[0]) == (offset < 0)
        assert source.fallbacks["strip"] == int(doubtful)


@LAWS
def test_strip_filter(law: Strips) -> None:
    """The slow method for R on a threshold, the table one unit away from it."""
    thresholds = strip_tables(law.name).thresholds
    for j in (0, 5, 200):
        for offset, doubtful in ((-1, False), (0, True), (1, False)):
            r = int(thresholds[j]) + offset
            first, second = (r >> 28) << 15, (r & (2**28 - 1)) << 36
            script = Played(first.to_bytes(4, "little"), bytes(8), second.to_bytes(8, "little"), bytes(8))
            source = Source(script)
            trials, kept = run_trials(law, 1, source)
            assert kept[0]
            assert source.fallbacks["strip"] == int(doubtful)
            strip = trials.deep[0][0] if doubtful else int(trials.strip[0])
            # at R = r exactly (zeros follow) the threshold itself still belongs to strip j
            assert strip == (j + 1 if offset > 0 else j)


class Bits:
    """A source that plays one long bit string."""

    def __init__(self, value: int, length: int) -> None:
        self._value, self._left = value, length

    def bits(self, k: int) -> int:
        self._left -= k
        assert self._left >= 0
        return self._value >> self._left & ((1 << k) - 1)


def starved(value: int, *, step: int) -> LazyReal:
    return LazyReal(0, 0, cast(Source, Bits(value << 600, 3000)), step=step)


def known(value: int) -> LazyReal:
    """The same real, all 2400 bits of it revealed."""
    return LazyReal(value, 2400, cast(Source, Bits(0, 3000)))


#: Hypothesis draws large integers small; a seed spreads them over [0, 1).
real = st.integers(0, 2**32).map(lambda seed: random.Random(seed).getrandbits(2400))


@given(
    st.integers(0, 900), real, st.fractions(min_value=Fraction(1, 1000), max_value=10**6), st.sampled_from([1, 3, 64])
)
def test_floor_from_nothing(j: int, value: int, scale: Fraction, step: int) -> None:
    truth = scale * Fraction((j << 2400) + value, 2**2406) + Fraction(1, 2)
    assert exact_floor(j, starved(value, step=step), 6, scale, Fraction(1, 2)) == truth.__floor__()


@given(real, st.sampled_from([GAUSS, EXPONENTIAL]), st.sampled_from([5, 64]))
def test_strip_from_nothing(value: int, law: Strips, step: int) -> None:
    strip = exact_strip(law, starved(value, step=step))
    lo, hi = law.cdf(strip - 1, 200)[0], law.cdf(strip, 200)[1]
    assert lo <= value >> 2200 <= hi
    assert value >> 2200 >= law.cdf(strip - 1, 200)[1] - 4
    assert value >> 2200 <= law.cdf(strip, 200)[0] + 4


@given(st.integers(0, 600), real, real, st.sampled_from([GAUSS, EXPONENTIAL]), st.sampled_from([3, 64]))
def test_keep_from_nothing(j: int, u: int, v: int, law: Strips, step: int) -> None:
    with mpmath.workprec(400):
        p, q = law.exponent(j, u >> 2000, 400)
        truth = mpmath.ldexp(mpmath.mpf(v), -2400) < mpmath.exp(-mpmath.mpf(p) / q)
    assert exact_keep(law, j, starved(u, step=step), starved(v, step=step)) == truth
    assert exact_keep(law, j, starved(u, step=step), known(v)) == truth


@given(
    real,
    st.fractions(min_value=0, max_value=60),
    st.integers(1, 2**20),
    st.integers(-30, 30),
    st.integers(1, 2**40),
)
def test_coin_from_nothing(v: int, z: Fraction, factor: int, shift: int, divisor: int) -> None:
    with mpmath.workprec(400):
        bound = factor * mpmath.ldexp(mpmath.exp(-mpmath.mpf(z.numerator) / z.denominator), shift) / divisor
        truth = mpmath.ldexp(mpmath.mpf(v), -2400) < bound
    drawn = exact_exp(starved(v, step=3), z.numerator, z.denominator, factor=factor, shift=shift, divisor=divisor)
    assert drawn == truth
