"""The histogram loss: reference, gradient, convexity; weights against exact arithmetic, far beyond where exp is 0."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.published.histogram_loss import BinWeights, bin_weights, decays, exp_as_power, histogram_loss

S = np.array([[0.9, 0.5, 0.2], [0.1, 0.6, 1.0]])
W = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
LEVELS = [Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)]
EPSILONS = [Fraction(1), Fraction(1, 2), Fraction(3)]


def weights(s, powers=(0, 0)):
    return BinWeights(np.asarray(s), np.asarray(powers, dtype=np.int64))


def test_reference():
    loss, gradient = histogram_loss(weights(S), W)
    assert loss == pytest.approx(1.095631660529972, abs=1e-15)
    wanted = [
        [-0.7346082089552238, -0.408115671641791, -0.1632462686567164],
        [-0.068230277185501, -0.4093816631130064, -0.6823027718550106],
    ]
    assert np.allclose(gradient, wanted, rtol=0, atol=1e-15)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_gradient_and_convexity(seed):
    generator = np.random.default_rng(seed)
    s, first, second = generator.random((2, 3)) + 1e-3, generator.random((2, 3)) + 0.1, generator.random((2, 3)) + 0.1
    given_weights = weights(s, generator.integers(-3, 3, 2))
    loss, gradient = histogram_loss(given_weights, first)
    for index in np.ndindex(2, 3):
        step = np.zeros((2, 3))
        step[index] = 1e-5
        up, down = histogram_loss(given_weights, first + step)[0], histogram_loss(given_weights, first - step)[0]
        assert gradient[index] == pytest.approx((up - down) / 2e-5, abs=1e-7)
    middle = histogram_loss(given_weights, (first + second) / 2)[0]
    assert middle <= (loss + histogram_loss(given_weights, second)[0]) / 2 + 1e-12


def test_powers_enter_the_weights_of_the_rows():
    """Scaling one row alone changes p: forgetting the offset of a row is a bug that this sees."""
    powers = (-3, 2)
    scaled = S * np.exp2(powers)[:, None]
    assert np.allclose(histogram_loss(weights(S, powers), W)[1], histogram_loss(weights(scaled), W)[1], rtol=1e-14)
    assert not np.allclose(histogram_loss(weights(S, powers), W)[1], histogram_loss(weights(S), W)[1], rtol=0.1)
    far = histogram_loss(weights(S, (-(10**7), 0)), W)
    assert np.isfinite(far[1]).all()
    assert far[0] == pytest.approx(1e7 * math.log(2), rel=1e-6)


def slowly(below, n, levels, epsilons):
    """s_ij in 60 digits, from the definition."""
    rows = []
    with mpmath.workdps(60):
        for q, epsilon in zip(levels, epsilons, strict=True):
            target, spread = q * n, 2 * max(q, 1 - q)
            exponents = [[epsilon * abs(int(rank) - target) / spread for rank in bin_] for bin_ in below]
            kept = [[mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) for x in bin_] for bin_ in exponents]
            rows.append([mpmath.fsum(bin_) / len(bin_) for bin_ in kept])
    return rows


CASES = {
    "usual": ([[0, 1, 3], [3, 3, 4], [6, 7, 8]], 8),
    "empty": ([[0, 0], [0, 0]], 0),
    "one": ([[0, 0], [0, 1], [1, 1]], 1),
    "all below": ([[400, 400]], 400),
    "all above": ([[0, 0], [0, 0]], 4000),
    "far beyond where exp is 0": ([[0, 10**5], [10**6, 10**6 + 1], [10**7, 10**7]], 10**7),
}


@pytest.mark.parametrize("name", CASES)
def test_weights_of_bins_to_twelve_digits(name):
    ranks, size = CASES[name]
    below = np.array(ranks, dtype=np.int64)
    found = bin_weights(below, size=size, levels=LEVELS, epsilons=EPSILONS)
    exact = slowly(ranks, size, LEVELS, EPSILONS)
    with mpmath.workdps(60):
        for i in range(len(LEVELS)):
            top = max(exact[i])
            for j in range(len(ranks)):
                value = mpmath.ldexp(mpmath.mpf(float(found.values[i, j])), int(found.powers[i]))
                assert abs(value - exact[i][j]) <= 1e-12 * exact[i][j] + 1e-280 * top


def test_no_records_are_nothing_special():
    found = bin_weights(np.zeros((5, 4), np.int64), size=0, levels=LEVELS, epsilons=EPSILONS)
    _, gradient = histogram_loss(found, np.full((3, 5), 0.2))
    assert np.allclose(found.values * np.exp2(found.powers)[:, None], 1)
    assert np.allclose(gradient, -1 / 3)  # not zero


def test_shapes_and_secrecy():
    with pytest.raises(RangeError, match="shape"):
        histogram_loss(weights(S), W[:, :2])
    assert "0.9" not in repr(weights(S))


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
