"""Leaves drawn towards what the curve expects: exact references, sums that stay, and counts that contradict it."""

from __future__ import annotations

import numpy as np
import pytest

from sidelight.quantiles.forms.least_squares import UNCOUNTED, Round, agreed_counts, smoothed_counts


def _believed(cells: int) -> np.ndarray:
    return np.zeros(cells, np.bool_)


def _minimum(counted: np.ndarray, noise: np.ndarray, expected: np.ndarray, total: float) -> np.ndarray:
    """Return the minimum under the constraint, by the linear equations that say so."""
    cells = counted.size
    system = np.zeros((cells + 1, cells + 1))
    system[:cells, :cells] = np.diag(1 / noise + 1 / expected)
    system[:cells, -1] = system[-1, :cells] = 1.0
    return np.linalg.solve(system, np.append(counted / noise + 1.0, total))[:cells]


def test_the_drawn_counts_are_the_constrained_minimum() -> None:
    rng = np.random.default_rng(3)
    expected = rng.uniform(80, 120, 6)
    noise = rng.uniform(90, 110, 6)
    counted = expected + rng.uniform(-3, 3, 6)  # nearer than chance and noise: the curve fits
    rounds = [Round.of([expected.sum() + 5], 4.0), Round.of(counted, noise, [0] * 6)]
    total = float(agreed_counts(rounds)[-1].sum())
    found = smoothed_counts(rounds, expected, _believed(6))
    wanted = _minimum(counted, noise, expected / expected.sum() * total, total)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_parents_keep_their_sums() -> None:
    rng = np.random.default_rng(4)
    parents = np.repeat(np.arange(7), 5)
    rounds = [Round.of(rng.normal(300, 20, 7), 9.0), Round.of(rng.normal(60, 15, 35), 50.0, parents)]
    rough = rng.random(35) < 0.2
    found = smoothed_counts(rounds, rng.uniform(40, 80, 35), rough)
    agreed = agreed_counts(rounds)[-1]
    sums = [np.bincount(parents, each) for each in (found, agreed)]
    np.testing.assert_allclose(sums[0], sums[1], rtol=1e-12)
    assert not np.allclose(found, agreed)


@pytest.mark.parametrize("lumps", [[0, 900, 0, 0, 0, 0], [300, 300, 300, 0, 0, 0]], ids=["a lump", "a step"])
def test_counts_that_contradict_the_curve_get_more_weight(lumps: list[int]) -> None:
    truth = np.array(lumps, np.float64)
    rounds = [Round.of([900], 4.0), Round.of(truth, 400.0, [0] * 6)]
    found = smoothed_counts(rounds, np.full(6, 150.0), _believed(6))
    assert np.abs(np.cumsum(found - truth)).max() < 20  # the noise of a count; the curve is off by 450


def test_only_the_contradicting_parent_gets_more_weight() -> None:
    parents = np.repeat(np.arange(2), 6)
    counted = np.concatenate([[0, 900, 0, 0, 0, 0], np.full(6, 150.0)]) + np.tile([8.0, -8.0], 6)
    rounds = [Round.of([900, 900], 4.0), Round.of(counted, 400.0, parents)]
    found = smoothed_counts(rounds, np.full(12, 150.0), _believed(12))
    moved = np.abs(found - agreed_counts(rounds)[-1])
    assert moved[6:].max() > 1.0
    assert moved[:6].max() < 60


def test_where_nothing_is_known_counts_stay() -> None:
    variances = np.array([5.0, 5.0, UNCOUNTED, 5.0, 5.0, 5.0, 5.0])
    rounds = [Round.of([10, 30, -8, 0], 4.0), Round.of([4, 5, 0, 13, 15, -4, -5], variances, [0, 0, 1, 1, 1, 2, 2])]
    expected = np.array([np.nan, 5.0, 9.0, 9.0, 9.0, 4.0, 4.0])  # unknown, uncounted, and a negative sum
    np.testing.assert_array_equal(smoothed_counts(rounds, expected, _believed(7)), agreed_counts(rounds)[-1])
    nothing = smoothed_counts(rounds, np.zeros(7), _believed(7))
    np.testing.assert_array_equal(nothing, agreed_counts(rounds)[-1])


def test_ranks_of_smooth_data_are_less_off_and_of_other_data_no_more() -> None:
    rng = np.random.default_rng(5)
    parents, records = np.repeat(np.arange(8), 5), 4000
    smooth = np.full(40, 1 / 40)
    bumpy = smooth * np.tile([0.2, 0.6, 1.0, 1.4, 1.8], 8)  # not what is expected, in every parent
    ratios = []
    for law in (smooth, bumpy):
        errors = np.zeros(2)
        for _ in range(300):
            truth = rng.multinomial(records, law)
            coarse = np.bincount(parents, truth) + rng.laplace(scale=5, size=8)
            rounds = [Round.of(coarse, 50.0), Round.of(truth + rng.laplace(scale=8, size=40), 128.0, parents)]
            for way, found in enumerate((agreed_counts(rounds)[-1], smoothed_counts(rounds, smooth, _believed(40)))):
                errors[way] += np.mean(np.cumsum(found - truth) ** 2)
        ratios.append(errors[1] / errors[0])
    assert ratios[0] < 0.85  # 0.75 measured
    assert ratios[1] < 1.03


def test_counts_of_any_size_stay_numbers() -> None:
    """A tiny epsilon makes noise of any size; what comes after the charge must not fail by it."""
    for large in (1e13, 1e16, 1e17, 9e18):
        rounds = [Round.of([large, 40], 1.0), Round.of([large, 0, 0, 40], 100.0, [0, 0, 0, 1])]
        found = smoothed_counts(rounds, np.array([large, 0.0, 0.0, 40.0]), _believed(4))
        assert np.isfinite(found).all()
