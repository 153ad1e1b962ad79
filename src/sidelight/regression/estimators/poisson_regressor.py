"""Private Poisson regression of counts (experimental)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from sidelight.errors import SchemaError
from sidelight.guarantees import Amount, exact, positive
from sidelight.mechanisms.objective_perturbation import Bound
from sidelight.records import Category, Number
from sidelight.regression.clipping import OnViolation
from sidelight.regression.estimators.goal import Goal
from sidelight.regression.estimators.linear_estimator import LinearEstimator
from sidelight.regression.estimators.model_settings import OnMissing
from sidelight.regression.losses import Floats, PoissonLoss
from sidelight.regression.solver import Solver
from sidelight.session import Session

#: A predictor beyond it is a count beyond all floats.
_LARGEST_LOG = 700.0
#: The bound of a record's gradient as a share of the largest count, where none is given.
_CLIP = Fraction(3, 10)


class PoissonRegressor(RegressorMixin, LinearEstimator):  # type: ignore[misc]
    """Fit a regression of counts with a log link and (ε, δ)-differential privacy. EXPERIMENTAL.

    Guarantee: as `LogisticRegression`, by the generic bound (objective-perturbation proof page, Theorem 1): counts are
    clamped to 0..`largest_count` and every record's gradient is clipped to `clip`, so L = C and β = YR² + CR.

    Accuracy: experimental, because the curvature bound grows with `largest_count`, and the regularisation with it: with
    few rows the model is shrunk towards a mean of 1 (no coefficients at all). Clipped gradients make it a robust fit,
    whose mean is not exactly that of the counts. The default of `clip` was the best or close to it of seven shares of
    `largest_count` on four sets of counts at epsilon 0.1, 1 and 10 (`benchmarks/large_epsilon.py` has one of them).

    Args:
        largest_count: The public bound of a count; larger ones are clamped.
        clip: The bound of a record's gradient; default 0.3 of `largest_count` (times `data_norm`). Smaller is less
            noise and more robust, but a clip far below the counts cannot pull the mean away from 1.
        epsilon, delta, data_norm, session, random_state: As in `LogisticRegression`.
        fit_intercept, intercept_value, on_violation, on_missing: As in `LogisticRegression`.
        regularisation, theta_norm, rows_at_most, tolerance, bound, minimiser: As in `LogisticRegression`.
        prediction, rows, odds: As in `LogisticRegression`.

    >>> import numpy as np
    >>> from sidelight.regression.estimators import PoissonRegressor
    >>> X = np.linspace(-1, 1, 20000)[:, None]
    >>> counts = np.round(np.exp(0.8 * X[:, 0]))
    >>> model = PoissonRegressor(epsilon=2, delta="1e-6", data_norm=1, largest_count=5).fit(X, counts)
    >>> bool(model.predict([[1.0]])[0] > model.predict([[-1.0]])[0] > 0)
    True
    """

    _has_forecast = False

    def __init__(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        data_norm: Amount | None = None,
        largest_count: Amount | None = None,
        clip: Amount | None = None,
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
        self.largest_count = largest_count
        self.clip = clip
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
        tags.target_tags.positive_only = True
        return tags

    def predict(self, X: Any) -> Floats:  # noqa: N803  # as scikit-learn names it
        """Return the expected count of each row."""
        return np.asarray(np.exp(np.minimum(self._rows(X) @ self.coef_ + self.intercept_, _LARGEST_LOG)))

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return D², the share of the Poisson deviance explained, as scikit-learn's own model does; for public rows."""
        from sklearn.metrics import d2_tweedie_score

        return float(d2_tweedie_score(y, self.predict(X), power=1))

    def _goal(self, column: Number | Category | None = None) -> Goal:
        if isinstance(column, Category):
            raise SchemaError(f"the target {column.name!r} is a category, not a count")
        largest = self.largest_count
        if largest is None and column is not None and column.upper is not None:
            largest = exact(column.upper, name=f"upper of column {column.name!r}")
        if largest is None:
            self._need("largest_count", "the public bound of a count; larger ones are clamped")
        assert largest is not None
        norm = exact(1 if self.data_norm is None else self.data_norm, name="data_norm")
        clip = _CLIP * positive(largest, name="largest_count") * norm if self.clip is None else self.clip
        return Goal(
            loss=PoissonLoss(largest_count=largest, clip=clip),
            target_kinds="Ofiub",
            target_range=(0.0, float(positive(largest, name="largest_count"))),
        )

    def _keep(self, goal: Goal, coefficients: Floats, intercepts: Floats) -> None:
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])
