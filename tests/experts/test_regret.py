"""Regret bounds and accounts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.baselines.experts import simulate_ftpl
from benchmarks.baselines.experts.regret import account, half_width

from sidelight.errors import RangeError
from sidelight.experts import (
    META_CAVEAT,
    adabatch_bound,
    ftpl_bound,
    meta_bound,
)


def test_reference_bounds():
    assert ftpl_bound(actions=24, rounds=148, noise_scale=0.5) == pytest.approx(138.0190, rel=1e-5)
    assert ftpl_bound(actions=24, rounds=148, noise_scale=1.414) == pytest.approx(86.7504, rel=1e-5)
    assert meta_bound(learners=13, rounds=148, largest_eigenvalue=0.0) == pytest.approx(77.9346, rel=1e-5)
    assert "guide" in META_CAVEAT


def test_the_best_noise_is_root_two_times_the_range():
    for c in (0.3, 1.0, 4.0):
        best = ftpl_bound(actions=24, rounds=148, noise_scale=math.sqrt(2) * c, gain_range=c)
        assert best == pytest.approx(4 * c * math.sqrt(148 * math.log(24)))
        assert best < ftpl_bound(actions=24, rounds=148, noise_scale=1.1 * math.sqrt(2) * c, gain_range=c)
        assert meta_bound(
            learners=13, rounds=9, largest_eigenvalue=0.0, floor=2 * c * c, gain_range=c
        ) == pytest.approx(4 * c * math.sqrt(9 * math.log(13)))


def test_batches_cost_at_most_half_the_tolerance():
    plain, batched = (f(actions=24, rounds=148, noise_scale=math.sqrt(2)) for f in (ftpl_bound, adabatch_bound))
    assert batched / plain - 1 == pytest.approx(0.01 / 2)


def test_simulated_regret_lies_below_the_bound():
    rng = np.random.default_rng(1)
    gains = (rng.random((400, 10)) < np.linspace(0.4, 0.6, 10)).astype(float)
    for eta in (0.5, math.sqrt(2), 4.0):
        run = simulate_ftpl(gains, noise_scale=eta, runs=200, rng=rng)
        assert gains.sum(axis=0).max() - run.gain.mean() < ftpl_bound(actions=10, rounds=400, noise_scale=eta)


def test_an_account_of_true_gains():
    found = account([[0.0, 1.0], [1.0, 0.0], [0.5, 0.0]], [0, 0, 1])
    assert (found.gain, found.best_action_gain, found.best_each_round, found.switches) == (1.0, 1.5, 2.5, 1)
    assert found.static_regret == 0.5
    assert found.regret_against([0.4, 2.0]) == 1.0
    with pytest.raises(RangeError):
        account([[0.0, 1.0]], [0, 1])


def test_intervals_are_wider_for_more_cells():
    values = np.random.default_rng(3).normal(size=100)
    one, many = half_width(values), half_width(values, cells=20)
    assert one == pytest.approx(1.96 * values.std(ddof=1) / 10, rel=1e-3)
    assert many > 1.4 * one
