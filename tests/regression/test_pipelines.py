"""Pipelines and searches around private models: warnings for steps that read the rows."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_predict, cross_val_score, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)

import sidelight as sl
from sidelight.session.paid_estimator import reads_no_rows

pytestmark = pytest.mark.usefixtures("prices_once")
RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (60, 2))
Y = (X[:, 0] > 0).astype(int)
PUBLIC = sl.PublicScaler(lower=-1, upper=1)


def model(**more: Any) -> Any:
    return sl.LogisticRegression(**{"epsilon": 1, "delta": "1e-6", "data_norm": 1, "classes": [0, 1]} | more)


def told(run: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    found = [str(each.message) for each in caught if each.category is sl.PrivacyWarning]
    return [text for text in found if "fitted again without a session" not in text]  # see test_repeated_fits


class Remembers(TransformerMixin, BaseEstimator):
    """A user-defined step with unknown behaviour."""

    def fit(self, X: Any, y: Any = None) -> Any:
        self.mean_ = np.mean(X)
        return self

    def transform(self, X: Any) -> Any:
        return X - self.mean_


class ByDeclaration(Remembers):
    fit_reads_no_rows = True

    def fit(self, X: Any, y: Any = None) -> Any:
        self.mean_ = 0.5
        return self


def columns(*steps: Any) -> ColumnTransformer:
    return ColumnTransformer([(str(place), step, [place]) for place, step in enumerate(steps)])


UNSAFE: dict[str, Any] = {
    "scaler": lambda: make_pipeline(StandardScaler(), model()),
    "minmax": lambda: make_pipeline(MinMaxScaler(), model()),
    "quantiles": lambda: make_pipeline(QuantileTransformer(n_quantiles=5), model()),
    "components": lambda: make_pipeline(PCA(1), model()),
    "selection": lambda: make_pipeline(SelectKBest(k=1), model()),
    "imputer": lambda: make_pipeline(SimpleImputer(), model()),
    "bins": lambda: make_pipeline(KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"), model()),
    "own step": lambda: make_pipeline(Remembers(), model()),
    "before a safe one": lambda: make_pipeline(StandardScaler(), PUBLIC, model()),
    "after a safe one": lambda: make_pipeline(PUBLIC, StandardScaler(), model()),
    "outer pipeline": lambda: make_pipeline(StandardScaler(), make_pipeline(PUBLIC, model())),
    "inner pipeline": lambda: make_pipeline(make_pipeline(PUBLIC, MinMaxScaler()), make_pipeline(PUBLIC, model())),
    "twice nested": lambda: make_pipeline(StandardScaler(), make_pipeline(PUBLIC, make_pipeline(PUBLIC, model()))),
    "column": lambda: make_pipeline(columns(PUBLIC, StandardScaler()), model()),
    "rest of the columns": lambda: make_pipeline(columns(PUBLIC).set_params(remainder=StandardScaler()), model()),
    "column, nested": lambda: make_pipeline(columns(PUBLIC, make_pipeline(PUBLIC, StandardScaler())), model()),
    "union": lambda: make_pipeline(FeatureUnion([("a", PUBLIC), ("b", StandardScaler())]), model()),
    "frames": lambda: make_pipeline(StandardScaler(), model()).set_output(transform="pandas"),
    "clone": lambda: clone(make_pipeline(StandardScaler(), model())),
    "learned categories": lambda: make_pipeline(OneHotEncoder(handle_unknown="ignore"), model()),
    "private components": lambda: make_pipeline(StandardScaler(), sl.PCA(n_components=1, rho=1, radius=3)),
    "target": lambda: TransformedTargetRegressor(
        sl.LinearRegression(epsilon=1, delta="1e-6", data_norm=1, target_range=(-3, 3)), transformer=StandardScaler()
    ),
    "regression": lambda: make_pipeline(
        StandardScaler(), sl.LinearRegression(epsilon=1, delta="1e-6", data_norm=1, target_range=(0, 1))
    ),
    "vectors": lambda: make_pipeline(StandardScaler(), sl.LinearSVC(**PRICE, classes=[0, 1])),
    "counts": lambda: make_pipeline(StandardScaler(), sl.PoissonRegressor(**PRICE, largest_count=3)),
}
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "data_norm": 1}
SAFE: dict[str, Any] = {
    "alone": model,
    "public scaler": lambda: make_pipeline(PUBLIC, model()),
    "public rows": lambda: make_pipeline(sl.PublicScaler(prediction=sl.PublicData(X[:5], "a leaflet")), model()),
    "nested": lambda: make_pipeline(make_pipeline(PUBLIC), make_pipeline(PUBLIC, model())),
    "columns": lambda: make_pipeline(columns(PUBLIC, "passthrough"), model()),
    "union": lambda: make_pipeline(FeatureUnion([("a", PUBLIC), ("b", "passthrough")]), model()),
    "stateless": lambda: make_pipeline(FunctionTransformer(lambda rows: rows / 2), Normalizer(), model()),
    "powers": lambda: make_pipeline(PUBLIC, PolynomialFeatures(2), model()),
    "passthrough": lambda: Pipeline([("nothing", "passthrough"), ("none", None), ("model", model())]),
    "frozen": lambda: make_pipeline(FrozenEstimator(StandardScaler().fit(X[:5])), model()),
    "declared": lambda: make_pipeline(ByDeclaration(), model()),
    "private components": lambda: make_pipeline(sl.PCA(n_components=1, rho=1, radius=3), model()),
    "private selection": lambda: make_pipeline(SelectFromModel(model(), threshold=-1), model()),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_a_step_that_reads_the_rows_is_reported(name: str) -> None:
    found = told(lambda: UNSAFE[name]().fit(X, Y))
    assert len(found) == 1
    assert "PublicScaler" in found[0]
    assert "does not hold" in found[0]


@pytest.mark.parametrize("name", SAFE)
def test_a_safe_step_is_not(name: str) -> None:
    pipeline = SAFE[name]()
    assert told(lambda: pipeline.fit(X, Y)) == []
    if hasattr(pipeline, "predict"):
        assert told(lambda: pipeline.predict(X)) == []


def test_the_words_name_the_step_and_the_line(tmp_path: Path) -> None:
    pipeline = make_pipeline(StandardScaler(), MinMaxScaler(), PUBLIC, model())
    with pytest.warns(sl.PrivacyWarning, match=r"^StandardScaler and MinMaxScaler prepared") as caught:
        pipeline.fit(X, Y)
    assert {each.filename for each in caught if each.category is sl.PrivacyWarning} == {__file__}
    cached = make_pipeline(StandardScaler(), sl.PCA(n_components=1, rho=1, radius=3), model(), memory=str(tmp_path))
    assert len(told(lambda: cached.fit(X, Y))) == 2


def test_the_warning_comes_before_any_charge() -> None:
    session = sl.Session(sl.Table({"row": X[:, 0]}, schema=[sl.Number("row")]), budget=sl.ApproxDP(2, "1e-5"))
    spent = str(session.spent)
    with warnings.catch_warnings():
        warnings.simplefilter("error", sl.PrivacyWarning)
        with pytest.raises(sl.PrivacyWarning):
            make_pipeline(StandardScaler(), model(session=session)).fit(X, Y)
    assert str(session.spent) == spent


def test_what_an_outlier_does_through_a_scaler() -> None:
    """The reason for the warning: one outlier rescales all other rows, declared ranges do not."""
    far = np.vstack([X, [[1e9, 1e9]]])
    moved = StandardScaler().fit(far).transform(X[:1]) - StandardScaler().fit(X).transform(X[:1])
    kept = clone(PUBLIC).fit(far).transform(X[:1]) - clone(PUBLIC).fit(X).transform(X[:1])
    assert np.abs(moved).max() > 0.1
    assert np.abs(kept).max() == 0


SEARCHES: dict[str, Callable[[Any], Any]] = {
    "grid": lambda each: GridSearchCV(each, {"rows": [40, 80]}, cv=2).fit(X, Y),
    "random": lambda each: RandomizedSearchCV(each, {"rows": [40, 80]}, n_iter=1, cv=2).fit(X, Y),
    "score": lambda each: cross_val_score(each, X, Y, cv=2),
    "validate": lambda each: cross_validate(each, X, Y, cv=2),
    "predict": lambda each: cross_val_predict(each, X, Y, cv=2),
    "elimination": lambda each: RFE(each, n_features_to_select=1).fit(X, Y),
    "one against the rest": lambda each: OneVsRestClassifier(each).fit(X, Y),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_is_reported(name: str) -> None:
    found = told(lambda: SEARCHES[name](model()))
    assert found
    assert all("several times" in text and "sl.Selection" in text for text in found)
    assert all("no budget counts them" in text for text in found)


def test_a_search_with_a_session_pays_for_fits_and_not_for_scores() -> None:
    session = sl.Session(sl.Table({"row": X[:, 0]}, schema=[sl.Number("row")]), budget=sl.ApproxDP(9, "1e-5"))
    found = told(lambda: cross_val_score(model(session=session), X, Y, cv=2))
    assert found
    assert all("The session charges each of these fits, but the scores" in text for text in found)


def test_bagging_is_reported() -> None:
    found = told(lambda: BaggingClassifier(model(), n_estimators=2).fit(X, Y))
    assert any("BaggingClassifier" in text for text in found)


def test_a_search_over_a_pipeline_tells_both() -> None:
    pipeline = make_pipeline(StandardScaler(), model())
    grid = {"logisticregression__rows": [40, 80]}
    found = set(told(lambda: GridSearchCV(pipeline, grid, cv=2).fit(X, Y)))
    assert {text.split()[0] for text in found} == {"StandardScaler", "GridSearchCV"}
    outside = make_pipeline(StandardScaler(), GridSearchCV(model(), {"rows": [40, 80]}, cv=2))
    assert {text.split()[0] for text in told(lambda: outside.fit(X, Y))} == {"StandardScaler", "GridSearchCV"}


PARALLEL = """
import numpy as np, sidelight as sl
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
if __name__ == "__main__":
    X = np.random.default_rng(0).uniform(-1, 1, (40, 2)); y = (X[:, 0] > 0).astype(int)
    model = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1])
    grid = {"logisticregression__rows": [40, 80]}
    GridSearchCV(make_pipeline(StandardScaler(), model), grid, cv=2, n_jobs=2, refit=False).fit(X, y)
