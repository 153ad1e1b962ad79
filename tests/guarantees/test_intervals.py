"""Certified arithmetic at its edges: exact where the value is, and rational numbers that can be written down."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.guarantees.intervals import ONE, ZERO, Interval, round_down, round_up

TINY, BELOW = Decimal("1e-1000000000000000"), Decimal("-1e-1000000000000000")


def ends(interval: Interval) -> tuple[Decimal, Decimal]:
    return interval.lower, interval.upper


def test_exact_values_have_no_step_beside_them() -> None:
    assert ends(Interval.of(1).log()) == ends(Interval.of(0).sqrt()) == (ZERO, ZERO)
    assert ends(Interval.of(0).exp()) == (ONE, ONE)
    low, high = ends(Interval(ONE, Decimal(2)).log())
    assert low == 0
    assert Decimal("0.693147") < high < Decimal("0.693148")


def test_steps_below_every_amount_are_rounded_to_what_can_be_written() -> None:
    """A decimal may have 10**15 digits after the point, and no rational number has."""
    least = Fraction(1, 10**999)
    assert round_up(TINY) == round_up(Decimal("9.9e-1000")) == least
    assert round_down(BELOW) == -least
    assert round_up(BELOW) == round_down(TINY) == round_up(ZERO) == round_down(ZERO) == 0
    assert round_up(Decimal("1e-999")) == round_down(Decimal("1e-999")) == least
    subnormal = Interval(Decimal("-1e1000000000000000"), ONE).exp().lower
    assert round_down(subnormal) == 0


@pytest.mark.parametrize("x", ["1e100001", "1e999999999999999", "Infinity", "-Infinity", "NaN"])
def test_what_no_rational_number_can_hold_is_refused(x: str) -> None:
    for rounded in (round_up, round_down):
        with pytest.raises(RangeError, match="public numbers"):
            rounded(Decimal(x))


@given(st.decimals(min_value=Decimal("-1e50"), max_value=Decimal("1e50"), allow_nan=False, places=60))
def test_rounding_is_outwards_and_small(x: Decimal) -> None:
    low, high = round_down(x), round_up(x)
    assert low <= Fraction(x) <= high
    assert high - low <= abs(Fraction(x)) * Fraction(1, 10**38)
