"""The theorems behind the prices, against exact divergences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import pytest
from scipy.stats import norm

from sidelight.guarantees.conversions import renyi_epsilon
from sidelight.stability.pate.proposals import certified_price


def renyi_of_failing_test(
    order: float, *, test: Callable[[float], float], worst_case: float, false_pass: float, other_orders: Iterable[float]
) -> float:
    """Return the Renyi divergence of test-then-release on data that should have been refused (Theorem 3, Hoelder).

    `test(order)` is the test's own Renyi bound, `worst_case` the release's without any assumption. The source's
    formula, which weighs the false pass by its plain probability, is false: an order tilts the law towards it.
    """
    t = order - 1
    refused = t * test(order)
    best = math.inf
    for other in other_orders:
        passed = t * (test(other) + worst_case) + math.log(false_pass) * (other - order) / (other - 1)
        high = max(refused, passed)
        best = min(best, high + math.log(math.exp(refused - high) + math.exp(passed - high)))
    return best / t


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


def test_a_certified_chain_converts_once_and_adds_the_failure() -> None:
    price = certified_price(Fraction(3, 10), Fraction(10), delta="2e-6")
    assert price.epsilon == renyi_epsilon(Fraction(3, 10), Fraction(9), Fraction(1, 10**6))
    assert price.delta == Fraction(2, 10**6)