"""


@pytest.mark.slow
def test_worker_processes_tell_too(tmp_path: Path, record_property: Any) -> None:
    script = tmp_path / "search.py"
    script.write_text(PARALLEL)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=300)
    assert "StandardScaler prepared" in done.stderr
    assert "several times" in done.stderr
    record_property(
        "audit",
        f"pipelines that void a guarantee: {len(UNSAFE)} unsafe and {len(SAFE)} safe compositions, {len(SEARCHES) + 4} "
        "searches, one of them in other processes; 0 unsafe ones passed in silence, 0 safe ones were told of",
    )


def test_which_transformers_of_scikit_learn_count_as_safe() -> None:
    """The whole list, so that a transformer of a later version is looked at before it counts as safe."""
    from sklearn.utils import all_estimators

    found = set()
    for name, kind in all_estimators(type_filter="transformer"):
        try:
            step = kind()
        except TypeError:
            continue
        if kind.__module__.startswith("sklearn.") and reads_no_rows(step):
            found.add(name)
    known = (
        "AdditiveChi2Sampler Binarizer FeatureHasher FunctionTransformer HashingVectorizer Normalizer PatchExtractor"
    )
    known += " PolynomialCountSketch PolynomialFeatures RBFSampler SkewedChi2Sampler"
    assert found <= set(known.split())
    assert {"FunctionTransformer", "Normalizer", "PolynomialFeatures"} <= found


def test_encoders_are_safe_with_declared_categories_alone() -> None:
    declared: dict[str, Any] = {"categories": [["a", "b"]], "handle_unknown": "ignore"}
    assert reads_no_rows(OneHotEncoder(**declared))
    for change in ({"categories": "auto"}, {"handle_unknown": "error"}, {"min_frequency": 2}, {"max_categories": 1}):
        assert not reads_no_rows(OneHotEncoder(**declared | change))
