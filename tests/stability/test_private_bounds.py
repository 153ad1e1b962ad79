"""Private bounds fail as often as stated, on the stated side; the budget of one order."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.guarantees.conversions import renyi_epsilon
from sidelight.mechanisms.tests_and_bounds import private_lower_bound, private_upper_bound
from sidelight.noise import Source
from sidelight.stability.propose_test_release import order_budget
from sidelight.testing import SeededEntropy

_RUNS = 1500


def failures(bound: str, *, value: float, at: float, offset: float = 0.0) -> float:
    source = Source(SeededEntropy(7))
    given = {"sensitivity": 1.0, "mu": 0.5, "failure": 0.05, "source": source}
    if bound == "lower":
        return float(np.mean([private_lower_bound(value, **given) > at for _ in range(_RUNS)]))
    return float(np.mean([private_upper_bound(value, **given, for_neighbours=offset) < at for _ in range(_RUNS)]))


def test_bounds_fail_with_the_stated_probability() -> None:
    spread = 5 * math.sqrt(0.05 * 0.95 / _RUNS)
    assert failures("lower", value=3.3, at=3.3) == pytest.approx(0.05, abs=spread)
    assert failures("upper", value=-8.1, at=-8.1) == pytest.approx(0.05, abs=spread)


def test_a_bound_on_the_wrong_side_is_no_bound() -> None:
    assert failures("lower", value=3.3, at=-3.3) > 0.5  # an upper bound is expected of it
    assert failures("upper", value=3.3, at=9.9) > 0.5


def test_a_neighbours_bound_covers_this_value_too() -> None:
    spread = 5 * math.sqrt(0.05 * 0.95 / _RUNS)
    assert failures("upper", value=1.0, at=2.0, offset=1.0) <= 0.05 + spread  # the neighbour is one sensitivity lower
    assert failures("upper", value=1.0, at=2.0) > 0.08  # the negative control: without the offset it is not covered


def test_nan_and_infinities_refuse() -> None:
    source = Source(SeededEntropy(1))
    given = {"sensitivity": 1.0, "mu": 1.0, "failure": 0.1, "source": source}
    assert private_lower_bound(math.nan, **given) < -(10**9)
    assert private_lower_bound(-math.inf, **given) < -(10**9)
    assert private_upper_bound(math.nan, **given) > 10**9
    with pytest.raises(RangeError, match="sensitivity"):
        private_upper_bound(1.0, sensitivity=math.inf, mu=1.0, failure=0.1, source=source)


def test_reference_budget() -> None:
    found = order_budget(Fraction(1), Fraction(1, 10**6))
    assert found.rho == pytest.approx(0.0243557827, rel=1e-4)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
def test_the_budget_converts_back(epsilon: Fraction) -> None:
    delta = Fraction(1, 10**6)
    found = order_budget(epsilon, delta)
    converted = renyi_epsilon(found.divergence, found.order - 1, delta)
    assert epsilon * Fraction(999_999, 10**6) < converted <= epsilon
    assert found.mu(Fraction(1)) ** 2 / 2 * float(found.order) <= float(found.divergence)


def test_orders_that_are_not_covered_are_refused() -> None:
    with pytest.raises(RangeError, match="at least 2"):
        order_budget(Fraction(1), Fraction(1, 10**6), order="1.5")
    with pytest.raises(RangeError, match="leaves nothing"):
        order_budget(Fraction(1), Fraction(1, 10**6), order=3)
