"""Exact amounts: what is read, what is refused, and that text goes both ways."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.guarantees import ApproxDP, PureDP, decimal_text, exact, positive, short_text
from sidelight.guarantees.amounts import whole


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        ("1e-6", Fraction(1, 10**6)),
        ("2/3", Fraction(2, 3)),
        (Decimal("1e-40"), Fraction(1, 10**40)),
        (Fraction(7, 3), Fraction(7, 3)),
        (3, Fraction(3)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int64(3), Fraction(3)),
        (1e-300, Fraction(1, 10**300)),
    ],
)
def test_reads_what_was_meant(written: object, meant: Fraction) -> None:
    assert exact(written, name="epsilon") == meant  # type: ignore[arg-type]


def test_a_float_is_not_its_binary_value() -> None:
    assert exact(0.1, name="epsilon") != Fraction(0.1)


@pytest.mark.parametrize(
    "bad",
    [float("nan"), float("inf"), -float("inf"), -1, -0.5, "-1", True, False, "nan", "inf", "1e9999", "", "0x1", "1_000",
     "1/0", None, [1], np.array([1.0]), Decimal("NaN"), Decimal("1e2000"), "1" * 2000, 1j],
)  # fmt: skip
def test_refuses_and_names_the_parameter(bad: object) -> None:
    with pytest.raises(RangeError, match="epsilon"):
        exact(bad, name="epsilon")  # type: ignore[arg-type]


@pytest.mark.parametrize("given_as", [int, np.int8, np.int64, np.uint16])
def test_whole_numbers_become_those_of_python(given_as: type) -> None:
    for number in (2, 5):
        found = whole(given_as(number), name="k", least=2, most=5)
        assert found == number
        assert type(found) is int


@pytest.mark.parametrize(
    "bad",
    [1, 6, np.int64(6), True, np.True_, 3.0, np.float64(3), float("nan"), "3", None, Fraction(3), np.array([3]),
     np.timedelta64(3, "D"), 10**5000, -(10**5000)],
    ids=lambda bad: f"{type(bad).__name__}",
)  # fmt: skip
def test_what_is_no_whole_number_within_limits_is_refused(bad: object) -> None:
    with pytest.raises(RangeError, match=r"^k must be a whole number from 2 to 5, got .*; 3 is usual$"):
        whole(bad, name="k", least=2, most=5, advice="3 is usual")


def test_refusals_show_no_array() -> None:
    with pytest.raises(RangeError, match=r"^k must be a whole number of at least 1, got ndarray$"):
        whole(np.array([731, 4]), name="k")


def test_zero_is_no_release() -> None:
    with pytest.raises(RangeError, match="positive"):
        positive(0, name="epsilon")
    with pytest.raises(RangeError):
        PureDP(0)
    with pytest.raises(RangeError):
        ApproxDP(0, 0)


@pytest.mark.parametrize("bad", [1, "1.5", 2])
def test_delta_is_below_one(bad: object) -> None:
    with pytest.raises(RangeError, match="delta"):
        ApproxDP(1, bad)  # type: ignore[arg-type]


def test_epsilon_has_a_ceiling() -> None:
    PureDP(10**6)
    with pytest.raises(RangeError, match="1e6"):
        PureDP(10**6 + 1)


@given(st.fractions(min_value=0, max_value=10**9))
def test_text_goes_both_ways(x: Fraction) -> None:
    assert exact(decimal_text(x), name="x") == x


@given(st.integers(0, 10**50), st.integers(0, 90))
def test_decimals_go_both_ways(mantissa: int, places: int) -> None:
    x = Fraction(mantissa, 10**places)
    text = decimal_text(x)
    assert "/" not in text
    assert exact(text, name="x") == x


def test_texts() -> None:
    assert decimal_text(Fraction(3)) == "3"
    assert decimal_text(Fraction("0.000001")) == "0.000001"
    assert short_text(Fraction("0.000001")) == "1e-6"
    assert short_text(Fraction("123.45")) == "123.45"
    assert short_text(Fraction(1, 10**400)).endswith("e-400")


def test_numpy_scalars_mean_the_decimal_that_they_show() -> None:
    for kind in (np.float16, np.float32, np.float64, np.longdouble):
        assert exact(kind("0.5"), name="epsilon") == Fraction(1, 2)
    assert exact(np.float32(0.1), name="epsilon") == Fraction(1, 10)
    assert exact(np.float32(1e-7), name="delta") == Fraction("1e-7")
    assert positive(np.int8(3), name="epsilon") == 3
    for wrong in (np.float32("nan"), np.float32("inf"), np.array([0.5]), np.bool_(True)):
        with pytest.raises(RangeError):
            exact(wrong, name="epsilon")  # type: ignore[arg-type]
