"""One warning for repeated fits of the same rows without a session, recognised by content."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import sidelight as sl
from sidelight.errors import ReleaseFailedError
from sidelight.guarantees import ApproxDP, Claims
from sidelight.regression.estimators import examples as examples_module
from sidelight.regression.estimators.examples import Examples
from sidelight.tuning import Fit, ModelScore, tune

pytestmark = pytest.mark.usefixtures("prices_once")
RNG = np.random.default_rng(11)
X = RNG.uniform(-1, 1, (400, 2)) / 2
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples_module, "_KNOWN", [])


def model(**more: Any) -> Any:
    return sl.LogisticRegression(**{"epsilon": 1, "delta": "1e-6", "data_norm": 1, "classes": [0, 1]} | more)


def told(*runs: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for run in runs:
            run()
    return [str(each.message) for each in caught if each.category is sl.PrivacyWarning]


SAME: dict[str, tuple[Any, Any]] = {
    "itself": (X, Y),
    "copy": (X.copy(), Y),
    "another target": (X, 1 - Y),
    "other order": (X[::-1], Y[::-1]),
    "a fold": (X[100:], Y[100:]),
    "single precision": (X.astype(np.float32), Y),
    "frame": (pd.DataFrame(X), Y),
    "list": (X.tolist(), Y.tolist()),
    "sparse": (csr_array(X), Y),
    "one row more": (np.vstack([X, [[0.1, 0.2]]]), np.append(Y, 1)),
}
OTHER: dict[str, tuple[Any, Any]] = {
    "other rows": (RNG.uniform(-1, 1, (400, 2)), Y),
    "few of them": (np.vstack([X[:100], RNG.uniform(-1, 1, (300, 2))]), Y),
    "other columns": (X[:, :1], Y),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_rows_are_reported_once(name: str) -> None:
    again = SAME[name]
    runs = [lambda: model().fit(X, Y), lambda: model().fit(*again), lambda: model().fit(*again)]
    (text,) = told(*runs)
    assert "epsilon 2 so far" in text
    assert "session=" in text


@pytest.mark.parametrize("name", OTHER)
def test_other_rows_are_not(name: str) -> None:
    assert told(lambda: model().fit(X, Y), lambda: model().fit(*OTHER[name])) == []


def test_rows_that_coincide_by_chance_are_not() -> None:
    first, second = (np.random.default_rng(seed).integers(0, 5, (400, 2)) / 10 for seed in (1, 2))
    assert told(lambda: model().fit(first, Y), lambda: model().fit(second, Y)) == []


def test_a_loop_over_models_and_settings_adds_up() -> None:
    def loop() -> None:
        for passes in (4, 8, 16):
            model(solver=sl.DescentSettings(passes=passes)).fit(X, Y)

    assert len(told(loop)) == 1
    (known,) = examples_module._KNOWN
    assert (known.fits, known.epsilon) == (3, 3)
    price = {"epsilon": "0.5", "delta": "1e-6", "data_norm": 1}
    told(lambda: sl.LinearRegression(**price, target_range=(0, 1)).fit(X, Y))
    assert known.epsilon == 3.5


def test_a_session_a_seed_and_a_paid_search_are_not_reported() -> None:
    session = sl.Session(sl.Table({"row": X[:, 0]}, schema=[sl.Number("row")]), budget=sl.ApproxDP(9, "1e-5"))
    assert told(*[lambda: model(session=session).fit(X, Y)] * 2) == []
    assert told(*[lambda: model(random_state=1).fit(X, Y)] * 2) == []
    claims = Claims.of(ApproxDP(1, "1e-6").under(numerics="idealized"))
    fit = Fit(run=lambda source: model().fit(X, Y), claims=claims)
    score = ModelScore(function=lambda fitted: float(fitted.coef_[0, 0]), description="the first coefficient")
    assert told(lambda: tune([fit], score=score, delta="1e-4")) == []


class Broken:
    """Rows that only say their shape."""

    shape, dtype = (400, 2), np.dtype(np.float64)

    def __array__(self, *_: Any, **__: Any) -> Any:
        warnings.warn("cell 7", UserWarning, stacklevel=1)
        raise ValueError("cell 7")


def test_what_cannot_be_read_is_left_to_the_door() -> None:
    with pytest.raises(ReleaseFailedError) as failed:
        model().fit(Broken(), Y)
    assert "cell" not in str(failed.value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert examples_module._sketch(Examples(Broken(), Y, 2)) is None


def test_little_is_remembered() -> None:
    for seed in range(70):
        examples_module._KNOWN.append(
            examples_module._Known(np.arange(256, dtype=np.uint64) + np.uint64(1000 * seed), 2, 1, model().epsilon)
        )
    told(lambda: model().fit(X, Y))
    assert len(examples_module._KNOWN) == 64
    assert all(len(known.sketch) <= 256 for known in examples_module._KNOWN)
