"""RW-Meta: decorrelation, both variants, and the state of an open round."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.experts import RoundError, RWMeta, Stream
from sidelight.experts.meta import complement, seen_covariance


def projection(m):
    return np.eye(m) - np.ones((m, m)) / m


def largest(matrix):
    return float(np.linalg.eigvalsh(matrix)[-1])


def test_two_cliques_are_the_worst_case():
    clique = np.kron(np.eye(2), np.ones((2, 2)))  # m = 4, eta = T = 1
    for variant in ("centred", "paper"):
        assert largest(seen_covariance(clique, variant=variant)) == pytest.approx(2, rel=1e-12)


def test_the_reference_matrix():
    a = np.array([[5.0, 4, 4], [4, 5, 4], [4, 4, 1]])
    assert largest(seen_covariance(a @ a.T, variant="paper")) == pytest.approx(22.2869003, rel=1e-6)
    assert largest(seen_covariance(a @ a.T, variant="centred")) == pytest.approx(6.3333333, rel=1e-6)


@given(st.integers(1, 9), st.integers(0, 10**6), st.sampled_from(["centred", "paper"]))
def test_differences_between_learners_get_isotropic_noise(m, seed, variant):
    a = np.random.default_rng(seed).normal(size=(m, m))
    sigma, p = a @ a.T, projection(m)
    seen = seen_covariance(sigma, variant=variant)
    level, root = complement(seen, at_least=0.1)
    whole = p @ (sigma + root @ root.T) @ p
    assert np.abs(whole - level * p).max() <= 1e-12 * max(level, 1) * m
    assert largest(seen_covariance(sigma)) <= largest(seen_covariance(sigma, variant="paper")) + 1e-9


def test_the_papers_level_can_fall_and_ours_cannot():
    rng = np.random.default_rng(4)
    fell = 0
    for _ in range(300):
        m = 4
        sigma = np.eye(m) * 0.01
        before = {variant: largest(seen_covariance(sigma, variant=variant)) for variant in ("centred", "paper")}
        for _ in range(6):
            x = rng.dirichlet(np.full(3, 0.3), size=m)
            sigma = sigma + x @ x.T
            after = {variant: largest(seen_covariance(sigma, variant=variant)) for variant in ("centred", "paper")}
            assert after["centred"] >= before["centred"] - 1e-12
            fell += after["paper"] < before["paper"] - 1e-9
            before = after
    assert fell > 0


def played(player, rounds, seed=0, **update):
    rng = np.random.default_rng(seed)
    actions = []
    for _ in range(rounds):
        actions.append(player.predict())
        player.update(rng.random(player.actions) + 0.2 * rng.standard_normal(player.actions), **update)
    return actions


@pytest.mark.parametrize("middle", [False, True], ids=["between rounds", "in an open round"])
@pytest.mark.parametrize("rounds", [0, 1, 5, 70])
def test_a_stored_player_goes_on_bit_for_bit(rounds, middle):
    one = RWMeta(actions=4, noise_scale=0.2, stream=Stream.seeded("meta"))
    played(one, rounds)
    if middle:
        one.predict()
    other = RWMeta.from_state(json.loads(json.dumps(one.state())))
    assert other.state() == one.state()
    assert played(one, 20, seed=1) == played(other, 20, seed=1)
    assert one.state() == other.state()


def test_predict_twice_is_one_prediction_and_update_needs_one():
    player = RWMeta(actions=4, noise_scale=0.2, stream=Stream.seeded(2))
    with pytest.raises(RoundError, match="predict"):
        player.update(np.zeros(4))
    first = player.predict()
    assert player.predict() == first
    assert player.state()["pending"] is not None


def test_one_hot_actions_add_the_agreement_matrix():
    player = RWMeta(actions=6, noise_scale=0.5, stream=Stream.seeded(3))
    player.predict()
    advice = np.array(player.state()["pending"]["advice"])
    index = advice.argmax(axis=1)
    before, gains = player.covariance, np.array(player.state()["gains"])
    report = np.arange(6.0) / 6
    player.update(report, noise_scale=0.3)
    assert player.covariance - before == pytest.approx(0.09 * (index[:, None] == index), abs=1e-15)
    assert np.array(player.state()["gains"]) - gains == pytest.approx(report[index], abs=1e-12)
    player.predict()
    index = np.array(player.state()["pending"]["advice"]).argmax(axis=1)
    before, scales = player.covariance, np.linspace(0.1, 0.6, 6)
    player.update(report, noise_scale=scales)
    unequal = (index[:, None] == index) * (scales**2)[index]
    assert player.covariance - before == pytest.approx(unequal, abs=1e-15)


def test_the_level_never_falls_and_keeps_its_floor():
    player = RWMeta(actions=4, noise_scale=0.2, floor=2.0, variant="paper", stream=Stream.seeded(5))
    levels = []
    for _ in range(30):
        played(player, 1)
        levels.append(player.level)
    assert (np.diff(levels) >= 0).all()
    assert all(level >= 2 * t for t, level in enumerate(levels, start=1))


def test_learners_may_mix_actions():
    class Mixing:
        window = 0

        def predict(self, time, reports, scales):
            return np.array([0.25, 0.75])

        def update(self, time, report, mask):
            pass

        def state(self):
            return {"learner": "mixing"}

    player = RWMeta(actions=2, noise_scale=1.0, learners=[Mixing()], stream=Stream.seeded(6))
    actions = played(player, 2000)
    assert np.mean(actions) == pytest.approx(0.75, abs=0.05)
    again = RWMeta.from_state(player.state(), restore=lambda state: Mixing())
    assert played(again, 5) == played(player, 5)


@pytest.mark.parametrize("advice", [7, np.array([0.5, 0.6]), np.array([-0.1, 1.1]), np.ones(3) / 3])
def test_wrong_advice_is_refused(advice):
    class Wrong:
        window = 0

        def predict(self, time, reports, scales):
            return advice

    with pytest.raises(RangeError):
        RWMeta(actions=2, noise_scale=1.0, learners=[Wrong()], stream=Stream.seeded(6)).predict()


def test_parameters_are_checked():
    for wrong in ({"variant": "other"}, {"floor": 0.0}, {"learners": []}, {"noise_scale": 0.0}, {"actions": 1}):
        with pytest.raises(RangeError):
            RWMeta(**{"actions": 3, "noise_scale": 1.0, **wrong})


def test_without_decorrelation_the_leader_of_the_totals_is_followed():
    player = RWMeta(actions=3, noise_scale=0.1, decorrelate=False, stream=Stream.seeded(7))
    for _ in range(10):
        player.predict()
        state = player.state()
        assert state["pending"]["chosen"] == int(np.argmax(state["gains"]))
        player.update([0.1, 0.9, 0.2])
