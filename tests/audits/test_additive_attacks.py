"""Sampling attacks on additive noise: the honest mechanisms hold, noise 30 % too small is refuted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates import Bounded
from sidelight.audit import audit
from sidelight.guarantees import Neighbours, Row
from sidelight.mechanisms.additive import GaussianNoise, LaplaceNoise
from sidelight.noise import Source, discrete_laplace, rounded_gaussian
from sidelight.testing import SeededEntropy

DRAWS = 200_000


def noisy(value, draw, seed):
    """A sampler of value + noise, from one seeded stream."""
    source = Source(SeededEntropy("additive attacks", path=[seed]))
    return lambda count: value + draw(count, source)


def laplace_audit(scale):
    return audit(
        noisy(0, lambda n, source: discrete_laplace(n, scale, source), f"laplace {scale} first"),
        noisy(1, lambda n, source: discrete_laplace(n, scale, source), f"laplace {scale} second"),
        draws=DRAWS,
    )


def gauss_audit(scale):
    return audit(
        noisy(0, lambda n, source: rounded_gaussian(n, scale, source), f"gauss {scale} first"),
        noisy(1, lambda n, source: rounded_gaussian(n, scale, source), f"gauss {scale} second"),
        draws=DRAWS,
    )


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_discrete_laplace_keeps_its_epsilon_and_a_smaller_scale_does_not(epsilon):
    honest = laplace_audit(1 / epsilon)
    assert not honest.refutes(sl.PureDP(epsilon))
    assert honest.epsilon().value > 0.85 * float(epsilon)
    assert laplace_audit(Fraction(7, 10) / epsilon).refutes(sl.PureDP(epsilon))


@pytest.mark.parametrize("mu", [Fraction(1, 2), Fraction(2)])
def test_rounded_gaussian_keeps_its_mu_and_a_smaller_scale_does_not(mu):
    honest = gauss_audit(1 / mu)
    assert not honest.refutes(sl.GDP(mu))
    assert not honest.refutes(sl.ZCDP(mu**2 / 2))
    assert honest.mu().value > 0.85 * float(mu)
    assert gauss_audit(Fraction(7, 10) / mu).refutes(sl.GDP(mu))


def count_of(rows, *, sensitivity):
    return Bounded(rows, sensitivity=Fraction(sensitivity), norm="l1", neighbours=Neighbours.ADD_REMOVE, unit=Row())


def through(mechanism, rows, *, sensitivity, seed):
    """Entries are independent, so one call on a long vector is many draws of the mechanism on one number."""
    source = Source(SeededEntropy("mechanism attacks", path=[seed]))
    return lambda count: mechanism(count_of(np.full(count, rows), sensitivity=sensitivity), source)


def attacked(mechanism, sensitivity):
    name = f"{mechanism.__name__} {sensitivity}"
    return audit(
        through(mechanism, 7, sensitivity=sensitivity, seed=name + " first"),
        through(mechanism, 8, sensitivity=sensitivity, seed=name + " second"),
        draws=DRAWS,
    )


@pytest.mark.planted("half the sensitivity under Laplace noise", of=("Count", "Histogram", "Sum", "Mean", "Proportion"))
def test_a_halved_sensitivity_is_refuted_under_laplace_noise():
    def laplace(bounded, source):
        return LaplaceNoise(bounded, epsilon=1).release(source)

    claims = LaplaceNoise(count_of(0, sensitivity=1), epsilon=1).claims
    assert not attacked(laplace, 1).refutes(claims)
    assert attacked(laplace, "1/2").refutes(claims)


@pytest.mark.planted(
    "half the sensitivity under Gaussian noise", of=("Count", "Histogram", "Sum", "Mean", "Proportion")
)
def test_a_halved_sensitivity_is_refuted_under_gaussian_noise():
    def gaussian(bounded, source):
        return GaussianNoise(bounded, mu=1).release(source)

    claims = GaussianNoise(count_of(0, sensitivity=1), mu=1).claims
    assert not attacked(gaussian, 1).refutes(claims)
    assert attacked(gaussian, "1/2").refutes(claims)
