"""Non-private diagnostics: gaps with and without ties, and the quality of a prior (R1)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.baselines.quantile_simulation import gaps_of_ranks, nonprivate_quality
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.predictions import Cauchy, Gaussian, HalfCauchy, Histogram, Laplace, Mixture, Uniform
from sidelight.quantiles.evaluate import nonprivate_gap

DATA = [1, 2, 4, 7, 11]


@pytest.mark.parametrize(
    ("prior", "wanted"),
    [
        (Uniform(0, 16), 0.461323165340618),
        (Cauchy(5, 3), 0.519696110276837),
        (HalfCauchy(5, 0), 0.516694869555929),
        (Laplace(5, 2), 0.618309105768148),
        (Gaussian(5, 3), 0.604150136278283),
        (Mixture([0.9, 0.1], [Laplace(5, 2), Cauchy(5, 3)]), 0.608447806219017),
        (Histogram([0, 4, 8, 12, 16], [0.1, 0.4, 0.3, 0.2]), 0.437241062857429),
    ],
)
def test_reference_quality_floor(prior, wanted):
    """R1, floor score, q = 1/2, epsilon = 1."""
    found = nonprivate_quality(DATA, [0.5], prior, epsilon=1, score="floor")
    assert found == pytest.approx([wanted], rel=1e-12)


@pytest.mark.parametrize(
    ("prior", "level", "epsilon", "wanted"),
    [
        (Uniform(0, 16), 0.5, 1, 0.290050880690544),
        (Cauchy(5, 3), 0.5, 1, 0.341033596799386),
        (Laplace(5, 2), 0.5, 1, 0.480178665524066),
        (Uniform(0, 16), 0.3, 2, 0.130253376064949),
        (Cauchy(5, 3), 0.3, 2, 0.158004572241301),
    ],
)
def test_reference_quality_exact(prior, level, epsilon, wanted):
    """R1, exact score."""
    assert nonprivate_quality(DATA, level, prior, epsilon=epsilon) == pytest.approx([wanted], rel=1e-12)


def test_reference_quality_of_the_best_interval():
    """R1: Psi without epsilon is the mass of the interval with the smallest gap."""
    assert nonprivate_quality(DATA, 0.5, Uniform(0, 16), score="floor") == pytest.approx([0.125], rel=1e-12)
    assert nonprivate_quality(DATA, 0.5, Cauchy(5, 3), score="floor") == pytest.approx([0.147583617650433], rel=1e-12)


def test_one_prior_for_each_level():
    both = nonprivate_quality(DATA, [0.3, 0.5], [Uniform(0, 16), Cauchy(5, 3)], epsilon=1)
    assert both[0] == nonprivate_quality(DATA, 0.3, Uniform(0, 16), epsilon=1)[0]
    assert both[1] == nonprivate_quality(DATA, 0.5, Cauchy(5, 3), epsilon=1)[0]
    with pytest.raises(RangeError, match="one prior"):
        nonprivate_quality(DATA, [0.3, 0.5], [Uniform(0, 16)])


def test_no_data_has_zero_error():
    assert nonprivate_quality([], 0.5, Uniform(0, 16), epsilon=1) == pytest.approx([1.0])
    assert nonprivate_gap([], [0.5], [3.0]) == [0.0]


def test_gap_of_ties():
    """A heavy tie at 30 across the median: 30 is exact, slightly above is not."""
    ages = [20] * 30 + [30] * 40 + [50] * 30
    assert nonprivate_gap(ages, [0.5], [30.0]) == [0.0]
    assert nonprivate_gap(ages, [0.5], [30.001]) == [20.0]
    assert nonprivate_gap(ages, [0.5], [29.0]) == [20.0]
    # The authors subtract what no output can avoid: ranks are 0, 30, 70 or 100 here, so 20 is the best there is.
    assert nonprivate_gap(ages, [0.5], [30.001], ties="paper") == [0.0]
    assert nonprivate_gap(ages, [0.5], [55.0], ties="paper") == [30.0]


def test_paper_gap_without_ties_is_the_floored_gap():
    assert nonprivate_gap(DATA, [0.3], [8.0], ties="paper") == [3.0]
    assert nonprivate_gap(DATA, [0.3], [8.0]) == [2.5]


def test_targets_are_exact_where_floats_are_not():
    """Trap of section 1.1: floor(15/22 * 22) in floats is 14."""
    level = Fraction(15, 22)
    assert math.floor(float(level) * 22) == 14
    assert nonprivate_gap(range(22), [level], [15.0], ties="paper") == [0.0]
    assert gaps_of_ranks(np.arange(23), level, 22, score="floor")[15] == 0
    assert gaps_of_ranks(np.arange(23), level, 22, score="exact")[15] == 0


def test_missing_values_are_dropped_and_infinities_refused():
    assert nonprivate_gap([*DATA, math.nan], [0.5], [3.0]) == nonprivate_gap(DATA, [0.5], [3.0])
    with pytest.raises(RangeError, match="finite"):
        nonprivate_gap([1.0, math.inf], [0.5], [3.0])


def test_one_output_for_each_level():
    with pytest.raises(RangeError, match="2 levels"):
        nonprivate_gap(DATA, [0.3, 0.5], [1.0])


@given(
    data=st.lists(st.integers(0, 12), min_size=1, max_size=25),
    level=st.fractions(Fraction(1, 50), Fraction(49, 50)),
    output=st.integers(-1, 13),
)
def test_gaps_against_their_definition(data, level, output):
    n = len(data)
    below, upto = sum(x < output for x in data), sum(x <= output for x in data)
    aware = max(0, below - level * n, level * n - upto)
    assert nonprivate_gap(data, [level], [output])[0] == float(aware)
    best = min(abs(sum(x < o for x in data) - math.floor(level * n)) for o in np.arange(-0.5, 14))
    assert nonprivate_gap(data, [level], [output], ties="paper")[0] == abs(below - math.floor(level * n)) - best
    # A quantile of the data always has gap 0 when ties are counted fairly.
    middle = sorted(data)[min(math.ceil(level * n), n) - 1]
    assert nonprivate_gap(data, [level], [middle])[0] == 0
