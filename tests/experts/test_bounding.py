"""Whatever a client holds becomes bounded integers, and only a wrong length raises."""

from __future__ import annotations

import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.experts import Reporting
from sidelight.experts.reporter import bounded_codes

TERMS = Reporting(actions=3, mu=1, sensitivity="0.1", neighbours="presence", rounds=10, fill="0.25")


class Grumpy:
    def __float__(self):
        raise RuntimeError("987654.321 is secret")


ANYTHING = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-(10**400), 10**400),
    st.none(),
    st.text(max_size=5),
    st.complex_numbers(),
    st.booleans(),
    st.just(Grumpy()),
    st.just(pd.NA),
    st.just([1, 2]),
    st.just(Decimal("NaN")),
)


@given(st.lists(ANYTHING, min_size=3, max_size=3))
def test_no_value_raises_or_warns_or_leaves_its_range(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codes = bounded_codes(values, TERMS)
    assert codes.dtype == np.int64
    assert ((codes >= 0) & (codes <= TERMS.largest_code)).all()


@given(st.lists(st.floats(-3, 3), min_size=3, max_size=3), st.lists(st.floats(-3, 3), min_size=3, max_size=3))
def test_rounding_and_clipping_move_two_vectors_apart_by_half_a_step_each_at_most(one, other):
    first, second = bounded_codes(one, TERMS), bounded_codes(other, TERMS)
    for a, b, x, y in zip(first, second, one, other, strict=True):
        assert abs(int(a) - int(b)) * TERMS.grid <= abs(Fraction(x) - Fraction(y)) + TERMS.grid


def test_rounding_is_exact_where_adding_a_half_is_not():
    just_below = np.nextafter(0.5, 0) * 2.0**-TERMS.grid_bits
    assert bounded_codes([just_below] * 3, TERMS).tolist() == [0, 0, 0]
    assert np.floor(np.nextafter(0.5, 0) + 0.5) == 1.0  # what floor(x + 1/2) would do


def test_policies():
    fill = int(bounded_codes([0.25] * 3, TERMS)[0])
    assert bounded_codes([np.nan, np.inf, -np.inf], TERMS).tolist() == [fill] * 3
    assert bounded_codes(None, TERMS).tolist() == [fill] * 3
    assert bounded_codes([5.0, -5.0, 1.0], TERMS).tolist() == [TERMS.largest_code, 0, TERMS.largest_code]
    assert bounded_codes(np.ma.masked_array([0.5, 0.5, 0.5], mask=[0, 1, 0]), TERMS)[1] == fill
    assert bounded_codes(pd.Series([0.5, None, 0.5]), TERMS)[1] == fill
    assert TERMS.largest_code * TERMS.grid <= 1


@pytest.mark.parametrize("gains", [[0.1], [0.1] * 4, [[0.1] * 3], 0.5])
def test_only_the_length_can_be_wrong(gains):
    with pytest.raises(RangeError, match="reports 3 gains"):
        bounded_codes(gains, TERMS)


def test_a_coordinate_is_one_number():
    terms = Reporting(actions=3, mu=1, sensitivity="0.1", neighbours="presence", rounds=10, kind="coordinate")
    assert bounded_codes(0.5, terms).tolist() == bounded_codes([0.5], terms).tolist()
    assert bounded_codes("what", terms).tolist() == [0]
