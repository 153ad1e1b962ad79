"""Private models as scikit-learn estimators: release pipeline, public checks, no failures caused by rows."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import sidelight as sl
from sidelight.errors import BudgetError, RangeError, ReleaseFailedError, SchemaError, StrictError
from sidelight.testing import SeededSession

pytestmark = pytest.mark.usefixtures("prices_once")
BUDGET: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "data_norm": 1}
MAKERS: list[Callable[..., Any]] = [
    lambda **more: sl.LogisticRegression(**BUDGET | {"classes": [0, 1]} | more),
    lambda **more: sl.LinearSVC(**BUDGET | {"classes": [0, 1]} | more),
    lambda **more: sl.LinearRegression(**BUDGET | {"target_range": (0, 1)} | more),
    lambda **more: sl.PoissonRegressor(**BUDGET | {"largest_count": 2} | more),
]
maker = pytest.mark.parametrize("make", MAKERS, ids=["logistic", "svc", "linear", "poisson"])


def people() -> sl.Table:
    return sl.Table({"row": np.empty(0)}, schema=[sl.Number("row")], name="people")


def seeded(seed: int = 1, epsilon: int = 9, **more: Any) -> SeededSession:
    return SeededSession(people(), budget=sl.ApproxDP(epsilon, "1e-4"), seed=seed, **more)


def rows(n: int = 4000, *, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.uniform(-0.5, 0.5, (n, 3))
    return X, (X @ [2.0, -1.0, 0.0] > 0).astype(int)


class Watched:
    """Rows that record whether they were read."""

    def __init__(self, values: np.ndarray, error: Exception | None = None) -> None:
        self.values, self.error, self.opened = values, error, False
        self.shape, self.dtype = values.shape, values.dtype

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self.opened = True
        if self.error is not None:
            raise self.error
        return self.values


class TestModels:
    @pytest.mark.parametrize("make", MAKERS[:3], ids=["logistic", "svc", "linear"])
    def test_a_model_learns(self, make: Any) -> None:
        X, y = rows()
        model = make(session=seeded()).fit(X, y)
        assert np.mean((model.predict(X) > 0.5) == y) > 0.9
        assert model.score(X, y) > 0.3
        assert model.n_features_in_ == 3

    @maker
    def test_without_a_session_the_guarantee_is_that_of_the_fit(self, make: Any) -> None:
        model = make().fit(*rows(50))
        assert model.guarantee_.implies(sl.ApproxDP(1, "1e-6").under(numerics="idealized"))
        assert not model.guarantee_.implies(sl.ApproxDP("0.99", "1e-6").under(numerics="idealized"))
        assert model.release_.private
        assert model.release_.kind == "linear_model"
        assert sl.Release.from_json(model.release_.to_json()) == model.release_

    def test_two_classes(self) -> None:
        X, y = rows()
        model = sl.LogisticRegression(**BUDGET, classes=["yes", "no"], session=seeded())
        model.fit(X, np.where(y == 1, "yes", "no"))
        assert model.classes_.tolist() == ["no", "yes"]
        assert model.coef_.shape == (1, 3)
        assert model.coef_[0, 0] > 0 > model.coef_[0, 1]
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
        assert ((model.predict_proba(X)[:, 1] > 0.5) == (model.predict(X) == "yes")).all()

    def test_several_classes_share_a_softmax(self) -> None:
        X, _ = rows()
        y = np.argmax(X, axis=1)
        session = seeded(routes=["basic"])  # the other routes search for a Gaussian mechanism, which is not better
        model = sl.LogisticRegression(**BUDGET | {"epsilon": 8}, classes=range(3), session=session).fit(X, y)
        assert model.coef_.shape == (3, 3)
        assert model.intercept_.shape == (3,)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        assert (model.predict_proba(X).argmax(axis=1) == model.predict(X)).all()
        assert model.score(X, y) > 0.8
        model.set_params(class_weight={0: 3}, session=seeded(routes=["basic"]))
        assert np.mean(model.fit(X, y).predict(X) == 0) > np.mean(y == 0)

    @pytest.mark.parametrize(
        ("solver", "loss"),
        [("descent", "squared"), ("objective", "log_cosh"), ("objective", "huber"), ("objective", "squared_clipped")],
    )
    def test_a_target_far_from_zero_is_counted_from_the_middle_of_its_range(self, solver: Any, loss: Any) -> None:
        X, _ = rows()
        y = 1005 + 3 * X[:, 0]
        more = {"loss": loss, "solver": solver, "session": seeded()}
        model = sl.LinearRegression(**BUDGET, target_range=(1000, 1010), **more).fit(X, y)
        assert model.score(X, y) > 0.9
        assert isinstance(model.intercept_, float)
        assert model.coef_.shape == (3,)

    def test_without_an_intercept_the_model_passes_through_zero(self) -> None:
        X, _ = rows()
        model = sl.LinearRegression(**BUDGET, target_range=(0, 4), fit_intercept=False, session=seeded()).fit(
            X, X[:, 0]
        )
        assert model.intercept_ == 0
        assert sl.LogisticRegression(**BUDGET, classes=[0, 1], fit_intercept=False).fit(*rows(50)).intercept_ == [0]

    @pytest.mark.parametrize("more", [{"solver": "objective"}, {"geometry": "none"}, {"geometry": "private"}])
    @maker
    def test_sparse_rows_give_the_model_of_dense_ones(self, make: Any, more: dict[str, Any]) -> None:
        X, y = rows(500)
        more = {name: value for name, value in more.items() if name in {*make().get_params(), *vars(make()._settings)}}
        dense = make(session=seeded(), **more).fit(X, y)
        sparse = make(session=seeded(), **more).fit(csr_array(X), y)
        np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=0.02)
        np.testing.assert_allclose(sparse.predict(csr_array(X)), dense.predict(X), atol=0.02)

    def test_normalised_rows_are_normalised_in_prediction_too(self) -> None:
        X, y = rows()
        model = sl.LogisticRegression(**BUDGET, classes=[0, 1], on_violation="normalize", session=seeded()).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), model.decision_function(X / 1000), rtol=1e-9)

    def test_weights_are_public_numbers(self) -> None:
        X, y = rows()
        model = sl.LogisticRegression(**BUDGET | {"epsilon": 8}, classes=[0, 1], session=seeded())
        plain = model.fit(X, y).predict(X).mean()
        model.set_params(class_weight={1: 5}, session=seeded())
        assert model.fit(X, y).predict(X).mean() > plain

    @pytest.mark.parametrize("bound", ["generic", "thesis"])
    def test_the_other_bounds(self, bound: Any) -> None:
        model = sl.LogisticRegression(**BUDGET, classes=[0, 1], solver="objective", bound=bound)
        assert model.fit(*rows(50)).coef_.shape == (1, 3)

    @pytest.mark.parametrize("unit", [120, 0.01])
    @pytest.mark.parametrize("make", MAKERS[:3], ids=["logistic", "svc", "linear"])  # counts have a clip of their own
    def test_the_unit_of_the_features_does_not_matter(self, make: Any, unit: float) -> None:
        """Equal fits for features of norm 1, 120 and 0.01, with the intercept scaled accordingly."""
        X, y = rows()
        first, second = (make(random_state=3, data_norm=norm, session=None).fit(X * norm, y) for norm in (1, unit))
        np.testing.assert_allclose(np.asarray(second.coef_) * unit, first.coef_, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(second.intercept_, first.intercept_, rtol=1e-3, atol=1e-3)

    def test_frames_and_pipelines(self) -> None:
        import pandas as pd
        import polars as pl

        X, y = rows(300)
        for frame in (pd.DataFrame(X, columns=list("abc")), pl.DataFrame(X, schema=list("abc"))):
            model = MAKERS[0](session=seeded()).fit(frame, y)
            assert model.feature_names_in_.tolist() == ["a", "b", "c"]
            np.testing.assert_array_equal(model.coef_, MAKERS[0](session=seeded()).fit(X, y).coef_)
        for labels in (pd.Series(y), pl.Series(y), pd.Series(y).astype("Int64"), y.tolist()):
            assert (MAKERS[0](session=seeded()).fit(X, labels).coef_ == model.coef_).all()
        pipeline = make_pipeline(FunctionTransformer(lambda x: x / 2), MAKERS[0]())
        assert pipeline.fit(X, y).predict(X).shape == y.shape


class TestTheDoor:
    def test_the_charge_comes_before_the_data(self) -> None:
        session = sl.Session(people(), budget=sl.ApproxDP("1.2", "1e-5"))
        model = MAKERS[0](session=session).fit(*rows(50))
        watched = Watched(rows(50)[0])
        with pytest.raises(BudgetError):
            model.fit(watched, rows(50)[1])
        assert not watched.opened

    def test_a_failure_shows_nothing_and_its_charge_stands(self) -> None:
        session = sl.Session(people(), budget=sl.ApproxDP("1.2", "1e-5"))
        watched = Watched(rows(50)[0], error=ValueError("patient 42"))
        with pytest.raises(ReleaseFailedError) as caught:
            MAKERS[0](session=session).fit(watched, rows(50)[1])
        assert watched.opened
        assert "42" not in str(caught.value)
        assert caught.value.__context__ is None
        with pytest.raises(BudgetError):
            MAKERS[0](session=session).fit(*rows(50))

    def test_a_ledger_remembers_the_fit(self, tmp_path: Any) -> None:
        url = f"sqlite:///{tmp_path / 'budget.db'}"
        session = sl.Session(people(), budget=sl.ApproxDP(3, "1e-5"), ledger=url)
        model = MAKERS[0](session=session).fit(*rows(50))
        assert model.release_.circumstances.entry_id is not None
        again = sl.Session(people(), budget=sl.ApproxDP(3, "1e-5"), ledger=url)
        assert str(again.spent) == str(session.spent)
        with pytest.raises(BudgetError):
            MAKERS[0](epsilon=3, session=again).fit(*rows(50))

    def test_clones_share_the_account(self) -> None:
        session = sl.Session(people(), budget=sl.ApproxDP("1.2", "1e-5"))
        model = MAKERS[0](session=session)
        other = clone(model)
        assert other.session is session
        other.fit(*rows(50))
        with pytest.raises(BudgetError):
            model.fit(*rows(50))

    def test_a_budget_is_never_copied(self) -> None:
        model = MAKERS[0](session=seeded()).fit(*rows(50))
        for copying in (copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="set_params"):
                copying(model)
        saved = pickle.loads(pickle.dumps(model.set_params(session=None)))
        np.testing.assert_array_equal(saved.coef_, model.coef_)

    def test_strict_sessions_refuse_idealized_numerics(self) -> None:
        session = sl.Session(people(), budget=sl.ApproxDP(3, "1e-5"), strict=True)
        with pytest.raises(StrictError):
            MAKERS[0](session=session, solver="objective").fit(*rows(50))
        assert MAKERS[0](session=session).fit(*rows(50)).release_.circumstances.numerics == "exact"

    @pytest.mark.parametrize("max_rows", [1, 3])
    def test_arrays_are_refused_where_persons_are_protected(self, max_rows: int) -> None:
        """Whose row it is stands in the table alone: no cap reaches an array, and no cap of one row either."""
        schema = [sl.Number("row"), sl.PersonId("who", max_rows=max_rows)]
        table = sl.Table({"row": np.empty(0), "who": np.empty(0, int)}, schema=schema)
        session = sl.Session(table, budget=sl.ApproxDP(3, "1e-5"))
        for solver in ("objective", "descent"):
            with pytest.raises(RangeError, match="bring a table that declares the persons"):
                MAKERS[0](session=session, solver=solver).fit(*rows(50))
        with pytest.raises(RangeError, match="bring a table that declares the persons"):
            MAKERS[0]().fit(*rows(50)).dp_score(*rows(50), epsilon=1, session=session)
        assert session.spent == sl.Session(table, budget=sl.ApproxDP(3, "1e-5")).spent

    def test_seeded_models_are_branded(self) -> None:
        X, y = rows(50)
        model, same, other = (MAKERS[0](session=seeded(seed)).fit(X, y) for seed in (1, 1, 2))
        np.testing.assert_array_equal(model.coef_, same.coef_)
        assert (model.coef_ != other.coef_).all()
        assert not model.release_.private


class TestMistakesAreFoundBeforeTheCharge:
    @pytest.mark.parametrize("name", ["epsilon", "delta", "data_norm"])
    @maker
    def test_what_is_missing_is_named(self, make: Any, name: str) -> None:
        self.refused(make(**{name: None}), RangeError, f"{name}=")

    def test_models_want_what_y_may_be(self) -> None:
        self.refused(MAKERS[0](classes=None), RangeError, "classes")
        self.refused(MAKERS[0](classes=[1, 1]), RangeError, "different")
        self.refused(MAKERS[0](classes=[1, "a"]), RangeError, "all texts or all numbers")
        self.refused(MAKERS[0](classes="ab"), RangeError, "list")
        self.refused(MAKERS[0](classes=[0, np.nan]), RangeError, "finite")
        self.refused(MAKERS[0](classes=["a", "b"]), SchemaError, "texts")
        self.refused(MAKERS[1](classes=[0, 1, 2]), RangeError, "LogisticRegression")
        self.refused(MAKERS[2](target_range=None), RangeError, "target_range")
        self.refused(MAKERS[2](target_range=(1, 0)), RangeError, "lower first")
        self.refused(MAKERS[2](target_range=3), RangeError, "two numbers")
        self.refused(MAKERS[2](loss="hubert"), RangeError, "did you mean 'huber'")

    def test_parameters_without_sense(self) -> None:
        self.refused(MAKERS[0](class_weight="balanced"), RangeError, "public numbers")
        self.refused(MAKERS[0](class_weight={7: 1}), RangeError, "not declared")
        self.refused(MAKERS[0](class_weight={0: "five"}), RangeError, "explicit number")
        self.refused(MAKERS[0](class_weight={0: 0}), RangeError, "class_weight of 0")
        self.refused(MAKERS[0](class_weight={0: -1}), RangeError, "class_weight of 0")
        self.refused(MAKERS[0](class_weight=[1, 2]), RangeError, "public numbers")
        self.refused(MAKERS[0](classes=[0, 1, 2], class_weight="balanced"), RangeError, "public numbers")
        self.refused(MAKERS[0](on_missing="ignore"), RangeError, "on_missing")
        self.refused(MAKERS[0](on_violation="raise"), RangeError, "on_violation")
        self.refused(MAKERS[0](epsilon=-1), RangeError, "epsilon")
        self.refused(MAKERS[0](solver="objective", bound="loose"), RangeError, "bound")
        self.refused(MAKERS[0](solver="adam"), RangeError, "solver")
        self.refused(MAKERS[0](solver="newton"), RangeError, "solver=sl.ObjectiveSettings.minimiser='newton'")
        self.refused(MAKERS[0](solver="objective", minimiser="adam"), RangeError, "minimiser")
        self.refused(MAKERS[0](solver="objective", rows_at_most="many"), RangeError, "rows_at_most")
        self.refused(MAKERS[0](solver="objective", intercept_value=0), RangeError, "intercept_value")
        with pytest.raises(RangeError, match="Session"):
            MAKERS[0](session="budget.db").fit(*rows(50))

    @pytest.mark.parametrize("name", ["regularisation", "theta_norm", "tolerance", "bound", "minimiser", "scale"])
    def test_parameters_of_the_other_solver_are_not_ignored(self, name: str) -> None:
        given = {"bound": "generic", "minimiser": "newton"}.get(name, 2)
        with pytest.raises(RangeError, match=f"{name}.*sl.ObjectiveSettings"):
            MAKERS[2](**{name: given})

    def test_parameters_of_descent_are_not_ignored(self) -> None:
        for name, value in {"geometry": "none", "shrinkage": "none", "passes": 4}.items():
            with pytest.raises(RangeError, match=f"{name}.*sl.DescentSettings"):
                MAKERS[0](solver="objective", **{name: value})
        self.refused(MAKERS[2](solver="objective", loss="squared"), RangeError, "solver='descent'")
        self.refused(MAKERS[2](loss="log_cosh"), RangeError, "solver='objective'")
        self.refused(MAKERS[0](geometry="flat"), RangeError, "geometry")
        self.refused(MAKERS[0](geometry="public"), RangeError, "at least 12 public rows")
        self.refused(MAKERS[0](shrinkage="much"), RangeError, "shrinkage")
        self.refused(MAKERS[0](passes=0), RangeError, "passes")
        self.refused(MAKERS[0](passes=2.5), RangeError, "passes")
        self.refused(MAKERS[0](rows=0), RangeError, "rows")
        self.refused(MAKERS[0](rows="many"), RangeError, "rows")
        self.refused(MAKERS[0](odds=0), RangeError, "odds")
        self.refused(sl.LinearSVC(**BUDGET, classes=[0, 1], solver="newton"), RangeError, "minimiser")

    @maker
    def test_shapes_and_types(self, make: Any) -> None:
        X, y = rows(50)
        self.refused(make(), SchemaError, "two dimensions", X[:, 0], y)
        self.refused(make(), SchemaError, "two dimensions", X[:, 0].tolist(), y)
        self.refused(make(), SchemaError, "two dimensions", [], [])
        self.refused(make(), SchemaError, "same length", X.tolist(), y[:-1])
        self.refused(make(), SchemaError, "Complex", X.astype(complex), y)
        self.refused(make(), SchemaError, "numbers", X.astype(str), y)
        self.refused(make(), SchemaError, "same length", X, y[:-1])
        self.refused(make(), SchemaError, "None", X, None)
        self.refused(make(), SchemaError, "one column", X, np.c_[y, y])
        self.refused(make(), SchemaError, "numbers", X, y.astype(str))
        self.refused(make(), SchemaError, "array or a list", X, iter(y))
        self.refused(make(), SchemaError, "opened", iter(X), y)
        self.refused(make(), RangeError, "feature", X[:, :0], y)

    @maker
    def test_seeds_of_a_budget_are_refused_with_a_hint(self, make: Any) -> None:
        self.refused(make(random_state=0), RangeError, "SeededSession")

    @pytest.mark.parametrize(
        "state", [True, "1", 1.5, np.random.RandomState(0)], ids=lambda state: type(state).__name__
    )
    def test_invalid_seeds(self, state: Any) -> None:
        with pytest.raises(RangeError, match="random_state"):
            MAKERS[0](random_state=state).fit(*rows(50))

    def test_text_columns_of_frames(self) -> None:
        import pandas as pd
        import polars as pl

        texts = {"a": [1.0, 2.0], "b": ["x", "y"]}
        self.refused(MAKERS[0](), SchemaError, "type", pd.DataFrame(texts).astype({"b": "category"}), [0, 1])
        self.refused(MAKERS[0](), SchemaError, "type", pl.DataFrame(texts), [0, 1])
        numbers = np.ones((2, 2))
        for labels in (pd.Series(["a", "b"], dtype="string"), pl.Series(["a", "b"])):
            self.refused(MAKERS[0](), SchemaError, "must hold numbers", numbers, labels)
        for labels in (pd.Series([0, 1]), pl.Series([0, 1])):
            self.refused(MAKERS[0](classes=["a", "b"]), SchemaError, "must hold texts", numbers, labels)

    def refused(self, model: Any, kind: type[Exception], text: str, *data: Any) -> None:
        session = seeded()
        before = str(session.spent)
        with pytest.raises(kind, match=text):
            model.set_params(session=session).fit(*(data or rows(50)))
        assert str(session.spent) == before


BAD_CELLS = [np.nan, np.inf, -np.inf, None, "text", object(), {"a": 1}, np.ones(2), 10**400]


class TestNoRowCanMakeAFitFail:
    @maker
    def test_rows_that_cannot_be_used_take_no_part(self, make: Any) -> None:
        import pandas as pd

        X, y = rows(40)
        plain = make(session=seeded()).fit(X, y).coef_
        for cell in [*BAD_CELLS, pd.NA, pd.NaT]:
            bad = np.vstack([X, X[:1]]).astype(object)
            bad[-1, 1] = cell
            np.testing.assert_array_equal(make(session=seeded()).fit(bad, np.append(y, 1)).coef_, plain)
            labels = [*y.tolist(), cell]
            np.testing.assert_array_equal(make(session=seeded()).fit(np.vstack([X, X[:1]]), labels).coef_, plain)

    def test_the_control_a_good_row_does_change_the_model(self) -> None:
        X, y = rows(40)
        more = MAKERS[0](session=seeded()).fit(np.vstack([X, X[:1]]), np.append(y, 1))
        assert (more.coef_ != MAKERS[0](session=seeded()).fit(X, y).coef_).any()

    def test_undeclared_labels_take_no_part(self) -> None:
        X, y = rows(40)
        plain = MAKERS[0](session=seeded()).fit(X, y).coef_
        more = MAKERS[0](session=seeded()).fit(np.vstack([X, X]), np.append(y, np.full(40, 7)))
        np.testing.assert_array_equal(more.coef_, plain)

    def test_masked_cells_are_missing(self) -> None:
        X, y = rows(40)
        plain = MAKERS[0](session=seeded()).fit(X, y).coef_
        masked = np.ma.array(np.vstack([X, X[:1]]))
        masked[-1, 0] = np.ma.masked
        np.testing.assert_array_equal(MAKERS[0](session=seeded()).fit(masked, np.append(y, 1)).coef_, plain)
        labels = np.ma.array(np.append(y, 1), mask=[*[False] * 40, True])
        np.testing.assert_array_equal(MAKERS[0](session=seeded()).fit(np.vstack([X, X[:1]]), labels).coef_, plain)

    @maker
    @pytest.mark.parametrize("factor", [1e-300, 1e10, 1e300])
    def test_rows_of_any_length(self, make: Any, factor: float) -> None:
        X, y = rows(40)
        assert np.isfinite(make(session=seeded()).fit(X * factor, y).coef_).all()

    @maker
    @pytest.mark.parametrize("kept", [0, 1])
    def test_few_rows_or_one_class_still_give_a_model(self, make: Any, kept: int) -> None:
        X, _ = rows(40)
        model = make(session=seeded()).fit(X[:kept], np.ones(kept))
        assert model.predict(X).shape == (40,)
        assert np.isfinite(make(session=seeded()).fit(X, np.ones(40)).coef_).all()
        assert make(session=seeded()).fit(csr_array(X)[:kept], np.ones(kept)).coef_.size == 3

    def test_targets_beyond_the_range_are_clamped(self) -> None:
        X, y = rows(40)
        clamped = MAKERS[2](session=seeded()).fit(X, y * 1e300)
        np.testing.assert_array_equal(clamped.coef_, MAKERS[2](session=seeded()).fit(X, y).coef_)
