"""How a budget is shared: minimax shares, exact scales, clipping and summaries."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.guarantees.conversions import gdp_from_bounded_range, zcdp_from_bounded_range
from sidelight.summaries.shares import (
    best_mean_variance,
    clip_shares,
    count_and_sums,
    count_share,
    mean_variance,
    selection_epsilon,
    summary_shares,
)

TAUS = np.linspace(0, 1, 1001)


def ratios(share, columns=1):
    return np.array([mean_variance(share, tau, columns) / best_mean_variance(tau, columns) for tau in TAUS])


def test_the_minimax_share():
    """R10 of the specification: worst ratio 4/3, at the middle and at both ends."""
    found = ratios(count_share())
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


@pytest.mark.parametrize("tau", [0.1, 0.4, 1.0])
def test_a_right_prediction_reaches_the_best_split(tau):
    assert mean_variance(count_share(design=tau), tau) == pytest.approx(best_mean_variance(tau), rel=1e-6)
    assert count_share(design=-tau) == count_share(design=tau)
    assert count_share(design=0.0) == count_share(design=0.1)
    assert count_share(design=7.0) == Fraction(1, 2)


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
        t**2 / scales.sum_scale**2 + (1 - t**2) ** 2 / scales.square_scale**2
    )
    assert squares * one_row <= mu**2
    at_the_end = squares * (1 / scales.count_scale**2 + columns * levels**2 / scales.sum_scale**2)
    assert mu**2 * (1 - Fraction(1, 10**9)) < at_the_end <= mu**2


def test_clip_shares():
    for known in ("nothing", "values", "centre"):
        for price in ("epsilon", "rho", "mu"):
            shares = clip_shares(price, known=known)
            assert shares.centre + shares.radius + shares.measure == 1
    assert clip_shares("epsilon", known="values").measure == Fraction(84, 100)
    assert clip_shares("epsilon", known="centre").measure == Fraction(9, 10)
    assert clip_shares("rho").measure == clip_shares("mu").measure == Fraction(7, 8)
    with pytest.raises(RangeError):
        clip_shares("delta")
    with pytest.raises(RangeError):
        clip_shares("epsilon", known="all")


def test_what_a_selection_may_spend():
    assert selection_epsilon("epsilon", 1, levels=2, rows_per_unit=5) == Fraction(1, 10)
    each = selection_epsilon("rho", "0.01", levels=2)
    assert 2 * zcdp_from_bounded_range(each) <= Fraction("0.01")
    by_mu = selection_epsilon("mu", "0.09", levels=2)
    assert 2 * gdp_from_bounded_range(by_mu) ** 2 <= Fraction("0.09")
    assert float(2 * gdp_from_bounded_range(by_mu) ** 2) == pytest.approx(0.09, rel=1e-9)
    assert selection_epsilon("rho", "0.02", rows_per_unit=10) == selection_epsilon("rho", "0.02") / 10
    with pytest.raises(RangeError):
        selection_epsilon("delta", 1)


@pytest.mark.parametrize("by_groups", [True, False])
@pytest.mark.parametrize("bounded", [True, False])
def test_summary_shares(by_groups, bounded):
    shares = summary_shares(by_groups=by_groups, bounded=bounded)
    assert shares.quartiles + shares.group_quartiles + shares.radius + shares.moments == 1
    assert (shares.radius == 0) == bounded


@pytest.mark.parametrize("columns", [0, 1.5, True])
def test_bad_numbers_of_columns_are_refused(columns):
    with pytest.raises(RangeError):
        count_share(columns)


def test_bad_designs_and_shares_are_refused():
    with pytest.raises(RangeError):
        count_share(design=math.nan)
    with pytest.raises(RangeError):
        count_and_sums(mu=1, l2_squared=1, levels=1, share=Fraction(1))
