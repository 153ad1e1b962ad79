"""Forecasts of additive models before their fit: from public numbers alone, and near what the fit then has."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import NotPrivateWarning, RangeError, SchemaError, WeakFitWarning
from sidelight.noise import Source
from sidelight.regression.descent.targets import Targets
from sidelight.regression.estimators.additive_forecast import LawOfCurveShape
from sidelight.regression.public_rows import Dice
from sidelight.testing import SeededEntropy

COLUMNS = [sl.Number("a", lower=0, upper=1), sl.Number("b", lower=0, upper=1), sl.Category("c", ["x", "y"], other=None)]
PRICE: dict[str, Any] = {"epsilon": "0.5", "delta": "1e-6", "columns": COLUMNS}


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        warnings.simplefilter("ignore", WeakFitWarning)
        yield


def people(count: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    rows: dict[str, np.ndarray] = {"a": rng.uniform(0, 1, count), "b": rng.beta(2, 5, count)}
    rows["c"] = rng.choice(["x", "y"], count)
    level = np.sin(6 * rows["a"]) + 2 * np.abs(rows["b"] - 0.4) + 0.5 * (rows["c"] == "y")
    return rows, np.clip(level + rng.normal(0, 0.5, count), -3, 3)


def test_a_forecast_from_public_rows_is_near_the_realised_score() -> None:
    public, known = people(400, 1)
    rows, y = people(3000, 2)
    new, wanted = people(4000, 3)
    told = sl.PublicData({**public, "target": known}, "a survey")
    model = sl.AdditiveRegressor(**PRICE, target_range=(-3, 3), prediction=told, random_state=1)
    found = model.forecast(rows=3000, draws=5)
    errors = model.fit(rows, y).predict(new) - wanted
    realised = 1 - float(np.mean(errors**2) / wanted.var())
    assert (found.basis, found.measure, found.public_rows, found.stated) == ("public rows", "R²", 400, True)
    assert abs(found.score - realised) < 0.1
    assert found.low <= found.score <= found.high <= found.best + 0.1
    assert found.error == pytest.approx(float(np.sqrt(np.mean(errors**2))), rel=0.15)
    assert found.alone is not None
    assert 0.3 < found.alone < 0.8


def test_a_forecast_of_classes_is_near_the_realised_accuracy() -> None:
    public, known = people(400, 1)
    rows, y = people(3000, 2)
    new, wanted = people(4000, 3)
    for cuts in ([0.8], [0.3, 1.2]):
        classes = [str(place) for place in range(len(cuts) + 1)]

        def labels(values: np.ndarray, cuts: list[float] = cuts) -> np.ndarray:
            return np.searchsorted(cuts, values).astype(str)

        told = sl.PublicData({**public, "target": labels(known)}, "a survey")
        model = sl.AdditiveClassifier(**PRICE, classes=classes, prediction=told, random_state=1)
        found = model.forecast(rows=3000, draws=5)
        realised = model.fit(rows, labels(y)).score(new, labels(wanted))
        assert found.measure == "accuracy"
        assert abs(found.score - realised) < 0.07
        assert found.alone is not None
        assert abs(found.alone - realised) < 0.12


def test_more_budget_and_more_rows_forecast_more() -> None:
    def score(epsilon: Any, rows: int) -> float:
        model = sl.AdditiveRegressor(**PRICE | {"epsilon": epsilon}, target_range=(0, 1))
        return model.forecast(rows=rows, draws=1).score

    # many rows are not drawn: fewer with a larger budget stand for them
    assert score("0.1", 500) < score(1, 2000) < score(1, 10**9) <= 0.6


def test_a_forecast_for_a_table_looks_at_its_schema_only() -> None:
    class Untouchable(sl.Table):
        @property
        def rows(self) -> Any:
            raise AssertionError("a forecast read the rows")

    schema = sl.Schema([*COLUMNS, sl.Number("y", lower=-3, upper=3)])
    table = Untouchable({"a": [1.0], "b": [1.0], "c": ["x"], "y": [0.0]}, schema=list(schema.columns))
    model = sl.AdditiveRegressor(epsilon=1, delta="1e-6")
    found = model.forecast(table, target="y", rows=2000, draws=2)
    assert found.basis == "declared shape"
    assert sl.ModelQuery(model=model, target="y").forecast(schema, rows=2000).rows == 2000
    for wrong, match in (
        ({"schema": schema}, "target="),
        ({"schema": schema, "target": "y", "features": 3}, "names of columns"),
    ):
        with pytest.raises(SchemaError, match=match):
            model.forecast(**wrong)  # type: ignore[arg-type]
    own = sl.AdditiveRegressor(**PRICE, target_range=(-3, 3))
    with pytest.raises(SchemaError, match="own columns"):
        own.forecast(target="y")
    with pytest.raises(RangeError, match="draws"):
        own.forecast(draws=0)
    guess = sl.CurvePrediction({"a": [(0, -1.0), (0.5, 1.0), (1, -1.0)]}, scale=0.2)
    stated = sl.AdditiveRegressor(**PRICE | {"epsilon": "0.05"}, target_range=(-3, 3), prediction=guess)
    unaided = sl.AdditiveRegressor(**PRICE | {"epsilon": "0.05"}, target_range=(-3, 3))
    assert stated.forecast(rows=1000, draws=3).score > unaided.forecast(rows=1000, draws=3).score


def test_drawn_curves_explain_the_share_that_is_meant() -> None:
    law = LawOfCurveShape(columns=COLUMNS, targets=Targets(kind="squared", target_range=(-1.0, 1.0)))
    for at in (0.1, 0.9):
        population = law.population(Dice(Source(SeededEntropy("forecast of curves"))), at=at)
        score, _ = population.score(population.truth, population.codes)
        assert score == pytest.approx(0.05 + 0.9 * at, abs=0.05)
