"""Exponential weights above a floor: reference numbers, and minimisers that no other point beats."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.published.histogram_loss import exponential_weights, water_fill


def test_water_filling_reference():
    rows = exponential_weights(np.array([[0.3, -1, 2, 5, 0]]), step_size=1.0, floor=0.04)
    wanted = [0.1528453624086122, 0.5608349789469765, 0.04, 0.04, 0.2063196586444114]
    assert np.allclose(rows, [wanted], rtol=0, atol=1e-15)


@given(sums=st.lists(st.floats(-1e4, 1e4), min_size=6, max_size=6), step=st.floats(1e-6, 10), floor=st.floats(0, 1 / 3))
@settings(max_examples=200, deadline=None)
def test_rows_are_probabilities_above_the_floor_and_solve_the_problem(sums, step, floor):
    g = np.array(sums).reshape(2, 3)
    masses = exponential_weights(g, step_size=step, floor=floor)
    assert np.allclose(masses.sum(axis=1), 1, atol=1e-12)
    assert (masses >= floor * (1 - 1e-9)).all()
    # KKT: 1 + log W + step g is constant where W is above the floor, and not smaller where it is on it
    slope = np.log(np.maximum(masses, 1e-300)) + step * g
    for row in range(2):
        free = masses[row] > max(floor * (1 + 1e-6), 1e-250)
        if free.any():
            level = slope[row][free].max()
            assert slope[row][free].min() == pytest.approx(level, abs=1e-6 * max(1, abs(level)))
            on_floor = ~free & (floor > 0)
            assert (slope[row][on_floor] >= level - 1e-6 * max(1, abs(level))).all()


def test_a_floor_of_one_over_d_is_uniform():
    for bins in (2, 3, 7, 49):
        masses = water_fill(np.random.default_rng(bins).random((4, bins)), 1 / bins)
        assert np.allclose(masses, 1 / bins)


def test_far_apart_sums_do_not_underflow_to_nothing():
    masses = exponential_weights(np.array([[0.0, 1e9, 2e9]]), step_size=1.0, floor=0.01)
    assert masses.tolist() == [[0.98, 0.01, 0.01]]
