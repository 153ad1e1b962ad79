"""The drifting example and its table; iid gains on which batches cost nothing; simulators against players."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.baselines.experts import (
    simulate_adabatch,
    simulate_ftpl,
    simulate_meta,
    simulate_rotating_gains,
    simulate_tree,
)
from benchmarks.baselines.experts.tree_baseline import TreeBaseline
from benchmarks.experts_hospitals import COLUMNS, OWN_COLUMNS, run, table
from benchmarks.figures import experts_amplification

from benchmarks import experts_drift, hospital_data
from sidelight.errors import RangeError
from sidelight.experts import RWFTPL, DelayRule, RWMeta, Stream, usual_learners


@pytest.mark.parametrize(("mu", "meta", "ftpl", "best"), [(1.0, 61.9, 24.5, 76.0), (0.25, 42.5, 25.3, 51.0)])
def test_mean_gains_on_drifting_data(mu, meta, ftpl, best):
    found = experts_drift.gains(mu, runs=3)
    assert found[0] == pytest.approx(meta, rel=0.05)
    assert found[1] == pytest.approx(ftpl, rel=0.08)
    assert found[2] == pytest.approx(best, rel=0.05)
    assert found[0] / found[1] >= (2.2 if mu == 1 else 1.5)
    assert found[0] > found[3]  # better than the best fixed action


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mu", "floor", "meta"),
    [
        (math.inf, 2, 64.3),
        (math.inf, 0.25, 72.7),
        (1, 0.25, 69.1),
        (0.5, 2, 56.8),
        (0.5, 0.25, 62.8),
        (0.25, 0.25, 44.0),
    ],
)
def test_the_rest_of_the_table(mu, floor, meta):
    assert experts_drift.gains(mu, floor=floor)[0] == pytest.approx(meta, rel=0.05)


@pytest.mark.slow
def test_longer_runs():
    assert experts_drift.gains(1.0, rounds=600, seeds=5)[0] == pytest.approx(280, rel=0.05)
    assert experts_drift.gains(0.25, rounds=600, seeds=5)[0] == pytest.approx(188, rel=0.08)


def test_the_central_baselines_do_not_follow_the_drift():
    found = {}
    for aim in ("min_noise", "min_regret"):
        each = []
        for seed in range(8):
            rng = np.random.default_rng(seed)
            true = simulate_rotating_gains(actions=24, rounds=148, rng=rng)
            tree = TreeBaseline(rounds=148, sensitivity=experts_drift.SENSITIVITY, mu=1.0, aim=aim)
            each.append(simulate_tree(true, tree, runs=5, rng=rng).gain.mean())
        found[aim] = np.mean(each)
    assert found == pytest.approx({"min_noise": 23.7, "min_regret": 22.3}, rel=0.05)


def test_without_decorrelation_benign_data_gain_more():
    rng = np.random.default_rng(0)
    true = simulate_rotating_gains(actions=24, rounds=148, rng=rng)
    scale = experts_drift.SENSITIVITY
    plain, direct = (
        simulate_meta(true, noise_scale=scale, runs=20, rng=rng, decorrelate=each).gain.mean() for each in (True, False)
    )
    assert direct == pytest.approx(75.0, rel=0.05)
    assert direct > plain


def test_batches_cost_nothing_on_independent_gains():
    rng = np.random.default_rng(3)
    true = rng.random((1000, 10))
    plain = simulate_ftpl(true, noise_scale=2.0, runs=400, rng=rng).gain
    batched = simulate_adabatch(DelayRule(actions=10, noise_scale=2.0), gains=true, rounds=1000, runs=400, rng=rng)
    error = math.hypot(plain.std(), batched.gain.std()) / 20
    assert abs(plain.mean() - batched.gain.mean()) < 2 * error
    assert batched.batches.mean() < 900


def published(*, stream, **rest):
    """Return RW-Meta as in the published experiment."""
    return RWMeta(learners=usual_learners(stream=stream, **rest), floor=2.0, stream=stream, **rest)


def test_the_simulator_and_the_player_agree_in_law():
    rng = np.random.default_rng(4)
    true = simulate_rotating_gains(actions=6, rounds=40, rng=rng)
    many = simulate_meta(true, noise_scale=0.3, runs=400, rng=rng).gain
    plain = simulate_ftpl(true, noise_scale=0.3, runs=400, rng=rng).gain
    for simulated, make in ((many, published), (plain, RWFTPL)):
        gained = []
        for each in range(25):
            player, total = make(actions=6, noise_scale=0.3, stream=Stream.seeded(each)), 0.0
            for gain in true:
                total += gain[player.predict()]
                player.update(gain + 0.3 * rng.standard_normal(6))
            gained.append(total)
        assert np.mean(gained) == pytest.approx(simulated.mean(), abs=5 * simulated.std() / math.sqrt(25))


def test_unequal_noise_is_used():
    rng = np.random.default_rng(5)
    true = simulate_rotating_gains(actions=24, rounds=148, rng=rng)
    worst = np.full(24, 0.7)
    own = np.where(np.arange(24) % 4 == 0, 0.7, 0.1)
    equal, unequal = (
        simulate_meta(true, noise_scale=np.tile(each, (148, 1)), runs=20, rng=rng).gain.mean() for each in (worst, own)
    )
    assert unequal > 1.2 * equal
    with pytest.raises(RangeError):
        simulate_ftpl(true, noise_scale=-1.0, runs=1, rng=rng)
    with pytest.raises(RangeError):
        simulate_ftpl(true[:, :1], noise_scale=1.0, runs=1, rng=rng)


def test_the_hospital_experiment_prints_the_layout_of_table_1(monkeypatch, tmp_path):
    monkeypatch.setenv("SIDELIGHT_DATA", str(tmp_path))
    state = hospital_data.new_york()
    assert state.data.startswith("STAND-IN: generated, 159 hospitals, 108 weeks")
    assert [each.gains.shape for each in hospital_data.generated_states()] == [(148, 24), (148, 146), (148, 293)]
    small = hospital_data.generated("Small", hospitals=10, weeks=40, seed=1)
    rows = [run(small, mu, runs=8, seed=1) for mu in (math.inf, 1.0)]
    text = table(small, rows)
    assert all(name in text for name in (*COLUMNS, *OWN_COLUMNS, "μ = ∞", "μ = 1"))
    assert (small.own_sensitivity <= small.sensitivity[:, None] + 1e-12).all()
    assert small.gains.min() >= 0
    assert small.gains.max() <= 1


@pytest.mark.slow
def test_the_figure_runs_from_end_to_end(tmp_path, capsys):
    assert experts_amplification.FIGURE.run(["--trials", "40", "--output", str(tmp_path)]) in (0, 1)
    assert (tmp_path / "experts_amplification.svg").read_text().rstrip().endswith("</svg>")
    assert "shows   later reports are hidden better" in capsys.readouterr().out
