"""Integers whose length is bounded exactly, whatever comes in."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.mechanisms.prefix_sums import Quantiser, _shrunk

anything = st.floats(allow_nan=True, allow_infinity=True, width=64)


def ball(size, bits=20, norm=1):
    return Quantiser(size=size, norm_bound=Fraction(norm), bits=bits)


@given(vector=st.lists(anything, min_size=1, max_size=40), bits=st.integers(4, 30), norm=st.fractions(1, 1000))
@settings(max_examples=300, deadline=None)
def test_no_vector_leaves_the_ball(vector, bits, norm):
    quantiser = Quantiser(size=len(vector), norm_bound=norm, bits=bits)
    codes = quantiser.codes(np.array(vector)).tolist()
    assert sum(c * c for c in codes) <= quantiser.radius**2


@given(vector=st.lists(st.floats(-0.15, 0.15), min_size=1, max_size=40))
def test_short_vectors_are_rounded_to_the_nearest_and_nothing_else(vector):
    codes = ball(len(vector)).codes(np.array(vector))
    assert codes.tolist() == [round(Fraction(x) * 2**20) for x in vector]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 1000])
def test_the_radius_is_the_rounding_of_a_full_vector(size):
    """M = 2^20 + ceil(sqrt(p)/2)."""
    extra = ball(size).radius - 2**20
    assert (extra - 1) ** 2 * 4 < size <= extra**2 * 4


def test_codes_outside_are_shortened_in_integers():
    long = np.array([2**20 + 5, -(2**20), 77])
    short = _shrunk(long.copy(), 2**20)
    assert int(short @ short) <= 2**40
    assert (np.sign(short) == np.sign(long)).all()
    assert int(short @ short) > 0.999 * 2**40


def test_many_coordinates_of_many_bits_stay_in_int64():
    quantiser = ball(2**20, bits=30)
    codes = quantiser.codes(np.full(2**20, 1e9))
    assert sum(c * c for c in codes.tolist()) <= quantiser.radius**2 < 2**62


@given(pair=st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=1, max_size=20))
def test_the_box_moves_no_two_vectors_apart(pair):
    first, second = np.array(pair).T
    box = Quantiser(size=len(pair), norm_bound=Fraction(1), shape="box")
    moved = np.abs(box.codes(first) - box.codes(second))
    assert (moved <= np.abs(first - second) * 2**20 + 1 + 1e-6).all()


def test_refusals():
    for make in (
        lambda: ball(0),
        lambda: ball(2**21),
        lambda: ball(3, bits=31),
        lambda: ball(3, norm=Fraction(1, 2**600)),
    ):
        with pytest.raises(RangeError):
            make()
    with pytest.raises(RangeError, match="3 coordinates"):
        ball(3).codes(np.zeros(4))
