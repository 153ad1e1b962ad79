"""A private linear support-vector machine, by the hinge loss with its corner rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from sidelight.guarantees import Amount
from sidelight.mechanisms.objective_perturbation import Bound
from sidelight.records import Category, Number
from sidelight.regression.clipping import OnViolation
from sidelight.regression.estimators.goal import Goal, declared_classes, label_kinds
from sidelight.regression.estimators.linear_estimator import LinearEstimator
from sidelight.regression.estimators.model_settings import OnMissing
from sidelight.regression.estimators.private_score import PrivateScoreMixin
from sidelight.regression.losses import Floats, SmoothedHingeLoss
from sidelight.regression.solver import Solver
from sidelight.session import Session


class LinearSVC(PrivateScoreMixin, ClassifierMixin, LinearEstimator):  # type: ignore[misc]
    """Fit a linear classifier of two classes with (ε, δ)-differential privacy, by the smoothed hinge loss.

    Guarantee: as `LogisticRegression`, by the generic bound: it needs 1.3 times the noise of the Gaussian mechanism.

    Accuracy: `LogisticRegression` is usually the better model for the same price, and gives probabilities.

    Args:
        classes: The two labels, public.
        width: Over how much the hinge's corner is rounded: more width, less regularisation.
        epsilon, delta, data_norm, session, random_state: As in `LogisticRegression`.
        fit_intercept, intercept_value, on_violation, on_missing: As in `LogisticRegression`.
        regularisation, theta_norm, rows_at_most, tolerance, bound, minimiser: As in `LogisticRegression`.
        prediction, rows, odds: As in `LogisticRegression`.

    >>> import numpy as np
    >>> from sidelight.regression.estimators import LinearSVC
    >>> X, y = np.array([[0.6, 0.1], [-0.6, 0.2]] * 2000), np.array([1, 0] * 2000)
    >>> model = LinearSVC(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1]).fit(X, y)
    >>> model.predict([[0.6, 0.1], [-0.6, 0.1]]).tolist()
    [1, 0]
    """

    def __init__(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        data_norm: Amount | None = None,
        classes: Any = None,
        width: Amount = 0.5,
        fit_intercept: bool = True,
        intercept_value: Amount | None = None,
        on_violation: OnViolation = "clip",
        on_missing: OnMissing = "drop",
        regularisation: Amount | None = None,
        theta_norm: Amount | None = None,
        rows_at_most: int | None = None,
        tolerance: Amount | None = None,
        bound: Bound = "tight",
        minimiser: Solver = "auto",
        prediction: Any = None,
        rows: int | None = None,
        odds: Amount = 9,
        session: Session | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.classes = classes
        self.width = width
        self.fit_intercept = fit_intercept
        self.intercept_value = intercept_value
        self.on_violation = on_violation
        self.on_missing = on_missing
        self.regularisation = regularisation
        self.theta_norm = theta_norm
        self.rows_at_most = rows_at_most
        self.tolerance = tolerance
        self.bound = bound
        self.minimiser = minimiser
        self.prediction = prediction
        self.rows = rows
        self.odds = odds
        self.session = session
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _goal(self, column: Number | Category | None = None) -> Goal:
        classes = declared_classes(self.classes, column, at_most=2)
        low, high = classes.tolist()
        loss = SmoothedHingeLoss(classes=(low, high), width=self.width)
        return Goal(loss=loss, target_kinds=label_kinds(classes), classes=classes)

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """Return xᵀθ; positive for the second class."""
        return np.asarray(self._rows(X) @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the class on whose side a row lies."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])
