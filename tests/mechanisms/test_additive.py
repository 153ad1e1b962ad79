"""Additive noise: scales, claims, refusals, and the law of what comes out."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import Neighbours, Person, Row
from sidelight.mechanisms.additive import GaussianNoise, LaplaceNoise
from sidelight.noise import Source
from sidelight.testing import SeededEntropy


def statistic(value, sensitivity=Fraction(1), norm="l1", unit=None):
    return Bounded(value, sensitivity, norm, Neighbours.ADD_REMOVE, unit or Row())


def test_scales_are_exact():
    assert LaplaceNoise(statistic(0, Fraction(3)), epsilon="0.1").scale == 30
    assert GaussianNoise(statistic(0, Fraction(3), "l2"), mu="0.1").scale == 30
    assert GaussianNoise(statistic(0, Fraction(1), "l2"), rho="0.5").scale >= 1


@pytest.mark.parametrize("rho", ["0.5", "0.123", "1e-9", "7"])
def test_the_scale_for_rho_is_rounded_up_and_not_far(rho):
    scale = GaussianNoise(statistic(0, Fraction(5, 3), "l2"), rho=rho).scale
    cost = Fraction(5, 3) ** 2 / (2 * scale**2)
    assert cost <= Fraction(rho)
    assert cost > Fraction(rho) * (1 - Fraction(1, 2**50))


def test_claims_carry_the_statistics_context():
    person = Person("id", 3)
    claims = LaplaceNoise(statistic([1, 2], Fraction(6), "l1", person), epsilon="0.5").claims
    assert claims.pure().epsilon == Fraction(1, 2)
    assert claims.unit == person
    claims = GaussianNoise(statistic([1, 2], Fraction(6), "l2", person), mu="0.5").claims
    assert claims.gdp().mu == Fraction(1, 2)
    assert claims.pure() is None
    assert GaussianNoise(statistic(1, Fraction(6), "l2"), rho="0.02").claims.zcdp().rho <= Fraction("0.02")


def test_a_laplace_release_does_not_claim_bounded_range():
    """e^2/8 is the exponential mechanism's; Laplace noise would be charged too little by it."""
    assert LaplaceNoise(statistic(0), epsilon=1).claims.zcdp().rho > Fraction(1, 8)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_laplace_refuses_other_norms_for_vectors(norm):
    with pytest.raises(RangeError, match="l1"), Source(SeededEntropy(1)) as source:
        LaplaceNoise(statistic([1, 2], norm=norm), epsilon=1).release(source)
    with Source(SeededEntropy(1)) as source:
        assert isinstance(LaplaceNoise(statistic(1, norm=norm), epsilon=1).release(source), int)


def test_gaussian_takes_l1_for_l2_but_not_linf():
    assert GaussianNoise(statistic([1, 2], norm="l1"), mu=1).scale == 1
    with pytest.raises(RangeError, match="l2 or l1"):
        GaussianNoise(statistic([1, 2], norm="linf"), mu=1)


@pytest.mark.parametrize("amounts", [{}, {"mu": 1, "rho": 1}, {"mu": 0}, {"rho": -1}])
def test_gaussian_needs_exactly_one_positive_amount(amounts):
    with pytest.raises(RangeError):
        GaussianNoise(statistic(1), **amounts)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf")])
def test_laplace_needs_a_positive_epsilon(epsilon):
    with pytest.raises(RangeError):
        LaplaceNoise(statistic(1), epsilon=epsilon)


def test_nothing_private_is_refused_with_a_hint():
    with pytest.raises(RangeError, match="without noise"):
        LaplaceNoise(statistic(41, Fraction(0)), epsilon=1)


def test_shapes_are_kept():
    with Source(SeededEntropy(2)) as source:
        assert LaplaceNoise(statistic(np.zeros((2, 3), np.int64)), epsilon=1).release(source).shape == (2, 3)
        assert GaussianNoise(statistic(np.zeros((4,), np.int64), norm="l2"), mu=1).release(source).shape == (4,)
        assert isinstance(GaussianNoise(statistic(5), mu=1).release(source), int)


def test_the_noise_has_the_scale_that_was_claimed():
    """Sensitivity 3 at epsilon 3/2: scale 2; a scale 30 % off is rejected."""
    with Source(SeededEntropy(3)) as source:
        noisy = LaplaceNoise(statistic(np.full(20_000, 100), Fraction(3)), epsilon="1.5").release(source) - 100
    assert discrete_laplace_p(noisy, 2.0) > 1e-8
    assert discrete_laplace_p(noisy, 2.6) < 1e-8
    assert discrete_laplace_p(noisy, 1.4) < 1e-8


def discrete_laplace_p(values, scale):
    a = math.exp(-1 / scale)
    inside = np.arange(-8, 9)
    law = (1 - a) / (1 + a) * a ** np.abs(inside)
    observed = [np.sum(values == k) for k in inside]
    observed.append(len(values) - sum(observed))
    expected = np.append(law, 1 - law.sum()) * len(values)
    return chisquare(observed, expected).pvalue


def test_gaussian_noise_has_the_variance_that_was_claimed():
    with Source(SeededEntropy(4)) as source:
        noisy = GaussianNoise(statistic(np.full(20_000, -7), Fraction(10), "l2"), mu=2).release(source) + 7
    assert np.var(noisy) == pytest.approx(25 + 1 / 12, rel=0.06)
    assert np.var(noisy) != pytest.approx((5 * 1.3) ** 2, rel=0.3)
    assert abs(np.mean(noisy)) < 0.25
