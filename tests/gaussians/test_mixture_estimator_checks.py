"""`sl.GaussianMixture`: scikit-learn's own checks with a short list of exceptions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.estimator_checks import parametrize_with_checks

import sidelight as sl

_ROWS = "which values occur is private: rows that cannot be used take no part, and no data raises"
EXPECTED = {
    "check_dtype_object": _ROWS,
    "check_estimators_empty_data_messages": _ROWS,
    "check_estimators_nan_inf": _ROWS,
}


class AnyWidth(sl.GaussianMixture):
    """Public rows have the width of X; the checks fit X of many widths, so here they are made to measure."""

    def fit(self, X: Any, y: Any = None) -> Any:
        self._width = X.shape[1] if len(getattr(X, "shape", ())) == 2 else 1
        return super().fit(X, y)

    def _settings_of_query(self, *without: str) -> dict[str, Any]:
        public = np.random.default_rng(0).normal(size=(24, max(self._width, 1)))
        return super()._settings_of_query(*without) | {"prediction": public}


MODEL = AnyWidth(2, rho=8, on_failure="single")


@parametrize_with_checks([MODEL], expected_failed_checks=lambda model: EXPECTED)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)
