"""The bulk coin exp(-z): frequencies, the slow method forced, absurd exponents, and floats nearly right."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from reference_samplers import exp_coin
from scipy import stats

from sidelight.noise import Source
from sidelight.testing import SeededEntropy


def heads(z: Fraction, n: int, source: Source) -> int:
    return int(exp_coin(np.full(n, float(z)), lambda i: z, source).sum())


@pytest.mark.parametrize("z", [Fraction(0), Fraction(1, 1000), Fraction(7, 3), Fraction(5)])
def test_frequency(z: Fraction) -> None:
    n = 400_000
    count = heads(z, n, Source(SeededEntropy(1)))
    assert stats.binomtest(count, n, math.exp(-z)).pvalue > 1e-9
    if z > 2:
        assert stats.binomtest(count, n, math.exp(-1.3 * z)).pvalue < 1e-9


def test_zero_is_certain() -> None:
    assert heads(Fraction(0), 100_000, Source(SeededEntropy(2))) == 100_000


def test_a_zero_rounded_below_zero_is_still_certain() -> None:
    coins = exp_coin(np.full(1000, -(2.0**-49)), lambda i: Fraction(0), Source(SeededEntropy(2)))
    assert coins.all()


def test_forced() -> None:
    n, z = 5000, Fraction(7, 3)
    source = Source(SeededEntropy(3), force_scalar=True)
    slow = exp_coin(np.full(n, float(z)), lambda i: z, source)
    assert source.fallbacks["coin"] == n
    assert slow.tolist() == exp_coin(np.full(n, float(z)), lambda i: z, Source(SeededEntropy(3))).tolist()


@pytest.mark.parametrize("z", [699, 10**31, 10**300])
def test_absurd_exponents_are_tails(z: int) -> None:
    assert heads(Fraction(z), 1000, Source(SeededEntropy(4))) == 0


def test_doubtful_cases_ask_for_the_truth() -> None:
    """Words placed on the boundary exp(-z) must be decided by the exact exponent, not by the float."""

    class AtTheBoundary:
        branding = "seeded: not private"

        def read(self, nbytes: int) -> bytes:
            word = int(math.exp(-1.5) * 2**64)
            return word.to_bytes(8, "little") * (nbytes // 8)

    for truth, expected in ((Fraction(3, 2) - Fraction(1, 2**50), True), (Fraction(3, 2) + Fraction(1, 2**50), False)):
        source = Source(AtTheBoundary())
        assert exp_coin(np.array([1.5]), lambda i, truth=truth: truth, source).tolist() == [expected]
        assert source.fallbacks["coin"] == 1


def test_the_tolerance_covers_the_promised_float_error() -> None:
    """The float may be 2**-48 (1 + z) off: a word between its bound and the true one is decided by the truth."""
    truth = Fraction(3, 2) + Fraction(1, 2**47)
    word = int(math.exp(-1.5) * (1 - 2.0**-48) * 2**64)  # below exp(-1.5), above exp(-truth)

    class Between:
        branding = "seeded: not private"

        def read(self, nbytes: int) -> bytes:
            return word.to_bytes(8, "little") * (nbytes // 8)

    assert exp_coin(np.array([1.5]), lambda i: truth, Source(Between())).tolist() == [False]
