"""Models of a table asked about frames, mappings and arrays: all that is answered is answered as for a table."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.pipeline import make_pipeline

import sidelight as sl
from sidelight.errors import RangeError, SchemaError

pytestmark = pytest.mark.usefixtures("prices_once")
AGE, VISITS = sl.Number("age", lower=18, upper=90), sl.Number("visits", lower=0, upper=30)
PLAN = sl.Category("plan", ["free", "team", "firm"], other=None)
RENEWS, SPENT = sl.Category("renews", ["no", "yes"], other=None), sl.Number("spent", lower=0, upper=20)
SCHEMA = [AGE, VISITS, PLAN, RENEWS, SPENT]
MODELS: list[tuple[Any, str]] = [
    (sl.LogisticRegression, "renews"),
    (sl.LogisticRegression, "plan"),
    (sl.LinearSVC, "renews"),
    (sl.LinearRegression, "spent"),
    (sl.PoissonRegressor, "spent"),
]


def people(n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    age, visits = rng.integers(18, 91, n), rng.poisson(6, n)
    plan = np.where(age + rng.normal(0, 5, n) < 42, "free", np.where(visits > 6, "team", "firm"))
    renews = np.where(age / 30 + visits / 6 + rng.logistic(size=n) / 8 > 2.8, "yes", "no")
    return pd.DataFrame({"age": age, "visits": visits, "plan": plan, "renews": renews, "spent": np.minimum(visits, 20)})


FRAME = people()
TABLE = sl.Table(FRAME, schema=SCHEMA, name="people")


def fitted(kind: Any, target: str, features: list[str]) -> Any:
    return kind(epsilon=8, delta="1e-6").fit_table(TABLE, target=target, features=features)


def forms(features: list[str]) -> dict[str, Any]:
    chosen = FRAME[features]
    return {
        "pandas": chosen,
        "other order": chosen[features[::-1]],
        "more columns": FRAME,
        "another index": chosen.set_index(np.arange(len(chosen))[::-1]),
        "polars": pl.from_pandas(chosen),
        "polars, lazy": pl.from_pandas(chosen).lazy(),
        "arrow": pa.Table.from_pandas(chosen),
        "mapping of arrays": {name: chosen[name].to_numpy() for name in features},
        "mapping of lists": {name: chosen[name].tolist() for name in features},
    }


@pytest.mark.parametrize("features", [["age", "visits"], ["visits", "age"]], ids=["in order", "other order"])
@pytest.mark.parametrize(("kind", "target"), MODELS, ids=lambda part: getattr(part, "__name__", part))
def test_every_form_is_answered_as_the_table(kind: Any, target: str, features: list[str]) -> None:
    model = fitted(kind, target, features)
    asked = ("predict", "predict_proba", "predict_log_proba", "decision_function")
    for name in [name for name in asked if hasattr(model, name)]:
        wanted = getattr(model, name)(TABLE)
        for form, rows in forms(features).items():
            np.testing.assert_array_equal(getattr(model, name)(rows), wanted, err_msg=f"{name} of {form}")
    truth = FRAME[target]
    assert model.score(FRAME, truth) == model.score(TABLE, truth)
    assert model.feature_names_in_.tolist() == features
    assert model.n_features_in_ == 2


def test_the_frame_is_not_scored_as_the_majority() -> None:
    """The numbers of the report: 0.756, the majority's share, from a frame, where the table gave 0.988."""
    model = fitted(sl.LogisticRegression, "renews", ["age", "visits"])
    majority = FRAME["renews"].value_counts(normalize=True).max()
    assert model.score(FRAME[["age", "visits"]], FRAME["renews"]) > majority + 0.15


