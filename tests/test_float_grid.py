"""The grid of floats: codes that grow with the value, positions on lines, and values that come back digit by digit."""

from __future__ import annotations

import json
import math
import random
import struct
import sys
from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.grid import FLOAT_CODE_LIMIT, FloatGrid, float_code
from sidelight.quantiles.outcomes import grid_to_json, outcome_grid

UNBOUNDED = FloatGrid()
LARGEST = sys.float_info.max
doubles = st.floats(allow_nan=False, allow_infinity=False)
EDGES = [
    0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, -(2.0**-1022), 1.0, -1.0, 0.1, -0.1, LARGEST, -LARGEST,
    math.nextafter(1.0, 0), math.nextafter(1.0, 2), math.nextafter(-1.0, 0), math.nextafter(2.0**-1022, 0),
]  # fmt: skip


def least(code: int) -> Fraction:
    """Return the least number of a code: the definition, from the pattern."""
    if abs(code) > FLOAT_CODE_LIMIT:
        return Fraction(2) ** 1024 if code > 0 else -(Fraction(2) ** 1024)
    pattern = struct.pack("<q", abs(code) << 4)
    value = Fraction(struct.unpack("<d", pattern)[0])
    return -value if code < 0 else value


def position(grid: FloatGrid, index: int) -> Fraction:
    start, end, slope, offset, divisor = grid.stretch(index)
    assert start <= index < end
    return Fraction(slope * index + offset, divisor)


@settings(max_examples=500)
@given(doubles | st.sampled_from(EDGES), doubles | st.sampled_from(EDGES))
def test_codes_follow_the_order_of_the_numbers(x, y):
    assert (float_code(x) <= float_code(y)) or x > y
    code = float_code(x)
    assert abs(code) <= FLOAT_CODE_LIMIT
    if abs(code) < FLOAT_CODE_LIMIT:
        assert least(code) <= Fraction(x) < least(code + 1)


