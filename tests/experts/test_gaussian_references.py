"""Reference values of Gaussian DP, and why reports have rounded and not discrete Gaussian noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import norm

import sidelight as sl
from sidelight.errors import ClaimError
from sidelight.guarantees import Claims, native_claims
from sidelight.guarantees.conversions import gdp_delta
from sidelight.guarantees.curves import gaussian_floats


@pytest.mark.parametrize(("mu", "delta"), [("1", 0.126936738), ("0.5", 0.00682959498), ("0.25", 2.9242721e-6)])
def test_delta_at_epsilon_one(mu, delta):
    assert float(gdp_delta(Fraction(mu), Fraction(1))) == pytest.approx(delta, rel=1e-6)
    assert float(gaussian_floats(float(mu), np.array(1.0))) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize(
    ("delta", "mu", "epsilon"), [("1e-5", 1, 4.37717810), ("1e-6", 1, 4.88655412), ("1e-6", "0.5", 2.25408465)]
)
def test_epsilon_at_delta(delta, mu, epsilon):
    found = Claims.of(sl.GDP(mu)).approx_at(delta)
    assert float(found.epsilon) == pytest.approx(epsilon, rel=1e-6)


def test_zcdp_of_a_discrete_gaussian_costs_more_and_gdp_is_refused_for_it():
    assert float(Claims.of(sl.ZCDP("0.5")).approx_at("1e-6").epsilon) == pytest.approx(5.2215, rel=1e-4)
    with pytest.raises(ClaimError, match="discrete_gaussian"):
        native_claims(sl.GDP(1), mechanism="discrete_gaussian")


def rounded(s, k):
    # from the lower tail, where differences keep their digits
    near, far = -(np.abs(k) - 0.5) / s, -(np.abs(k) + 0.5) / s
    return np.where(
        k == 0, 1 - 2 * norm.cdf(-0.5 / s), -np.exp(log_ndtr(near)) * np.expm1(log_ndtr(far) - log_ndtr(near))
    )


def discrete(s, k):
    p = np.exp(-(k**2) / (2 * s * s))
    return p / p.sum()


def hockey_stick(law, s, epsilon):
    k = np.arange(-14 * s, 15 * s + 1).astype(float)
    return np.maximum(law(s, k - s) - np.exp(epsilon) * law(s, k), 0).sum()


@pytest.mark.parametrize(("s", "excess"), [(1, 1.14), (4, 9.7e-2), (16, 6.2e-3), (64, 3.8e-4)])
def test_rounded_noise_never_exceeds_gdp_and_discrete_noise_does(s, excess):
    grid = np.linspace(0, 6, 601)
    own = np.array([hockey_stick(rounded, s, e) for e in grid]) / gaussian_floats(1.0, grid)
    assert own.max() <= 1 + 1e-9
    other = np.array([hockey_stick(discrete, s, e) for e in grid]) / gaussian_floats(1.0, grid)
    assert other.max() - 1 == pytest.approx(excess, rel=0.05)
