"""The theorems behind the prices, against exact divergences."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy.stats import norm

from sidelight.errors import RangeError
from sidelight.guarantees.conversions import renyi_epsilon
from sidelight.stability import price_of_certified_chain, price_of_test_and_release, renyi_of_failing_test


def test_failures_of_test_and_release_do_not_add_up() -> None:
    price = price_of_test_and_release(
        release_epsilon=Fraction(1),
        release_delta=Fraction(1, 10**6),
        test_epsilon=Fraction(1, 2),
        test_delta=Fraction(1, 10**7),
        false_pass=Fraction(2, 10**6),
    )
    assert price.epsilon == Fraction(3, 2)
    assert price.delta == Fraction(21, 10**7)


def test_a_renyi_test_is_not_covered_by_the_plain_probability_of_a_false_pass() -> None:
    """The counterexample: a Gaussian threshold test of deviation 5, a release of divergence 2 at order 10."""
    order, deviation, false_pass, worst = 10, 5, 1e-6, 2.0
    z = -norm.ppf(false_pass)
    p, q = false_pass, norm.sf(z + 1 / deviation)
    t = order - 1
    true = math.log((1 - p) ** order * (1 - q) ** -t + p**order * q**-t * math.exp(t * worst)) / t
    assert true == pytest.approx(1.4739, abs=1e-3)
    others = [20 + tenth / 10 for tenth in range(200)]
    bound = renyi_of_failing_test(
        order, test=lambda a: a / (2 * deviation**2), worst_case=worst, false_pass=false_pass, other_orders=others
    )
    assert bound == pytest.approx(1.5362, abs=1e-3)
    assert true <= bound
    claimed = 0.6676  # the source's formula
    assert claimed < true


def test_certified_chains_take_the_best_public_order_and_add_the_failure() -> None:
    orders = [Fraction(k) for k in range(2, 60)]
    price = price_of_certified_chain(
        lambda a: [a / 50, a / 100], orders=orders, conversion_delta=Fraction(1, 10**6), failure=Fraction(1, 10**7)
    )
    best = min(renyi_epsilon(3 * a / 100, a - 1, Fraction(1, 10**6)) for a in orders)
    assert price.epsilon == best
    assert price.delta == Fraction(11, 10**7)


def test_orders_that_nothing_covers_are_left_out_or_refused() -> None:
    with pytest.raises(RangeError, match="covered by the certificate"):
        price_of_certified_chain(
            lambda a: [math.inf], orders=[Fraction(2)], conversion_delta=Fraction(1, 2), failure=Fraction(0)
        )
    with pytest.raises(RangeError, match="above 1"):
        price_of_certified_chain(
            lambda a: [a], orders=[Fraction(1)], conversion_delta=Fraction(1, 2), failure=Fraction(0)
        )
    partly = price_of_certified_chain(
        lambda a: [a / 10 if a < 5 else math.inf],
        orders=[Fraction(4), Fraction(9)],
        conversion_delta=Fraction(1, 100),
        failure=Fraction(0),
    )
    assert partly.epsilon == renyi_epsilon(Fraction(2, 5), Fraction(3), Fraction(1, 100))
