"""`sl.GaussianModel`: scikit-learn's checks with a short list of exceptions, densities, draws, ellipses, sessions."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import sidelight as sl
from sidelight.errors import BudgetError, RangeError, SchemaError, WeakFitWarning
from sidelight.gaussians import FittedGaussian

_ROWS = "which values occur is private: rows that cannot be used take no part, and no data raises"
EXPECTED = {
    "check_dtype_object": _ROWS,
    "check_estimators_empty_data_messages": _ROWS,
    "check_estimators_nan_inf": _ROWS,
}


@pytest.mark.filterwarnings("ignore::sidelight.errors.WeakFitWarning")
@parametrize_with_checks(
    [sl.GaussianModel(mean_bound=100, variance_bound=100, rho=8)], expected_failed_checks=lambda model: EXPECTED
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


RNG = np.random.default_rng(1)
MEAN, COVARIANCE = np.array([10.0, -3.0]), np.array([[4.0, 1.0], [1.0, 1.0]])
ROWS = RNG.multivariate_normal(MEAN, COVARIANCE, 20_000)
PUBLIC = RNG.multivariate_normal(MEAN, COVARIANCE, 5)


@pytest.fixture(scope="module")
def model() -> sl.GaussianModel:
    return sl.GaussianModel(prediction=PUBLIC, rho="0.5").fit(ROWS)


def test_a_fit(model: sl.GaussianModel) -> None:
    np.testing.assert_allclose(model.mean_, MEAN, atol=0.1)
    np.testing.assert_allclose(model.covariance_, COVARIANCE, atol=0.25)
    assert abs(model.n_rows_ - 20_000) < 60
    assert model.guarantee_.zcdp() is not None
    assert not model.weak_


def test_density_draws_and_ellipses(model: sl.GaussianModel) -> None:
    law = multivariate_normal(model.mean_, model.covariance_)
    np.testing.assert_allclose(model.score_samples(ROWS[:50]), law.logpdf(ROWS[:50]))
    np.testing.assert_allclose(model.density(ROWS[:50]), law.pdf(ROWS[:50]))
    assert model.score(ROWS) == pytest.approx(law.logpdf(ROWS).mean())
    draws = model.sample(4000, seed=3)
    np.testing.assert_array_equal(draws, model.sample(4000, seed=3))
    lengths = model.mahalanobis(draws)
    assert kstest(lengths, "chi2", args=(2,)).pvalue > 1e-6
    assert kstest(lengths * 1.3, "chi2", args=(2,)).pvalue < 1e-6
    outline = model.ellipse(share=0.9)
    np.testing.assert_allclose(model.mahalanobis(outline), -2 * np.log(0.1))
    assert model.gaussian_.contains(draws, share=0.9).mean() == pytest.approx(0.9, abs=0.03)


def test_columns_of_very_different_units() -> None:
    law = FittedGaussian(np.zeros(3), np.diag([1e20, 1.0, 1e-20]))
    assert law.distances([[1e10, 1.0, 1e-10]])[0] == pytest.approx(np.sqrt(3))
    with pytest.raises(RangeError, match="two different"):
        law.ellipse((0, 0))
    with pytest.raises(RangeError, match="share"):
        law.radius(1.0)


def test_weak_fits_warn() -> None:
    with pytest.warns(WeakFitWarning, match="certified"):
        sl.GaussianModel(prediction=PUBLIC, rho="1e-5").fit(ROWS[:100])


def test_tables_frames_and_releases(model: sl.GaussianModel) -> None:
    import pandas as pd

    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    named = sl.GaussianModel(prediction=PUBLIC, rho="0.5").fit(frame)
    assert named.feature_names_in_.tolist() == ["a", "b"]
    table = sl.Table(frame, schema=[sl.Number("a"), sl.Number("b")])
    assert sl.GaussianModel(prediction=PUBLIC, rho="0.5").fit(table).n_features_in_ == 2
    stored = sl.GaussianModel.from_release(sl.Release.from_json(model.release_.to_json()))
    np.testing.assert_array_equal(stored.score_samples(ROWS[:3]), model.score_samples(ROWS[:3]))
    with pytest.raises(RangeError, match="GaussianFit"):
        sl.GaussianModel.from_release(sl.Quantiles([0.5], epsilon=1).release([1.0, 2.0]))


def test_sessions_are_charged_and_not_copied(model: sl.GaussianModel) -> None:
    table = sl.Table(ROWS, schema=[sl.Number("a"), sl.Number("b")])
    session = sl.Session(table, budget=sl.ZCDP(1))
    charged = sl.GaussianModel(prediction=PUBLIC, rho="0.6", session=session).fit(ROWS)
    with pytest.raises(BudgetError):
        clone(charged).fit(ROWS)
    with pytest.raises(TypeError, match="session"):
        pickle.dumps(charged)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).mean_, model.mean_)


@pytest.mark.parametrize(
    ("mistake", "rows", "error", "message"),
    [
        ({}, ROWS, RangeError, "no public rows"),
        ({"prediction": PUBLIC}, ROWS[:, :1], RangeError, "each of the 1 columns"),
        ({"prediction": PUBLIC, "session": 3}, ROWS, RangeError, "session"),
        ({"prediction": PUBLIC}, [[1.0, 2.0]], SchemaError, "shape"),
        ({"prediction": PUBLIC}, ROWS[:, 0], SchemaError, "2D"),
    ],
)
def test_mistakes(mistake: dict[str, Any], rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sl.GaussianModel(rho=1, **mistake).fit(rows)


def test_no_seed() -> None:
    with pytest.raises(RangeError, match="random_state"):
        sl.GaussianModel(prediction=PUBLIC, random_state=0)