def test_arrays_are_encoded_where_they_can_mean_one_thing_and_refused_otherwise() -> None:
    mixed = fitted(sl.LogisticRegression, "renews", ["age", "plan"])
    raw = FRAME[["age", "plan"]].to_numpy()
    for rows in (raw, raw.tolist()):
        np.testing.assert_array_equal(mixed.decision_function(rows), mixed.decision_function(TABLE))
    numbers = fitted(sl.LogisticRegression, "renews", ["age", "visits"])
    refused = [
        (mixed, mixed.encoding_.transform(FRAME)),  # 4 columns: scaled, or others of the same number
        (mixed, FRAME["age"].to_numpy()),
        (mixed, []),
        (mixed, [["free"]]),
        (numbers, FRAME[["age", "visits"]].to_numpy()),
        (numbers, FRAME[["age", "visits"]].to_numpy().tolist()),
        (numbers, numbers.encoding_.transform(FRAME)),
        (numbers, FRAME["age"]),
    ]
    for model, rows in refused:
        with pytest.raises(SchemaError, match=r"columns=model\.feature_names_in_"):
            model.predict(rows)
    named = pd.DataFrame(FRAME[["age", "visits"]].to_numpy(), columns=numbers.feature_names_in_)
    np.testing.assert_array_equal(numbers.predict(named), numbers.predict(TABLE))


def test_frames_without_the_columns_are_refused() -> None:
    model = fitted(sl.LogisticRegression, "renews", ["age", "visits"])
    for rows in (FRAME[["age"]], FRAME.rename(columns={"visits": "Visits"}), {"age": [1.0]}):
        with pytest.raises(SchemaError, match="visits"):
            model.predict(rows)
    scaled = model.encoding_.set_output(transform="pandas").transform(FRAME)
    assert list(scaled.columns) == ["age (scaled)", "visits (scaled)"]
    with pytest.raises(SchemaError, match="age"):
        model.predict(scaled)  # never encoded twice
    with pytest.raises(SchemaError, match="table"):
        model.dp_score(FRAME[["age", "visits"]], FRAME["renews"], epsilon=1)
    assert 0 <= model.dp_score(TABLE, target="renews", epsilon=1).value["score"] <= 1


def test_a_model_of_arrays_is_as_it_was() -> None:
    X, y = FRAME[["age", "visits"]].to_numpy() / 100, FRAME["renews"]
    model = sl.LogisticRegression(epsilon=8, delta="1e-6", data_norm=1, classes=["no", "yes"])
    model.fit_table(TABLE, target="renews", features=["age", "visits"]).fit(X, y)
    assert not hasattr(model, "encoding_")
    assert model.predict(X).shape == (len(X),)


def test_scikit_learn_around_it() -> None:
    model = fitted(sl.LogisticRegression, "renews", ["age", "plan"])
    wanted = model.decision_function(TABLE)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(FRAME), wanted)
    with config_context(transform_output="pandas"):
        np.testing.assert_array_equal(model.decision_function(FRAME), wanted)
    found = permutation_importance(model, FRAME[["age", "plan"]], FRAME["renews"], n_repeats=2, random_state=0)
    assert found.importances_mean[0] > 0.1
    assert not hasattr(clone(model), "encoding_")


