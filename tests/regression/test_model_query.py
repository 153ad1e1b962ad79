"""A model of a table as a query: the same model as the estimator's, in the columns' own units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import SchemaError
from sidelight.noise import Source
from sidelight.testing import SeededEntropy

SCHEMA = sl.Schema(
    [
        sl.Number("age", lower=18, upper=90),
        sl.Category("town", ["Aachen", "Bonn"], other=None),
        sl.Number("income", lower=0, upper=100),
        sl.Category("kind", ["a", "b", "c"], other=None),
    ]
)


def people(n: int = 800) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    age, town = rng.uniform(18, 90, n), rng.choice(["Aachen", "Bonn"], n)
    income = np.clip(20 + 0.6 * age + 10 * (town == "Bonn"), 0, 100)
    return {"age": age, "town": town, "income": income, "kind": rng.choice(["a", "b", "c"], n)}


def test_coefficients_are_in_the_columns_own_units() -> None:
    data = people(20000)
    query = sl.ModelQuery(model=sl.LinearRegression(epsilon=8, delta="1e-6"), target="income", features=["age", "town"])
    release = query.release(sl.Table(data, schema=SCHEMA))
    assert release.labels == ("age", "town=Aachen", "town=Bonn", "intercept")
    age, first, second, constant = release.value.tolist()
    by_hand = constant + age * data["age"] + np.where(data["town"] == "Bonn", second, first)
    outputs = query.scores(release.value, data, SCHEMA)
    assert np.allclose(by_hand, outputs, rtol=0, atol=1e-3)  # ranges are coded in 2^20 steps
    assert float(np.abs(outputs - data["income"]).mean()) < 2
    assert 0.5 < age < 0.7


def test_units_can_be_undone() -> None:
    prepared = sl.ModelQuery(model=sl.LinearSVC(epsilon=1, delta="1e-6"), target="town").prepare(SCHEMA)
    units = prepared.encoding.units
    weights, constants = np.arange(1.0, 6.0)[None, :], np.array([0.5])
    back, constant = units.scaled(units.own(weights, constants))
    assert np.allclose(back, weights)
    assert np.allclose(constant, constants)


def test_the_price_is_the_estimators_and_several_classes_are_labelled() -> None:
    estimator = sl.LogisticRegression(epsilon=1, delta="1e-6")
    table = sl.Table(people(), schema=SCHEMA)
    prepared = sl.ModelQuery(model=estimator, target="kind", features=["age"]).prepare(SCHEMA)
    fitted = sl.LogisticRegression(epsilon=1, delta="1e-6").fit_table(table, target="kind", features=["age"])
    assert prepared.claims == fitted.guarantee_
    assert prepared.labels == ("a: age", "a: intercept", "b: age", "b: intercept", "c: age", "c: intercept")
    with Source(SeededEntropy(1), declared="idealized") as source:
        answer = prepared.run(table, source)
    assert len(answer.value) == len(prepared.labels)


def test_mistakes_are_named() -> None:
    table = sl.Table(people(), schema=SCHEMA)
    session = sl.Session(table, budget=sl.ApproxDP(1, "1e-5"))
    with pytest.raises(SchemaError, match="no session"):
        sl.ModelQuery(model=sl.LinearSVC(epsilon=1, delta="1e-6", session=session), target="town")
    with pytest.raises(SchemaError, match="incom"):
        sl.ModelQuery(model=sl.LinearRegression(epsilon=1, delta="1e-6"), target="incom").prepare(SCHEMA)
    with pytest.raises(SchemaError, match="name a column"):
        sl.ModelQuery(model=sl.LinearRegression(epsilon=1, delta="1e-6"), target=3).prepare(SCHEMA)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="a model of columns"):
        sl.ModelQuery(model=sl.LinearRegression(epsilon=1, delta="1e-6"), target="income").declare()


def test_a_pipeline_is_no_model_of_a_query() -> None:
    from sklearn.pipeline import make_pipeline

    pipeline: Any = make_pipeline(sl.PublicScaler(lower=0, upper=1), sl.LogisticRegression(epsilon=1, delta="1e-6"))
    with pytest.raises(SchemaError, match="got Pipeline; it scales numbers"):
        sl.ModelQuery(model=pipeline, target="kind")


@pytest.mark.parametrize("on_violation", ["clip", "normalize"])
def test_scores_are_the_outputs_of_the_fitted_model(on_violation: Any) -> None:
    data = people(4000)
    model = sl.LogisticRegression(epsilon=8, delta="1e-6", on_violation=on_violation)
    table = sl.Table(data, schema=SCHEMA)
    fitted = model.fit_table(table, target="town", features=["age", "income"])
    value = fitted.encoding_.units.own(fitted.coef_, fitted.intercept_)
    query = sl.ModelQuery(model=model, target="town", features=["age", "income"])
    assert np.allclose(query.scores(value, data, SCHEMA), fitted.decision_function(table), rtol=0, atol=1e-9)
