"""Counts that people read: projection, rounding, and which cells it leaves alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sidelight.errors import RangeError
from sidelight.noise import Source
from sidelight.summaries.count_tables import onto_simplex, readable_counts, whole_numbers
from sidelight.testing import SeededEntropy


def test_reference():
    """R11 of the specification."""
    assert onto_simplex([7, -2, 3, 0, -1], 7).tolist() == [5.5, 0, 1.5, 0, 0]


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, st.integers(1, 12), elements=st.floats(-1e6, 1e6)), st.floats(0, 1e6))
def test_projection_is_the_nearest_point(y, total):
    x = onto_simplex(y, total)
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(total, abs=1e-6 * (1 + np.abs(y).max()))
    # the condition of optimality: what is positive lost the same, and the rest lost at most as much
    loss = y - x
    positive = x > 0
    if positive.any():
        assert np.ptp(loss[positive]) <= 1e-6 * (1 + np.abs(y).max())
        assert (loss[~positive] <= loss[positive].max() + 1e-6 * (1 + np.abs(y).max())).all()


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1e6)))
def test_rounding_keeps_the_sum_and_moves_less_than_one(x):
    out = whole_numbers(x, source=Source(SeededEntropy(1)))
    assert out.sum() == np.floor(x.sum() + 0.5)
    assert (np.abs(out - x) < 1 + 1e-9).all()
    assert (out >= 0).all()


@settings(max_examples=100, deadline=None)
@given(arrays(np.int64, st.integers(1, 40), elements=st.integers(-50, 1000)), st.integers(0, 60))
def test_counts_are_whole_and_add_up(y, bound):
    out = readable_counts(y, y, bound=bound, source=Source(SeededEntropy(1)))
    assert out.dtype == np.int64
    assert (out >= 0).all()
    assert (out[y > bound] == y[y > bound]).all()
    assert out[y <= bound].sum() == max(0, y[y <= bound].sum())
    whole = readable_counts(y, y, bound=bound, total=500, source=Source(SeededEntropy(1)))
    large = y[y > bound].sum()
    if (y <= bound).any():
        assert whole.sum() == max(500, large)


def test_a_few_large_cells_among_many_empty_ones():
    rng = np.random.default_rng(1)
    truth = np.zeros(1000)
    truth[:5] = [5000, 3000, 2000, 1000, 500]
    errors = {"raw": 0.0, "cut": 0.0, "ours": 0.0}
    bias = 0.0
    for _ in range(40):
        y = np.round(truth + rng.laplace(scale=10, size=1000))
        ours = readable_counts(y, y, bound=99, source=Source(SeededEntropy(1)))
        errors["raw"] += ((y - truth) ** 2).sum()
        errors["cut"] += ((np.maximum(y, 0) - truth) ** 2).sum()
        errors["ours"] += ((ours - truth) ** 2).sum()
        bias += (ours.sum() - truth.sum()) / 40
    assert errors["ours"] < 0.2 * errors["raw"]
    assert errors["ours"] < errors["cut"]
    assert abs(bias) < 300  # cutting off adds some 5000 rows


def test_bad_public_numbers_are_refused():
    with pytest.raises(RangeError):
        onto_simplex([1.0], -1)
    with pytest.raises(RangeError):
        readable_counts([1.0, 2.0], [1.0], bound=3, source=Source(SeededEntropy(1)))
    assert onto_simplex([], 5).size == 0
    assert readable_counts([], [], bound=3, source=Source(SeededEntropy(1))).size == 0


def test_equal_remainders_favour_no_label():
    """Thirty small cells share one remainder after the projection: a public order gave the first ones a row each."""
    runs, cells = 1500, 30
    with Source(SeededEntropy("ties")) as source:
        out = np.array([whole_numbers(np.full(cells, 3 + 1 / 3), source=source) for _ in range(runs)])
    assert (out.sum(axis=1) == 100).all()
    # ten of thirty are rounded up, each with probability 1/3: six standard deviations
    assert np.abs(out.mean(axis=0) - 10 / 3).max() < 6 * np.sqrt(2 / 9 / runs)


def test_remainders_that_differ_by_rounding_alone_are_equal():
    values = np.array([1.1, 2.1, 3.1, 4.1, 5.1, 6.1, 7.1, 8.1, 9.1, 10.1]) - 0.6
    with Source(SeededEntropy("ties")) as source:
        up = sum(whole_numbers(values, source=source) > values for _ in range(400))
    assert (np.abs(up - 200) < 6 * 10).all()
