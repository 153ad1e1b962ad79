"""Two dates in one expression: columns that count from other starts are compared and subtracted as days."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sidelight as sl
from sidelight.errors import SchemaError
from sidelight.session.query import prepare_query

RNG = np.random.default_rng(3)
FIRST = date(2021, 3, 1)
ONE, TWO = (([FIRST + timedelta(days=int(each)) for each in RNG.integers(0, 40, 500)]) for _ in range(2))
SCHEMA = [
    sl.Date("one", start="2021-01-01", end="2022-12-31"),
    sl.Date("two", start="2019-06-15", end="2023-12-31"),
    sl.Number("days", lower=0, upper=60, granularity="0.5"),
]
ROWS: dict[str, list[Any]] = {"one": ONE, "two": TWO, "days": [each / 2 for each in range(100)] * 5}
SOURCES: dict[str, Callable[[], Any]] = {
    "arrays": lambda: {
        name: [str(each) for each in cells] if name != "days" else cells for name, cells in ROWS.items()
    },
    "arrow": lambda: pa.table(ROWS),
    "polars": lambda: pl.DataFrame(ROWS).lazy(),
    "duckdb": lambda: duckdb.connect().from_arrow(pa.table(ROWS)),
}


def counted(where: str, source: str) -> int:
    query = sl.Count(where=where, epsilon=10**4)
    return round(float(query.release(sl.Table(SOURCES[source](), schema=SCHEMA)).value["count"][0]))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("sign", ["<", "<=", "==", "!=", ">", ">="])
def test_dates_with_other_starts_are_compared_as_days(source: str, sign: str) -> None:
    compared = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt}
    true = [compared.get(sign, operator.ge)(one, two) for one, two in zip(ONE, TWO, strict=True)]
    assert counted(f"one {sign} two", source) == sum(true)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("two - one <= 7", lambda one, two, days: (two - one).days <= 7),
        ("one + days < two", lambda one, two, days: one.toordinal() + days < two.toordinal()),
        ("one < two - days", lambda one, two, days: one.toordinal() + days < two.toordinal()),
        ("7 + two - one >= 2 * days", lambda one, two, days: 7 + (two - one).days >= 2 * days),
        ('fill_missing(one, "2021-03-05") >= two', lambda one, two, days: one >= two),
        ("(two - one) * (two - one) > 100", lambda one, two, days: (two - one).days ** 2 > 100),
    ],
)
def test_differences_of_dates_with_other_starts_are_days(source: str, where: str, holds: Callable[..., bool]) -> None:
    true = [holds(*row) for row in zip(ONE, TWO, ROWS["days"], strict=True)]
    assert counted(where, source) == sum(true)


def test_the_mean_of_a_difference_lies_within_its_public_range() -> None:
    """Its range follows from both columns: 2023-12-31 is 1094 days after the first start, 2022-12-31 1295 after."""
    difference = sl.Mean(sl.col("two") - sl.col("one"), epsilon=10**4)
    shape: Any = (sl.col("two") - sl.col("one")).check(sl.Schema(SCHEMA))
    assert (shape.first, shape.last) == (-1295, 1094)
    value = difference.release(sl.Table(SOURCES["arrays"](), schema=SCHEMA)).value["mean"][0]
    assert value == pytest.approx(np.mean([(two - one).days for one, two in zip(ONE, TWO, strict=True)]), abs=0.1)


def test_pairs_of_tables_compare_their_own_dates() -> None:
    people = list(range(300))
    tables = {
        name: sl.Table(
            {"id": people, "day": [str(FIRST + timedelta(days=after))] * 300},
            schema=[sl.PersonId("id", max_rows=1), sl.Date("day", start=start, end="2022-12-31")],
        )
        for name, start, after in (("visit", "2019-01-01", 0), ("drug", "2021-01-01", 5))
    }
    database = sl.Database(tables, name="clinic")
    session = sl.Session(database, budget=sl.PureDP(10**5))
    pairs = database.pairs("visit", "drug", max_rows=1)
    for where, there in (
        ("visit.day < drug.day", 300),
        ("drug.day - visit.day == 5", 300),
        ("drug.day < visit.day", 0),
    ):
        found: Any = session.release(sl.Count(where=where, epsilon=10**4), of=pairs)
        assert round(float(found.value["count"][0])) == there


@pytest.mark.parametrize(
    ("where", "start", "unit"), [("one < two", "2021-01-01", "hour"), ("one + two > 5", "2020-01-01", "day")]
)
def test_dates_in_other_units_and_sums_of_dates_are_refused(where: str, start: str, unit: Any) -> None:
    schema = [SCHEMA[0], sl.Date("two", start=start, end="2022-12-31", unit=unit)]
    with pytest.raises(SchemaError, match="two dates are compared or subtracted; declare both in days"):
        prepare_query(sl.Count(where=where, epsilon=1), sl.Schema(schema))
