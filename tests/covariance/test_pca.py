"""`sl.PCA`: scikit-learn's own checks with a short list of exceptions, components, error bars, pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import decomposition
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import sidelight as sl
from sidelight.covariance import principal_components
from sidelight.errors import BudgetError, RangeError, SidelightError
from sidelight.testing import SeededSession, seeded_release

_ROWS = "which values occur is private: rows that cannot be used take no part, and no data raises"
_LISTS = "fits a list or an object without a shape, which does not say how many columns it has unopened"
EXPECTED = {
    "check_dtype_object": _ROWS,
    "check_estimators_empty_data_messages": _ROWS,
    "check_estimators_nan_inf": _ROWS,
    "check_transformer_data_not_an_array": _LISTS,
    "check_transformer_general": _LISTS,
    "check_fit_idempotent": "compares two fits, and every fit draws new noise",
}


@parametrize_with_checks([sl.PCA(radius=10, rho=8)], expected_failed_checks=lambda model: EXPECTED)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def rows_of(n: int = 30_000) -> np.ndarray:
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    return (rng.normal(size=(n, 4)) * [0.3, 0.15, 0.08, 0.04]) @ turn + [0.2, -0.1, 0.0, 0.1]


def session_for(rows: np.ndarray, seed: int = 1) -> SeededSession:
    table = sl.Table(rows, schema=[sl.Number(f"x{place}") for place in range(rows.shape[1])])
    return SeededSession(table, budget=sl.ZCDP(100), seed=seed)


@pytest.mark.parametrize("price", [{"rho": "0.5"}, {"epsilon": 2}, {"epsilon": 2, "delta": "1e-6"}])
def test_agrees_with_the_plain_one(price: dict[str, Any]) -> None:
    rows = rows_of()
    model = sl.PCA(2, radius=2, session=session_for(rows), **price).fit(rows)
    plain = decomposition.PCA(2).fit(rows)
    assert (np.abs((model.components_ * plain.components_).sum(axis=1)) > 0.995).all()
    assert (np.abs(model.explained_variance_ - plain.explained_variance_) <= model.explained_variance_error_).all()
    np.testing.assert_allclose(model.mean_, plain.mean_, atol=0.02)
    np.testing.assert_allclose(model.explained_variance_ratio_, plain.explained_variance_ratio_, atol=0.05)
    assert model.n_components_ == 2
    assert model.get_feature_names_out().tolist() == ["pca0", "pca1"]
    again = model.inverse_transform(model.transform(rows))
    assert np.linalg.norm(again - rows) < 1.1 * np.linalg.norm(plain.inverse_transform(plain.transform(rows)) - rows)


def test_shares_of_the_variance_choose_the_number() -> None:
    rows = rows_of()
    assert sl.PCA(0.7, radius=2, rho=1).fit(rows).n_components_ == 1
    assert sl.PCA(0.9, radius=2, rho=1).fit(rows).n_components_ == 2
    assert sl.PCA(radius=2, rho=1).fit(rows).n_components_ == 4


def test_from_a_release_that_was_paid_for() -> None:
    rows = rows_of()
    table = sl.Table(rows, schema=[sl.Number(name) for name in "abcd"])
    query = sl.Covariance(radius=2, rho=1, centre=[0.2, -0.1, 0.0, 0.1])
    release = seeded_release(query, table, seed=2)
    assert isinstance(release, sl.Release)
    model = sl.PCA.from_release(release, 2)
    np.testing.assert_allclose(model.mean_, [0.2, -0.1, 0.0, 0.1])
    assert model.transform(rows[:3]).shape == (3, 2)
    found = principal_components(release, 2)
    assert found.variance_error == pytest.approx(release.error_bound(0.95)[0])
    stored = sl.PCA.from_release(sl.Release.from_json(release.to_json()), 2)
    np.testing.assert_array_equal(stored.components_, model.components_)


def test_error_bars_hold_and_those_of_less_noise_do_not() -> None:
    """Weyl's bound covers nine in ten of all releases at least; bars a fifth as long miss most of them."""
    rows = np.hstack([rows_of(2000), np.zeros((2000, 8))])
    table = sl.Table(rows, schema=[sl.Number(name) for name in "abcdefghijkl"])
    query = sl.Covariance(radius=2, rho="0.05", rows=2000, method="gauss", project=False)
    truth = np.linalg.eigvalsh(rows.T @ rows / len(rows))[::-1]
    held = thin = 0
    for seed in range(40):
        found = principal_components(seeded_release(query, table, seed=seed))
        off = float(np.abs(found.explained_variance - truth).max())
        assert found.variance_error is not None
        held += off <= found.variance_error
        thin += off <= found.variance_error / 5
    assert held >= 36
    assert thin < 20


def test_pipeline_clone_and_parameters() -> None:
    rows = rows_of(2000)
    model = sl.PCA(2, radius=1, rho=1, centre=None)
    assert clone(model).get_params() == model.get_params()
    assert make_pipeline(FunctionTransformer(), model).fit_transform(rows).shape == (2000, 2)
    assert (model.fit(rows).mean_ == 0).all()


def test_frames_keep_their_names() -> None:
    import pandas as pd

    frame = pd.DataFrame(rows_of(500), columns=list("abcd"))
    model = sl.PCA(2, radius=1, rho=1).fit(frame)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.release_.labels == ("a", "b", "c", "d")


def test_sessions_are_charged_and_not_copied() -> None:
    rows = rows_of(500)
    table = sl.Table(rows, schema=[sl.Number(name) for name in "abcd"])
    session = sl.Session(table, budget=sl.ZCDP(1))
    model = sl.PCA(2, radius=1, rho="0.6", session=session).fit(rows)
    assert model.guarantee_.zcdp() is not None
    with pytest.raises(BudgetError):
        clone(model).fit(rows)
    with pytest.raises(TypeError, match="session"):
        model.__getstate__()


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"rho": 1}, "radius"),
        ({"radius": 1}, "price"),
        ({"radius": 1, "rho": 1, "n_components": 9}, "n_components"),
        ({"radius": 1, "rho": 1, "n_components": 0}, "n_components"),
        ({"radius": 1, "rho": 1, "session": 3}, "session"),
        ({"radius": 1, "rho": 1, "prediction": np.eye(2)}, "shape"),
    ],
)
def test_mistakes(mistake: dict[str, Any], message: str) -> None:
    with pytest.raises(SidelightError, match=message):
        sl.PCA(**mistake).fit(rows_of(10))


@pytest.mark.parametrize("wanted", [1.5, 0.0, 1.0, -0.5, float("nan"), "mle", True, np.float64(2)])
def test_a_wrong_number_of_components_is_refused_before_the_charge(wanted: Any) -> None:
    rows = rows_of(50)
    session = sl.Session(sl.Table(rows, schema=[sl.Number(name) for name in "abcd"]), budget=sl.ZCDP(1))
    with pytest.raises(RangeError, match="n_components"):
        sl.PCA(wanted, radius=1, rho="0.5", session=session).fit(rows)
    sl.PCA(2, radius=1, rho=1, session=session).fit(rows)  # all of the budget is left


def test_no_seed() -> None:
    with pytest.raises(RangeError, match="random_state"):
        sl.PCA(radius=1, random_state=0)


def test_the_list_of_expected_failures_is_short() -> None:
    assert len(EXPECTED) <= 6
