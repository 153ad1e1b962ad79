"""Rolling Gaussian regressions: reference weights, what they see, and unequal noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.experts import RWMeta, Stream, forecast_weights
from sidelight.experts.learners import RollingRegression, learner_from_state, shrunk, usual_learners


def test_reference_weights():
    expected = [0.04447853, 0.06748466, 0.09049080, 0.11349693, 0.13650307, 0.15950920, 0.18251534, 0.20552147]
    assert forecast_weights(8, 0.3) == pytest.approx(expected, rel=1e-6)
    for window, strength, squares in ((8, 0.3, 0.14722985), (16, 0.05, 0.14526421), (64, 3.0, 0.01566031)):
        assert (forecast_weights(window, strength) ** 2).sum() == pytest.approx(squares, rel=1e-6)


@given(st.integers(1, 80), st.floats(0, 100))
def test_weights_sum_to_one_and_agree_with_ridge_regression(window, strength):
    weights = forecast_weights(window, strength)
    assert weights.sum() == pytest.approx(1, abs=1e-9)
    if window > 1 and strength > 0.01:
        y = np.sin(np.arange(window))
        place = np.arange(-window, 0) / window
        centred = place - place.mean()
        slope = (centred @ y) / (centred @ centred + strength * window)
        assert weights @ y == pytest.approx(y.mean() - slope * place.mean(), abs=1e-6)


def test_a_weak_strength_extrapolates_and_a_strong_one_averages():
    line = np.arange(16.0)
    assert forecast_weights(16, 0.0) @ line == pytest.approx(16, abs=1e-5)
    assert forecast_weights(16, 1e9) @ line == pytest.approx(7.5, abs=1e-5)


def test_there_are_thirteen_usual_learners_and_they_come_back_from_their_states():
    learners = usual_learners(actions=5, noise_scale=0.2, stream=Stream.seeded(1))
    assert len(learners) == 13
    reports, scales = np.random.default_rng(0).random((64, 5)), np.full((64, 5), 0.2)
    for learner in learners:
        again = learner_from_state(learner.state(), actions=5)
        assert again.predict(65, reports, scales) == learner.predict(65, reports, scales)
    with pytest.raises(RangeError, match="restore"):
        learner_from_state({"learner": "mine"}, actions=5)


def test_before_two_reports_exist():
    learner = RollingRegression(window=8, strength=0.3)
    empty = np.zeros((0, 3))
    assert learner.predict(1, empty, empty) is None
    assert learner.predict(2, np.array([[0.1, 0.9, 0.3]]), np.ones((1, 3))) == 1


@given(st.floats(1e-3, 10), st.integers(0, 10**6))
def test_equal_noise_changes_no_choice(scale, seed):
    forecasts = np.random.default_rng(seed).normal(size=7)
    assert shrunk(forecasts, np.full(7, scale), spread=0.05) is forecasts
    unequal = np.full(7, scale)
    leader = int(np.argmax(forecasts))
    unequal[leader] = 1e6  # the leader is all noise: it falls back to the mean of all
    assert shrunk(forecasts, unequal, spread=0.05)[leader] < forecasts[leader]


def test_learners_get_read_only_copies():
    seen = []

    class Curious:
        window = 4

        def predict(self, time, reports, scales):
            seen.extend([reports, scales])
            return 0

        def update(self, time, report, mask):
            seen.append(report)

        def state(self):
            return {"learner": "curious"}

    player = RWMeta(actions=3, noise_scale=0.1, learners=[Curious()], stream=Stream.seeded(1))
    truth = np.array([0.1, 0.2, 0.3])
    for _ in range(3):
        player.predict()
        player.update(truth)
    assert all(not each.flags.writeable for each in seen if len(each))
    assert not any(np.shares_memory(each, truth) for each in seen)
