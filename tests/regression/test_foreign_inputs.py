"""Rows and targets in forms that a fit cannot take are refused with what to do, before anything is charged."""

import array
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sparse

import sidelight as sl
from sidelight.errors import RangeError, SchemaError

N = 300
RNG = np.random.default_rng(3)
X = RNG.uniform(-0.5, 0.5, (N, 2))
Y = (X[:, 0] > 0).astype(int)
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
COLUMNS = [sl.Number("a", lower=-1, upper=1), sl.Number("b", lower=-1, upper=1)]
MODELS: dict[str, Any] = {
    "logistic": lambda **more: sl.LogisticRegression(**PRICE, data_norm=1, classes=[0, 1], **more),
    "linear": lambda **more: sl.LinearRegression(**PRICE, data_norm=1, target_range=(0, 1), **more),
    "poisson": lambda **more: sl.PoissonRegressor(**PRICE, data_norm=1, largest_count=1, **more),
    "svc": lambda **more: sl.LinearSVC(**PRICE, data_norm=1, classes=[0, 1], **more),
    "curves": lambda **more: sl.AdditiveClassifier(**PRICE, columns=COLUMNS, classes=[0, 1], **more),
    "pca": lambda **more: sl.PCA(1, **PRICE, radius=1, **more),
    "gaussian": lambda **more: sl.GaussianModel(prediction=X[:20], rho=1, **more),
    "mixture": lambda **more: sl.GaussianMixture(2, prediction=X[:40], rho=1, **more),
    "scaler": lambda **_: sl.PublicScaler(lower=-1, upper=1),
}
ROWS: dict[str, Any] = {
    "one name twice": pd.DataFrame(X, columns=["a", "a"]),
    "names of two kinds": pd.DataFrame(X, columns=["a", 1]),
    "numbers as names": pd.DataFrame(X),
    "names of two levels": pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
    "memoryview": memoryview(X),
    "blocks": sparse.bsr_array(X),
    "complex": sparse.csr_array(X.astype(complex)),
    "generator": (row for row in X),
    "text": "ab",
    "bytes": b"abc",
    "number": 3,
    "nothing": None,
    "set": {1, 2},
    "column": pd.Series(X[:, 0]),
}
TARGETS: dict[str, Any] = {
    "sparse": sparse.csr_array(Y[:, None]),
    "coordinates": sparse.coo_array(Y[:, None]),
    "memoryview": memoryview(Y),
    "array": array.array("i", Y.tolist()),
    "pandas frame": pd.DataFrame({"y": Y}),
    "polars frame": pl.DataFrame({"y": Y}),
    "arrow table": pa.table({"y": Y}),
    "two columns": pd.DataFrame({"y": Y, "z": Y}),
    "one name twice": pd.DataFrame(np.column_stack([Y, Y]), columns=["y", "y"]),
    "generator": (label for label in Y),
    "set": {0, 1},
    "number": 3,
    "mapping": {0: 1},
}
CASES = [(model, ROWS, name) for model in MODELS for name in ROWS] + [
    (model, TARGETS, name) for model in list(MODELS)[:5] for name in TARGETS
]


@pytest.mark.quick_cases(12)
@pytest.mark.parametrize(
    ("model", "inputs", "name"), CASES, ids=[f"{m}-{'rows' if i is ROWS else 'targets'}-{n}" for m, i, n in CASES]
)
@pytest.mark.filterwarnings("ignore")
def test_a_form_is_taken_or_refused_before_the_charge(model: str, inputs: dict[str, Any], name: str) -> None:
    table = sl.Table({"row": np.arange(N)}, schema=[sl.Number("row")])
    session = sl.Session(table, budget=sl.ApproxDP(9, "1e-4"))
    rows, targets = (inputs[name], Y) if inputs is ROWS else (X, inputs[name])
    before = str(session.remaining)
    try:
        MODELS[model](session=session).fit(rows, targets)
    except (SchemaError, RangeError):
        refused = True
    except TypeError as error:
        refused = "takes no sparse matrix" in str(error)
        if not refused:
            raise
    else:
        refused = model == "scaler"  # charges nothing
    assert refused == (str(session.remaining) == before)


@pytest.mark.parametrize("name", ["pandas frame", "polars frame", "arrow table"])
@pytest.mark.filterwarnings("ignore")
def test_a_frame_of_one_column_is_that_column(name: str) -> None:
    """It failed after the charge."""
    for model in ("logistic", "linear", "curves"):
        made = MODELS[model]
        found = [made(random_state=1).fit(X, targets).predict(X) for targets in (Y, TARGETS[name])]
        assert np.array_equal(*found)
