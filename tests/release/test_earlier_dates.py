"""Earlier releases of a column of dates as predictions: their numbers count from another start than the column now."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.session.query import prepare_query
from sidelight.testing import seeded_release

FIRST = date(2022, 3, 1)
#: The true median, and so many days later the second column starts.
MIDDLE, LATER = 89, 731


def column(year: int, unit: Any = "day") -> sl.Date:
    return sl.Date("day", start=f"{year}-01-01", end=f"{year + 3}-12-31", unit=unit)


def rows(year: int, number: int = 6000) -> sl.Table:
    days = [(FIRST + timedelta(days=place % 60)).isoformat() for place in range(number)]
    groups = ["abc"[place % 3] for place in range(number)]
    return sl.Table({"day": days, "g": groups}, schema=schema(column(year)))


def schema(day: sl.Number) -> list[Any]:
    return [day, sl.Category("g", ["a", "b", "c"], other=None)]


def predicted(query: Any, day: sl.Number | None = None) -> Any:
    return prepare_query(query, sl.Schema(schema(column(2022) if day is None else day))).prediction


def released(query: Any, seed: int) -> Any:
    outcome: Any = seeded_release(query, rows(2022, 300), seed=seed)
    return outcome.value


def earlier(query: Any) -> Any:
    return query.release(rows(2020))


MEANS = sl.Mean("day", by="g", epsilon=5)
STATEMENT = sl.SQL("SELECT g, AVG(day) FROM t GROUP BY g", epsilon=5)


@pytest.mark.parametrize("release", [MEANS, STATEMENT], ids=["mean", "sql"])
@pytest.mark.parametrize(
    "wrap", [lambda given: given, lambda given: sl.Predicted(given, sd=3.0)], ids=["bare", "stated"]
)
def test_earlier_means_of_dates_count_from_the_start_of_the_column(release: Any, wrap: Any) -> None:
    before = earlier(release)
    found = predicted(sl.Mean("day", by="g", epsilon="0.05", prediction=wrap(before)))
    assert [float(value) for *_, value in found["values"]] == pytest.approx([MIDDLE] * 3, abs=3)
    same = prepare_query(
        sl.Mean("day", by="g", epsilon="0.05", prediction=wrap(before)), sl.Schema(schema(column(2020)))
    ).prediction
    assert same is not None
    assert [float(value) for *_, value in same["values"]] == pytest.approx([MIDDLE + LATER] * 3, abs=3)


def test_an_earlier_statement_predicts_a_statement_with_another_start() -> None:
    before = earlier(STATEMENT)
    found = predicted(sl.SQL("SELECT g, AVG(day) FROM t GROUP BY g", epsilon="0.05", prediction=before))
    (described,) = found["columns"].values()
    assert [float(value) for *_, value in described["values"]] == pytest.approx([MIDDLE] * 3, abs=3)


def test_an_earlier_distribution_of_dates_helps_from_another_start() -> None:
    before = earlier(sl.Distribution("day", epsilon=5))
    query = sl.Distribution("day", epsilon="0.1", prediction=before)
    found = [released(query, seed).quantile(0.5) for seed in range(9)]
    assert sum(abs(each - MIDDLE) < 30 for each in found) >= 7


def test_earlier_quantiles_by_group_count_from_the_start_of_the_column() -> None:
    before = earlier(sl.Quantiles([0.5], column="day", by="g", epsilon=5))
    query = sl.Quantiles([0.5], column="day", by="g", epsilon="0.05", prediction=before)
    found = [each for seed in range(5) for each in released(query, seed)["q50"]]
    assert sum(abs(each - MIDDLE) < 30 for each in found) >= 10


@pytest.mark.parametrize("day", [column(2022, "hour"), sl.Number("day", lower=0, upper=1460)], ids=["hours", "numbers"])
@pytest.mark.parametrize(
    "query",
    [
        lambda given: sl.Mean("day", by="g", epsilon=5, prediction=given),
        lambda given: sl.Distribution("day", epsilon=5, prediction=given),
        lambda given: sl.Quantiles([0.5], column="day", by="g", epsilon=5, prediction=given),
    ],
    ids=["mean", "distribution", "quantiles"],
)
def test_earlier_dates_in_another_unit_are_refused(query: Any, day: Any) -> None:
    before = earlier(query(None))
    with pytest.raises(RangeError, match="the prediction counts 'day' in days, and here it counts in"):
        predicted(query(before), day)


def test_an_earlier_synthetic_table_with_other_starts_of_dates_is_refused() -> None:
    """Its bins have the same edges, of other days."""
    before = earlier(sl.SyntheticTable(rho=1))
    assert before.value["columns"][0]["start"] == "2020-01-01"
    with pytest.raises(RangeError, match="starts of dates"):
        predicted(sl.SyntheticTable(rho=1, prediction=before), sl.Date("day", start="2020-01-02", end="2024-01-01"))
    assert predicted(sl.SyntheticTable(rho=1, prediction=before), column(2020)) is not None
