"""Exact losses of finite laws."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from sidelight.audit import exact_epsilon, exact_hockey_stick, exact_mu, exact_rho
from sidelight.errors import RangeError


def test_the_loss_is_the_largest_log_ratio_in_either_direction():
    assert float(exact_epsilon({0: Fraction(1), 1: Fraction(3)}, {0: Fraction(3), 1: Fraction(1)})) == math.log(3)
    assert float(exact_epsilon({0: Fraction(1), 1: Fraction(1)}, {0: Fraction(9), 1: Fraction(1)})) == math.log(5)
    assert exact_epsilon({0: Fraction(2)}, {0: Fraction(7)}) == 0


def test_an_outcome_that_only_one_side_can_give_is_an_infinite_loss():
    assert exact_epsilon({0: Fraction(1), 1: Fraction(1)}, {0: Fraction(1)}) == Decimal("Infinity")
    assert exact_epsilon({0: Fraction(1), 1: Fraction(0)}, {0: Fraction(1)}) == 0


def test_hockey_stick():
    p, q = {0: Fraction(3, 4), 1: Fraction(1, 4)}, {0: Fraction(1, 4), 1: Fraction(3, 4)}
    assert exact_hockey_stick(p, q, factor=Fraction(2)) == Fraction(1, 4)
    assert exact_hockey_stick(p, q, factor=Fraction(3)) == 0
    assert exact_hockey_stick(p, {2: Fraction(1)}, factor=Fraction(100)) == 1


def test_nonsense_is_refused():
    with pytest.raises(RangeError, match="positive total"):
        exact_epsilon({}, {0: Fraction(1)})
    with pytest.raises(RangeError, match="positive total"):
        exact_epsilon({0: Fraction(2), 1: Fraction(-1)}, {0: Fraction(1)})


def test_mu_of_a_coarsened_gaussian_pair_is_at_most_its_mu_and_close_to_it():
    cells = range(-60, 61)
    laws = [
        {
            k: Fraction(math.erf((k + 0.5 - shift) / 10 / 2**0.5) - math.erf((k - 0.5 - shift) / 10 / 2**0.5))
            for k in cells
        }
        for shift in (0, 10)
    ]
    assert 0.99 < exact_mu(*laws) <= 1 + 1e-9
    assert exact_mu(*laws) == pytest.approx(exact_mu(*reversed(laws)))
    assert 0.48 < exact_rho(*laws) <= 0.5 + 1e-3


def test_mu_and_rho_of_randomized_response():
    p, q = {0: Fraction(3, 4), 1: Fraction(1, 4)}, {0: Fraction(1, 4), 1: Fraction(3, 4)}
    assert exact_mu(p, q) == pytest.approx(2 * 0.6744897501960817)
    assert exact_rho(p, q) == pytest.approx(0.5 * math.log(3), rel=1e-5)  # at order 1: the Kullback-Leibler divergence
    assert exact_mu(p, {0: Fraction(1)}) == math.inf
    assert exact_rho(p, {0: Fraction(1)}) == math.inf
