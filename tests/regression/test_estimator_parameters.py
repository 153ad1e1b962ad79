"""Parameters and attributes of the estimators: missing values, seeds, warnings, keys, and what a model tells."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import sidelight as sl
from sidelight.errors import BudgetError, PrivacyWarning, RangeError, SchemaError, WeakFitWarning
from sidelight.testing import SeededSession

pytestmark = pytest.mark.usefixtures("prices_once")
BUDGET: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "data_norm": 1}
MODELS: list[Any] = [
    sl.LogisticRegression(**BUDGET, classes=[0, 1]),
    sl.LinearSVC(**BUDGET, classes=[0, 1]),
    sl.LinearRegression(**BUDGET, target_range=(0, 1)),
    sl.PoissonRegressor(**BUDGET, largest_count=2),
]
#: The same with objective perturbation.
OBJECTIVE: list[Any] = [
    sl.LogisticRegression(**BUDGET, classes=[0, 1], solver="objective"),
    MODELS[1],
    sl.LinearRegression(**BUDGET, target_range=(0, 1), solver="objective"),
    MODELS[3],
]
by_objective = pytest.mark.parametrize("model", OBJECTIVE, ids=lambda model: type(model).__name__)
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
PEOPLE = sl.Table({"row": np.empty(0)}, schema=[sl.Number("row")], name="people")


def rows(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(3).uniform(-0.5, 0.5, (n, 2))
    return X, (X[:, 0] > 0).astype(int)


class TestMissing:
    @every_model
    def test_raise_is_the_curators_choice(self, model: Any) -> None:
        X, y = rows()
        bad = X.copy()
        bad[3, 1] = np.nan
        assert clone(model).fit(bad, y).coef_.size == 2
        loud = clone(model).set_params(on_missing="raise")
        with pytest.raises(ValueError, match="NaN"):
            loud.fit(bad, y)
        with pytest.raises(ValueError, match=r"0 sample|minimum of 1"):
            loud.fit(X[:0], y[:0])
        assert loud.fit(X, y).coef_.size == 2

    def test_it_raises_before_the_charge(self) -> None:
        X, y = rows()
        session = SeededSession(PEOPLE, budget=sl.ApproxDP(3, "1e-4"), seed=1)
        before = str(session.spent)
        with pytest.raises(ValueError, match="NaN"):
            sl.LogisticRegression(**BUDGET, classes=[0, 1], on_missing="raise", session=session).fit(X * np.nan, y)
        assert str(session.spent) == before


class TestSeeds:
    @every_model
    def test_a_whole_number_is_reproducible_warned_about_and_branded(self, model: Any) -> None:
        X, y = rows()
        with pytest.warns(sl.NotPrivateWarning, match="NOT PRIVATE"):
            first = clone(model).set_params(random_state=5).fit(X, y)
        with pytest.warns(sl.NotPrivateWarning):
            same, other = (clone(model).set_params(random_state=seed).fit(X, y) for seed in (5, 6))
        np.testing.assert_array_equal(first.coef_, same.coef_)
        assert (first.coef_ != other.coef_).any()
        assert not first.release_.private

    def test_without_one_nothing_is_warned_and_noise_is_new(self) -> None:
        X, y = rows()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", PrivacyWarning)  # rows that are fitted again: shown once in a process
            first, second = (clone(MODELS[0]).fit(X, y) for _ in range(2))
        assert (first.coef_ != second.coef_).any()
        assert first.release_.private


class TestWarnings:
    @pytest.mark.parametrize(
        ("more", "text"),
        [
            ({"epsilon": 11}, "epsilon 11 is above 10"),
            ({"delta": "1e-3"}, "delta 0.001 is 1e-3 or more"),
        ],
    )
    @every_model
    def test_public_numbers_that_make_little_sense(self, model: Any, more: dict[str, Any], text: str) -> None:
        with pytest.warns(UserWarning, match=text):
            clone(model).set_params(**more).fit(*rows())

    @by_objective
    def test_a_regularisation_that_outweighs_the_rows(self, model: Any) -> None:
        with pytest.warns(UserWarning, match="mostly prior"):
            clone(model).set_params(solver=sl.ObjectiveSettings(rows_at_most=2)).fit(*rows())

    def test_noise_that_outweighs_the_rows(self) -> None:
        X, y = rows()
        with pytest.warns(WeakFitWarning, match="outweighs the rows"):
            clone(MODELS[0]).set_params(epsilon="0.01", rows=60).fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("error", WeakFitWarning)
            clone(MODELS[0]).set_params(epsilon=5).fit(np.tile(X, (10, 1)), np.tile(y, 10))

    def test_the_limit_of_the_prior_is_four_times_the_curvature(self) -> None:
        model = clone(OBJECTIVE[0]).fit(*rows())
        limit = float(4 * model.privacy_.regularisation / model.privacy_.plan.mechanism.shape.curvature)
        with pytest.warns(UserWarning, match="mostly prior"):
            clone(OBJECTIVE[0]).set_params(solver=sl.ObjectiveSettings(rows_at_most=int(limit * 0.99))).fit(*rows())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            clone(OBJECTIVE[0]).set_params(solver=sl.ObjectiveSettings(rows_at_most=int(limit * 1.01) + 1)).fit(*rows())


class TestParameters:
    def test_a_guess_of_the_norm_raises_the_penalty(self) -> None:
        plain = clone(OBJECTIVE[0]).fit(*rows()).privacy_
        guess = clone(OBJECTIVE[0]).set_params(solver=sl.ObjectiveSettings(theta_norm="0.5")).fit(*rows()).privacy_
        assert guess.noise_scale == plain.noise_scale
        assert float(guess.regularisation) == pytest.approx(3**0.5 * float(plain.noise_scale) / 0.5)

    def test_a_tolerance_scales_the_output_noise(self) -> None:
        plain = clone(OBJECTIVE[0]).fit(*rows()).privacy_
        loose = clone(OBJECTIVE[0]).set_params(solver=sl.ObjectiveSettings(tolerance="1e-3")).fit(*rows()).privacy_
        assert float(loose.tolerance) == 1e-3
        ratio = float(loose.output_noise_scale / plain.output_noise_scale)
        assert ratio == pytest.approx(float(loose.tolerance / plain.tolerance), rel=1e-6)

    def test_lists_are_rows_too(self) -> None:
        X, y = rows()
        session = SeededSession(PEOPLE, budget=sl.ApproxDP(9, "1e-4"), seed=1)
        again = SeededSession(PEOPLE, budget=sl.ApproxDP(9, "1e-4"), seed=1)
        array = clone(MODELS[0]).set_params(session=session).fit(X, y)
        odd = [*X.tolist(), [None, 1.0], ["x", 2.0]]  # the last two are left out
        listed = clone(MODELS[0]).set_params(session=again).fit(odd, [*y.tolist(), 1, 0])
        np.testing.assert_array_equal(array.coef_, listed.coef_)
        with pytest.raises(SchemaError, match="differ in length"):
            clone(MODELS[0]).set_params(session=again).fit([*X.tolist(), [1.0]], [*y.tolist(), 1])

    def test_sparse_rows_are_never_made_dense(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from scipy.sparse import csr_array

        def refuse(*_: Any, **__: Any) -> None:
            pytest.fail("a sparse matrix was made dense")

        _, y = rows()
        wide = csr_array((np.full(60, 0.5), (np.arange(60), np.arange(60) % 2 * 4999)), shape=(60, 5000))
        monkeypatch.setattr(csr_array, "toarray", refuse)
        monkeypatch.setattr(csr_array, "todense", refuse)
        model = sl.LogisticRegression(**BUDGET, classes=[0, 1]).fit(wide, y)
        assert model.predict(wide).shape == (60,)


class TestKeys:
    def test_a_model_is_remembered_under_its_key(self, tmp_path: Any) -> None:
        session = sl.Session(
            PEOPLE, budget=sl.ApproxDP("1.5", "1e-5"), ledger=f"sqlite:///{tmp_path / 'budget.db'}", routes=["basic"]
        )
        model = clone(MODELS[0]).set_params(session=session)
        first = model.fit(*rows(), key="model").coef_.copy()
        np.testing.assert_array_equal(model.fit(*rows(), key="model").coef_, first)
        with pytest.raises(BudgetError):
            model.fit(*rows(), key="another")

    def test_a_key_without_a_ledger(self) -> None:
        with pytest.raises(RangeError, match="key"):
            clone(MODELS[0]).fit(*rows(), key="model")


class TestAttributes:
    @every_model
    def test_what_a_model_tells_and_what_it_does_not(self, model: Any) -> None:
        fitted = clone(model).fit(*rows())
        found = {name for name in vars(fitted) if name.endswith("_")}
        classes = {"classes_"} if hasattr(model, "classes") else set()
        assert found == {"coef_", "intercept_", "n_features_in_", "release_", "guarantee_", "privacy_"} | classes

    @pytest.mark.parametrize("model", MODELS[::2], ids=lambda model: type(model).__name__)
    def test_of_a_descent_nothing_but_releases_depends_on_the_rows(self, model: Any) -> None:
        X, y = rows()
        one, other = clone(model).fit(X, y), clone(model).fit(X[:7] * 3, 1 - y[:7])
        released = {"rows", "passes", "clip", "noise_to_signal", "believed"}
        assert set(one.release_.value) >= released
        for name in {each.name for each in dataclasses.fields(one.privacy_)} - released:
            assert getattr(one.privacy_, name) == getattr(other.privacy_, name)
        assert str(one.guarantee_) == str(other.guarantee_)
        assert one.release_.query == other.release_.query

    @pytest.mark.parametrize("model", MODELS[::2], ids=lambda model: type(model).__name__)
    def test_the_parts_of_a_descent_add_up_to_its_promise(self, model: Any) -> None:
        found = clone(model).fit(*rows()).privacy_
        assert (found.epsilon, float(found.delta)) == (1, 1e-6)
        shares = found.shares
        assert sum(getattr(shares, field.name) for field in fields(shares)) == 1
        assert found.claims.implies(sl.ApproxDP(1, "1e-6"))
        assert not found.claims.implies(sl.ApproxDP("0.999", "1e-6"))
        assert found.loss["loss"] in str(found)
        assert found.pld().get_epsilon_for_delta(1e-6) <= 1.001

    @by_objective
    def test_no_attribute_but_the_coefficients_depends_on_the_rows(self, model: Any) -> None:
        X, y = rows()
        one, other = clone(model).fit(X, y), clone(model).fit(X[:7] * 3, 1 - y[:7])
        assert one.privacy_ == other.privacy_
        assert str(one.privacy_) == str(other.privacy_)
        assert str(one.guarantee_) == str(other.guarantee_)
        assert one.release_.query == other.release_.query

    @by_objective
    def test_the_constants_are_public_and_prove_the_promise(self, model: Any) -> None:
        found = clone(model).fit(*rows()).privacy_
        assert (found.epsilon, float(found.delta)) == (1, 1e-6)
        assert max(found.delta_removed, found.delta_added) <= found.delta
        assert float(found.row_norm) == pytest.approx(2**0.5)
        assert found.tolerance > 0 < found.output_noise_scale
        assert found.loss["loss"] in str(found)
        assert found.pld().get_epsilon_for_delta(1e-6) <= 1.001

    def test_a_refused_refit_changes_nothing(self) -> None:
        session = sl.Session(PEOPLE, budget=sl.ApproxDP("1.5", "1e-5"), routes=["basic"])
        X, y = rows()
        model = clone(MODELS[0]).set_params(session=session).fit(X, y)
        before = dict(vars(model))
        with pytest.raises(BudgetError):
            model.fit(np.hstack([X, X]), y)
        with pytest.raises(SchemaError):
            model.fit(X[:, 0], y)
        assert vars(model) == before
        assert model.n_features_in_ == 2
        assert model.predict(X).shape == (60,)

    def test_odd_column_names_are_refused_before_the_charge(self) -> None:
        import pandas as pd

        X, y = rows()
        session = sl.Session(PEOPLE, budget=sl.ApproxDP("1.5", "1e-5"), routes=["basic"])
        model = clone(MODELS[0]).set_params(session=session)
        with pytest.raises(SchemaError, match="names are text, and others"):
            model.fit(pd.DataFrame(X, columns=["a", 1]), y)
        assert model.fit(pd.DataFrame(X, columns=["a", "b"]), y).feature_names_in_.tolist() == ["a", "b"]
        assert not hasattr(clone(model).set_params(session=None).fit(X, y), "feature_names_in_")

    @every_model
    def test_models_are_saved_and_loaded(self, model: Any) -> None:
        X, y = rows()
        fitted = clone(model).fit(X, y)
        loaded = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
        assert loaded.privacy_ == fitted.privacy_

    def test_cross_validation_is_many_fits_of_one_budget(self) -> None:
        session = sl.Session(PEOPLE, budget=sl.ApproxDP("2.5", "1e-5"), routes=["basic"])
        with pytest.raises(BudgetError):
            cross_val_score(clone(MODELS[0]).set_params(session=session), *rows(), cv=3, error_score="raise")
