"""What the estimators share: the public checks, the way through the door, and the linear predictor.

A class only because scikit-learn wants one: parameters are stored as given and checked by `fit`, before any charge.
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, get_args

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from sidelight.errors import RangeError, nearest
from sidelight.guarantees import exact, positive
from sidelight.mechanisms.objective_perturbation import Bound
from sidelight.regression.clipping import OnViolation, bounded_rows
from sidelight.regression.estimators.examples import Examples, examples
from sidelight.regression.estimators.fit_query import FitQuery, release_fit
from sidelight.regression.estimators.privacy_report import PrivacyReportMixin
from sidelight.regression.losses import Floats, Loss
from sidelight.regression.solver import Solver
from sidelight.release import Release
from sidelight.session import Session

_NEEDED = {
    "epsilon": "the privacy budget of this fit; 1 is a common choice, 0.1 is strict",
    "delta": "there is no default; 1e-6 is usual, and it should be far below one over the number of people",
    "data_norm": "the public bound of a row's Euclidean norm; scale each feature by a public range to [-1, 1], divide "
    "by the square root of their number, and it is 1",
}
_CHOICES = {"bound": get_args(Bound), "solver": get_args(Solver), "on_violation": get_args(OnViolation)}


class LinearEstimator(PrivacyReportMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A private linear model; see the classes that derive from it."""

    epsilon: Any
    delta: Any
    data_norm: Any
    fit_intercept: bool
    intercept_value: Any
    on_violation: Any
    regularisation: Any
    theta_norm: Any
    rows_at_most: int | None
    bound: Any
    solver: Any
    session: Session | None

    def __new__(cls, *_: Any, **parameters: Any) -> Any:
        """Answer `random_state` with more than "unexpected keyword"; scikit-learn reads parameters off `__init__`."""
        if "random_state" in parameters:
            raise RangeError(
                f"{cls.__name__} takes no random_state: a seed publishes the noise and with it the data; for "
                "reproducible tests pass session=sidelight.testing.SeededSession(..., seed=...), which brands the model"
            )
        return super().__new__(cls)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True  # private: a second fit draws new noise and is paid again
        return tags

    def _need(self, name: str, hint: str) -> Any:
        value = getattr(self, name)
        if value is None:
            raise RangeError(f"{type(self).__name__} wants {name}=...: {hint}")
        return value

    def __getstate__(self) -> Any:
        if self.session is not None:
            raise TypeError(
                "a model with a session cannot be copied or pickled, because its copy would spend the same budget "
                "again; to save a fitted model write model.set_params(session=None) first"
            )
        return super().__getstate__()

    def _examples(self, rows: Any, targets: Any, *, target_kinds: str) -> Examples:
        """Check everything public that all models need."""
        for name, hint in _NEEDED.items():
            self._need(name, hint)
        if not isinstance(self.session, Session | None):
            raise RangeError(f"session must be a sidelight.Session or None, got {type(self.session).__name__}")
        if self.fit_intercept:
            positive(self.intercept_value, name="intercept_value")
        if not isinstance(self.rows_at_most, Integral | None):
            raise RangeError(f"rows_at_most must be a whole number or None, got {type(self.rows_at_most).__name__}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                hint = nearest(str(getattr(self, name)), choices)
                raise RangeError(f"{name} is {getattr(self, name)!r}, which is no choice; {hint}")
        found = examples(rows, targets, target_kinds=target_kinds)
        validate_data(self, rows, skip_check_array=True)  # n_features_in_ and feature_names_in_
        return found

    def _release(self, loss: Loss, found: Examples) -> tuple[Floats, Floats]:
        """Go through the door; give coefficients (outputs, features) and intercepts (outputs,)."""
        settings = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "data_norm": self.data_norm,
            "intercept": self.intercept_value if self.fit_intercept else None,
            "on_violation": self.on_violation,
            "regularisation": self.regularisation,
            "theta_norm": self.theta_norm,
            "rows_at_most": self.rows_at_most,
            "bound": self.bound,
            "solver": self.solver,
        }
        _warn(settings)
        released = release_fit(FitQuery(loss=loss, examples=found, settings=settings), self.session)
        self.release_: Release = released
        self.guarantee_ = released.guarantee
        return released.value["coefficients"], released.value["intercept"]

    def _rows(self, rows: Any) -> Any:
        """Give new rows as the model wants them. Prediction is post-processing and free."""
        check_is_fitted(self)
        checked = validate_data(self, rows, accept_sparse="csr", dtype=np.float64, reset=False)
        if self.on_violation == "normalize":  # a model of normalised rows
            norm = exact(self.data_norm, name="data_norm")
            checked, _, _ = bounded_rows(checked, data_norm=norm, on_violation="normalize")
        return checked


def _warn(settings: dict[str, Any]) -> None:
    if exact(settings["epsilon"], name="epsilon") > 10:
        warnings.warn("epsilon is above 10: hardly any privacy", UserWarning, stacklevel=4)
    if exact(settings["delta"], name="delta") * 1000 >= 1:
        warnings.warn("delta is 1e-3 or more: that share of people may be revealed", UserWarning, stacklevel=4)
