"""Public numbers that no kernel can hold are refused when a query is prepared, whether or not there are rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates import expression_values
from sidelight.aggregates.rehearsal import generated_rows
from sidelight.errors import RangeError, SchemaError
from sidelight.records import Schema
from sidelight.records.expressions import Expression
from sidelight.session.query import prepare_query
from sidelight.testing import seeded_release

COLUMNS: dict[str, tuple[sl.Number, Any]] = {
    "floats": (sl.Number("floats"), 1.5),
    "bounded": (sl.Number("bounded", lower=0, upper=300), 1.5),
    "steps": (sl.Number("steps", lower=-5, upper=300, granularity="0.5"), 2),
    "open steps": (sl.Number("open steps", granularity=1), 2),
    "half open": (sl.Number("half open", lower=3, granularity=1), 2),
    "fine": (sl.Number("fine", granularity="1e-200"), 2),
    "filled": (sl.Number("filled", granularity=1, missing=sl.Fill(2)), None),
    "day": (sl.Date("day", start="1900-01-01", end="2100-12-31"), "2024-01-05"),
    "hour": (sl.Date("hour", start="2024-01-01", end="2024-12-31", unit="hour"), "2024-01-05 10:00"),
}
TEN = Fraction(10)
CONSTANTS: tuple[Any, ...] = (
    *(0, 1, -1, 2**53 + 1, 2**61, -(2**61), 2**61 + 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**1000, 10**5000),
    *(TEN**309, -(TEN**309), TEN**400, -(TEN**400), 1.7976931348623157e308, -1.7976931348623157e308),
    *(5e-324, 1 / TEN**30, 1 / TEN**400, Fraction(1, 3), "9999-12-31", "0001-01-01", "no date"),
)
Build = Callable[[Expression, Any], Expression]
CONDITIONS: dict[str, Build] = {
    "at least": lambda x, c: x >= c,
    "more": lambda x, c: x > c,
    "less": lambda x, c: x < c,
    "at most": lambda x, c: x <= c,
    "equal": lambda x, c: x == c,
    "not equal": lambda x, c: x != c,
    "in": lambda x, c: x.isin([c, 1]),
    "filled": lambda x, c: x.fill_missing(c) >= 0,
    "filled twice": lambda x, c: x.fill_missing(c).fill_missing(1) == c,
    "filled and cut": lambda x, c: x.fill_missing(c).cut([0, 9]) == "[0, 9)",
    "filled and missing": lambda x, c: x.fill_missing(c).is_missing(),
    "sum": lambda x, c: x + c >= 0,
    "difference": lambda x, c: c - x > c,
    "product": lambda x, c: x * c >= 0,
    "quotient": lambda x, c: x / c == 1,
    "filled sum": lambda x, c: x.fill_missing(c) + c >= 0,
    "key": lambda x, c: x.lookup({c: "a", 1: "b"}) == "a",
    "result": lambda x, c: x.lookup({2: c, 1: 0}, default=c) >= 0,
    "results": lambda x, c: x.lookup({2: 0, 1: 0}, default=0) + c >= 0,
    "results times": lambda x, c: x.lookup({2: 0, 1: 0}, default=0) * c >= 0,
    "cut": lambda x, c: x.cut([c]).is_missing(),
    "cut, dropped": lambda x, c: x.cut([-3, c], outside="drop").is_missing(),
    "year": lambda x, c: x.fill_missing(c).year == "2024",
    "start of month": lambda x, c: x.fill_missing(c).start_of("month") == "2024-01-01",
    "weekday": lambda x, c: x.fill_missing(c).weekday == "2",
    "hour": lambda x, c: x.fill_missing(c).hour == "2",
}


def _queries(name: str, kind: str, constant: Any) -> Iterator[Any]:
    condition = CONDITIONS[kind](sl.col(name), constant)
    yield sl.Count(where=condition, epsilon=1)
    if kind in ("at least", "filled", "results"):
        yield sl.Proportion(condition, epsilon=1)
    if kind == "cut":
        yield sl.Count(by=sl.col(name).cut([constant]), epsilon=1)


@pytest.mark.parametrize(("name", "kind"), [*product(COLUMNS, CONDITIONS)])
def test_a_constant_is_refused_before_the_charge_or_answered_with_and_without_rows(name: str, kind: str) -> None:
    column, cell = COLUMNS[name]
    tables = [sl.Table({name: [cell] * rows}, schema=[column]) for rows in (0, 1)]
    for constant in CONSTANTS:
        try:
            queries = [*_queries(name, kind, constant)]
            for query in queries:
                prepare_query(query, tables[0].schema)
        except (RangeError, SchemaError):
            continue
        for query, table in product(queries, tables):
            seeded_release(query, table, seed=1)


def test_numbers_beyond_the_floats_are_refused_in_words() -> None:
    """A view without rows released what failed, paid for, as soon as one person had a row."""
    schema = Schema([sl.Number("x", lower=0, upper=9)])
    for condition in (sl.col("x").fill_missing(10**400) >= 0, "fill_missing(x, 1e400) >= 0"):
        with pytest.raises(RangeError, match="x cannot be filled with a number beyond the floats"):
            prepare_query(sl.Count(where=condition, epsilon=1), schema)


def _clinic(rare: int) -> sl.Database:
    rows = {
        "pid": ["a", "b", "c", *["v"] * rare],
        "weight": [50, 60, 70, *[80] * rare],
        "diagnosis": [*["flu"] * 3, *["rare"] * rare],
    }
    diagnosis = sl.Category("diagnosis", ["flu", "rare"], other=None)

    def table(most: int) -> sl.Table:
        weight = sl.Number("weight", lower=0, upper=300)
        return sl.Table(rows, schema=[sl.PersonId("pid", max_rows=most), weight, diagnosis])

    return sl.Database({"patient": table(1), "visit": table(2)}, name="clinic")


@pytest.mark.parametrize("rare", [0, 1])
def test_no_person_decides_whether_a_release_of_a_view_fails(rare: int) -> None:
    database = _clinic(rare)
    session = sl.Session(database, budget=sl.PureDP(1))
    heavy, is_rare = sl.col("weight").fill_missing(10**400) >= 0, sl.col("diagnosis") == "rare"
    left, left_is_rare = sl.col("left.weight").fill_missing(10**400) >= 0, sl.col("left.diagnosis") == "rare"
    asked: list[tuple[Any, Callable[[], Any]]] = [
        (heavy, lambda: sl.per_person(database, of="patient", where=is_rare)),
        (heavy, lambda: sl.per_person(database, of="patient")),
        (left, lambda: database.pairs("visit", "visit", where=left_is_rare, max_rows=4)),
        (left_is_rare, lambda: database.pairs("visit", "visit", where=left, max_rows=4)),
        (is_rare, lambda: sl.per_person(database, of="patient", where=heavy)),
        (None, lambda: sl.per_person(database, of="patient", some=sl.fold.any("visit", heavy))),
        (None, lambda: sl.per_person(database, of="patient", n=sl.fold.count("visit", upper=3, where=heavy))),
    ]
    for where, view in asked:
        with pytest.raises(RangeError, match="beyond the floats"):
            session.release(sl.Count(where=where, epsilon="0.1"), of=view())
    statement = "SELECT COUNT(*) FILTER (WHERE COALESCE(v.weight, 1e400) >= 0) AS n FROM visit v JOIN visit d ON "
    with pytest.raises(RangeError, match="beyond the floats"):
        session.sql(f"{statement}v.pid = d.pid WHERE v.diagnosis = 'rare'", epsilon="0.1", max_rows=4)
    assert "Σε 0 of 1" in str(session.spent)


def _fails_on_rows(*_: Any) -> Any:
    raise OverflowError


@pytest.mark.parametrize("kernel", ["_filled", "_compared", "_arithmetic", "_cut", "_looked_up", "_date_part"])
def test_a_kernel_that_fails_on_every_batch_fails_when_a_query_is_prepared(
    monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    """The next constant that a kernel cannot hold, and no shape refuses."""
    database = _clinic(0)
    x = sl.col("steps")
    parts = [
        x.fill_missing(1) + 1 > 0,
        x.cut([1]) == "1 and above",
        x.lookup({1: "a"}) == "a",
        sl.col("day").year == "2024",
    ]
    condition = parts[0] & parts[1] & parts[2] & parts[3]
    schema = Schema([COLUMNS[name][0] for name in ("steps", "day")])
    prepare_query(sl.Count(where=condition, epsilon=1), schema)
    weighed, left = sl.col("weight").fill_missing(1) >= 0, sl.col("left.weight").fill_missing(1) >= 0
    views = [
        sl.per_person(database, of="patient", where=weighed),
        sl.per_person(database, of="patient", some=sl.fold.any("visit", weighed)),
        database.pairs("visit", "visit", where=left, max_rows=4),
    ]
    monkeypatch.setattr(expression_values, kernel, _fails_on_rows)
    for query in (sl.Count(where=condition, epsilon=1), sl.Mean("steps", where=condition, epsilon=1)):
        with pytest.raises(RangeError, match="cannot be evaluated"):
            prepare_query(query, schema)
    session = sl.Session(database, budget=sl.PureDP(1))
    for view in views if kernel in ("_filled", "_compared") else ():
        with pytest.raises(RangeError, match="cannot be evaluated"):
            session.release(sl.Count(epsilon="0.1"), of=view)
    assert "Σε 0 of 1" in str(session.spent)


def test_generated_rows_depend_on_the_declarations_alone() -> None:
    schema = Schema(
        [
            sl.Number("a", upper=7),
            sl.Number("b", lower=-1e300, upper=1e300),
            sl.Category("c", ["x", "y"]),
            sl.Label("l"),
        ]
    )
    made = generated_rows(schema, ["a", "b", "c", "l"])
    assert np.array_equal(made.numbers["a"], [np.nan, -np.inf, 7, 0], equal_nan=True)
    assert np.array_equal(made.numbers["b"], [np.nan, -1e300, 1e300, 0], equal_nan=True)
    assert made.texts["c"].tolist() == [None, "x", "y", "y"]
    assert made.texts["l"].tolist() == [None, "a", "a", "a"]