def test_counts_below_a_code_are_counts_below_a_number():
    """#{x < least number of c} = #{codes < c}, over 620 decades, both signs, and around powers of two."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal(4000) * 10.0 ** rng.uniform(-320, 305, 4000)
    near = np.array([math.nextafter(2.0**k, to) for k in range(-1070, 1020, 37) for to in (0.0, math.inf)])
    values = np.concatenate([values, near, -near, EDGES])
    exact = sorted(Fraction(x) for x in values.tolist())
    codes = np.array([float_code(x) for x in values.tolist()])
    for code in rng.choice(codes, 200).tolist():
        for c in (code - 1, code, code + 1):
            if abs(c) <= FLOAT_CODE_LIMIT:
                assert bisect_left(exact, least(c)) == int((codes < c).sum())


@pytest.mark.parametrize("dither_bits", [0, 3, 20])
def test_positions_lie_on_the_stated_lines(dither_bits):
    """X(j) = least number of the code + its share of the way to the next; strictly increasing, odd, and continuous."""
    grid, rng = FloatGrid(dither_bits=dither_bits), random.Random(2)
    unit = 1 << dither_bits
    for _ in range(400):
        code = rng.choice([rng.randrange(-FLOAT_CODE_LIMIT, FLOAT_CODE_LIMIT), float_code(rng.choice(EDGES)), 0])
        code = min(max(code, -FLOAT_CODE_LIMIT), FLOAT_CODE_LIMIT - 1)
        rest = rng.randrange(unit)
        index = code * unit + rest
        expected = least(code) + Fraction(rest, unit) * (least(code + 1) - least(code))
        assert position(grid, index) == expected
        assert position(grid, -index) == -expected
        assert position(grid, index + 1) > expected
        _, end, slope, offset, divisor = grid.stretch(index)
        assert Fraction(slope * end + offset, divisor) == position(grid, end)  # neighbouring lines meet


@settings(max_examples=300)
@given(st.integers(1, 14), st.integers(1, 10**14 - 1), st.integers(-290, 280), st.sampled_from([1.0, -1.0]))
def test_decimals_come_back_digit_by_digit(digits, number, exponent, sign):
    x = sign * float(f"{number % 10**digits or 1}e{exponent}")
    assert UNBOUNDED.value(UNBOUNDED.index_of(x)) == x


@settings(max_examples=200)
@given(doubles)
def test_a_value_has_the_code_it_stands_for(x):
    value = UNBOUNDED.value(UNBOUNDED.index_of(x))
    assert float_code(value) == float_code(x)
    assert len(repr(value)) <= len(repr(x))


def test_values_stay_within_bounds_that_are_no_multiple_of_anything():
    grid = FloatGrid(lowest=0.1, highest=1 / 3)
    ends = [
        grid.value(grid.fine_first),
        grid.value(grid.fine_last),
        grid.value(grid.index_of(-5)),
        grid.value(grid.index_of(7)),
    ]
    assert ends[0] == ends[2] == 0.1
    assert 1 / 3 - 1e-15 < ends[1] == ends[3] <= 1 / 3
    point = FloatGrid(lowest=0.1, highest=0.1)
    assert point.value(point.fine_last) == 0.1


def test_bounds_cut_the_range_and_never_set_a_step():
    wide = outcome_grid(sl.Number("x", lower=0, upper=1e300))
    assert isinstance(wide, FloatGrid)
    assert wide.index_of(0.1) == UNBOUNDED.index_of(0.1)
    exact = outcome_grid(sl.Number("x", lower=Fraction(1, 3), upper=Fraction(2, 3)))
    assert Fraction(exact.lowest) >= Fraction(1, 3) > Fraction(math.nextafter(exact.lowest, 0))
    assert Fraction(exact.highest) <= Fraction(2, 3) < Fraction(math.nextafter(exact.highest, 1))
    between = Fraction(1) + Fraction(1, 2**60)
    with pytest.raises(RangeError, match="no floating-point number"):
        outcome_grid(sl.Number("x", lower=between, upper=between + Fraction(1, 2**61)))
    with pytest.raises(RangeError, match="finite bounds"):
        FloatGrid(lowest=0.0, highest=math.inf)
    with pytest.raises(RangeError, match="dither_bits"):
        FloatGrid(dither_bits=50)


def test_the_ledger_names_the_grid():
    written = grid_to_json(FloatGrid(lowest=0.0, highest=2.0))
    assert written["kind"] == "float"
    assert written["mantissa"] == "48"
    assert (written["first"], written["last"]) == ("0", str(1024 << 48))
    schema = sl.Schema([sl.Number("x", lower=0, upper=2)])
    assert sl.Quantiles([0.5], epsilon=1).prepare(schema).request["grid"] == written


def test_a_record_of_a_tenth_comes_back_as_a_tenth_in_json_too():
    release = sl.Quantiles([0.5], epsilon=50).release([0.1] * 2000)
    assert release.value.tolist() == [0.1]
    assert json.loads(release.to_json())["value"]["array"] == [0.1]
    assert sl.Release.from_json(release.to_json()).value.tolist() == [0.1]


def test_the_released_decimal_is_the_shortest_of_its_code():
    """Against all sixteen doubles of a code: fewest digits, then the smallest; near bounds those within them only."""
    rng = np.random.default_rng(8)
    drawn = rng.choice([-1, 1], 3000) * 10.0 ** rng.uniform(-320, 308, 3000)
    rounded = [float(f"{value:.{digits}e}") for value, digits in zip(drawn, rng.integers(0, 17, 3000), strict=True)]
    near_one = 1.0 + rng.random(500) * 9
    for grid in (FloatGrid(), FloatGrid(lowest=-0.3, highest=float(near_one[0]))):
        for value in [*drawn, *rounded, *near_one, 0.0, -5e-324, 5e-324, 1.7976931348623157e308, -0.3, near_one[0]]:
            index = grid.index_of(float(value))
            code = index >> grid.dither_bits
            patterns = range(16 * abs(code) - (15 if code < 0 else 0), 16 * abs(code) + (1 if code < 0 else 16))
            sizes = [struct.unpack("<d", struct.pack("<q", pattern))[0] for pattern in patterns if pattern >= 0]
            doubles = [x for x in (-x if code < 0 else x for x in sizes) if grid.lowest <= x <= grid.highest]
            digits = [len(repr(x).partition("e")[0].replace(".", "").replace("-", "").strip("0")) for x in doubles]
            best = min(zip(digits, map(abs, doubles), strict=True))
            assert abs(grid.value(index)) == best[1]
            assert grid.value(index) in doubles
