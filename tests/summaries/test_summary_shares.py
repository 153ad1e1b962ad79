"""How a budget is shared: minimax shares, exact scales, clipping and summaries."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.guarantees.conversions import gdp_from_bounded_range, zcdp_from_bounded_range
from sidelight.mechanisms.budget import Budget
from sidelight.summaries.clipping import clip_shares
from sidelight.summaries.noise_choice import count_and_sums, count_share
from sidelight.summaries.summary import summary_shares

TAUS = np.linspace(0, 1, 1001)


def mean_variance(share, tau, columns=1):
    """The variance of one column's sum less its mean times the count, σ_s² + τ²σ_n², for μ = 1."""
    return columns / (1 - float(share)) + tau * tau / float(share)


def best_mean_variance(tau, columns=1):
    """The least of it for known |τ|; no Gaussian mechanism does better for d = 1."""
    return (math.sqrt(columns) + abs(tau)) ** 2


def ratios(share, columns=1):
    return np.array([mean_variance(share, tau, columns) / best_mean_variance(tau, columns) for tau in TAUS])


def test_the_minimax_share():
    """R10 of the specification: worst ratio 4/3, at the middle and at both ends."""
    found = ratios(count_share(1))
    assert found.max() == pytest.approx(4 / 3)
    assert found[0] == pytest.approx(4 / 3)
    assert found[-1] == pytest.approx(4 / 3)
    assert found.min() == pytest.approx(1, abs=1e-6)
    assert TAUS[found.argmin()] == pytest.approx(1 / 3, abs=1e-3)
    for other in (0.2, 0.24, 0.26, 0.3, 0.5):
        assert ratios(other).max() > 4 / 3 + 1e-3


@pytest.mark.parametrize("columns", [1, 2, 4, 9, 30])
def test_the_minimax_share_of_several_columns(columns):
    root = math.sqrt(columns)
    worst = ratios(count_share(columns), columns).max()
    assert worst == pytest.approx((2 * root + 2) / (2 * root + 1), rel=1e-4)
    for other in (0.8, 1.25):
        assert ratios(float(count_share(columns)) * other, columns).max() > worst + 1e-3
    assert count_share(9) == Fraction(1, 8)


def test_no_gaussian_mechanism_does_better():
    """Theorem 2: whatever the split, s - τn has at least the variance (1 + |τ|)²/μ²."""
    for tau in (0.0, 0.3, 1.0):
        values = [mean_variance(share, tau) for share in np.linspace(0.001, 0.999, 999)]
        assert min(values) >= best_mean_variance(tau) - 1e-9


@settings(max_examples=60, deadline=None)
@given(
    st.fractions(Fraction(1, 1000), 10),
    st.integers(1, 50),
    st.integers(1, 2**30),
    st.integers(1, 12),
    st.integers(1, 2**20),
)
def test_scales_keep_the_price(mu, squares, levels, columns, seed):
    scales = count_and_sums(mu=mu, l2_squared=squares, levels=levels, columns=columns)
    t = Fraction(2 * (seed % (levels + 1)) - levels, levels)
    one_row = 1 / scales.count_scale**2 + columns * levels**2 * (
        t**2 / scales.sum_scale**2 + (1 - t**2) ** 2 / scales.sum_scale**2
    )
    assert squares * one_row <= mu**2
    at_the_end = squares * (1 / scales.count_scale**2 + columns * levels**2 / scales.sum_scale**2)
    assert mu**2 * (1 - Fraction(1, 10**9)) < at_the_end <= mu**2


def test_clip_shares():
    for predicted in (False, True):
        for price in ("epsilon", "rho", "mu"):
            shares = clip_shares(price, predicted=predicted)
            assert shares.centre + shares.radius + shares.measure == 1
    assert clip_shares("epsilon", predicted=True).measure == Fraction(84, 100)
    assert clip_shares("rho").measure == clip_shares("mu").measure == Fraction(7, 8)


def test_what_a_selection_may_spend():
    assert Budget("epsilon", Fraction(1, 2)).spread == Fraction(1, 2)
    each = Budget("rho", Fraction("0.005")).spread
    assert 2 * zcdp_from_bounded_range(each) <= Fraction("0.01")
    by_mu = Budget("mu", Fraction("0.045")).spread
    assert 2 * gdp_from_bounded_range(by_mu) ** 2 <= Fraction("0.09")
    assert float(2 * gdp_from_bounded_range(by_mu) ** 2) == pytest.approx(0.09, rel=1e-9)


@pytest.mark.parametrize("by_groups", [True, False])
@pytest.mark.parametrize("bounded", [True, False])
def test_summary_shares(by_groups, bounded):
    shares = summary_shares(by_groups=by_groups, bounded=bounded)
    assert shares.quartiles + shares.group_quartiles + shares.radius + shares.moments == 1
    assert (shares.radius == 0) == bounded
