"""Clopper-Pearson bounds against exact binomial sums, and their coverage."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.audit import at_least, at_most
from sidelight.audit.sampled import lower_bounds, upper_bounds


def at_least_this_many(hits: int, draws: int, p: float) -> Fraction:
    """P[Binomial(draws, p) >= hits], exactly for the float p."""
    success = Fraction(p)
    return sum(
        (math.comb(draws, k) * success**k * (1 - success) ** (draws - k) for k in range(hits, draws + 1)), Fraction(0)
    )


@given(draws=st.integers(1, 60), share=st.floats(0, 1), failure=st.sampled_from([0.3, 0.025, 1e-7, 1e-12]))
def test_the_lower_bound_is_the_largest_probability_that_the_count_excludes(draws, share, failure):
    hits = round(share * draws)
    bound = at_least(hits, draws, failure=failure)
    # Slack of 1e-9: the incomplete beta function of SciPy has about ten good digits.
    assert at_least_this_many(hits, draws, bound) <= Fraction(failure) * Fraction(1 + 10**-9) or hits == 0
    if hits:
        assert at_least_this_many(hits, draws, min(1.0, bound * 1.0001)) > failure


@given(draws=st.integers(1, 60), share=st.floats(0, 1), failure=st.sampled_from([0.3, 0.025, 1e-7, 1e-12]))
def test_the_upper_bound_mirrors_the_lower_one(draws, share, failure):
    hits = round(share * draws)
    assert at_most(hits, draws, failure=failure) == pytest.approx(
        1 - at_least(draws - hits, draws, failure=failure), rel=1e-8
    )


def test_known_values():
    assert at_least(0, 10, failure=0.01) == 0.0
    assert at_most(10, 10, failure=0.01) == 1.0
    assert at_most(0, 100, failure=0.05) == pytest.approx(1 - 0.05 ** (1 / 100), rel=1e-12)
    assert at_least(100, 100, failure=0.05) == pytest.approx(0.05 ** (1 / 100), rel=1e-12)


def test_search_and_confirmed_bounds_agree():
    hits = np.array([0, 1, 17, 500, 999, 1000])
    for each, low, high in zip(
        hits, lower_bounds(hits, 1000, failure=1e-7), upper_bounds(hits, 1000, failure=1e-7), strict=True
    ):
        assert at_least(int(each), 1000, failure=1e-7) == pytest.approx(low, rel=1e-9)
        assert at_most(int(each), 1000, failure=1e-7) == pytest.approx(high, rel=1e-9)
