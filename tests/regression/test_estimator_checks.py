"""scikit-learn's own checks of an estimator, and the few that a private model fails on purpose."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import sidelight as sl

pytestmark = pytest.mark.usefixtures("prices_once")

_ROWS = "which values and labels occur is private: rows that cannot be used take no part, and no data raises"
_NOISE = "compares two fits, and every fit draws new noise"
_LISTS = (
    "fits a list or an object without a shape, which does not say how many columns it has unopened; refused with a hint"
)
_CLASSES = "learns the classes from y; here they are declared, because which labels occur is private"

EVERY_MODEL = {
    "check_dtype_object": _ROWS,
    "check_estimators_empty_data_messages": _ROWS,
    "check_estimators_nan_inf": _ROWS,
    "check_supervised_y_no_nan": _ROWS,
    "check_supervised_y_2d": _NOISE,
    "check_fit_idempotent": _NOISE,
}
CLASSIFIERS = EVERY_MODEL | {
    "check_classifiers_train": _LISTS,
    "check_classifiers_classes": _CLASSES,
    "check_classifiers_regression_target": _ROWS,
    "check_classifier_data_not_an_array": _LISTS,
}
EXPECTED = {
    sl.LogisticRegression: CLASSIFIERS
    | {
        "check_estimator_sparse_array": _CLASSES,
        "check_estimator_sparse_matrix": _CLASSES,
        "check_class_weight_classifiers": "weights of 1000 are noise of 1000 times the size",
    },
    sl.LinearSVC: CLASSIFIERS | {"check_classifier_not_supporting_multiclass": _CLASSES},
    sl.LinearRegression: EVERY_MODEL
    | {
        "check_regressors_train": _LISTS,
        "check_regressors_int": _NOISE,
        "check_regressor_data_not_an_array": _LISTS,
    },
}
_BUDGET: dict[str, Any] = {"epsilon": 8, "delta": "1e-5", "data_norm": 4}
MODELS = [
    sl.LogisticRegression(**_BUDGET, classes=(0, 1)),
    sl.LinearSVC(**_BUDGET, classes=(0, 1)),
    sl.LinearRegression(**_BUDGET, target_range=(-10, 10)),
]


@parametrize_with_checks(MODELS, expected_failed_checks=lambda model: EXPECTED[type(model)])
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_the_list_of_expected_failures_is_short() -> None:
    assert max(len(checks) for checks in EXPECTED.values()) <= 13
