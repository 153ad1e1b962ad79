"""Exponentials as powers of two: against 60-digit arithmetic, far beyond where exp is 0."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.predictions.learning.histogram_loss import decays, exp_as_power


@given(exponent=st.fractions(0, 10**9))
@settings(max_examples=200, deadline=None)
def test_one_exponential(exponent):
    mantissa, power = exp_as_power(exponent)
    assert 0.5 < mantissa <= 1
    with mpmath.workdps(60):
        exact = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator)
        assert abs(mpmath.ldexp(mantissa, power) / exact - 1) < 2.0**-52


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(1, 3), Fraction(5), Fraction(10**4)])
def test_many_at_once(rate):
    whole = np.array([0, 1, 2, 255, 256, 257, 65_535, 65_536, 10**6, 2**32 + 12_345])
    late = np.arange(len(whole)) % 2 == 1
    parts = (Fraction(1, 3), Fraction(2, 3))
    mantissas, powers = decays(rate, whole, late, parts)
    assert (mantissas > 2.0**-20).all()
    with mpmath.workdps(60):
        for m, e, k, second in zip(mantissas, powers, whole, late, strict=True):
            x = rate * (int(k) + parts[int(second)])
            exact = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
            assert abs(mpmath.ldexp(mpmath.mpf(float(m)), int(e)) / exact - 1) < 1e-14
