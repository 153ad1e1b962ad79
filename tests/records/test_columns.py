"""What may be declared about a column, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError, SchemaError
from sidelight.records import Category, Drop, Fill, Number, PersonId
from sidelight.records.numbers import exact_number, nearest_float, number_text


def test_number_reads_decimals_exactly():
    column = Number("price", lower="-0.1", upper=0.3, granularity=0.01)
    assert (column.lower, column.upper, column.granularity) == (Fraction(-1, 10), Fraction(3, 10), Fraction(1, 100))
    assert column.missing == Drop()
    assert column.fill is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"lower": 1, "upper": 1},
        {"lower": 2, "upper": 1},
        {"granularity": 0},
        {"granularity": -1},
        {"lower": float("nan")},
        {"upper": float("inf")},
        {"lower": "abc"},
        {"lower": True},
        {"lower": [1]},
        {"lower": "1/0"},
        {"lower": 0, "upper": 1, "missing": Fill(2)},
        {"missing": Fill("x")},
    ],
)
def test_number_refuses(arguments):
    with pytest.raises(RangeError, match=r"'x'|column"):
        Number("x", **arguments)


def test_number_takes_numpy_scalars_and_fill():
    column = Number("x", lower=np.float32(0.5), upper=np.int64(3), missing=Fill(1))
    assert (column.lower, column.upper, column.fill) == (Fraction(1, 2), 3, 1.0)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_column_needs_a_name(name):
    with pytest.raises(SchemaError, match="needs a name"):
        Number(name)


def test_category_codes():
    column = Category("grade", [1, 2, 3])
    assert column.labels == ("1", "2", "3", "other")
    assert (column.unknown_code, column.missing_code) == (3, 3)
    strict = Category("grade", ["a", "b"], other=None)
    assert (strict.labels, strict.unknown_code, strict.missing_code) == (("a", "b"), None, None)
    inside = Category("flag", [True, False], other="false", missing=Fill(True))
    assert (inside.labels, inside.unknown_code, inside.missing_code) == (("true", "false"), 1, 0)
    assert Category("c", ["a"], missing=Drop()).missing_code is None


@pytest.mark.parametrize(
    ("categories", "arguments"),
    [
        ([], {}),
        (["a", "a"], {}),
        ([1, "1"], {}),
        ([""], {}),
        ([1.5], {}),
        ("abc", {}),
        (["a"], {"missing": Fill("b")}),
        (["a"], {"missing": Fill(1.5)}),
        (["a"], {"missing": "drop"}),
    ],
)
def test_category_refuses(categories, arguments):
    with pytest.raises(SchemaError):
        Category("c", categories, **arguments)


@pytest.mark.parametrize("cap", [0, -1, 1.5, True, 2**20 + 1])
def test_person_cap_is_a_small_whole_number(cap):
    with pytest.raises(RangeError, match="max_rows"):
        PersonId("who", max_rows=cap)


def test_declarations_are_immutable_values():
    assert Number("x", lower=0) == Number("x", lower="0")
    assert hash(PersonId("p", max_rows=2)) == hash(PersonId("p", max_rows=2))
    with pytest.raises(AttributeError):
        Number("x").lower = 3  # type: ignore[misc]


@given(st.fractions())
def test_number_text_is_read_back(value):
    assert exact_number(number_text(value), name="x") == value


@pytest.mark.parametrize("text", ["\u0663", "\uff11/2", "1\u00a0", "\ud800"])
def test_digits_of_another_script_are_no_number(text):
    """In a file they are missing; in a declaration they are refused."""
    with pytest.raises(RangeError, match="finite number"):
        exact_number(text, name="lower")


def test_nearest_float_saturates():
    assert nearest_float(Fraction(10) ** 400) == 1.7976931348623157e308
    assert nearest_float(-(Fraction(10) ** 400)) == -1.7976931348623157e308
    assert nearest_float(Fraction(1, 10)) == 0.1


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Category("job", ["a", "\ud800"]),
        lambda: Category("job", ["a"], other="\udfff"),
        lambda: Category("job\ud800", ["a"]),
        lambda: Number("\ud800"),
        lambda: PersonId("p\udc00", max_rows=1),
    ],
)
def test_names_and_labels_are_unicode(declare: Callable[[], object]) -> None:
    with pytest.raises(SchemaError, match="not Unicode") as found:
        declare()
    str(found.value).encode()
