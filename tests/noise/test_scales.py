"""Scales: rounding up, preparation, and the floors of Theorem 3 against exact rationals on the same bits."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_samplers import discrete_gaussian
from scripted import Dry

from sidelight.errors import RangeError
from sidelight.noise import Source, discrete_laplace, rounded_gaussian, scale_up
from sidelight.noise.enclosures import EXPONENTIAL, GAUSS, LazyReal, Strips, exact_floor
from sidelight.noise.lattice import fixed_point, scaled_floor
from sidelight.noise.strips import Draws, draw
from sidelight.testing import SeededEntropy

positive = st.fractions(min_value=Fraction(1, 10**12), max_value=10**14)


@given(positive)
def test_scale_up_is_the_least(x: Fraction) -> None:
    up = scale_up(x)
    assert up >= x
    assert up.denominator & (up.denominator - 1) == 0
    assert up.numerator <= 2**53
    unit = Fraction(1, 2**200)
    while up / unit > 2**53:
        unit *= 2
    assert up - unit < x  # the next smaller number with a 53-bit numerator is too small


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_scale_up_keeps_floats(x: float) -> None:
    assert scale_up(x) == Fraction(x)
    assert scale_up(Decimal("0.5")) == Fraction(1, 2)


def test_scale_up_at_powers_of_two() -> None:
    assert scale_up(Fraction(2**60 + 1)) == 2**60 + 2**8
    assert scale_up(Fraction(2**60 - 1)) == 2**60
    assert scale_up(Fraction(1, 3)) == Fraction(-(-(2**54) // 3), 2**54)


@pytest.mark.parametrize("bad", [0, -1.5, float("nan"), float("inf"), "x", None])
def test_scale_up_refuses(bad: object) -> None:
    with pytest.raises(RangeError):
        scale_up(bad)  # type: ignore[arg-type]


def test_samplers_refuse_what_is_not_an_exact_positive_scale() -> None:
    source = Source(SeededEntropy(0))
    for bad in (3.0, True, 0, Fraction(-1), "3"):
        for sampler in (rounded_gaussian, discrete_laplace, discrete_gaussian):
            with pytest.raises(RangeError, match=r"scale|variance"):
                sampler(1, bad, source)  # type: ignore[operator]
    for scale, which in (([Fraction(1)], None), (Fraction(1), [0]), ([Fraction(1)], [1]), ([Fraction(1)], [0, 0])):
        with pytest.raises(RangeError):
            rounded_gaussian(1, scale, source, which=which)  # type: ignore[arg-type]
    with pytest.raises(RangeError):
        rounded_gaussian(-1, Fraction(1), source)
    assert rounded_gaussian(3, 2, source).shape == (3,)  # an int is an exact rational  # type: ignore[arg-type]


@given(st.fractions(min_value=Fraction(1, 2**70), max_value=2**70), st.sampled_from([GAUSS, EXPONENTIAL]))
def test_preparation(scale: Fraction, law: Strips) -> None:
    prepared = fixed_point(scale, law.digits)
    e = prepared.fraction_bits - law.digits
    assert prepared.factor < 2**53
    assert prepared.factor <= scale * Fraction(2) ** e < prepared.factor + 1
    assert prepared.rough == (scale * Fraction(2) ** e != prepared.factor)
    lg = scale.numerator.bit_length() - scale.denominator.bit_length()
    assert prepared.fraction_bits == (52 - lg if lg >= 2 else 50) + law.digits
    assert prepared.fast == (prepared.fraction_bits >= 8)


@given(
    positive,
    st.integers(0, 975),
    st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 50), st.integers(2**64 - 50, 2**64 - 1)),
    st.sampled_from([(GAUSS, 1), (EXPONENTIAL, 0)]),
)
def test_floors_are_exact(scale: Fraction, strip: int, word: int, law_halves: tuple[Strips, int]) -> None:
    law, halves = law_halves
    draws = Draws(np.array([strip], np.uint32), np.array([word], np.uint64), np.array([False]), {})
    floor = scaled_floor(law, draws, [fixed_point(scale, law.digits)], None, Source(SeededEntropy(1)), halves=halves)
    u = LazyReal(word, 64, Source(SeededEntropy(1)))
    assert int(floor[0]) == exact_floor(strip, u, law.digits, scale, Fraction(halves, 2))


@pytest.mark.parametrize("scale", ["3", "10/7", "1/5", str(2**30), str(2**45 + 1), f"{2**49}/3", f"{7 * 2**45}/11"])
def test_replayed_floors(scale: str) -> None:
    """The fast answer is what the slow method gives on the same 64 bits; rough scales are where it could go wrong."""
    b, n = Fraction(scale), 3000
    for law, halves in ((GAUSS, 1), (EXPONENTIAL, 0)):
        draws = draw(law, n, Source(SeededEntropy(12)))
        fast = scaled_floor(law, draws, [fixed_point(b, law.digits)], None, Source(Dry()), halves=halves)
        dry = Source(Dry())
        slow = [
            exact_floor(int(j), LazyReal(int(w), 64, dry), law.digits, b, Fraction(halves, 2))
            for j, w in zip(draws.strip, draws.words, strict=True)
        ]
        assert fast.tolist() == slow


def test_several_scales_are_the_single_scales() -> None:
    """On the same bits, each draw gets what its own scale alone would have given it."""
    n = 5000
    scales = [Fraction(3), Fraction(7, 10), Fraction(2**40), Fraction(1, 2**900)]
    which = np.arange(n) % 4
    mixed = rounded_gaussian(n, scales, Source(SeededEntropy(8)), which=which)
    for k, scale in enumerate(scales):
        alone = rounded_gaussian(n, scale, Source(SeededEntropy(8)))
        assert mixed[which == k].tolist() == alone[which == k].tolist()
    assert rounded_gaussian(0, scales, Source(SeededEntropy(8)), which=[]).dtype == np.int64


@pytest.mark.parametrize(("exponent", "rate"), [(45, 2.0**-13), (49, 2.0**-9)])
def test_fallback_rate(exponent: int, rate: float) -> None:
    source = Source(SeededEntropy(2))
    n = 100_000
    rounded_gaussian(n, Fraction(2**exponent), source)
    assert n * rate / 4 < source.fallbacks["floor"] < 4 * n * rate
    assert source.fallbacks["strip"] == 0


def test_small_scales_are_dyadic_at_no_cost() -> None:
    source = Source(SeededEntropy(2))
    rounded_gaussian(100_000, Fraction(2**30), source)
    discrete_laplace(100_000, Fraction(10, 7), source)
    assert sum(source.fallbacks.values()) == 0


def test_range_of_the_fast_path() -> None:
    """Fractional bits as stated, int64 as long as there are eight of them, Python integers beyond."""
    assert fixed_point(Fraction(2**10), GAUSS.digits).fraction_bits == 58 - 10
    assert fixed_point(Fraction(2**10), EXPONENTIAL.digits).fraction_bits == 57 - 10
    assert fixed_point(Fraction(1), GAUSS.digits).fraction_bits == 56
    assert fixed_point(Fraction(1), EXPONENTIAL.digits).fraction_bits == 55
    for sampler, last in ((rounded_gaussian, 50), (discrete_laplace, 49)):
        assert sampler(3, Fraction(2**last), Source(SeededEntropy(0))).dtype == np.int64
        huge = sampler(3, Fraction(2 ** (last + 1)), Source(SeededEntropy(0)))
        assert huge.dtype == object
        assert all(type(k) is int for k in huge)
    assert discrete_laplace(2, Fraction(2**1100), Source(SeededEntropy(0))).dtype == object  # no float overflows
    for sampler in (rounded_gaussian, discrete_laplace):
        assert sampler(2000, Fraction(1, 2**1000), Source(SeededEntropy(0))).tolist() == [0] * 2000
