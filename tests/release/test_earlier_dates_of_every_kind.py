"""Every query that takes an earlier release as its prediction: it counts dates from its own start, or refuses them.

A new query that takes one is found by its parameters, and must be listed here.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import pytest

import sidelight as sl
from sidelight.covariance import learned_prediction
from sidelight.errors import RangeError, SchemaError
from sidelight.registry import BY_KIND, load_query
from sidelight.session.query import prepare_query

#: Parameters that say what is known beforehand, some of them by a release.
TAKES = {"prediction", "known", "fallback", "bins", "centre", "covariance", "model", "initial", "earlier"}


def schema(year: int, unit: Any = "day") -> list[Any]:
    """Declare as many days from another start: what is not converted is the same prediction of other days."""
    return [
        sl.Date("day", start=f"{year}-01-01", end=f"{year + 3}-12-31", unit=unit),
        sl.Number("x", lower=0, upper=10, granularity=1),
        sl.Category("g", ["a1", "b1", "c1"], other=None),
        sl.Category("c", ["no", "yes"], other=None),
    ]


@cache
def rows(year: int) -> sl.Table:
    places = range(3000)
    columns = {
        "day": [f"2022-{1 + place % 12:02}-{1 + place % 28:02}" for place in places],
        "x": [place % 11 for place in places],
        "g": [f"{'abc'[place % 3]}1" for place in places],
        "c": ["yes" if place % 12 > 5 else "no" for place in places],
    }
    return sl.Table(columns, schema=schema(year))


@dataclass(frozen=True)
class Case:
    """A query of dates with a prediction, what becomes of one from another start, and how a release predicts it."""

    ask: Callable[[Any], Any]
    start: Literal["converted", "refused", "same"] = "converted"
    given: Callable[[Any], Any] = lambda release: release

    def prediction(self) -> Any:
        return self.given(self.ask(None).release(rows(2020)))

    def prepared(self, prediction: Any, year: int, unit: str = "day") -> Any:
        return prepare_query(self.ask(prediction), sl.Schema(schema(year, unit)))


def model(name: str, target: str, **more: Any) -> Case:
    start: Any = "refused" if "Additive" in name else "converted"
    price = {"epsilon": 5, "delta": "1e-6"}

    def ask(given: Any) -> Any:
        estimator = getattr(sl, name)(**price, prediction=given, **more)
        return sl.ModelQuery(model=estimator, target=target, features=["day"])

    return Case(ask, start)


def covariance(centre: Any, start: Any = "same") -> Case:
    return Case(
        lambda given: sl.Covariance(["day", "x"], radius=2000, rho=5, centre=centre, prediction=given),
        start,
        lambda release: learned_prediction([release]),
    )


GROUPS = {"by": "g", "epsilon": 5}
MOVED = 'fill_missing(day, "2022-03-01")'
CASES = {
    "mean": [
        Case(lambda given: sl.Mean("day", **GROUPS, prediction=given)),
        Case(lambda given: sl.Mean(["x", "day"], **GROUPS, prediction=given)),
        Case(
            lambda given: sl.Mean(["day", "x"], **GROUPS, prediction=given),
            given=lambda release: {"day": sl.Predicted(release, column="mean_day")},
        ),
        Case(
            lambda given: sl.Mean("day", **GROUPS, prediction=given),
            given=lambda _: sl.Predicted(sl.Mean(["day", "x"], **GROUPS).release(rows(2020)), column="mean_day"),
        ),
        Case(lambda given: sl.Mean(MOVED, **GROUPS, prediction=given)),
    ],
    "sql": [Case(lambda given: sl.SQL("SELECT g, AVG(day) FROM t GROUP BY g", epsilon=5, prediction=given))],
    "sum": [
        Case(lambda given: sl.Sum("day", **GROUPS, prediction=given), "refused"),
        Case(lambda given: sl.Sum(MOVED, **GROUPS, prediction=given), "refused"),
        Case(lambda given: sl.Sum("day", **GROUPS, prediction=given), "refused", lambda each: [{"a1": 5}, each]),
        Case(lambda given: sl.Sum("day", by=sl.Hierarchy("g", {"first": 1}), epsilon=5, prediction=given), "refused"),
    ],
    "distribution": [Case(lambda given: sl.Distribution("day", epsilon=5, prediction=given))],
    "quantiles": [Case(lambda given: sl.Quantiles([0.5], column="day", **GROUPS, prediction=given))],
    "covariance": [
        covariance(None, "refused"),
        covariance([800, 5], "refused"),
        covariance("mean"),
        covariance("pairs"),
    ],
    "synthetic_table": [
        Case(lambda given: sl.SyntheticTable(sl.marginals(1), bins={"day": 8}, rho=5, prediction=given), "refused")
    ],
    "linear_regression": [model("LinearRegression", "x")],
    "linear_svc": [model("LinearSVC", "c")],
    "logistic_regression": [model("LogisticRegression", "c")],
    "additive_regression": [model("AdditiveRegressor", "x")],
    "additive_classifier": [model("AdditiveClassifier", "c")],
}
#: Those that an earlier release tells nothing about the numbers of a date, and why.
WITHOUT_DATES = {
    "count": "its groups are labels, and those of cut dates are dates",
    "count_distinct": "as count",
    "histogram": "its bins are labelled by dates",
    "top_k": "its groups are labels",
    "proportion": "a share of rows",
    "linear_model": "its model is one of the linear and additive ones",
}
#: Those that take priors, public rows or arrays, and refuse a release.
WITHOUT_RELEASES: dict[str, Callable[[Any], Any]] = {
    "counted_quantiles": lambda given: sl.PubTrack(prediction=given),
    "learned_quantiles": lambda given: sl.PrivateHistograms(0, 1460, rho=1, fallback=given),
    "gaussian": lambda given: sl.GaussianFit(["day", "x"], rho=1, prediction=given),
    "gaussian_mean": lambda given: sl.GaussianMean(["day", "x"], rho=1, prediction=given),
    "gaussian_mixture": lambda given: sl.SeparatedMixture(["day", "x"], components=2, rho=1, prediction=given),
    "variance": lambda given: sl.Variance("day", **GROUPS, prediction=given),
    "standard_deviation": lambda given: sl.StandardDeviation("day", **GROUPS, prediction=given),
    "summary": lambda given: sl.Summary("day", **GROUPS, prediction=given),
}


def test_every_kind_that_knows_something_beforehand_is_listed() -> None:
    taking = {kind for kind in BY_KIND if TAKES & {*inspect.signature(load_query(kind)).parameters}}
    assert taking == {*CASES, *WITHOUT_DATES, *WITHOUT_RELEASES}


EACH = [pytest.param(case, id=f"{kind}-{place}") for kind in CASES for place, case in enumerate(CASES[kind])]


@pytest.mark.parametrize("case", EACH)
def test_dates_of_an_earlier_release_count_from_the_start_of_the_column(case: Case) -> None:
    prediction = case.prediction()
    same = json.dumps(case.prepared(prediction, 2020).prediction)
    with pytest.raises(RangeError, match=r"hours|dates"):
        case.prepared(prediction, 2020, "hour")
    if case.start == "refused":
        with pytest.raises(RangeError, match="dates"):
            case.prepared(prediction, 2022)
    else:
        moved = json.dumps(case.prepared(prediction, 2022).prediction)
        assert (moved != same) == (case.start == "converted")


@pytest.mark.parametrize("kind", WITHOUT_RELEASES)
def test_the_others_refuse_a_release(kind: str) -> None:
    release = sl.Mean("day", **GROUPS).release(rows(2020))
    with pytest.raises((RangeError, SchemaError)):
        prepare_query(WITHOUT_RELEASES[kind](release), sl.Schema(schema(2020)))


def test_bins_of_other_days_are_other_groups() -> None:
    earlier = sl.Histogram("day", bins=[100, 200], epsilon=5).release(rows(2020))
    for year in (2020, 2022):
        query = sl.Histogram("day", bins=["2022-04-10", "2022-07-19"], epsilon=5, prediction=earlier)
        with pytest.raises(RangeError, match="2020-04-10"):
            prepare_query(query, sl.Schema(schema(year)))
    there = sl.Histogram("day", bins=["2022-04-10", "2022-07-19"], epsilon=5).release(rows(2020))
    query = sl.Histogram("day", bins=[99, 199], epsilon=5, prediction=there)
    assert prepare_query(query, sl.Schema(schema(2022))).prediction is not None
    with pytest.raises(RangeError, match="2022-04-10"):
        prepare_query(query, sl.Schema(schema(2020)))


def test_a_covariance_about_a_declared_day_is_the_same_when_its_centre_moves_along() -> None:
    case = covariance([800, 5], "refused")
    prediction = case.prediction()
    there = Case(lambda given: sl.Covariance(["day", "x"], radius=2000, rho=5, centre=[69, 5], prediction=given))
    found = [each.prepared(prediction, year).prediction for each, year in ((case, 2020), (there, 2022))]
    assert found[0] == found[1] is not None
    with pytest.raises(RangeError, match="about another day of 'day'"):
        covariance("mean").prepared(prediction, 2022)
    others = sl.Covariance(["day", "x"], radius=2000, rho=5).release(rows(2022))
    with pytest.raises(RangeError, match="their dates count otherwise"):
        learned_prediction([sl.Covariance(["day", "x"], radius=2000, rho=5).release(rows(2020)), others])


@pytest.mark.parametrize("case", [CASES["mean"][1], covariance("pairs")], ids=["means", "covariance"])
def test_an_earlier_version_did_not_say_how_several_columns_count(case: Case) -> None:
    release = case.ask(None).release(rows(2020))
    assert release.query["dates"] == {"columns": {"day": {"unit": "day", "start": "2020-01-01"}}}
    older = replace(release, query={name: each for name, each in release.query.items() if name != "dates"})
    with pytest.raises(RangeError, match=r"before 0\.6\.0 does not say"):
        case.prepared(case.given(older), 2020)
    by_hand = release.value if case is CASES["mean"][1] else release.value["matrix"]
    assert case.prepared(by_hand, 2022).prediction is not None  # numbers from the start of the column


def test_means_of_several_columns_and_of_expressions_are_shown_as_dates() -> None:
    several = sl.Mean(["day", "x"], **GROUPS).release(rows(2020))
    for name in ("mean_day", "mean_day_plain", "mean_day_low", "mean_day_high"):
        assert {each.year for each in several.shown[name].tolist()} == {2022}
    assert several.shown["mean_x"].tolist() == several.value["mean_x"].tolist()
    moved = sl.Mean(MOVED, **GROUPS).release(rows(2020))
    assert {each.year for each in moved.shown["mean"].tolist()} == {2022}
    apart = sl.Mean("day - day", **GROUPS).release(rows(2020))
    assert "dates" not in apart.query
