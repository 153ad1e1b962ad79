"""A key names one question for good: other columns, declarations or models under it are refused, and pay nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sidelight as sl
from sidelight.errors import KeyReusedError
from sidelight.guarantees import Claims
from sidelight.ledger import Reservation, Stored, open_ledger
from sidelight.ledger.decide import DECLARED

rng = np.random.default_rng(0)
ROWS: dict[str, Any] = {name: rng.random(40) for name in "xzyw"} | {
    "c": ["a", "b"] * 20,
    "d": ["a", "a", "b", "b"] * 10,
}
SCHEMA = [
    *(sl.Number(name, lower=0, upper=1) for name in "xzyw"),
    *(sl.Category(name, ["a", "b"], other=None) for name in "cd"),
]
PEOPLE = sl.Table(ROWS, schema=SCHEMA, name="people")


@pytest.fixture
def session(tmp_path: Path) -> sl.Session:
    return sl.Session(PEOPLE, budget=sl.ApproxDP(9, "0.0009"), ledger=tmp_path / "budget.db")


def refused(session: sl.Session, ask: Any) -> None:
    spent = session.spent
    with pytest.raises(KeyReusedError, match="another request"):
        ask()
    assert session.spent == spent


def test_a_fit_of_other_columns(session: sl.Session) -> None:
    def fit(target: str, *features: str) -> Any:
        model = sl.LinearRegression(epsilon=1, delta="1e-6", session=session)
        return model.fit_table(PEOPLE, target=target, features=list(features), key="k")

    first = fit("y", "x")
    refused(session, lambda: fit("w", "x"))
    refused(session, lambda: fit("y", "z"))
    assert fit("y", "x").release_.to_json() == first.release_.to_json()


def test_a_score_of_another_model_or_target(session: sl.Session) -> None:
    def model(target: str) -> Any:
        fresh = sl.LogisticRegression(epsilon=1, delta="1e-6", session=session)
        return fresh.fit_table(PEOPLE, target=target, features=["x"])

    def score(of: Any, target: str = "c") -> Any:
        return of.dp_score(PEOPLE, target=target, epsilon="0.1", session=session, key="q")

    one, other = model("c"), model("c")
    first = score(one)
    refused(session, lambda: score(other))
    refused(session, lambda: score(one, "d"))
    assert score(one).to_json() == first.to_json()


def test_columns_that_are_declared_otherwise(tmp_path: Path) -> None:
    def ask(upper: int) -> sl.Outcome:
        schema = [sl.Number("x", lower=0, upper=upper)]
        table = sl.Table({"x": [9.0] * 50}, schema=schema, name="people")
        session = sl.Session(table, budget=sl.PureDP(4), ledger=tmp_path / "budget.db")
        return session.release(sl.Mean("x", epsilon=1), key="m")

    first = ask(1)
    with pytest.raises(KeyReusedError, match="schema"):
        ask(10)
    assert ask(1).to_json() == first.to_json()


def test_an_entry_that_does_not_hold_its_declarations_is_compared_without_them(tmp_path: Path) -> None:
    scope = open_ledger(tmp_path / "budget.db").open_scope("people", budget=sl.PureDP(1))
    asked, price = {"kind": "count"}, Claims.of(sl.PureDP("0.1"))
    first = scope.reserve(price, request=asked, key="k")
    assert isinstance(first, Reservation)
    first.release("three")
    assert isinstance(scope.reserve(price, request={**asked, DECLARED: "1f"}, key="k"), Stored)
    later = scope.reserve(price, request={**asked, DECLARED: "1f"}, key="l")
    assert isinstance(later, Reservation)
    later.release("four")
    for request in (asked, {**asked, DECLARED: "2f"}):
        with pytest.raises(KeyReusedError):
            scope.reserve(price, request=request, key="l")


def test_an_additive_fit_whose_missing_targets_are_filled() -> None:
    def request(target: sl.Number) -> Any:
        table = sl.Table({"x": [0.5], "y": [0.5]}, schema=[sl.Number("x", lower=0, upper=1), target])
        model = sl.AdditiveRegressor(epsilon=1, delta="1e-6", random_state=1)
        with pytest.warns(sl.errors.SidelightWarning):
            return model.fit_table(table, target="y").release_.query

    dropped = request(sl.Number("y", lower=0, upper=1))
    assert dropped != request(sl.Number("y", lower=0, upper=1, missing=sl.Fill(1)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            sl.Date("x", start="2019-01-01", end="2019-12-31"),
            sl.Date("x", start="2021-01-01", end="2021-12-31"),
        ),
        (
            sl.Date("x", start="2019-01-01", end="2019-01-10"),
            sl.Date("x", start="2019-01-01", end="2019-01-01 09:00", unit="hour"),
        ),
        (sl.Number("x", lower=0, upper=1), sl.Number("x", lower=0, upper=1, missing_texts=["1"])),
        (sl.Category("x", ["a", "b"], other=None), sl.Category("x", ["a", "b"], other="b", missing=sl.Drop())),
        (sl.Category("x", ["a", "b"], other=None), sl.Category("x", ["a", "b"], other=None, casefold=True)),
        (sl.Category("x", ["a", "b"], other=None), sl.Category("x", ["a", "b"], other=None, aliases={"b": ["c"]})),
    ],
    ids=["start", "unit", "texts for missing", "other", "casefold", "aliases"],
)
def test_an_additive_fit_of_arrays_whose_columns_are_declared_otherwise(
    session: sl.Session, one: Any, other: Any
) -> None:
    cells = ROWS["x"] if isinstance(one, sl.Number) else ["a", "b", "c", "B"] * 10
    cells = np.array(["2019-01-05"] * 40, "M8[D]") if isinstance(one, sl.Date) else cells

    def fit(column: Any) -> Any:
        model = sl.AdditiveRegressor(epsilon=1, delta="1e-6", columns=[column], target_range=(0, 1), session=session)
        return model.fit({"x": cells}, ROWS["y"], key="k")

    first = fit(one)
    refused(session, lambda: fit(other))
    assert fit(one).release_.to_json() == first.release_.to_json()


def test_how_far_a_prediction_is_doubted() -> None:
    def request(doubt: float) -> Any:
        predicted = sl.Predicted({"a": 20, "b": 20}, doubt=doubt)
        return sl.Count(by="c", epsilon=1, prediction=predicted).prepare(PEOPLE.schema).request

    assert request(0.01) != request(100)


def test_a_fit_or_score_of_other_columns_of_a_frame(session: sl.Session) -> None:
    frame = pd.DataFrame(ROWS)
    labels = frame["c"].rename("label")

    def fit(*features: str, target: Any = labels) -> Any:
        model = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=2, classes=["a", "b"], session=session)
        return model.fit(frame[list(features)], target, key="k")

    model = fit("x", "z")
    refused(session, lambda: fit("x", "w"))
    refused(session, lambda: fit("x", "z", target=frame["d"]))
    assert fit("x", "z").release_.to_json() == model.release_.to_json()
    model.dp_score(frame[["x", "z"]], labels, epsilon="0.1", session=session, key="q")
    refused(session, lambda: model.dp_score(frame[["z", "x"]], labels, epsilon="0.1", session=session, key="q"))


def test_another_known_covariance() -> None:
    def request(variance: float) -> Any:
        known = sl.GaussianMean(["x", "y"], covariance=variance * np.eye(2), mean_bound=1, rho=1)
        return known.prepare(PEOPLE.schema).request

    assert request(1) != request(1.01)
