"""Idealized draws: laws with negative controls, one ulp of the exact variate, labels."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scripted import Played

from sidelight.errors import RangeError, StrictError
from sidelight.noise import (
    Source,
    directions,
    gamma,
    standard_exponential,
    standard_normal,
    uniform,
)
from sidelight.noise.enclosures import EXPONENTIAL, GAUSS
from sidelight.noise.strips import draw
from sidelight.testing import SeededEntropy

N = 300_000


@pytest.mark.parametrize(
    ("sampler", "law"), [(standard_normal, "norm"), (standard_exponential, "expon"), (uniform, "uniform")]
)
def test_laws(sampler, law: str) -> None:  # type: ignore[no-untyped-def]
    values = sampler(N, Source(SeededEntropy(1)))
    assert stats.kstest(values, law).pvalue > 1e-9
    assert stats.kstest(values / 1.3, law).pvalue < 1e-9


@pytest.mark.parametrize("shape", [1, 4, 30])
def test_gamma(shape: int) -> None:
    values = gamma(shape, 20_000, Source(SeededEntropy(2)))
    assert stats.kstest(values, stats.gamma(shape).cdf).pvalue > 1e-9
    assert stats.kstest(values / 1.3, stats.gamma(shape).cdf).pvalue < 1e-9


def test_directions() -> None:
    """Unit length; each coordinate of a uniform direction in three dimensions is uniform on [-1, 1]."""
    vectors = directions(30_000, 3, Source(SeededEntropy(3)))
    assert np.abs((vectors**2).sum(axis=1) - 1).max() < 1e-14
    for axis in range(3):
        assert stats.kstest(vectors[:, axis], stats.uniform(-1, 2).cdf).pvalue > 1e-9
    assert stats.kstest(directions(30_000, 4, Source(SeededEntropy(3)))[:, 0], stats.uniform(-1, 2).cdf).pvalue < 1e-9
    assert set(directions(100, 1, Source(SeededEntropy(3))).ravel()) == {1.0, -1.0}


@pytest.mark.parametrize(
    ("sampler", "law", "signed"),
    [(standard_normal, GAUSS, True), (standard_exponential, EXPONENTIAL, False)],
    ids=["normal", "exponential"],
)
def test_within_one_ulp(sampler, law, signed: bool) -> None:  # type: ignore[no-untyped-def]
    """Against the exact variate of the same bits, known to 64 bits of U."""
    n = 16_000
    values = sampler(n, Source(SeededEntropy(4)))
    draws = draw(law, n, Source(SeededEntropy(4)))
    worst = 0.0
    for value, strip, word, negative in zip(values, draws.strip, draws.words, draws.negative, strict=True):
        exact = Fraction((int(strip) << 64) + int(word), 1 << (64 + law.digits))
        if int(strip) == 0 and int(word) < 2**53:
            continue  # refined beyond what the words show
        assert (value < 0) == (signed and bool(negative))
        error = abs(Fraction(abs(float(value))) - exact)
        worst = max(worst, float((error + Fraction(1, 1 << (64 + law.digits))) / Fraction(math.ulp(abs(value)))))
    assert 0.5 < worst <= 1.0


def test_small_normals_have_a_full_mantissa() -> None:
    """Strip 0 and U = 2**-60 + ...: the next word fills the mantissa instead of zeros."""
    good, tiny = bytes(4), (16).to_bytes(8, "little")
    value = float(standard_normal(1, Source(Played(good, tiny, b"\xff" * 8)))[0])
    exact = Fraction((16 << 64) + 2**64 - 1, 1 << (128 + 6))
    assert abs(Fraction(value) - exact) <= Fraction(math.ulp(value))
    assert value > float(Fraction(16, 1 << 70))


def test_zeros_in_a_row_are_extended_until_53_bits_are_known() -> None:
    good, zero = bytes(4), bytes(8)
    value = float(standard_normal(1, Source(Played(good, zero, zero + b"\xff" * 8)))[0])
    assert value == pytest.approx(2.0 ** -(128 + 6), rel=1e-15)


def test_tails_beyond_the_table() -> None:
    first, second = (0x7FFF8000).to_bytes(4, "little"), (0xFFFFFFF000000000).to_bytes(8, "little")
    source = Source(Played(first, bytes(8), second, b"\xff" * 8 + bytes(8)))
    assert standard_normal(1, source)[0] == 12.015625


def test_uniform_cuts_to_53_significant_bits() -> None:
    words = [2**64 - 1, 2**63 + 2**10, 2**53 + 1, 3 << 60]
    values = uniform(4, Source(Played(b"".join(w.to_bytes(8, "little") for w in words))))
    assert values.tolist() == [1 - 2.0**-53, 0.5, math.ldexp(2**53, -64), 3 / 16]
    tiny = uniform(1, Source(Played((5).to_bytes(8, "little"), b"\xff" * 8)))[0]
    bits = (5 << 64) + 2**64 - 1
    assert Fraction(float(tiny)) == Fraction(bits >> (bits.bit_length() - 53) << (bits.bit_length() - 53), 2**128)


def test_uniform_is_finer_than_multiples_of_2_to_the_minus_53() -> None:
    values = uniform(N, Source(SeededEntropy(5)))
    assert values.min() > 0
    assert values.max() < 1
    scaled = np.ldexp(values[values < 2.0**-6], 53)
    assert (scaled != np.floor(scaled)).mean() > 0.9


def test_labels() -> None:
    for call in (
        lambda s: standard_normal(1, s),
        lambda s: standard_exponential(1, s),
        lambda s: uniform(1, s),
        lambda s: gamma(2, 1, s),
        lambda s: directions(1, 2, s),
    ):
        source = Source(SeededEntropy(0))
        assert source.numerics == "exact"
        call(source)
        assert source.numerics == "idealized"
        with pytest.raises(StrictError):
            call(Source(SeededEntropy(0), declared="exact"))


def test_sizes() -> None:
    source = Source(SeededEntropy(0))
    assert standard_normal(0, source).shape == uniform(0, source).shape == (0,)
    assert gamma(3, 0, source).shape == (0,)
    assert directions(2, 5, source).shape == (2, 5)
    for call in (lambda: gamma(0, 1, source), lambda: directions(1, 0, source), lambda: uniform(-1, source)):
        with pytest.raises(RangeError):
            call()
