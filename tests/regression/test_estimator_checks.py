"""scikit-learn's own checks of an estimator, and the few that a private model fails on purpose."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import sidelight as sl
from sidelight.regression.estimators.linear_estimator import expected_failed_checks

pytestmark = [
    pytest.mark.usefixtures("prices_once"),
    pytest.mark.filterwarnings("ignore::sidelight.errors.NotPrivateWarning"),
]
#: Seeded, as scikit-learn's own models are: a check that compares two fits compares the same noise.
_SETTINGS: dict[str, Any] = {"epsilon": 8, "delta": "1e-5", "data_norm": 4, "random_state": 0}
MODELS = [
    model
    for on_missing in ("drop", "raise")
    for model in (
        sl.LogisticRegression(**_SETTINGS, classes=(0, 1), on_missing=on_missing),  # type: ignore[arg-type]
        sl.LinearSVC(**_SETTINGS, classes=(0, 1), on_missing=on_missing),  # type: ignore[arg-type]
        sl.LinearRegression(**_SETTINGS, target_range=(-4, 4), on_missing=on_missing),  # type: ignore[arg-type]
        sl.PoissonRegressor(**_SETTINGS, largest_count=10, on_missing=on_missing),  # type: ignore[arg-type]
    )
] + [
    sl.LogisticRegression(**_SETTINGS, classes=(0, 1, 2, 3), on_missing="raise"),
    sl.LogisticRegression(**_SETTINGS, classes=(0, 1), solver="objective"),
    sl.LinearRegression(**_SETTINGS, target_range=(-10, 10), solver="objective"),
]


@pytest.mark.quick_cases(100)
@parametrize_with_checks(MODELS, expected_failed_checks=expected_failed_checks)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("model", MODELS[:4], ids=lambda model: type(model).__name__)
def test_every_expected_failure_does_fail(model: Any) -> None:
    failed = {found["check_name"] for found in check_estimator(model, on_fail=None) if found["status"] == "failed"}
    assert failed == set(expected_failed_checks(model))


def test_the_list_of_expected_failures_is_short() -> None:
    for model in MODELS:
        expected = expected_failed_checks(model)
        classifier = hasattr(model, "classes")
        most = {"drop": 8 if classifier else 4, "raise": 4 if classifier else 0}[model.on_missing]
        assert len(expected) <= most
        assert all(reason and "\n" not in reason for reason in expected.values())
