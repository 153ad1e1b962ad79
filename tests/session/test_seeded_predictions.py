"""A release with seeded noise holds what it was made of: no real release predicts with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.covariance import learned_prediction
from sidelight.errors import RangeError, SidelightError
from sidelight.predictions.origin import guess, joint_origin, origin_from_json, public
from sidelight.release import Release, outcome_from_json
from sidelight.testing import seeded_release
from sidelight.tuning import PrivateScore

GROUPS = [chr(97 + place) for place in range(12)]
TABLE = sl.Table(
    {"g": [group for place, group in enumerate(GROUPS) for _ in range(100 + 7 * place)]},
    schema=[sl.Category("g", GROUPS, other=None)],
    name="people",
)
COUNTS = seeded_release(sl.Count(by="g", epsilon=50), TABLE, seed=1)
ROWS = seeded_release(sl.SyntheticTable(sl.marginals(1), epsilon=50), TABLE, seed=1)


@pytest.mark.parametrize(
    "query",
    [
        sl.Count(by="g", epsilon="0.001", prediction=COUNTS),
        sl.Count(by="g", epsilon="0.001", prediction=sl.Predicted(COUNTS, doubt=0.1)),
        sl.Count(by="g", epsilon="0.001", prediction=outcome_from_json(COUNTS.to_json())),
        sl.SyntheticTable(sl.marginals(1), epsilon="0.001", prediction=ROWS),
    ],
    ids=["bare", "doubted", "stored", "synthetic"],
)
def test_a_real_release_refuses_it_before_the_charge(query: Any) -> None:
    session = sl.Session(TABLE, budget=sl.PureDP(1))
    before = str(session.spent)
    with pytest.raises(RangeError, match="seeded noise, which gives no privacy"):
        session.release(query)
    with pytest.raises(RangeError, match="seeded noise, which gives no privacy"):
        query.release(TABLE)
    assert str(session.spent) == before
    assert not seeded_release(query, TABLE, seed=2).private  # a test may, and is branded


def test_neither_known_labels_nor_one_of_several_candidates_may_be_seeded() -> None:
    table = sl.Table({"employer": ["acme"] * 90 + ["zeta"]}, schema=[sl.Label("employer")], name="people")
    shown = seeded_release(sl.Count(by="employer", epsilon=50, delta="0.1"), table, seed=1)
    with pytest.raises(RangeError, match="gives no privacy"):
        sl.Count(by="employer", epsilon=1, known=shown).release(table)
    candidates = [sl.Count(by="g", epsilon=1, prediction=told) for told in (COUNTS, dict.fromkeys(GROUPS, 100))]
    search = sl.Selection(candidates=candidates, score=sl.PublicScore(lambda answer: 0.0, "nothing"))
    with pytest.raises(RangeError, match="gives no privacy"):
        search.release(TABLE)


def test_a_real_one_predicts() -> None:
    real = sl.Count(by="g", epsilon=1).release(TABLE)
    assert sl.Count(by="g", epsilon=1, prediction=real).release(TABLE).private


RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (300, 2))
Y = (X[:, 0] > 0).astype(int)
NUMBERS = sl.Table(
    {"g": ["a", "b", "c"] * 100, "x": RNG.integers(0, 11, 300), "c": ["u", "v", "w"] * 100},
    schema=[
        sl.Category("g", ["a", "b", "c"], other=None),
        sl.Number("x", lower=0, upper=10, granularity=1),
        sl.Label("c"),
    ],
    name="people",
)
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
HALVES = sl.col("x").cut([0, 5, 10])
STATEMENT = "SELECT g, COUNT(*) AS n FROM people GROUP BY g"


def _predicted(of: Callable[..., Any]) -> Callable[[], Any]:
    """Return what releases a query for real that is predicted by its own seeded release."""
    return lambda: of(prediction=seeded_release(of(), NUMBERS, seed=1)).release(NUMBERS)


def _model(kind: type, **more: Any) -> Callable[..., Any]:
    """Return what fits a model for real that is predicted by a seeded one, in some form."""

    def fit(given: Callable[[Any], Any] = lambda model: model) -> Any:
        seeded = kind(random_state=0, **PRICE, **more).fit(X, Y)
        return kind(prediction=given(seeded), **PRICE, **more).fit(X, Y)

    return fit


def _matrix(given: Callable[[Release], Any]) -> Any:
    query = sl.Covariance(radius=1, rho=100)
    return sl.Covariance(radius=1, rho=1, prediction=given(seeded_release(query, query.table(X), seed=1))).release(X)


def _components() -> Any:
    query = sl.Covariance(radius=1, rho=100)
    learned = learned_prediction([seeded_release(query, query.table(X), seed=1)])
    return sl.PCA(radius=1, rho=1, prediction=learned).fit(X)


COLUMNS = [sl.Number(name, lower="-0.5", upper="0.5") for name in ("x0", "x1")]
LOGISTIC = _model(sl.LogisticRegression, data_norm=1, classes=[0, 1])
#: Every way from a release to a prediction, by the parameter that takes it.
WAYS: dict[str, Callable[[], Any]] = {
    "AdditiveClassifier": _model(sl.AdditiveClassifier, columns=COLUMNS, classes=[0, 1]),
    "AdditiveRegressor": _model(sl.AdditiveRegressor, columns=COLUMNS, target_range=(0, 1)),
    "Count": _predicted(lambda **more: sl.Count(by="g", epsilon=1, **more)),
    "Count, known labels": lambda: sl.Count(
        by="c", **PRICE, known=seeded_release(sl.Count(by="c", **PRICE), NUMBERS, seed=1)
    ).release(NUMBERS),
    "Count, of a statement": lambda: sl.Count(
        by="g", epsilon=1, prediction=seeded_release(sl.SQL(STATEMENT, epsilon=1), NUMBERS, seed=1)
    ).release(NUMBERS),
    "CountDistinct": _predicted(
        lambda **more: sl.CountDistinct("g", by=sl.col("x").cut([0, 5, 10]), epsilon=1, **more)
    ),
    "Covariance": lambda: _matrix(lambda release: learned_prediction([release])),
    "Covariance, one of several": lambda: _matrix(lambda release: [np.eye(2), learned_prediction([release])]),
    "Covariance, with one that is private": lambda: _matrix(
        lambda release: learned_prediction([sl.Covariance(radius=1, rho=1).release(X), release])
    ),
    "Distribution": _predicted(lambda **more: sl.Distribution("x", epsilon=1, **more)),
    "LinearRegression": _model(sl.LinearRegression, data_norm=1, target_range=(0, 1)),
    "LinearSVC": _model(sl.LinearSVC, data_norm=1, classes=[0, 1]),
    "LogisticRegression": LOGISTIC,
    "LogisticRegression, of a release": lambda: LOGISTIC(lambda model: model.release_),
    "LogisticRegression, aged": lambda: LOGISTIC(lambda model: sl.CoefficientPrediction(model, age=1)),
    "LogisticRegression, of an aged release": lambda: LOGISTIC(
        lambda model: sl.CoefficientPrediction(model.release_, age=1)
    ),
    "LogisticRegression, one of several": lambda: LOGISTIC(lambda model: [sl.CoefficientPrediction([0, 0], 0), model]),
    "Mean": _predicted(lambda **more: sl.Mean("x", by="g", epsilon=1, **more)),
    "PCA": _components,
    "PoissonRegressor": _model(sl.PoissonRegressor, data_norm=1, largest_count=1),
    "Proportion": _predicted(lambda **more: sl.Proportion(sl.col("x") > 5, by="g", epsilon=1, **more)),
    "Quantiles": _predicted(lambda **more: sl.Quantiles([0.5], column="x", by="g", epsilon=1, **more)),
    "SQL": _predicted(lambda **more: sl.SQL(STATEMENT, epsilon=1, **more)),
    "Sum": _predicted(lambda **more: sl.Sum("x", by="g", epsilon=1, **more)),
    "SyntheticTable": lambda: sl.SyntheticTable(sl.marginals(1), epsilon=1, prediction=ROWS).release(TABLE),
    "TopK": lambda: sl.TopK(
        "c", k=2, **PRICE, known=seeded_release(sl.Count(by="c", **PRICE), NUMBERS, seed=1)
    ).release(NUMBERS),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_from_a_seeded_release_leads_to_a_private_one(way: str) -> None:
    with pytest.raises(RangeError, match="seeded noise, which gives no privacy"):
        WAYS[way]()


#: Queries, models and what they are made of whose prediction is public rows or a prior, never a release.
OF_NO_RELEASE: dict[str, Callable[[Any], Any]] = {
    "GaussianFit": lambda given: sl.GaussianFit(prediction=given, rho=1),
    "GaussianMean": lambda given: sl.GaussianMean(prediction=given, rho=1),
    "GaussianMixture": lambda given: sl.GaussianMixture(2, prediction=given, rho=1).fit(X),
    "GaussianModel": lambda given: sl.GaussianModel(prediction=given, rho=1).fit(X),
    "Histogram": lambda given: sl.Histogram("x", epsilon=1, bins="private", prediction=given).release(NUMBERS),
    "PubTrack": lambda given: sl.PubTrack(prediction=given),
    "PublicScaler": lambda given: sl.PublicScaler(prediction=given).fit(X),
    "SeparatedMixture": lambda given: sl.SeparatedMixture(components=2, prediction=given, rho=1),
    "StandardDeviation": lambda given: sl.StandardDeviation("x", epsilon=1, prediction=given).release(NUMBERS),
    "Summary": lambda given: sl.Summary("x", epsilon=1, prediction=given).release(NUMBERS),
    "Variance": lambda given: sl.Variance("x", epsilon=1, prediction=given).release(NUMBERS),
}


@pytest.mark.parametrize("name", OF_NO_RELEASE)
def test_what_predicts_from_public_rows_takes_no_release(name: str) -> None:
    with pytest.raises(SidelightError):
        OF_NO_RELEASE[name](COUNTS)


def test_every_public_name_with_a_prediction_is_listed_here() -> None:
    found = set()
    for name in sl.__all__:
        part = getattr(sl, name)
        if inspect.isclass(part) and part is not sl.Release and {"prediction", "known"} & {*_parameters(part)}:
            found.add(name)
    assert found == {way.split(",")[0] for way in WAYS} | {*OF_NO_RELEASE}


def _parameters(part: type) -> list[str]:
    try:
        return list(inspect.signature(part).parameters)
    except (TypeError, ValueError):
        return []


def test_an_origin_keeps_the_brand_of_its_parts() -> None:
    query = sl.Covariance(radius=1, rho=100)
    learned = learned_prediction([seeded_release(query, query.table(X), seed=1)])
    assert "NOT PRIVATE" in str(learned)
    for origin in (learned.origin, joint_origin([public("a census"), learned.origin])):
        assert origin.seeded
        assert origin_from_json(origin.to_json()) == origin
    assert "entropy" not in guess().to_json()
    again = sl.Covariance(radius=1, rho=1, prediction=learned)
    assert not seeded_release(again, again.table(X), seed=2).private  # a test may, and is branded


def _seeded_covariance() -> Any:
    rows = sl.Table({"a": [0.9], "b": [0.0]}, schema=[sl.Number("a"), sl.Number("b")])
    query = sl.Covariance(["a", "b"], radius=1, rho=1000)
    return rows, learned_prediction([seeded_release(query, rows, seed=1)])


def _real(prediction: Any) -> Any:
    return sl.Covariance(["a", "b"], radius=1, rho="0.1", prediction=prediction)


#: Searches of which one part predicts with seeded noise, wherever it stands.
SEARCHES: dict[str, Any] = {
    "the first": lambda one: sl.Selection(candidates=[_real(one), _real(np.eye(2))], score=_SCORE, delta="1e-6"),
    "the last": lambda one: sl.Selection(candidates=[_real(np.eye(2)), _real(one)], score=_SCORE, delta="1e-6"),
    "one of a list": lambda one: sl.Selection(
        candidates=[_real([one, np.eye(2)]), _real(None)], score=_SCORE, delta="1e-6"
    ),
    "the score": lambda one: sl.Selection(
        candidates=[_real(None)],
        score=PrivateScore(like=_real(one), ask=lambda _: _real(one), read=lambda _: 1.0, description="one"),
        delta="1e-6",
    ),
}
_SCORE = sl.PublicScore(lambda answer: float(answer.value["matrix"][0, 0]), "the first entry")


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_refuses_seeded_predictions_of_any_part(name: str) -> None:
    rows, one = _seeded_covariance()
    with pytest.raises(RangeError, match="seeded noise"):
        SEARCHES[name](one).release(rows)


def test_a_score_that_asks_with_a_seeded_prediction_is_none() -> None:
    rows, one = _seeded_covariance()
    score = PrivateScore(like=_real(None), ask=lambda _: _real(one), read=lambda _: 1.0, description="one")
    found = sl.Selection(candidates=[_real(None)], score=score, delta="1e-6").release(rows)
    assert isinstance(found, sl.Refused)
