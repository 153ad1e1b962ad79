"""The filters of RW-Meta's default learners: against a plain Kalman filter, missing reports, states, what is seen."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from benchmarks.baselines.experts import simulate_meta, simulate_rotating_gains
from benchmarks.experts_generated import DRIFTING, GENERATORS, ratio
from benchmarks.experts_hospitals import FLOOR
from fixed_player import Fixed

from benchmarks import experts_generated, hospital_data
from sidelight.errors import RangeError
from sidelight.experts import FilterLearner, RWMeta, Stream, filter_learners, ftpl_bound, meta_bound
from sidelight.experts.learners import MODELS, Filters, learner_from_state

ALL = np.ones(4, dtype=np.bool_)


def kalman(model, reports, variances):
    """One model by the book, a 2 x 2 filter for each coordinate; returns forecasts and the log-likelihood."""
    n = reports.shape[1]
    move = np.array([[model.persistence, 1.0], [0.0, model.slope]])
    noise = np.diag([model.moves, model.slope_moves])
    means = np.zeros((n, 2))
    slope = model.slope_moves / (1 - model.slope**2)
    spreads = np.array([np.diag([model.spread**2, slope])] * n)
    share = 1 / (variances + model.spread**2)
    total = 0.0
    for row in reports:
        seen = row - (share * row).sum() / share.sum()
        for i in range(n):
            variance = spreads[i][0, 0] + variances[i] + model.blur
            miss = seen[i] - means[i][0]
            total -= 0.5 * (math.log(variance) + miss**2 / variance)
            gain = spreads[i][:, 0] / variance
            means[i] = move @ (means[i] + gain * miss)
            spreads[i] = move @ (spreads[i] - np.outer(gain, spreads[i][0])) @ move.T + noise
    return means[:, 0], total


def test_every_model_is_a_kalman_filter():
    rng = np.random.default_rng(1)
    reports, variances = 0.3 * rng.random((12, 4)), np.array([0.01, 0.04, 0.0001, 0.01])
    bank = Filters(actions=4)
    for row in reports:
        bank.absorb(row[None], variances, ALL)
    forecasts = []
    for place, model in enumerate(MODELS):
        expected, evidence = kalman(model, reports, variances)
        assert bank.level[0, place] == pytest.approx(expected, abs=1e-12)
        assert bank.evidence[0, place] == pytest.approx(evidence, rel=1e-9)
        forecasts.append((evidence, expected))
    weights = np.exp([evidence - max(each for each, _ in forecasts) for evidence, _ in forecasts])
    mixed = sum(weight * level for weight, (_, level) in zip(weights, forecasts, strict=True)) / weights.sum()
    assert bank.forecast()[0] == pytest.approx(mixed, abs=1e-12)


def test_noisier_reports_are_drawn_further_to_the_mean():
    bank = Filters(actions=4)
    variances = np.array([1e-6, 0.01, 1.0, 1e-6])
    bank.absorb(np.array([[0.4, 0.4, 0.4, 0.0]]), variances, ALL)
    first, second, third, _ = bank.forecast()[0]
    assert first > second > third


def test_the_range_of_gains_only_sets_the_unit():
    one, ten = Filters(actions=4), Filters(actions=4, gain_range=10.0)
    rng = np.random.default_rng(2)
    for _ in range(5):
        row = rng.random((1, 4))
        one.absorb(row, np.full(4, 0.01), ALL)
        ten.absorb(10 * row, np.full(4, 1.0), ALL)
    assert ten.forecast() == pytest.approx(one.forecast(), rel=1e-9)


def test_what_was_not_sent_tells_nothing():
    sent = np.array([True, True, False, True])
    shown, hidden = Filters(actions=4), Filters(actions=4)
    for bank, odd in ((shown, 0.3), (hidden, -50.0)):
        bank.absorb(np.array([[0.1, 0.2, odd, 0.4]]), np.full(4, 0.01), sent)
        assert np.isfinite(bank.evidence).all()
    assert (shown.forecast() == hidden.forecast()).all()
    before = shown.evidence
    shown.absorb(np.full((1, 4), 9.0), np.full(4, 0.01), ~ALL)
    assert (shown.evidence == before).all()
    assert np.isfinite(shown.forecast()).all()


def test_more_doubt_believes_less_in_drift():
    bank = Filters(actions=4)
    for t in range(6):  # two clients take turns slowly, and the reports can hardly tell
        bank.absorb(np.array([[0.5, 0.1, 0.1, 0.1] if t < 3 else [0.1, 0.5, 0.1, 0.1]]), np.full(4, 0.05), ALL)
    ready, wary = (bank.forecast(doubt=doubt)[0] for doubt in (0.0, 1000.0))
    assert ready[1] - ready[0] > wary[1] - wary[0] >= -1e-12
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(RangeError, match="doubt"):
            FilterLearner(actions=4, doubt=wrong)


def played(player, rounds, *, resumed, scales=None):
    rng, actions = np.random.default_rng(7), []
    for number in range(rounds):
        actions.append(player.predict())
        sent = rng.random(4) < 0.8
        player.update(rng.random(4), noise_scale=scales, mask=sent)
        if resumed and number % 2:
            player = RWMeta.from_state(json.loads(json.dumps(player.state())))
        elif resumed:
            player.predict()
            player = RWMeta.from_state(json.loads(json.dumps(player.state())))
    return actions, player.state()


@pytest.mark.parametrize("size", [1e150, 1e154, 1e200, 1e300])
def test_no_finite_report_ends_a_filter(size):
    with np.errstate(over="raise", invalid="raise", divide="raise", under="raise"):
        for gain_range, scale in ((1.0, 0.1), (10.0, 0.1), (1.0, 1e120)):
            learner = FilterLearner(actions=4, gain_range=gain_range)
            for reports in ([size, 0.2, -size, 0.1], [0.1, size, size, size], [0.1, 0.2, 0.3, 0.4]):
                learner.update(1, np.array(reports), ALL)
                assert learner.predict(1, np.array([reports]), np.full((1, 4), scale)) in range(4)
            assert np.isfinite(learner._bank.forecast()).all()
            again = learner_from_state(json.loads(json.dumps(learner.state())), actions=4)
            assert again.state() == learner.state()


@pytest.mark.parametrize(("eigenvalue", "best"), [(0.0, 0.5), (40.0, 0.5), (300.0, 3.0)])
def test_the_floor_that_makes_the_sharp_bound_least(eigenvalue, best):
    def bound(floor):
        return meta_bound(learners=3, rounds=100, largest_eigenvalue=eigenvalue, floor=floor, sharp=True)

    assert all(bound(best) < bound(best * factor) for factor in (0.5, 0.9, 1.1, 2.0))


def test_a_state_of_other_actions_is_refused():
    learner = FilterLearner(actions=4)
    learner.update(1, np.zeros(4), ALL)
    with pytest.raises(RangeError, match="of 4 actions, and the player has 5"):
        learner_from_state(learner.state(), actions=5)
    with pytest.raises(RangeError, match="a mask has 4 entries"):
        learner_from_state({**learner.state(), "sent": [True]}, actions=4)


@pytest.mark.parametrize("scales", [None, [0.3, 0.01, 0.1, 0.2]])
def test_the_default_player_goes_on_bit_for_bit(scales):
    made = [RWMeta(actions=4, noise_scale=0.1, stream=Stream.seeded(2)) for _ in range(2)]
    whole, broken = (played(each, 14, resumed=r, scales=scales) for each, r in zip(made, (False, True), strict=True))
    assert whole[0] == broken[0]
    assert whole[1]["gains"] == broken[1]["gains"]
    assert whole[1]["learners"] == broken[1]["learners"]
    assert len(whole[1]["reports"]) == 1  # no window of single reports


def test_the_default_learners_are_filters_and_rw_ftpl():
    made = filter_learners(actions=4, noise_scale=0.1, stream=Stream.seeded(1), gain_range=0.5)
    assert [repr(each) for each in made] == ["FilterLearner(doubt=0)", "FilterLearner(doubt=1)", "LeaderLearner()"]
    again = learner_from_state(json.loads(json.dumps(made[0].state())), actions=4)
    assert again.state() == made[0].state()
    player = RWMeta(actions=4, noise_scale=0.1, gain_range=0.5)
    assert player.floor == FLOOR * 0.25


def test_the_sharp_bounds_are_least_at_the_default_floor():
    bounds = [meta_bound(learners=3, rounds=100, largest_eigenvalue=0, floor=c, sharp=True) for c in (0.3, 0.5, 0.9)]
    assert min(bounds) == bounds[1] == pytest.approx(math.sqrt(2) * math.sqrt(200 * math.log(3)))
    best = ftpl_bound(actions=9, rounds=100, noise_scale=1 / math.sqrt(2), sharp=True)
    assert best == pytest.approx(2 * math.sqrt(100 * math.log(9)))


def test_the_sharp_constant_of_one_round():
    # the Bregman term of the proof by Monte Carlo: E max(v + g + sZ) - E max(v + sZ) - <p(v), g> <= (1/4) tr H
    rng = np.random.default_rng(3)
    z = rng.standard_normal((400_000, 3))
    for gain in ([1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.5, 1.0]):
        for s in (1.0, 2.0):
            noisy = s * z
            leader = np.bincount(noisy.argmax(axis=1), minlength=3) / len(z)
            lost = (noisy + gain).max(axis=1).mean() - noisy.max(axis=1).mean() - leader @ gain
            assert 0 <= lost <= math.sqrt(2 * math.log(3)) / (4 * s) + 0.005


def test_the_simulator_runs_the_filters_of_the_player():
    rng = np.random.default_rng(4)
    true = simulate_rotating_gains(actions=6, rounds=40, rng=rng)
    scales = np.tile([0.3, 0.3, 0.05, 0.05, 0.05, 0.05], (40, 1))
    simulated = simulate_meta(true, noise_scale=scales, runs=300, rng=rng, floor=FLOOR, learners="filters").gain
    gained = []
    for each in range(25):
        player, total = RWMeta(actions=6, noise_scale=scales[0], stream=Stream.seeded(each)), 0.0
        for gain in true:
            total += gain[player.predict()]
            player.update(gain + scales[0] * rng.standard_normal(6))
        gained.append(total)
    assert np.mean(gained) == pytest.approx(simulated.mean(), abs=5 * simulated.std() / math.sqrt(25))


def share_of_the_best(seed, *, leak):
    """Play 60 rounds under noise of 1000, and return how often the one action that gains was played."""
    player = RWMeta(
        actions=5, noise_scale=1e3, learners=[Fixed(place) for place in range(5)], stream=Stream.seeded(seed)
    )
    rng, played = np.random.default_rng(seed), 0
    gain = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    for _ in range(60):
        played += player.predict() == 2
        if leak:  # the planted bug: learners are weighed by what the clients hold
            player.update(gain)
        else:
            player.update(gain + 1e3 * rng.standard_normal(5))
    return played / 60


@pytest.mark.planted("RW-Meta's weights from the true gains")
def test_weights_see_noisy_gains_only():
    # the noise hides everything: finding the best action more often than one time in five means having seen it
    assert np.mean([share_of_the_best(seed, leak=False) for seed in range(40)]) < 0.5
    assert np.mean([share_of_the_best(seed, leak=True) for seed in range(3)]) > 0.5


@pytest.mark.parametrize("sizes", ["equal", "unequal"])
def test_rw_meta_is_not_below_rw_ftpl_and_follows_drift(sizes):
    assert ratio("stationary", sizes, 1.0, seeds=range(2), runs=8) > 0.98
    assert ratio("switching", sizes, 1.0, seeds=range(1), runs=8) > 1.3


def test_the_generated_settings_are_shares():
    rng = np.random.default_rng(0)
    for make, count in GENERATORS.values():
        beds = experts_generated.beds_of("unequal", count, rng)
        gains = make(beds, rng)
        assert gains.shape[1] == count
        assert gains.min() >= 0
        assert gains.max() <= 1
    assert set(DRIFTING) < set(GENERATORS)
    first, second = hospital_data.halves(hospital_data.generated("Small", hospitals=5, weeks=21, seed=1))
    assert (len(first.gains), len(second.gains)) == (10, 11)
