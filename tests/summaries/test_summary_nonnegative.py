"""Counts that people read: projection, rounding, and which cells it leaves alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sidelight.errors import RangeError
from sidelight.summaries.nonnegative import onto_simplex, readable_counts, whole_numbers


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
    out = whole_numbers(x)
    assert out.sum() == np.floor(x.sum() + 0.5)
    assert (np.abs(out - x) < 1 + 1e-9).all()
    assert (out >= 0).all()


@settings(max_examples=100, deadline=None)
@given(arrays(np.int64, st.integers(1, 40), elements=st.integers(-50, 1000)), st.integers(0, 60))
def test_counts_are_whole_and_add_up(y, bound):
    out = readable_counts(y, y, bound=bound)
    assert out.dtype == np.int64
    assert (out >= 0).all()
    assert (out[y > bound] == y[y > bound]).all()
    assert out[y <= bound].sum() == max(0, y[y <= bound].sum())
    whole = readable_counts(y, y, bound=bound, total=500)
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
        ours = readable_counts(y, y, bound=99)
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
        readable_counts([1.0, 2.0], [1.0], bound=3)
    assert onto_simplex([], 5).size == 0
    assert readable_counts([], [], bound=3).size == 0
