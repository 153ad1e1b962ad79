"""The interval that a quantile may lie in without error."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.quantiles import nonprivate_gap
from sidelight.quantiles.public import optimal_intervals


def test_ends_are_neighbouring_order_statistics() -> None:
    values = np.array([1.0, 3, 4, 9, 20])
    a, b = optimal_intervals(values, [Fraction(1, 10), Fraction(1, 5), Fraction(1, 2), Fraction(99, 100)], 1e-6)
    assert a.tolist() == [-np.inf, 1, 3, 9]
    assert b.tolist() == [1, 3, 4, 20]


def test_the_rank_is_exact_where_floats_are_off_by_one() -> None:
    level = Fraction(15, 22)  # float(15/22) * 22 is 14.999...
    a, _ = optimal_intervals(np.arange(1.0, 23.0), [level], 1e-6)
    assert a.tolist() == [15]


@pytest.mark.parametrize("level", [Fraction(1, 10), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10)])
def test_an_output_inside_has_the_smallest_gap(level: Fraction) -> None:
    values = np.sort(np.random.default_rng(2).normal(size=37))
    a, b = optimal_intervals(values, [level], 1e-9)
    assert nonprivate_gap(values, [level], [float((a[0] + b[0]) / 2)], ties="paper")[0] == 0


def test_ties_are_widened_around_their_centre() -> None:
    a, b = optimal_intervals([5.0] * 10, [Fraction(1, 2)], 2.0)
    assert (a[0], b[0]) == (4, 6)
    a, b = optimal_intervals([1e300] * 10, [Fraction(1, 2)], 1.0)
    assert a[0] < b[0]  # even where the step is below the float's own


def test_no_values_no_loss_and_many_data_sets_at_once() -> None:
    a, b = optimal_intervals(np.empty((3, 0)), [Fraction(1, 2)] * 2, 1.0)
    assert a.shape == b.shape == (3, 2)
    assert np.all(a == -np.inf)
    assert np.all(b == np.inf)
    rows = np.sort(np.random.default_rng(3).normal(size=(4, 11)), axis=1)
    together = optimal_intervals(rows, [Fraction(1, 3)], 1e-6)
    for row, a_row, b_row in zip(rows, *together, strict=True):
        assert [a_row, b_row] == [end.tolist() for end in optimal_intervals(row, [Fraction(1, 3)], 1e-6)]


@pytest.mark.parametrize("step", [0.0, -1.0, float("nan")])
def test_a_step_is_positive(step: float) -> None:
    with pytest.raises(RangeError, match="granularity"):
        optimal_intervals([1.0], [Fraction(1, 2)], step)