class TestEncoding:
    """The encoding by itself, a transformer whose fit reads no row."""

    def test_it_is_a_step_of_a_pipeline(self) -> None:
        encoding = sl.TableEncoding([AGE, PLAN])
        model = sl.LogisticRegression(epsilon=8, delta="1e-6", data_norm=1, classes=["no", "yes"])
        pipeline = make_pipeline(encoding, model).fit(FRAME, FRAME["renews"])
        assert pipeline.score(FRAME, FRAME["renews"]) > 0.75
        framed = make_pipeline(clone(encoding), clone(model)).set_output(transform="pandas")
        assert framed.fit(FRAME, FRAME["renews"]).score(FRAME, FRAME["renews"]) > 0.75
        assert framed[-1].feature_names_in_.tolist() == ["age (scaled)", "plan=free", "plan=team", "plan=firm"]

    def test_clones_and_copies_encode_alike(self) -> None:
        encoding = sl.TableEncoding((AGE, PLAN))
        wanted = encoding.transform(FRAME)
        for other in (clone(encoding), pickle.loads(pickle.dumps(encoding)), clone(encoding).fit(FRAME)):
            np.testing.assert_array_equal(other.transform(FRAME), wanted)
        np.testing.assert_array_equal(encoding.fit_transform(FRAME.head(7)), wanted[:7])

    def test_a_row_is_encoded_by_itself_and_none_raises(self) -> None:
        encoding = sl.TableEncoding((AGE, PLAN))
        odd = pd.DataFrame({"age": [np.nan, np.inf, 50.0, 1e300], "plan": ["free", None, "other", "firm"]})
        whole = encoding.fit_transform(odd)
        for place in range(4):
            np.testing.assert_array_equal(encoding.transform(odd.iloc[[place]])[0], whole[place])
        assert (np.linalg.norm(whole, axis=1) <= 1).all()

    def test_hats_share_a_value_between_two_nodes_and_no_row_is_longer_than_one(self) -> None:
        ages = np.concatenate([np.linspace(17, 91, 500), [np.nan, np.inf, -np.inf]])
        frame = pd.DataFrame({"age": ages, "plan": np.resize(["free", "team", "none"], len(ages))})
        for hats in (2, 3, 16):
            encoding = sl.TableEncoding((AGE, PLAN), hats=hats)
            rows = encoding.transform(frame)
            assert rows.shape[1] == len(encoding.names) == hats + 3
            assert all(sum(Fraction(cell) ** 2 for cell in row) <= 1 for row in rows.tolist())
            nodes = np.linspace(float(AGE.lower), float(AGE.upper), hats)
            middle = float(AGE.lower + AGE.upper) / 2  # of a missing value
            wanted = np.clip(np.nan_to_num(ages, nan=middle, posinf=1e9, neginf=-1e9), nodes[0], nodes[-1])
            np.testing.assert_allclose(rows[:, :hats] @ nodes / encoding.encoder.share, wanted, atol=1e-3)
            sparse = encoding.encoder._sparse((np.arange(-(2**20), 2**20, 9999), np.arange(210) % 4 - 1))
            dense = encoding.encoder._dense((np.arange(-(2**20), 2**20, 9999), np.arange(210) % 4 - 1))
            np.testing.assert_array_equal(sparse.toarray(), dense)

    def test_a_linear_model_of_hats_learns_a_curve(self) -> None:
        rng = np.random.default_rng(5)
        ages = rng.uniform(0, 100, 6000)
        bent = np.abs(ages - 50) / 5
        age = sl.Number("age", lower=0, upper=100)
        model = sl.LinearRegression(epsilon=4, delta="1e-6", data_norm=1, target_range=(0, 10), random_state=1)
        error = {}
        for hats in (None, 16):
            pipeline = make_pipeline(sl.TableEncoding([age], hats=hats), clone(model))
            with pytest.warns(sl.errors.NotPrivateWarning):
                found = pipeline.fit({"age": ages}, bent).predict({"age": ages})
            error[hats] = float(np.mean((found - bent) ** 2) / bent.var())
        assert error[16] < 0.05 < 0.9 < error[None]

    def test_mistakes_are_named(self) -> None:
        for wrong in (1, 2.5, 1001, "16"):
            with pytest.raises(RangeError, match="hats must be"):
                sl.TableEncoding([AGE], hats=wrong).fit(FRAME)  # type: ignore[arg-type]
        again = sl.TableEncoding([AGE], hats=3)
        assert len(again.names) == 3
        assert len(again.set_params(hats=5).names) == 5
        with pytest.raises(SchemaError, match="public range"):
            sl.TableEncoding([sl.Number("age")]).fit(FRAME)
        with pytest.raises(SchemaError, match="PersonId"):
            sl.TableEncoding([AGE, sl.PersonId("who", max_rows=1)]).fit(FRAME)  # type: ignore[list-item]
        with pytest.raises(SchemaError, match="age, plan"):
            sl.TableEncoding([AGE, PLAN]).fit(np.ones((3, 3)))
