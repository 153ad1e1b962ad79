"""The data-dependent cost of a noisy vote, and the distance to votes that cost too much."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from sidelight.errors import RangeError
from sidelight.stability.pate.proposals import (
    VoteCost,
    log_error_probability,
    log_q_at,
    noisy_max_renyi,
    quantiles_of,
    vote_distance,
    vote_quantile,
)
from sidelight.stability.pate.votes import checked_votes

CLEAR = (390, 4, 2, 1, 1, 1, 1, 0, 0, 0)
MIXED = (300, 60, 20, 5, 5, 5, 2, 1, 1, 1)
CLOSE = (210, 180, 5, 1, 1, 1, 1, 1, 0, 0)


def test_reference_votes() -> None:
    logs = log_error_probability([CLEAR, MIXED], noise_scale=40)
    assert logs == pytest.approx([-24.28860976, -11.33481698], rel=1e-9)
    assert vote_quantile(logs, classes=10) == pytest.approx([6.87301134, 4.69581520], rel=1e-8)
    assert noisy_max_renyi(logs, noise_scale=40, order=5) == pytest.approx([1.98070827e-11, 5.06678387e-6], rel=1e-8)
    assert noisy_max_renyi(logs, noise_scale=40, order=20) == pytest.approx([1.69071768e-10, 1.71384801e-5], rel=1e-8)
    close = log_error_probability([CLOSE], noise_scale=40)
    assert noisy_max_renyi(close, noise_scale=40, order=20) == pytest.approx([0.0125])


@pytest.mark.parametrize(
    ("log_q", "sigma", "order", "wanted"),
    [(-20, 10, 5, 2.1610424e-8), (-50, 40, 20, 8.5644374e-21), (-100, 40, 32, 6.5943281e-39)],
)
def test_reference_costs(log_q: float, sigma: float, order: float, wanted: float) -> None:
    assert noisy_max_renyi([log_q], noise_scale=sigma, order=order)[0] == pytest.approx(wanted, rel=1e-7)


def test_unanimous_votes_stay_finite() -> None:
    logs = log_error_probability([[10**6, 0]], noise_scale=5)
    assert np.isfinite(logs).all()
    assert noisy_max_renyi(logs, noise_scale=5, order=30)[0] >= 0


def test_reference_distances() -> None:
    cost = VoteCost(noise_scale=40, order=10, classes=10)
    quantiles = quantiles_of([CLEAR, MIXED], cost, tie_margin=0.0)
    assert cost.at(quantiles).sum() == pytest.approx(6.928657e-6, rel=1e-6)
    found = [vote_distance(quantiles, cost, budget=each, cap=10_000) for each in (0.001, 0.005, 0.01, 0.012)]
    assert found == [37, 52, 111, 116]


def outcome_probabilities(votes: tuple[int, ...], sigma: float) -> np.ndarray:
    """Exact probabilities of each winner under continuous noise, by quadrature."""
    x = np.linspace(-9, 9, 4001) * sigma
    density = norm.pdf(x / sigma) / sigma
    wins = []
    for j, count in enumerate(votes):
        others = [norm.cdf((count + x - other) / sigma) for k, other in enumerate(votes) if k != j]
        wins.append(np.trapezoid(density * np.prod(others, axis=0), x))
    return np.array(wins)


@pytest.mark.parametrize("sigma", [8.0, 15.0])
@pytest.mark.parametrize("planted", [False, True])
def test_the_cost_is_never_below_the_true_divergence(sigma: float, planted: bool) -> None:
    """Both the bound and a planted bug (twice the gap) against exact divergences of neighbouring votes."""
    too_low = 0
    for votes in [(60, 10, 5), (40, 30, 5), (75, 0, 0), (50, 20, 5)]:
        p = outcome_probabilities(votes, sigma)
        seen = tuple(2 * v for v in votes) if planted else votes
        logs = log_error_probability([seen], noise_scale=sigma)
        for order in (2, 4, 8):
            bound = noisy_max_renyi(logs, noise_scale=sigma, order=order)[0]
            for source in range(3):
                for goal in range(3):
                    if source != goal and votes[source]:
                        moved = tuple(v - (k == source) + (k == goal) for k, v in enumerate(votes))
                        q = outcome_probabilities(moved, sigma)
                        true = math.log(float((p**order * q ** (1 - order)).sum())) / (order - 1)
                        too_low += true > bound * (1 + 1e-6) + 1e-12
    assert (too_low > 0) == planted


@given(
    votes=st.lists(st.integers(0, 60), min_size=2, max_size=6),
    sigma=st.floats(1, 60),
    moves=st.tuples(st.integers(0, 5), st.integers(0, 5)),
)
def test_one_teacher_moves_the_quantile_by_at_most_a_step(
    votes: list[int], sigma: float, moves: tuple[int, int]
) -> None:
    classes = len(votes)
    source, goal = moves[0] % classes, moves[1] % classes
    if votes[source] == 0:
        return
    moved = [v - (k == source) + (k == goal) for k, v in enumerate(votes)]
    cost = VoteCost(noise_scale=sigma, order=10, classes=classes)
    here, there = quantiles_of([votes, moved], cost, tie_margin=2**-10)
    assert abs(here - there) <= cost.step
    for budget in (1e-4, 1e-2):
        first, second = (vote_distance(np.array([w]), cost, budget=budget, cap=60) for w in (here, there))
        assert abs(first - second) <= 1
        assert (first == 0) == bool(cost.at(np.array([here]) - 1e-9).sum() > budget)


def test_the_cost_falls_with_the_quantile() -> None:
    for sigma in (1.0, 10.0, 100.0):
        for order in (1.5, 5.0, 60.0):
            cost = VoteCost(noise_scale=sigma, order=order, classes=10)
            points = np.linspace(-3, 45, 5000)
            values = cost.at(points)
            assert np.all(np.diff(values) <= 1e-12 * values[:-1])


def test_a_cost_that_does_not_fall_is_replaced_by_its_least_value_up_to_there() -> None:
    """What holds for a smaller quantile holds for this one: the bound is a cost at the quantile or below it."""

    class Bumpy(VoteCost):
        def _raw(self, quantile: np.ndarray) -> np.ndarray:
            return 1.0 + np.sin(5 * quantile) * 0.5 - quantile / 100

    cost = Bumpy(noise_scale=10, order=5, classes=3)
    points = np.linspace(cost._grid[0], 40, 4000)
    assert np.all(np.diff(cost.at(points)) <= 0)
    below = [cost._raw(cost._grid[cost._grid <= point]).min() for point in points]
    assert cost.at(points).tolist() == below


def test_quantiles_and_logarithms_are_inverse() -> None:
    logs = np.array([-1.0, -20.0, -300.0])
    assert log_q_at(vote_quantile(logs, classes=7), classes=7) == pytest.approx(logs, rel=1e-9)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([[1, -2]], "negative"),
        ([[1.5, 2]], "whole"),
        ([[math.nan, 2]], "whole"),
        ([[3], [4]], "two classes or more"),
        ([3, 4], "one row per query"),
    ],
)
def test_what_no_vote_can_be_is_refused(votes: list, message: str) -> None:
    with pytest.raises(RangeError, match=message):
        checked_votes(votes)


def test_orders_are_above_one() -> None:
    with pytest.raises(RangeError, match="above 1"):
        noisy_max_renyi([-3.0], noise_scale=10, order=1)
