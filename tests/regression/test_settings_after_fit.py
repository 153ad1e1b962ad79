"""Parameters that are set after a fit say what the next fit does: the fitted model stays what was released."""

import warnings
from typing import Any

import numpy as np
import pytest

import sidelight as sl

RNG = np.random.default_rng(12)
X = RNG.normal(size=(600, 2)) * 0.4
Y = (X[:, 0] + 0.2 * RNG.normal(size=600) > 0).astype(int)
NEW = np.array([[0.3, -0.2], [3.0, 4.0], [0.0, 0.1], [np.nan, 0.2]])
PRICE: dict[str, Any] = {"epsilon": 2, "delta": "1e-6"}
COLUMNS = [sl.Number("a", lower=-2, upper=2), sl.Number("b", lower=-2, upper=2)]
LINEAR: dict[str, Any] = PRICE | {"data_norm": 1}
RANGE = (0, 1)
MODELS: dict[str, Any] = {
    "logistic": lambda **more: sl.LogisticRegression(**LINEAR | more, classes=[0, 1]),
    "logistic, objective": lambda **more: sl.LogisticRegression(**LINEAR | more, classes=[0, 1], solver="objective"),
    "linear": lambda **more: sl.LinearRegression(**LINEAR | more, target_range=RANGE),
    "poisson": lambda **more: sl.PoissonRegressor(**LINEAR | more, largest_count=1),
    "svc": lambda **more: sl.LinearSVC(**LINEAR | more, classes=[0, 1]),
    "curves": lambda **more: sl.AdditiveRegressor(**PRICE | more, columns=COLUMNS, target_range=RANGE),
    "class curves": lambda **more: sl.AdditiveClassifier(**PRICE | more, columns=COLUMNS, classes=[0, 1]),
    "pca": lambda **more: sl.PCA(2, **PRICE | more, radius=2),
    "gaussian": lambda **more: sl.GaussianModel(prediction=X[:20], rho=1, **more),
}
#: Another value of every parameter that a fit reads.
OTHERS: dict[str, Any] = {
    "data_norm": 50,
    "on_missing": "drop",
    "fit_intercept": False,
    "classes": [5, 6],
    "class_weight": {0: 1, 1: 9},
    "target_range": (0, 1000),
    "largest_count": 9,
    "clip": 0.1,
    "columns": COLUMNS[:1],
    "loss": "huber",
    "epsilon": 9,
    "delta": "0.1",
    "rho": 9,
    "radius": 9,
    "n_components": 1,
    "condition": 50,
    "scale": 2,
    "prediction": X[:30],
    "monotone": {"a": "increasing"},
    "random_state": 4,
}
FREE = ("decision_function", "predict_proba", "predict", "contributions", "transform", "score_samples", "mahalanobis")


def answers(model: Any) -> dict[str, Any]:
    """Return what a fitted model says of new rows and of itself."""
    rows = {"a": NEW[:, 0], "b": NEW[:, 1]} if hasattr(model, "columns_") else NEW[:3]
    found = {name: np.asarray(getattr(model, name)(rows)) for name in FREE if hasattr(model, name)}
    if hasattr(model, "privacy_report"):
        found["report"] = np.array(str(model.privacy_report()))
    return found


@pytest.mark.parametrize("ways", ["clip", "normalize"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_no_parameter_changes_a_fitted_model(name: str, ways: str) -> None:
    model = MODELS[name]()
    if "on_violation" in model.get_params():
        model.set_params(on_violation=ways)
    elif ways == "normalize":
        pytest.skip("has no norm")
    additive = "columns" in model.get_params()
    model.fit({"a": X[:, 0], "b": X[:, 1]} if additive else X, *(() if name in ("pca", "gaussian") else (Y,)))
    before = answers(model)
    given = model.get_params()
    for parameter, other in (OTHERS | {"on_violation": "clip" if ways == "normalize" else "normalize"}).items():
        if parameter not in given:
            continue
        model.set_params(**{parameter: other})
        after = answers(model)
        for method, found in before.items():
            assert np.array_equal(found, after[method], equal_nan=found.dtype.kind == "f"), (parameter, method)
        model.set_params(**{parameter: given[parameter]})


@pytest.mark.parametrize("ways", ["clip", "normalize"])
@pytest.mark.filterwarnings("ignore")
def test_a_paid_score_is_of_the_released_model(ways: str) -> None:
    """Long rows are of the class that short ones of their direction are not, where rows are not normalised."""
    model = sl.LogisticRegression(**LINEAR | {"epsilon": 50}, classes=[0, 1], on_violation=ways).fit(X, Y)
    model.coef_, model.intercept_ = np.array([[1.0, 0.0]]), np.array([-2.0])  # no row of length 1 is above it
    rows = np.tile([[5.0, 0.0]], (400, 1))
    right = model.predict(rows)
    model.set_params(on_violation="clip" if ways == "normalize" else "normalize", data_norm=7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.dp_score(rows, right, epsilon=10).value["score"] > 0.95
    assert right[0] == (ways == "clip")
