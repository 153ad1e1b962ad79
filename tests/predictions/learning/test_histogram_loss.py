"""The histogram loss: reference, gradient, convexity; the weights of the bins against slow exact arithmetic."""

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.predictions.learning.histogram_loss import BinWeights, _sums_of_bins, bin_weights, histogram_loss

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


def slowly(records, edges, levels, epsilons, score):
    """s_ij in 60 digits, piece by piece, from the definition."""
    rows = []
    n = len(records)
    with mpmath.workdps(60):
        for q, epsilon in zip(levels, epsilons, strict=True):
            target = q * n if score == "exact" else Fraction(math.floor(q * n))
            spread = 2 * (max(q, 1 - q) if score == "exact" else 1)
            row = []
            for low, high in pairwise(edges):
                inner = sorted({x for x in map(Fraction, records) if Fraction(low) < x < Fraction(high)})
                cuts = [Fraction(low), *inner, Fraction(high)]
                total = mpmath.mpf(0)
                for a, b in pairwise(cuts):
                    gap = abs(sum(Fraction(x) <= a for x in records) - target)
                    exponent = epsilon * gap / spread
                    width = (b - a) / (Fraction(high) - Fraction(low))
                    ratio = mpmath.mpf(width.numerator) / width.denominator
                    total += ratio * mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator)
                row.append(total)
            rows.append(row)
    return rows


TINY = 5e-324
CASES = {
    "usual": [1.0, 2.5, 2.5, 3.0, 7.25, 9.0, 20.0, -4.0],
    "empty": [],
    "one": [5.0],
    "on the edges": [0.0, 2.5, 5.0, 7.5, 10.0],
    "all below": [-3.0] * 400,
    "all above": [11.0] * 4000,
    "tiny pieces between large ties": [0.0] * 3000 + [TINY] * 3000 + [2 * TINY] * 3000,
    "neighbouring floats": [5.0] * 50 + [np.nextafter(5.0, 6)] * 50,
}


@pytest.mark.parametrize("score", ["exact", "floor"])
@pytest.mark.parametrize("name", CASES)
def test_weights_of_bins_to_twelve_digits(name, score):
    edges = np.linspace(0, 10, 5)
    found = bin_weights(CASES[name], edges=edges, levels=LEVELS, epsilons=EPSILONS, score=score)
    exact = slowly(CASES[name], edges, LEVELS, EPSILONS, score)
    with mpmath.workdps(60):
        for i in range(len(LEVELS)):
            top = max(exact[i])
            for j in range(4):
                value = mpmath.ldexp(mpmath.mpf(float(found.values[i, j])), int(found.powers[i]))
                assert abs(value - exact[i][j]) <= 1e-12 * exact[i][j] + 1e-280 * top


def test_no_records_are_nothing_special():
    found = bin_weights([], edges=np.linspace(0, 1, 6), levels=LEVELS, epsilons=EPSILONS)
    _, gradient = histogram_loss(found, np.full((3, 5), 0.2))
    assert np.allclose(found.values * np.exp2(found.powers)[:, None], 1)
    assert np.allclose(gradient, -1 / 3)  # not zero


def test_missing_values_are_left_out_and_infinite_ones_count_with_their_rank():
    edges = np.linspace(0, 10, 5)
    common = {"edges": edges, "levels": LEVELS, "epsilons": EPSILONS}
    plain = bin_weights([-5.0, 2.0, 3.0, 50.0], **common)
    odd = bin_weights([np.nan, -np.inf, 3.0, 2.0, np.nan, np.inf], **common)
    assert (plain.values == odd.values).all()
    assert (plain.powers == odd.powers).all()


def test_long_sums_are_made_in_runs():
    """4096 ones at a time next to one large piece: the plain loop loses more."""
    pieces = np.full(10**6, 0.1)
    bins = np.repeat(np.arange(4), 250_000)
    assert np.allclose(_sums_of_bins(pieces, bins, 4), 25_000, rtol=1e-12)
    plain = np.bincount(bins, weights=pieces)
    assert np.abs(plain - 25_000).max() > 10 * np.abs(_sums_of_bins(pieces, bins, 4) - 25_000).max()


def test_shapes_and_secrecy():
    with pytest.raises(RangeError, match="shape"):
        histogram_loss(weights(S), W[:, :2])
    assert "0.9" not in repr(weights(S))
