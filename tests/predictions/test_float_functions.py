"""The float side of every prior: masses add up, inverses invert, tails keep their digits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sidelight.predictions import (
    Cauchy,
    Gaussian,
    HalfCauchy,
    Histogram,
    Laplace,
    Mixture,
    ScaleFree,
    Uniform,
    is_prior,
)

FAMILIES = [
    Uniform(-3, 16),
    Cauchy(5, 3),
    HalfCauchy(5, 1),
    Laplace(5, 2),
    Gaussian(5, 3),
    Histogram([-4, 0, 4, 8, 12], [0.1, 0.0, 0.4, 0.3]),
    ScaleFree("0.25"),
    ScaleFree("0.25", "positive"),
    Mixture([0.9, 0.1], [Laplace(5, 2), Cauchy(5, 3)]),
]
reals = st.floats(-60, 60)


@pytest.mark.parametrize("prior", FAMILIES, ids=str)
def test_every_family_is_a_prior(prior):
    assert is_prior(prior)
    assert hash(prior) == hash(prior)
    assert float(prior.log_mass(-math.inf, math.inf)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("prior", FAMILIES, ids=str)
@settings(max_examples=40, deadline=None)
@given(st.lists(reals, min_size=2, max_size=6))
def test_masses_are_differences_of_the_distribution_function(prior, points):
    x = np.unique(points)
    assert prior.cdf(x) + prior.sf(x) == pytest.approx(np.ones(len(x)), abs=1e-12)
    assert np.all(np.diff(prior.cdf(x)) >= -1e-15)
    masses = np.exp(prior.log_mass(x[:-1], x[1:]))
    assert masses == pytest.approx(np.diff(prior.cdf(x)), abs=1e-12)
    assert np.exp(prior.log_mass(-math.inf, x)) == pytest.approx(prior.cdf(x), abs=1e-12)
    assert np.exp(prior.log_mass(x, math.inf)) == pytest.approx(prior.sf(x), abs=1e-12)


@pytest.mark.parametrize("prior", [p for p in FAMILIES if not isinstance(p, Mixture)], ids=str)
@settings(max_examples=60, deadline=None)
@given(reals, st.floats(1e-3, 50), st.floats(0.01, 0.99))
def test_inverse_inverts(prior, lower, width, v):
    upper = lower + width
    log_mass = float(prior.log_mass(lower, upper))
    x = float(prior.inverse_in(lower, upper, v))
    assert lower <= x <= upper or log_mass == -math.inf
    # A prior with an end may overlap the interval by one ulp only, where nothing lies between the ends.
    if log_mass > (-600 if isinstance(prior, (Cauchy, Laplace, Gaussian)) else -25):
        assert math.exp(float(prior.log_mass(lower, x)) - log_mass) == pytest.approx(v, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("bounds", [(-math.inf, math.inf), (4.0, 9.0), (8.0, math.inf), (-math.inf, 2.0)])
def test_draws_of_a_mixture_follow_it(bounds):
    prior = FAMILIES[-1]
    v = (np.arange(20_000) + 0.5) / 20_000
    x = np.sort(prior.inverse_in(bounds[0], bounds[1], v))
    low = prior.cdf(bounds[0]) if math.isfinite(bounds[0]) else 0.0
    high = prior.cdf(bounds[1]) if math.isfinite(bounds[1]) else 1.0
    distance = np.max(np.abs((prior.cdf(x) - low) / (high - low) - v))
    assert distance < 0.001
    other = Laplace(5, 2.6)  # the measure sees a scale that is 30 % off
    low = other.cdf(bounds[0]) if math.isfinite(bounds[0]) else 0.0
    high = other.cdf(bounds[1]) if math.isfinite(bounds[1]) else 1.0
    assert np.max(np.abs((other.cdf(x) - low) / (high - low) - v)) > 0.02


@pytest.mark.parametrize(
    ("prior", "law"),
    [
        (Cauchy(5, 3), stats.cauchy(5, 3)),
        (HalfCauchy(5, 1), stats.halfcauchy(1, 5)),
        (Laplace(5, 2), stats.laplace(5, 2)),
        (Gaussian(5, 3), stats.norm(5, 3)),
        (Uniform(-3, 16), stats.uniform(-3, 19)),
    ],
    ids=["cauchy", "half-cauchy", "laplace", "gaussian", "uniform"],
)
def test_against_scipy(prior, law):
    x = np.linspace(-40, 60, 301)
    assert prior.cdf(x) == pytest.approx(law.cdf(x), rel=1e-11, abs=1e-300)
    assert prior.sf(x) == pytest.approx(law.sf(x), rel=1e-11, abs=1e-300)


def test_empty_and_reversed_intervals_have_no_mass():
    for prior in FAMILIES:
        assert float(prior.log_mass(3.0, 3.0)) == -math.inf
        assert float(prior.log_mass(4.0, 3.0)) == -math.inf


def test_huge_values_do_not_overflow():
    for prior in (Cauchy(0, 1e-3), Laplace(0, 1e-3), Gaussian(0, 1e-3)):
        far = prior.log_mass([1e200, -1e250], [2e200, -1e249])
        assert not np.any(np.isnan(far))
    assert float(Cauchy(0, 1).log_mass(1e200, 2e200)) == pytest.approx(math.log(0.5e-200 / math.pi), rel=1e-12)


def test_a_scale_free_prior_without_resolution_has_no_float_side():
    with pytest.raises(ValueError, match="resolution"):
        ScaleFree().cdf(1.0)
