"""Untyped cells become numbers and texts without ever raising."""

from __future__ import annotations

import math
import re
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

from hostile_cells import LeavingFloat, NoFloat, NoSign
from plain_statistics import row_count
from sidelight.aggregates import cell_counts
from sidelight.records import Category, PersonId, Table
from sidelight.records.cells import number_of, numbers_of, plain_label, text_of, texts_of


class Hostile:
    def __float__(self):
        raise RuntimeError("private")

    def __ne__(self, other):
        raise RuntimeError("private")

    def __str__(self):
        raise RuntimeError("private")

    __hash__ = None


def test_hostile_numbers_are_missing():
    assert np.isnan(numbers_of([NoSign(), 1.0])).tolist() == [True, False]
    assert texts_of([NoSign()]).shape == (1,)


@pytest.mark.parametrize("cell", [NoFloat(3), LeavingFloat(3)], ids=["no float", "leaving"])
def test_floats_of_a_class_are_read_by_the_plain_type(cell):
    assert numbers_of([cell, 1.0]).tolist() == [3.0, 1.0]
    assert texts_of([cell]).tolist() == ["3"]
    assert type(plain_label(cell)) is float


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        (1, 1.0),
        ("2.5", 2.5),
        (" 12 ", 12.0),
        (True, 1.0),
        (Decimal("0.1"), 0.1),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        ("1e400", math.inf),
        ("-inf", -math.inf),
        (np.float32(0.5), 0.5),
    ],
)
def test_numbers(cell, number):
    assert number_of(cell) == number


@pytest.mark.parametrize(
    "cell", [None, "", "abc", "1,234", "0x10", float("nan"), [1], {}, object(), Hostile(), 1j, b"\xff"]
)
def test_no_number_is_missing(cell):
    assert math.isnan(number_of(cell))


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("a", "a"),
        ("", None),
        (None, None),
        (True, "true"),
        (np.bool_(False), "false"),
        (7, "7"),
        (np.int8(-7), "-7"),
        (7.0, "7"),
        (7.5, "7.5"),
        (float("nan"), None),
        (np.datetime64("NaT"), None),
        (Hostile(), None),
        (Fraction(1, 3), "1/3"),
        (UUID(int=3), "00000000-0000-0000-0000-000000000003"),
        (time(10), "10:00:00"),
        (timedelta(minutes=3), "0:03:00"),
        (IPv4Address("10.0.0.1"), "10.0.0.1"),
        (date(2024, 1, 31), "2024-01-31"),
        (np.datetime64("2024-01-31"), "2024-01-31"),
        (pd.Interval(0, 1), "(0, 1]"),
        (pd.Period("2024-01"), "2024-01"),
        (pd.NaT, None),
        *(
            (cell, None)
            for cell in (1j, [1], (1,), {"a": 1}, {1}, len, object(), int, b"1", np.array([1]), pd.Series([1]))
        ),
    ],
    ids=lambda given: re.sub(" at 0x[0-9a-f]+", "", repr(given)),  # addresses differ between workers
)
def test_texts(cell, text):
    assert text_of(cell) == text


def test_columns_of_cells():
    assert numbers_of([]).shape == (0,)
    assert texts_of([[1, 2], "x"]).tolist() == [None, "x"]
    # the text of an object is its address: every row would be a person of its own, another one in every run
    ids = {"id": ["1", [7], 7 + 0j, *(object() for _ in range(50))], "g": ["1", "[1]", *[[1]] * 51]}
    schema = [PersonId("id", max_rows=1), Category("g", ["1", "[1]"], other=None)]
    for source in (ids, pd.DataFrame(ids)):
        assert row_count(Table(source, schema=schema)).value == 1
        labels = Table(source, schema=schema[1:])
        assert cell_counts(labels, ["g"]).value.tolist() == [1, 1]
