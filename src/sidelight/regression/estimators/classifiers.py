"""Private linear classifiers: logistic regression and a support-vector machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from sidelight.guarantees import Amount
from sidelight.records import Category, Number
from sidelight.regression.descent.targets import Targets
from sidelight.regression.estimators.goal import (
    EitherSolver,
    Goal,
    OnlyObjective,
    OnMissing,
    class_weights,
    declared_classes,
    label_kinds,
)
from sidelight.regression.estimators.linear_estimator import LinearEstimator
from sidelight.regression.estimators.private_score import PrivateScoreMixin
from sidelight.regression.losses import Floats, LogisticLoss, Loss, SmoothedHingeLoss, SoftmaxLoss
from sidelight.regression.rows import OnViolation
from sidelight.session import Session


class ClassOutputs:
    """Classes by what a model adds up for each row: one number for two classes, one per class for more."""

    classes_: NDArray[Any]
    decision_function: Any

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the most probable class of each row: on whose side it lies, or with the largest output."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)])


class ClassProbabilities(ClassOutputs):
    """Probabilities of classes by log odds."""

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return the probability of each class, in the order of `classes_`."""
        from scipy.special import expit, softmax

        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return np.asarray(softmax(scores, axis=1))

    def predict_log_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return the logarithm of the probability of each class."""
        from scipy.special import log_expit, log_softmax

        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return np.asarray(log_softmax(scores, axis=1))


class LinearClassifier(PrivateScoreMixin, ClassOutputs, ClassifierMixin, LinearEstimator):  # type: ignore[misc]
    """A private linear model of classes."""

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """Return xᵀθ: one number per row for two classes, one per class for more."""
        scores = np.asarray(self._rows(X) @ self.coef_.T + self.intercept_)
        return scores[:, 0] if scores.shape[1] == 1 else scores


class LogisticRegression(ClassProbabilities, LinearClassifier):
    """Fit a logistic regression with (ε, δ)-differential privacy, and nothing to tune.

    Guarantee: `guarantee_` after each fit: GDP(mu), the largest mu within (epsilon, delta), for one row added or
    removed (or one person with all of their rows), exact on the machine: integer sums with rounded Gaussian noise
    (descent proof page, Theorem D). Fitting again is another release: pass a session, which adds them up and refuses
    what does not fit. With solver="objective": ApproxDP(epsilon, delta) with its two profiles and Rényi orders
    (objective-perturbation proof page, Theorems 1 to 4), idealized numerics (limitations page).

    Accuracy: a few noisy steps of descent in coordinates that are released first, or that public rows give; level with
    or ahead of objective perturbation. A `prediction` is used as far as the noisy rows agree with it. The mean of the
    probabilities is that of the labels up to noise and a bias (up to 0.007 where it was measured) that more rows do
    not remove; with `class_weight`, of rows that are weighted so.

    In a pipeline every step before it must be public: a `StandardScaler` that is fitted to the same rows voids the
    guarantee (`sl.PrivacyWarning`). `sl.PublicScaler` and `sl.TableEncoding` are safe.

    Rows longer than `data_norm` are shortened; rows with a missing value or an undeclared label take no part. None of
    it is reported, and no data makes `fit` fail.

    Args:
        epsilon: The budget of one fit.
        delta: No default.
        data_norm: The public bound of a row's Euclidean norm, the intercept not counted.
        classes: The labels, public; two give one predictor, more a joint softmax.
        class_weight: Public weights by label, such as {0: 1, 1: 5}; the largest scales the noise. "balanced" would read
            the data and is refused.
        fit_intercept: Adds a constant column (with solver="objective" penalised like the others).
        on_violation: "clip" shortens long rows, "normalize" gives every row the full length (in `predict` too).
        on_missing: "drop" leaves rows out that miss a value or have an undeclared label. "raise" raises for them, as
            scikit-learn does, before any charge: the curator's own choice, whose errors must not be forwarded.
        solver: "descent", or "objective" for objective perturbation, whose minimum is certified; with settings of their
            own `sl.DescentSettings` and `sl.ObjectiveSettings`.
        prediction: What is known already: `sl.CoefficientPrediction`, public rows as `sl.PublicData` (the target as
            last column, or by name), an earlier model or release of this library, or a list of these. It moves
            accuracy, never the guarantee, and nothing where it is not chosen; `prediction_` says what was used. Public
            rows longer than `data_norm` are refused.
        odds: Prior odds of a prediction against none; 1 where you are unsure.
        rows: About how many rows there are, as far as that is public. A wrong number costs accuracy only; one that the
            released matrix of a descent contradicts is replaced by the released number.
        session: The budget to charge; X must be rows of what it protects. One of persons wants `fit_table`.
        random_state: None. A whole number makes the noise reproducible and the model NOT PRIVATE, with a
            `NotPrivateWarning`: for tests.

    Attributes after a fit: `coef_`, `intercept_`, `classes_`, `n_features_in_`, `privacy_` (every public constant),
    `guarantee_`, `release_`, and with a prediction `prediction_`. There is no training score: it would be a release.

    >>> import numpy as np
    >>> from sidelight.regression.estimators import LogisticRegression
    >>> X, y = np.array([[0.6, 0.1], [-0.6, 0.2]] * 2000), np.array(["yes", "no"] * 2000)
    >>> model = LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=["no", "yes"]).fit(X, y)
    >>> model.predict([[0.6, 0.1], [-0.6, 0.1]]).tolist()
    ['yes', 'no']
    """

    classes: Any
    class_weight: Any
    _solvers = ("descent", "objective")

    def __init__(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        data_norm: Amount | None = None,
        classes: Any = None,
        class_weight: Mapping[Any, Amount] | None = None,
        fit_intercept: bool = True,
        on_violation: OnViolation = "clip",
        on_missing: OnMissing = "drop",
        solver: EitherSolver = "descent",
        prediction: Any = None,
        odds: Amount = 9,
        rows: int | None = None,
        session: Session | None = None,
        random_state: int | None = None,
    ) -> None:
        self._store(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # classes are declared and never learned: with two of them this is a model of two classes, whatever y holds
        tags.classifier_tags.multi_class = not (hasattr(self.classes, "__len__") and len(self.classes) == 2)
        return tags

    def _goal(self, column: Number | Category | None = None) -> Goal:
        classes = declared_classes(self.classes, column)
        return Goal(
            loss=None if self._descends else self._loss(classes),
            targets=self._targets(classes) if self._descends else None,
            target_kinds=label_kinds(classes),
            classes=classes,
        )

    def _targets(self, classes: NDArray[Any]) -> Targets:
        labels = tuple(classes.tolist())
        weights = class_weights(self.class_weight, labels)
        return Targets(kind="logistic" if len(labels) == 2 else "softmax", classes=labels, class_weights=weights)

    def _loss(self, classes: NDArray[Any]) -> Loss:
        labels = tuple(classes.tolist())
        weights = class_weights(self.class_weight, labels)
        if len(labels) == 2:
            return LogisticLoss(classes=labels, class_weights=(weights[0], weights[1]) if weights else (1, 1))
        return SoftmaxLoss(classes=labels, class_weights=weights)


class LinearSVC(LinearClassifier):
    """Fit a linear classifier of two classes with (ε, δ)-differential privacy, by the smoothed hinge loss.

    Guarantee: as `LogisticRegression`, by the generic bound: it needs 1.3 times the noise of the Gaussian mechanism.

    Accuracy: `LogisticRegression` is usually the better model for the same price, and gives probabilities.

    Args:
        classes: The two labels, public.
        width: Over how much the hinge's corner is rounded: more width, less regularisation.
        epsilon, delta, data_norm, session, random_state: As in `LogisticRegression`.
        fit_intercept, on_violation, on_missing, prediction, odds, rows: As in `LogisticRegression`.
        solver: "objective", objective perturbation, or `sl.ObjectiveSettings` for its settings.

    >>> import numpy as np
    >>> from sidelight.regression.estimators import LinearSVC
    >>> X, y = np.array([[0.6, 0.1], [-0.6, 0.2]] * 2000), np.array([1, 0] * 2000)
    >>> model = LinearSVC(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1]).fit(X, y)
    >>> model.predict([[0.6, 0.1], [-0.6, 0.1]]).tolist()
    [1, 0]
    """

    classes: Any
    width: Any

    def __init__(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        data_norm: Amount | None = None,
        classes: Any = None,
        width: Amount = 0.5,
        fit_intercept: bool = True,
        on_violation: OnViolation = "clip",
        on_missing: OnMissing = "drop",
        solver: OnlyObjective = "objective",
        prediction: Any = None,
        odds: Amount = 9,
        rows: int | None = None,
        session: Session | None = None,
        random_state: int | None = None,
    ) -> None:
        self._store(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _goal(self, column: Number | Category | None = None) -> Goal:
        classes = declared_classes(self.classes, column, at_most=2)
        low, high = classes.tolist()
        loss = SmoothedHingeLoss(classes=(low, high), width=self.width)
        return Goal(loss=loss, target_kinds=label_kinds(classes), classes=classes)
