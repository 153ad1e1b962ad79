"""The law of the batch size: reference values, simulation below the bound, and the two ways to get it wrong."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.baselines.experts import simulate_adabatch

from sidelight.errors import RangeError
from sidelight.experts import DelayRule, size_cdf_bound, size_weights
from sidelight.published.amplification import gap_cdf_above

UNION, PAPER = (DelayRule(actions=25, noise_scale=5.0, bound=bound) for bound in ("union", "paper"))


def test_reference_bounds():
    sizes = [1, 5, 10, 50]
    union = size_cdf_bound(UNION, time=10_000, sizes=sizes)
    paper = size_cdf_bound(PAPER, time=10_000, sizes=sizes)
    assert union == pytest.approx([0.12226, 0.37394, 0.51063, 0.87047], abs=2e-3)
    assert paper == pytest.approx([0.16444, 0.47714, 0.62704, 0.93842], abs=2e-3)


def test_the_first_report_is_always_alone():
    rule = DelayRule(actions=2, noise_scale=5.0, tolerance=1.0)
    assert size_cdf_bound(rule, time=1, sizes=[1, 2]).tolist() == [1.0, 1.0]
    assert size_weights(rule, time=1)[0].tolist() == [1]
    assert size_cdf_bound(rule, time=3, sizes=[3, 4]).tolist() == [1.0, 1.0]


def test_weights_are_a_law_that_is_stochastically_smaller():
    sizes, weights = size_weights(UNION, time=5000)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert (weights > 0).all()
    wanted = np.arange(1, 400)
    full = size_cdf_bound(UNION, time=5000, sizes=wanted)
    cdf = np.array([weights[sizes <= b].sum() for b in wanted])
    assert (cdf >= full - 1e-12).all()


def _above(bound, simulated, runs):
    return simulated <= bound + 3 * np.sqrt(np.maximum(bound * (1 - bound), 1 / runs) / runs) + 1e-12


@pytest.mark.parametrize("rule", [UNION, PAPER], ids=["union", "paper"])
def test_simulated_sizes_lie_below_the_bound(rule):
    runs, times = 1500, (2, 20, 300)
    found = simulate_adabatch(rule, rounds=300, runs=runs, rng=np.random.default_rng(7), times=times)
    for place, time in enumerate(times):
        sizes = np.arange(1, 60)
        simulated = (found.sizes[:, place][:, None] <= sizes).mean(axis=0)
        assert _above(size_cdf_bound(rule, time=time, sizes=sizes), simulated, runs).all()


def test_the_sources_index_is_off_by_one_and_simulation_finds_it():
    # size <= b belongs to a gap below threshold(t, b); the source reads it as delay <= b, threshold(t, b - 1)
    runs, time = 3000, 300
    found = simulate_adabatch(UNION, rounds=time, runs=runs, rng=np.random.default_rng(8), times=(time,))
    simulated = (found.sizes[:, 0] <= 1).mean()
    wrong = gap_cdf_above(float(UNION.threshold(time, 0)) / (5.0 * np.sqrt(time)), actions=25)
    assert not _above(np.array(wrong), simulated, runs)
    assert _above(size_cdf_bound(UNION, time=time, sizes=[1])[0], simulated, runs)


def test_gains_that_react_to_the_actions_break_the_law():
    # the leader's gain is 0 and all others' 1: the bound is for gains fixed in advance
    rng, runs, time, n = np.random.default_rng(9), 300, 1000, 25
    sums, now, size = 5.0 * rng.standard_normal((runs, n)), np.zeros(runs, int), np.ones(runs, int)
    while (moving := now + size < time).any():
        batch = np.repeat(size[:, None].astype(float), n, axis=1)
        batch[np.arange(runs), np.argmax(sums, axis=1)] = 0.0
        grown = sums + batch + 5.0 * np.sqrt(size)[:, None] * rng.standard_normal((runs, n))
        sums = np.where(moving[:, None], grown, sums)
        now = np.where(moving, now + size, now)
        top = np.partition(sums, n - 2, axis=1)[:, -2:]
        size = np.where(moving, UNION.delay(top[:, 1] - top[:, 0], np.maximum(now, 1)) + 1, size)
    alone = int((size == 1).sum())
    bound = float(size_cdf_bound(UNION, time=time, sizes=[1])[0])
    assert bound == pytest.approx(0.33, abs=0.01)
    assert alone / runs == pytest.approx(0.9, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "expected"), [(UNION, 0.119), (PAPER, 0.145)], ids=["union", "paper"])
def test_simulation_of_the_paper(rule, expected):
    found = simulate_adabatch(rule, rounds=10_000, runs=1000, rng=np.random.default_rng(1), times=(10_000,))
    sizes = np.arange(1, 2000)
    simulated = (found.sizes <= sizes).mean(axis=0)
    assert simulated[0] == pytest.approx(expected, abs=0.035)
    assert _above(size_cdf_bound(rule, time=10_000, sizes=sizes), simulated, 1000).all()


@pytest.mark.parametrize("sizes", [[], [0, 1], [2, 2]])
def test_sizes_are_checked(sizes):
    with pytest.raises(RangeError):
        size_cdf_bound(UNION, time=10, sizes=sizes)
