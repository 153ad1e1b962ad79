"""Statements about dates show dates, every number has its interval, and a release predicts the next one."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

import sidelight as sl
from sidelight.session import release_once
from sidelight.testing import SeededEntropy

TABLE = sl.Table(
    {
        "job": ["cook", "nurse", "clerk"] * 500,
        "day": ["2024-03-01", "2024-06-01", "2024-09-01"] * 500,
        "age": [30, 40, 50] * 500,
    },
    schema=[
        sl.Category("job", ["cook", "nurse", "clerk"], other=None),
        sl.Date("day", start="2024-01-01", end="2024-12-31"),
        sl.Number("age", lower=0, upper=100, granularity=1),
    ],
    name="people",
)
FIRST = "SELECT job, COUNT(*) AS n, AVG(age) AS years FROM people GROUP BY job"


def released(query: object, seed: str = "a") -> sl.Release:
    found = release_once(query, TABLE, entropy=SeededEntropy(seed))  # type: ignore[arg-type]
    assert isinstance(found, sl.Release)
    return found


def test_means_and_medians_of_dates_are_dates_and_spreads_are_days() -> None:
    statement = "SELECT job, AVG(day) AS usual, MEDIAN(day) AS middle, STDDEV(day) AS off FROM people GROUP BY job"
    release = sl.Release.from_json(released(sl.SQL(statement, epsilon=5)).to_json())
    shown = release.shown.row("nurse")
    for name in ("usual", "usual_low", "usual_high", "middle"):
        assert isinstance(shown[name], datetime.date)
    assert abs(shown["usual"] - datetime.date(2024, 6, 1)) < datetime.timedelta(days=20)
    assert isinstance(shown["off"], float)
    assert "2024-0" in str(release)


def test_every_number_that_a_spread_serves_has_its_interval() -> None:
    found = released(sl.SQL("SELECT VAR_SAMP(age), AVG(age), COUNT(*) FROM people", epsilon=1)).value
    for name, true in (("variance_age", 66.7), ("mean_age", 40.0), ("count", 1500)):
        assert found[f"{name}_low"][0] <= true <= found[f"{name}_high"][0]


def test_a_statements_release_predicts_the_next_statement() -> None:
    earlier = released(sl.SQL(FIRST, epsilon=5))
    later = released(sl.SQL(FIRST, epsilon=0.05, prediction=earlier), "b")
    alone = released(sl.SQL(FIRST, epsilon=0.05), "b")
    assert later.prediction is not None
    assert np.abs(later.value["years"] - [30, 40, 50]).sum() < np.abs(alone.value["years"] - [30, 40, 50]).sum()


def test_a_statements_release_predicts_a_query() -> None:
    earlier = released(sl.SQL(FIRST, epsilon=5))
    for query in (
        sl.Count(by="job", of="rows", epsilon=0.1, prediction=earlier),
        sl.Mean("age", by="job", epsilon=0.1, prediction=sl.Predicted(earlier, doubt=0.1)),
    ):
        told = released(query, "b").prediction
        assert told is not None
        assert told["description"].startswith("a predicted table of 3 groups")


def test_of_two_counts_the_one_under_the_same_condition_predicts() -> None:
    statement = "SELECT job, COUNT(*) AS n, COUNT(*) FILTER (WHERE age >= 60) AS old FROM people GROUP BY job"
    earlier = released(sl.SQL(statement, epsilon=9), "c")
    for where, name in ((None, "n"), ("age >= 60", "old")):
        query = sl.Count(by="job", of="rows", where=where, epsilon=1, prediction=earlier)
        assert isinstance(query.prediction, sl.Release)
        assert query.prediction.value["count"].tolist() == earlier.value[name].tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda earlier: sl.Mean("day", by="job", epsilon=1, prediction=earlier),
        lambda earlier: sl.Count(epsilon=1, prediction=earlier),
        lambda earlier: sl.SQL("SELECT AVG(age) FROM people", epsilon=1, prediction=earlier),
        lambda earlier: sl.SQL("SELECT job, SUM(age) FROM people GROUP BY job", epsilon=1, prediction=earlier),
        lambda _: sl.SQL(FIRST, epsilon=1, prediction=7),
        lambda _: sl.SQL(FIRST, epsilon=1, prediction={"n": {"cook": 10**400}}),
        lambda _: sl.Count(epsilon=1, prediction=10**400),
        lambda _: sl.Mean("age", by="job", epsilon=1, prediction={"cook": 10**400}),
    ],
)
def test_what_does_not_fit_is_refused_in_words(make: object) -> None:
    earlier = released(sl.SQL(FIRST, epsilon=5))
    with pytest.raises(sl.errors.RangeError, match="prediction"):
        make(earlier).release(TABLE)  # type: ignore[operator]


def test_hundreds_of_conditions_are_called_what_they_are() -> None:
    with pytest.raises(sl.errors.RangeError, match="hundreds of AND or OR"):
        sl.SQL(f"SELECT COUNT(*) FROM people WHERE {' AND '.join(['age > 1'] * 400)}", epsilon=1).release(TABLE)


def test_a_sum_without_a_granularity_names_the_declaration() -> None:
    table = sl.Table({"id": ["a"], "fee": [1.0]}, schema=[sl.PersonId("id", max_rows=2), sl.Number("fee")], name="t")
    with pytest.raises(sl.errors.SchemaError, match=r"declare sl.Number\('fee', granularity"):
        sl.SQL("SELECT SUM(fee) FROM t", epsilon=1).release(table)
