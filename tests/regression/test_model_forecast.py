"""Forecasts of a model's score before its fit: from public numbers alone, and right on data that chose nothing."""

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.noise import Source
from sidelight.regression.estimators import forecast
from sidelight.regression.public_rows import Dice, LawOfShape, Population, chance_share
from sidelight.testing import SeededEntropy


def generated(seed, *, n, d, m, classes=0):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n + m + 4000, d))
    rows = np.clip(z * np.arange(1, d + 1) ** -0.5 / 3, -1, 1) / np.sqrt(d)
    way = rng.standard_normal(d)
    signal = z @ way / np.linalg.norm(way)
    if classes:
        targets = (3 * signal + rng.logistic(size=len(z)) > 0).astype(float)
    else:
        targets = np.sqrt(0.6) * signal + np.sqrt(0.4) * rng.standard_normal(len(z))
    public = sl.PublicData(np.column_stack([rows[n : n + m], targets[n : n + m]]), "generated")
    return rows, targets, public


@pytest.mark.parametrize(("n", "d", "m", "epsilon"), [(3000, 8, 300, 0.3), (800, 8, 100, 0.1), (1500, 30, 200, 1)])
def test_a_forecast_from_public_rows_is_near_the_realised_score(n, d, m, epsilon):
    rows, targets, public = generated(n, n=n, d=d, m=m)
    model = sl.LinearRegression(epsilon=epsilon, delta="1e-6", data_norm=1, target_range=(-3.5, 3.5), random_state=1)
    model.set_params(prediction=public)
    found = model.forecast(rows=n)
    with pytest.warns(sl.errors.NotPrivateWarning):
        told = model.fit(rows[:n], targets[:n]).predict(rows[n + m :])
    test = targets[n + m :]
    realised = 1 - np.mean((told - test) ** 2) / test.var()
    assert (found.basis, found.measure, found.public_rows, found.stated) == ("public rows", "R²", m, True)
    assert found.low <= found.score <= found.high <= found.best + 0.1
    assert abs(found.score - realised) < 0.15
    assert found.error == pytest.approx(np.sqrt(np.mean((told - test) ** 2)), rel=0.25)
    assert 0 < found.alone < 0.8
    assert str(m) in str(found)


def test_a_forecast_of_classes():
    rows, targets, public = generated(5, n=3000, d=8, m=300, classes=2)
    model = sl.LogisticRegression(epsilon=0.5, delta="1e-6", data_norm=1, classes=[0, 1], prediction=public)
    found = model.forecast(rows=3000)
    model.set_params(random_state=2)
    with pytest.warns(sl.errors.NotPrivateWarning):
        realised = model.fit(rows[:3000], targets[:3000]).score(rows[3300:], targets[3300:])
    assert found.measure == "accuracy"
    assert abs(found.score - realised) < 0.08
    assert found.error == pytest.approx(1 - found.score)


def test_more_budget_and_more_rows_forecast_more():
    def score(epsilon, rows):
        model = sl.LinearRegression(epsilon=epsilon, delta="1e-6", data_norm=1, target_range=(0, 1))
        return model.forecast(features=10, rows=rows, draws=5).score

    assert score(0.1, 1000) < score(1, 1000) < score(1, 20_000) <= 0.55
    # many rows are not drawn: fewer with a larger budget stand for them
    assert score("0.0001", 10**8) == pytest.approx(score(1, 10**4), abs=0.1)
    assert score(1, 10**12) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("kind", [sl.LinearRegression, sl.LogisticRegression])
def test_fewer_rows_with_less_noise_stand_for_all_of_objective_perturbation(kind, monkeypatch):
    """2,000 rows were fitted with the noise of 20,000, and R² was 0.14 where all of them have 0.49."""
    public = {"target_range": (0, 1)} if kind is sl.LinearRegression else {"classes": [0, 1]}
    model = kind(epsilon="0.1", delta="1e-6", data_norm=1, solver="objective", **public)
    monkeypatch.setattr(forecast, "_CELLS", 10_000)
    few, fewer = (model.forecast(features=5, rows=rows, draws=1) for rows in (2000, 20_000))
    monkeypatch.undo()
    whole = model.forecast(features=5, rows=20_000, draws=1)
    assert fewer.score == pytest.approx(whole.score, abs=0.03)
    assert few.score < whole.score - 0.05
    assert fewer.rows == 20_000


def test_a_forecast_of_objective_perturbation_with_a_prediction_names_the_rows_it_drew(monkeypatch):
    monkeypatch.setattr(forecast, "_CELLS", 10_000)
    stated = sl.CoefficientPrediction([0.5] * 3, intercept=0.1, scale=0.05, origin="a paper")
    settings = {"epsilon": 1, "delta": "1e-6", "data_norm": 1, "target_range": (-1, 1), "prediction": stated}
    assert sl.LinearRegression(**settings).forecast(rows=9000, draws=1).rows == 9000
    found = sl.LinearRegression(**settings, solver="objective").forecast(rows=9000, draws=1)
    assert (found.rows, "3,333 rows" in str(found)) == (3333, True)


