"""Numbers become bounded integers: laws on nasty floats, and the traps one by one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.errors import RangeError
from sidelight.grid import CODE_LIMIT, Grid
from sidelight.records import Fill, Number

NASTY = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    0.5,
    -0.5,
    0.49999999999999994,
    1e300,
    -1e300,
    math.inf,
    -math.inf,
    2.0**53 + 2,
    2.0**63,
    math.nan,
]
floats = st.floats() | st.sampled_from(NASTY)
steps = st.fractions(min_value=Fraction(1, 10**9), max_value=10**9).filter(lambda step: step > 0)


def grids():
    return st.builds(
        lambda step, first, width, snap: Grid(
            resolution=step, first=first, last=min(first + width, CODE_LIMIT), snap=snap
        ),
        steps,
        st.integers(-CODE_LIMIT, CODE_LIMIT) | st.integers(-50, 50),
        st.integers(0, 2**61) | st.integers(0, 50),
        st.sampled_from(["floor", "nearest"]),
    )


@given(grids(), st.lists(floats, max_size=20), st.sampled_from([None, 3]))
def test_codes_stay_on_the_grid_and_keep_the_rule_for_missing(grid, values, fill):
    encode = FixedPoint.on_grid(Number("x", missing=None if fill is None else Fill(fill)), grid)
    array = np.array(values, np.float64)
    codes = encode.codes(array)
    missing = int(np.isnan(array).sum())
    assert codes.shape[0] == len(values) - (missing if fill is None else 0)
    assert all(grid.first <= code <= grid.last for code in codes.tolist())


@given(grids(), st.lists(floats.filter(lambda x: not math.isnan(x)), max_size=20))
def test_codes_are_record_wise_and_monotone(grid, values):
    encode = FixedPoint.on_grid(Number("x"), grid)
    together = encode.codes(np.array(values, np.float64)).tolist()
    assert together == [encode.codes(np.array([value])).tolist()[0] for value in values]
    ordered = encode.codes(np.sort(np.array(values, np.float64)))
    assert (np.diff(ordered) >= 0).all()


@given(st.integers(-(10**6), 10**6), st.sampled_from(["1", "0.1", "0.01", "0.29", "3", "1/3", "7/1000", "1.7"]))
def test_multiples_of_the_step_get_their_own_code(multiple, step):
    """floor(0.29/0.01) = 28 is the trap: a declared granularity snaps to the nearest."""
    number = Number("x", granularity=step)
    grid = Grid(resolution=number.granularity, snap="nearest")
    value = float(multiple * number.granularity)
    assert FixedPoint.on_grid(number, grid).codes(np.array([value])).tolist() == [multiple]


@given(st.integers(-(10**6), 10**6), st.integers(1, 1000))
def test_floor_of_exact_multiples_is_not_one_too_low(multiple, step):
    encode = FixedPoint.on_grid(Number("x"), Grid(resolution=Fraction(step)))
    assert encode.codes(np.array([float(multiple * step)])).tolist() == [multiple]


def test_ends_and_infinities():
    bounded = FixedPoint.on_grid(Number("x", lower=-1, upper=2), Grid(resolution=Fraction(1, 4)))
    assert bounded.codes(np.array([-math.inf, math.inf, -1e300, 1e300, 0.3, -0.0])).tolist() == [-4, 8, -4, 8, 1, 0]
    unbounded = FixedPoint.on_grid(Number("x"), Grid(resolution=Fraction(1, 4)))
    assert unbounded.codes(np.array([-math.inf, math.inf])).tolist() == [-CODE_LIMIT, CODE_LIMIT]
    apart = FixedPoint.on_grid(Number("x", lower=100, upper=200), Grid(resolution=Fraction(1), first=0, last=9))
    assert apart.codes(np.array([-5.0, 150.0, 1e9])).tolist() == [9, 9, 9]


def test_missing_are_dropped_without_touching_the_array():
    values = np.array([1.0, math.nan, 3.0])
    encode = FixedPoint.on_grid(Number("x"), Grid(resolution=Fraction(1)))
    assert encode.codes(values).tolist() == [1, 3]
    assert np.array_equal(values, [1.0, math.nan, 3.0], equal_nan=True)
    filled = FixedPoint.on_grid(Number("x", missing=Fill(-7)), Grid(resolution=Fraction(1), first=0))
    assert filled.codes(values).tolist() == [1, 0, 3]


def test_read_only_arrays_are_fine():
    values = np.array([1.0, math.nan])
    values.flags.writeable = False
    assert FixedPoint.on_grid(Number("x"), Grid(resolution=Fraction(1))).codes(values).tolist() == [1]


@pytest.mark.parametrize("step", [Fraction(2) ** 1001, Fraction(2) ** -1001])
def test_refuses_steps_beyond_floats(step):
    with pytest.raises(RangeError, match="step"):
        FixedPoint.on_grid(Number("x"), Grid(resolution=step))


def test_huge_steps_do_not_overflow():
    encode = FixedPoint.on_grid(Number("x"), Grid(resolution=Fraction(2) ** 900))
    assert encode.codes(np.array([math.inf, -math.inf, 1.0])).tolist() == [CODE_LIMIT, -CODE_LIMIT, 0]
    for exponent in (-901, 901):
        with pytest.raises(RangeError, match="step of a grid"):
            Grid(resolution=Fraction(2) ** exponent)
