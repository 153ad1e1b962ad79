"""The DP-SGD of the benchmarks: its noise against reference numbers, its price, and that its runs are what they say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks import dp_sgd
from sidelight.guarantees import RDP, Claims, RenyiOrders
from sidelight.tuning import Poisson
from sidelight.tuning.pricing import renyi_curve

REFERENCE = [
    (8000, 0.1, 47.71, 145.0),
    (8000, 1.0, 5.760, 15.996),
    (8000, 8.0, 1.1445, 2.348),
    (36_177, 0.1, 22.23, 67.55),
    (36_177, 1.0, 2.755, 7.478),
    (36_177, 8.0, 0.7505, 1.2413),
]


@pytest.mark.parametrize(("rows", "epsilon", "dishonest", "honest"), REFERENCE)
def test_noise_multipliers_are_the_reference_numbers(rows, epsilon, dishonest, honest):
    """The neighbours 1 % to either side are on the other side of epsilon: a multiplier 30 % off would fail by far."""
    for multiplier, price in ((dishonest, dp_sgd.run_epsilon), (honest, dp_sgd.selection_epsilon)):
        assert price(multiplier, rows, 1e-5) == pytest.approx(epsilon, rel=5e-4)
        assert price(0.99 * multiplier, rows, 1e-5) > epsilon > price(1.01 * multiplier, rows, 1e-5)


def test_the_search_finds_the_reference_number_from_above():
    found = dp_sgd.noise_multiplier(8000, epsilon=8.0, delta=1e-5, honest=True)
    assert found == pytest.approx(2.348, rel=3e-4)
    assert dp_sgd.selection_epsilon(found, 8000, 1e-5) <= 8.0


def test_numbers_of_steps():
    assert dp_sgd.steps(8000) == 1920
    assert dp_sgd.steps(36_177) == 8520


def test_ten_learning_rates_are_tried_with_the_probability_of_the_reference():
    below = sum(math.exp(-dp_sgd.MEAN_RUNS) * dp_sgd.MEAN_RUNS**k / math.factorial(k) for k in range(11))
    assert 1 - below == pytest.approx(0.8997, abs=5e-5)


def test_the_selection_costs_what_the_library_proves():
    """Our own theorem, in rational arithmetic, on the same curve: the price is its best order, up to rounding."""
    orders, divergences = dp_sgd.renyi(15.996, 8000)
    few = [place for place, order in enumerate(orders) if order in (8, 11, 12, 14, 16, 20)]
    base = Claims.of(RDP(RenyiOrders.of({Fraction(int(orders[i])): Fraction(divergences[i]) for i in few})))
    proved = renyi_curve(base, Poisson("15.4"))
    assert proved is not None
    # few orders bound δ̂ of the base less sharply than all of them, so the library's price is a little above
    assert 1.0 <= float(proved.epsilon(Fraction(1, 10**5))) < 1.3


def test_runs_learn_without_noise_and_not_with_too_much():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1500, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.where(x[:, 0] > 0, 1.0, -1.0)
    rows = np.column_stack([x, np.ones(1500)])
    runs = dp_sgd.Runs(np.array([0.0, 1e4]), np.array([1e-2, 1e-2]))
    weights = dp_sgd.train(rows, y, runs, rng)
    quiet, loud = (((rows @ weights > 0) == (y[:, None] > 0)).mean(axis=0)).tolist()
    assert quiet > 0.95
    assert loud < 0.9


def test_rows_that_would_need_clipping_are_refused():
    with pytest.raises(AssertionError, match="longer than the clip"):
        dp_sgd.train(
            np.full((300, 3), 1.0), np.ones(300), dp_sgd.Runs(np.ones(1), np.ones(1)), np.random.default_rng(1)
        )


@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (1.3, False), (0.7, False)])
def test_the_noise_has_the_size_that_was_paid_for(factor, passes):
    """Noise of the gradient: N(0, (z√2/256)²). A scale 30 % off is detected."""
    rng = np.random.default_rng(8)
    rows, signs, weights = np.zeros((5, 20_000)), np.ones((5, 1)), np.zeros((20_000, 2))
    rows[:, 0] = 1.0
    multipliers = np.array([2.0, 5.0])
    found = dp_sgd.noisy_gradient(rows, signs, weights, factor * multipliers * dp_sgd.CLIP, rng)
    sizes = found[1:].std(axis=0) * 256 / (np.sqrt(2) * multipliers)
    assert bool(np.all(np.abs(sizes - 1) < 0.05)) == passes


def test_the_gradient_is_the_sum_over_the_batch():
    rng = np.random.default_rng(9)
    rows, weights = rng.standard_normal((7, 3)), rng.standard_normal((3, 1))
    signs = np.array([[1.0], [-1.0]] * 3 + [[1.0]])
    found = dp_sgd.noisy_gradient(rows, signs, weights, np.zeros(1), rng)
    wanted = sum(-s / (1 + np.exp(s * (x @ weights))) * x for x, s in zip(rows, signs[:, 0], strict=True))
    np.testing.assert_allclose(found[:, 0] * 256, wanted, rtol=1e-9)
