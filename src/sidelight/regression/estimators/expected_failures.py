"""Which checks of scikit-learn a private model fails on purpose, and why."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier

#: Why private models fail checks of scikit-learn on purpose.
_ROWS = "wants an error for a row that cannot be used; here no row raises, unless on_missing='raise'"
_LABELS = "wants an error for the labels that occur; they are private, and others than the declared take no part"
_DECLARED = "learns classes from y; here they are declared, because which labels occur is private"
_WEIGHTS = "weights of 1000 are noise of 1000 times the size"


def expected_failed_checks(model: Any) -> dict[str, str]:
    """Return the checks of scikit-learn that a model fails on purpose, each with its reason.

    For `sklearn.utils.estimator_checks.check_estimator(model, expected_failed_checks=expected_failed_checks(model))`.
    The tests of this library run it, and fail when the list is longer or shorter than it need be.

    >>> from sidelight.regression.estimators import LinearRegression
    >>> expected_failed_checks(LinearRegression(on_missing="raise"))
    {}
    """
    expected: dict[str, str] = {}
    if model.on_missing == "drop":
        expected |= {
            "check_dtype_object": _ROWS,
            "check_estimators_empty_data_messages": _ROWS,
            "check_estimators_nan_inf": _ROWS,
            "check_supervised_y_no_nan": _ROWS,
        }
    if not is_classifier(model):
        return expected
    expected["check_classifiers_classes"] = _DECLARED
    two = len(model.classes) == 2
    if model.on_missing == "drop":
        expected["check_classifiers_regression_target"] = _LABELS
        if two:
            expected["check_classifier_not_supporting_multiclass"] = _LABELS
    if hasattr(model, "class_weight"):
        expected["check_class_weight_classifiers"] = _WEIGHTS
        if not two:
            expected |= {"check_classifiers_train": _DECLARED, "check_decision_proba_consistency": _DECLARED}
    return expected
