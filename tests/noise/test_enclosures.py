"""Enclosures contain the truth (mpmath decides here, and only here) and are narrow."""

from __future__ import annotations

import random
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.noise.enclosures import EXPONENTIAL, GAUSS, Strips, exp_neg


def scaled_exp(p: int, q: int, precision: int) -> mpmath.mpf:
    return mpmath.ldexp(mpmath.exp(-mpmath.mpf(p) / q), precision)


def test_exp_neg_against_mpmath() -> None:
    chooser = random.Random(20)
    with mpmath.workprec(600):
        for _ in range(3000):
            q = chooser.randrange(1, 2 ** chooser.randrange(1, 80))
            p = chooser.randrange(0, 3000 * q) if chooser.random() < 0.5 else chooser.randrange(0, 4 * q)
            precision = chooser.randrange(1, 300)
            lo, hi = exp_neg(p, q, precision)
            assert lo <= scaled_exp(p, q, precision) <= hi
            assert hi - lo <= 2


def test_exp_neg_at_its_edges() -> None:
    assert exp_neg(0, 7, 64) == (2**64, 2**64)
    assert exp_neg(64, 1, 64) == (0, 1)
    assert exp_neg(10**4000, 1, 64) == (0, 1)  # absurd exponents cost nothing
    lo, hi = exp_neg(63, 1, 64)
    assert lo <= scaled_exp(63, 1, 64) <= hi


@given(st.integers(0, 10**6), st.integers(1, 10**4), st.integers(1, 10**6), st.integers(8, 200))
def test_exp_neg_respects_order(p: int, q: int, more: int, precision: int) -> None:
    assert exp_neg(p + more, q, precision)[0] <= exp_neg(p, q, precision)[1]


@pytest.mark.parametrize("law", [GAUSS, EXPONENTIAL], ids=lambda law: law.name)
@pytest.mark.parametrize("precision", [80, 160, 400])
def test_cdf_against_mpmath(law: Strips, precision: int) -> None:
    with mpmath.workprec(1000):
        if law is GAUSS:
            weights = [mpmath.exp(-mpmath.mpf(i * i) / 8192) for i in range(2600)]
            total = mpmath.fsum(weights)
            truth = {j: mpmath.fsum(weights[: j + 1]) / total for j in (0, 1, 63, 64, 300, 481, 700, 1500)}
        else:
            truth = {j: 1 - mpmath.exp(-mpmath.mpf(j + 1) / 32) for j in (0, 1, 63, 975, 3000, 20000)}
        for j, probability in truth.items():
            lo, hi = law.cdf(j, precision)
            assert lo <= mpmath.ldexp(probability, precision) <= hi
            if j < 700:
                assert hi - lo <= 4
    assert law.cdf(-1, precision) == (0, 0)


def test_kept_fractions() -> None:
    """P(a trial is kept), from the same sums: the reference numbers of the strip construction."""
    gauss = mpmath.sqrt(mpmath.pi / 2) * 64 / mpmath.fsum(mpmath.exp(-mpmath.mpf(i * i) / 8192) for i in range(1500))
    exponential = 32 * (1 - mpmath.exp(mpmath.mpf(-1) / 32))
    assert float(gauss) == pytest.approx(0.993805142347, abs=1e-12)
    assert float(exponential) == pytest.approx(0.984536496757, abs=1e-12)


@given(st.integers(0, 2000), st.integers(0, 2**20), st.integers(1, 20))
def test_exponents_agree(j: int, u: int, bits: int) -> None:
    """The float exponent and the exact one are the same function (2**-50 apart at most)."""
    import numpy as np

    u %= 1 << bits
    for law in (GAUSS, EXPONENTIAL):
        p, q = law.exponent(j, u, bits)
        computed = law.float_exponent(np.array([j]), np.array([u / 2**bits]))[0]
        assert abs(Fraction(float(computed)) - Fraction(p, q)) <= Fraction(p, q) / 2**50
