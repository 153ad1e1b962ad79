"""Levels are exact fractions, strictly increasing, inside (0, 1)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.quantiles.tree import even_levels, exact_levels


def test_floats_are_read_as_the_decimal_that_was_written():
    assert exact_levels([0.1, 0.3, 0.7]) == (Fraction(1, 10), Fraction(3, 10), Fraction(7, 10))


def test_every_way_to_write_a_level():
    assert exact_levels(["1/3", 0.5, Decimal("0.75"), Fraction(9, 10)]) == (
        Fraction(1, 3),
        Fraction(1, 2),
        Fraction(3, 4),
        Fraction(9, 10),
    )
    assert exact_levels(0.5) == exact_levels("0.5") == (Fraction(1, 2),)


def test_numpy_levels():
    assert exact_levels(np.array([0.25, 0.5])) == (Fraction(1, 4), Fraction(1, 2))
    assert exact_levels(np.float64(0.1)) == (Fraction(1, 10),)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "at least one quantile"),
        ([0.5, 0.5], "twice"),
        ([0.5, 0.25], "sorted"),
        ([0.0], "minimum"),
        ([0.5, 1.0], "maximum"),
        ([50], "write 0.5"),
        ([1.5], "strictly between"),
        (5000, "median"),
    ],
)
def test_what_is_wrong_is_said(levels, message):
    with pytest.raises(RangeError, match=message):
        exact_levels(levels)


@pytest.mark.parametrize("level", [float("nan"), float("inf"), -0.5, True])
def test_not_a_level_at_all(level):
    with pytest.raises(RangeError):
        exact_levels([level])


def test_even_levels():
    assert even_levels(1) == (Fraction(1, 2),)
    assert even_levels(9)[2] == Fraction(3, 10)
    with pytest.raises(RangeError, match="median"):
        even_levels(0)


@given(st.lists(st.integers(1, 9999), min_size=1, max_size=20, unique=True))
def test_reading_decimals_is_exact(numerators):
    numerators.sort()
    assert exact_levels([n / 10000 for n in numerators]) == tuple(Fraction(n, 10000) for n in numerators)


@pytest.mark.parametrize("levels", [None, object()])
def test_invalid_levels_are_named(levels):
    with pytest.raises(RangeError, match=r"such as \[0\.25, 0\.5, 0\.75\], got"):
        exact_levels(levels)


def test_more_levels_than_fit_into_memory_are_refused():
    assert len(sl.Quantiles(even_levels(5000), epsilon=1).levels) == 5000
    with pytest.raises(RangeError, match=r"at most 5000 levels .* got 5001; sl.Distribution"):
        sl.Quantiles(even_levels(5001), epsilon=1)


@pytest.mark.parametrize("count", [0, -1, 2.5, "9", True, None, 10**9])
def test_a_number_of_even_levels_that_is_none_or_too_large_is_refused_at_once(count):
    with pytest.raises(RangeError, match="count must be a whole number from 1 to 65536"):
        even_levels(count)
    assert even_levels(np.int64(1)) == (Fraction(1, 2),)