def test_a_forecast_for_a_table_looks_at_its_schema_only(tmp_path):
    schema = sl.Schema(
        [
            sl.Number("age", lower=0, upper=100),
            sl.Category("plan", ["a", "b", "c"]),
            sl.Number("cost", lower=0, upper=1000),
        ]
    )
    model = sl.LinearRegression(epsilon=1, delta="1e-6")
    found = model.forecast(schema, target="cost", rows=20_000)
    assert found.basis == "declared shape"
    assert "declared shape" in str(found)

    class Untouchable(sl.Table):
        @property
        def rows(self):
            raise AssertionError("a forecast read the rows")

    table = Untouchable({"age": [1.0], "plan": ["a"], "cost": [3.0]}, schema=list(schema.columns))
    assert model.forecast(table, target="cost", rows=20_000) == found
    query = sl.ModelQuery(model=model, target="cost")
    assert query.forecast(schema, rows=20_000) == found
    assert not query.forecast(schema).stated
    assert "say how many" in str(query.forecast(schema))


def test_stated_coefficients_and_several_classes():
    stated = sl.CoefficientPrediction([0.5, -0.2], intercept=0.1, scale=0.05, origin="a paper")
    model = sl.LinearRegression(epsilon=1, delta="1e-6", data_norm=2, target_range=(-1, 1), prediction=stated)
    assert model.forecast(rows=2000, draws=3).basis == "declared shape"
    several = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=["a", "b", "c"])
    assert 1 / 3 < several.forecast(features=4, rows=5000, draws=3).score < 0.9
    old = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1], solver="objective")
    assert 0.6 < old.forecast(features=4, rows=5000, draws=3).score < 0.9
    vectors = sl.LinearSVC(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1])
    assert 0.6 < vectors.forecast(features=4, rows=5000, draws=3).score < 0.9


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs features"),
        ({"features": 0}, "needs features"),
        ({"features": "x"}, "number of columns"),
        ({"features": 3, "rows": 0}, "whole number"),
        ({"features": 3, "rows": 1.5}, "whole number"),
        ({"features": 3, "draws": 0}, "draws"),
        ({"schema": [1]}, "target="),
        ({"schema": np.zeros((3, 3)), "target": "y"}, "reads no rows"),
    ],
)
def test_nonsense_is_refused(given, message):
    model = sl.LinearRegression(epsilon=1, delta="1e-6", data_norm=1, target_range=(0, 1))
    with pytest.raises((RangeError, SchemaError), match=message):
        model.forecast(**given)


def test_counts_have_no_forecast():
    with pytest.raises(RangeError, match="no forecast for PoissonRegressor"):
        sl.PoissonRegressor(epsilon=1, delta="1e-6", data_norm=1, largest_count=3).forecast(features=3)


def test_a_drawn_population_has_the_law_that_it_is_scored_by():
    with Source(SeededEntropy("population")) as source:
        dice = Dice(source)
        law = LawOfShape(groups=[1, 1, 3], classes=0, outputs=1, intercept=True)
        population = law.population(dice)
        rows, targets = population.drawn(40_000, dice)
        told = rows @ population.truth[:-1, 0] + population.truth[-1, 0]
        r2, error = population.score(population.truth, rows)
        assert 1 - np.mean((targets - told) ** 2) / targets.var() == pytest.approx(r2, abs=0.03)
        assert np.sqrt(np.mean((targets - told) ** 2)) == pytest.approx(error, rel=0.03)
        classes = LawOfShape(groups=[1] * 4, classes=3, outputs=3, intercept=True).population(dice)
        rows, places = classes.drawn(40_000, dice)
        said = (rows @ classes.truth[:-1] + classes.truth[-1]).argmax(axis=1)
        assert np.mean(said == places) == pytest.approx(classes.score(classes.truth, rows)[0], abs=0.02)


def test_covariances_of_few_rows_are_mostly_chance():
    rng = np.random.default_rng(3)
    alone = rng.standard_normal((40, 20))
    assert chance_share(alone) > 0.7
    together = rng.standard_normal((4000, 2)) @ rng.standard_normal((2, 20))
    assert chance_share(together) < 0.02
    with Source(SeededEntropy("apart")) as source:
        dice = Dice(source)
        rows = together / np.linalg.norm(together, axis=1).max()
        made = Population(rows=rows, apart=0.3, truth=np.zeros((21, 1)), residuals=np.zeros(4000))
        drawn, _ = made.drawn(20_000, dice)
    wanted = np.cov(rows.T) * (0.7 + 0.3 * np.eye(20))
    assert np.abs(np.cov(drawn.T) - wanted).max() < 0.1 * np.abs(wanted).max()


def test_no_accuracy_below_0_is_forecast(monkeypatch):
    _, _, public = generated(5, n=0, d=2, m=40, classes=2)
    model = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1], prediction=public)
    monkeypatch.setattr(Population, "score", lambda *_: (0.05, 0.95))
    found = model.forecast(rows=100, draws=1)
    assert found.low == 0.0  # 1 - 1.18 · 0.95 without the limit
    assert found.low <= found.score <= found.high <= 1
