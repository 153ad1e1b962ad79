"""The law of the gap: reference values, its table, and equal means as the worst case."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from sidelight.published.amplification import _table, gap_cdf, gap_cdf_above


def test_distribution_function():
    e = [0.05, 0.1, 0.5]
    assert gap_cdf(e, actions=25) == pytest.approx([0.09443301, 0.18147415, 0.65928209], rel=1e-6)
    assert gap_cdf(e, actions=10_000) == pytest.approx([0.17610786, 0.32274203, 0.86993515], rel=1e-6)
    two = np.array([0.1, 0.5, 1.0])
    assert gap_cdf(two, actions=2) == pytest.approx([0.05637198, 0.27632639, 0.52049988], rel=1e-6)
    assert gap_cdf(two, actions=2) == pytest.approx(2 * ndtr(two / np.sqrt(2)) - 1, rel=1e-9)


@pytest.mark.parametrize("n", [2, 25, 1000])
def test_the_table_never_lies_below_the_law_and_interpolation_does(n):
    e = np.random.default_rng(1).uniform(1e-4, 6, 2000)
    true = gap_cdf(e, actions=n)
    assert (gap_cdf_above(e, actions=n) >= true).all()
    assert (gap_cdf_above(e, actions=n) - true).max() < 0.01
    points, values = _table(n)
    assert (np.interp(e, points, values[:-1] - 1e-9) < true).mean() > 0.5  # the trap: between points it is too small
    assert gap_cdf_above([-1.0, 1e9], actions=n).tolist() == [0.0, 1.0]


def test_equal_means_are_the_worst_case():
    rng = np.random.default_rng(2)
    draws = rng.standard_normal((200_000, 6))
    for means in ([0.0] * 6, [1, 1, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0], [0.5, 0.2, 0.1, 0, -1, -2]):
        top = np.partition(draws + np.array(means), 4, axis=1)[:, -2:]
        below = ((top[:, 1] - top[:, 0]) <= 0.3).mean()
        bound = float(gap_cdf(0.3, actions=6))
        assert below <= bound + 6 * np.sqrt(bound / 200_000)
        if not any(means):
            assert below == pytest.approx(bound, abs=0.006)
