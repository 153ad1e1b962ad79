"""Private logistic regression: two classes, or several by a joint softmax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from sidelight.errors import RangeError
from sidelight.guarantees import Amount
from sidelight.mechanisms.objective_perturbation import Bound
from sidelight.regression.clipping import OnViolation
from sidelight.regression.estimators.declared_classes import declared_classes, label_kinds
from sidelight.regression.estimators.linear_estimator import LinearEstimator
from sidelight.regression.losses import Floats, LogisticLoss, Loss, SoftmaxLoss
from sidelight.regression.solver import Solver
from sidelight.session import Session


class LogisticRegression(ClassifierMixin, LinearEstimator):  # type: ignore[misc]
    """Logistic regression with (ε, δ)-differential privacy, and nothing to tune.

    Guarantee: `guarantee_` after each fit: ApproxDP(epsilon, delta) for one row added or removed, with its two profiles
    and Rényi orders (objective-perturbation proof page, Theorems 1 to 4). Fitting again is another release: pass a
    session, which adds them up and refuses what does not fit. Numerics are idealized (limitations page).

    Accuracy: the regularised minimum, moved by the noise of the Gaussian mechanism (two classes).

    Rows longer than `data_norm` are shortened; rows with a missing value or an undeclared label take no part. None of
    it is reported, and no data makes `fit` fail.

    Args:
        epsilon: The budget of one fit.
        delta: No default.
        data_norm: The public bound of a row's Euclidean norm, the intercept not counted.
        classes: The labels, public; two give one predictor, more a joint softmax.
        class_weight: Public weights by label, two classes only; "balanced" would read the data and is refused.
        fit_intercept: Adds a constant column, penalised like the others.
        intercept_value: The constant. Smaller costs less noise, and the intercept is shrunk more.
        on_violation: "clip" shortens long rows, "normalize" gives every row the full length (in `predict` too).
        regularisation: λ beside the sum of losses (scikit-learn's C is 1/λ); default: the least.
        theta_norm: A public guess of the coefficients' norm, which raises λ.
        rows_at_most: A public bound of the number of rows; give it above a million.
        bound: "tight", or "thesis" and "generic" for comparison.
        solver: "auto", "newton", "newton_cg" or "accelerated"; outside the privacy proof.
        session: The budget to charge; X must be rows of what it protects, one for each unit.

    >>> import numpy as np
    >>> from sidelight.regression.estimators import LogisticRegression
    >>> X, y = np.array([[0.6, 0.1], [-0.6, 0.2]] * 2000), np.array(["yes", "no"] * 2000)
    >>> model = LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=["no", "yes"]).fit(X, y)
    >>> model.predict([[0.6, 0.1], [-0.6, 0.1]]).tolist()
    ['yes', 'no']
    """

    def __init__(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        data_norm: Amount | None = None,
        classes: Any = None,
        class_weight: Mapping[Any, Amount] | None = None,
        fit_intercept: bool = True,
        intercept_value: Amount = 1,
        on_violation: OnViolation = "clip",
        regularisation: Amount | None = None,
        theta_norm: Amount | None = None,
        rows_at_most: int | None = None,
        bound: Bound = "tight",
        solver: Solver = "auto",
        session: Session | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.classes = classes
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.intercept_value = intercept_value
        self.on_violation = on_violation
        self.regularisation = regularisation
        self.theta_norm = theta_norm
        self.rows_at_most = rows_at_most
        self.bound = bound
        self.solver = solver
        self.session = session

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803  # as scikit-learn names it
        """Charge, fit and release."""
        classes = declared_classes(self.classes)
        loss = self._loss(classes)
        found = self._examples(X, y, target_kinds=label_kinds(classes))
        coefficients, intercepts = self._release(loss, found)
        self.classes_, self.coef_, self.intercept_ = classes, coefficients, intercepts
        return self

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """Give xᵀθ: one number a row for two classes, one a class for more."""
        scores = np.asarray(self._rows(X) @ self.coef_.T + self.intercept_)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Give the probability of each class, in the order of `classes_`."""
        from scipy.special import expit, softmax

        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return np.asarray(softmax(scores, axis=1))

    def predict_log_proba(self, X: Any) -> Floats:  # noqa: N803
        """Give the logarithm of the probability of each class."""
        from scipy.special import log_expit, log_softmax

        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return np.asarray(log_softmax(scores, axis=1))

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Give the most probable class."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)])

    def _loss(self, classes: NDArray[Any]) -> Loss:
        labels = tuple(classes.tolist())
        if self.class_weight is None:
            return LogisticLoss(classes=labels) if len(labels) == 2 else SoftmaxLoss(classes=labels)
        if not isinstance(self.class_weight, Mapping):
            raise RangeError(
                "class_weight must map labels to public numbers, such as {0: 1, 1: 5}; weights computed from the "
                "labels ('balanced') would reveal how many there are"
            )
        if len(labels) != 2:
            raise RangeError(f"class_weight is for two classes, got {len(labels)}; leave it out")
        unknown = [label for label in self.class_weight if label not in labels]
        if unknown:
            raise RangeError(f"class_weight has labels that are not declared in classes: {unknown}")
        low, high = (self.class_weight.get(label, 1) for label in labels)
        return LogisticLoss(classes=labels, class_weights=(low, high))
