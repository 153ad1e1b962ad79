"""Private linear regression in a public range of the target: least squares by descent, or a robust loss."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from sklearn.base import RegressorMixin

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.guarantees import Amount, positive
from sidelight.mechanisms.objective_perturbation import Bound
from sidelight.records import Category, Number
from sidelight.regression.clipping import OnViolation
from sidelight.regression.descent.plan import GeometryChoice
from sidelight.regression.descent.shrinkage import Shrinkage
from sidelight.regression.descent.targets import Targets
from sidelight.regression.estimators.goal import Goal
from sidelight.regression.estimators.linear_estimator import LinearEstimator
from sidelight.regression.estimators.model_settings import ModelSolver, OnMissing
from sidelight.regression.losses import ClippedSquaredLoss, Floats, HuberLoss, LogCoshLoss, Loss
from sidelight.regression.solver import Solver
from sidelight.regression.table_rows import check_bounds
from sidelight.session import Session

RegressionLoss = Literal["squared", "log_cosh", "huber", "squared_clipped"]
#: The scale of a loss as a share of the target's range, where none is given.
_SHARE = Fraction(1, 8)


class LinearRegression(RegressorMixin, LinearEstimator):  # type: ignore[misc]
    """Fit a linear regression with (ε, δ)-differential privacy, and nothing to tune.

    Guarantee: as `LogisticRegression`: GDP(mu) within (epsilon, delta), exact on the machine.

    Accuracy: least squares with gradients clipped by a rule, so that skewed targets do no harm; `prediction=` makes it
    that of whatever is known already where the rows are few. `solver="objective"` minimises a robust loss, which
    estimates a robust centre, not the mean, when errors are skewed.

    Args:
        target_range: The public lower and upper bound of y; targets beyond are clamped. With an intercept its middle is
            what the model predicts before it has learned anything.
        loss: "squared" (descent), or with solver="objective" "log_cosh" (its default), "huber" or "squared_clipped".
        scale: With solver="objective": errors beyond it count linearly (for "squared_clipped": the bound of a record's
            gradient). Default an eighth of the range. Smaller is less noise and more robust.
        epsilon, delta, data_norm, session, random_state: As in `LogisticRegression`.
        fit_intercept, intercept_value, on_violation, on_missing: As in `LogisticRegression`.
        solver, prediction, rows, odds, geometry, shrinkage, passes: As in `LogisticRegression`.
        regularisation, theta_norm, rows_at_most, tolerance, bound, minimiser: As in `LogisticRegression`.

    >>> import numpy as np
    >>> from sidelight.regression.estimators import LinearRegression
    >>> X = np.linspace(-1, 1, 4000)[:, None]
    >>> model = LinearRegression(epsilon=1, delta="1e-6", data_norm=1, target_range=(0, 10)).fit(X, 5 + 3 * X[:, 0])
    >>> bool(abs(model.predict([[1.0]])[0] - 8) < 0.5)
    True
    """

    def __init__(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        data_norm: Amount | None = None,
        target_range: tuple[float, float] | None = None,
        loss: RegressionLoss | None = None,
        scale: Amount | None = None,
        fit_intercept: bool = True,
        intercept_value: Amount | None = None,
        on_violation: OnViolation = "clip",
        on_missing: OnMissing = "drop",
        solver: ModelSolver = "descent",
        prediction: Any = None,
        rows: int | None = None,
        odds: Amount = 9,
        geometry: GeometryChoice = "auto",
        shrinkage: Shrinkage = "evidence",
        passes: int | None = None,
        regularisation: Amount | None = None,
        theta_norm: Amount | None = None,
        rows_at_most: int | None = None,
        tolerance: Amount | None = None,
        bound: Bound = "tight",
        minimiser: Solver = "auto",
        session: Session | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.target_range = target_range
        self.loss = loss
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.intercept_value = intercept_value
        self.on_violation = on_violation
        self.on_missing = on_missing
        self.solver = solver
        self.prediction = prediction
        self.rows = rows
        self.odds = odds
        self.geometry = geometry
        self.shrinkage = shrinkage
        self.passes = passes
        self.regularisation = regularisation
        self.theta_norm = theta_norm
        self.rows_at_most = rows_at_most
        self.tolerance = tolerance
        self.bound = bound
        self.minimiser = minimiser
        self.session = session
        self.random_state = random_state

    def _goal(self, column: Number | Category | None = None) -> Goal:
        low, high = self._range(column)
        middle = low / 2 + high / 2 if self.fit_intercept else 0.0  # before anything is learned
        targets = Targets(kind="squared", target_range=(low, high), target_centre=middle)
        return Goal(
            loss=None if self._descends else self._loss(low, high, middle),
            targets=targets if self._descends else None,
            target_kinds="Ofiub",
            middle=middle,
            half=targets.half,
            target_range=(low, high),
        )

    def _check_solver(self) -> None:
        super()._check_solver()
        if self.loss is not None and self.loss not in get_args(RegressionLoss):
            raise RangeError(f"unknown loss {self.loss!r}; {nearest(str(self.loss), get_args(RegressionLoss))}")
        if self._descends and self.loss not in (None, "squared"):
            raise RangeError(f"loss={self.loss!r} belongs to solver='objective'; descent minimises the squared loss")
        if self._descends and self.scale is not None:
            raise RangeError("scale belongs to the losses of solver='objective'; descent finds its own clip")
        if not self._descends and self.loss == "squared":
            raise RangeError("the squared loss belongs to solver='descent'; objective perturbation has 'log_cosh'")

    def _keep(self, goal: Goal, coefficients: Floats, intercepts: Floats) -> None:
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0]) + goal.middle

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """Return the predicted target of each row; not clamped to the range."""
        return np.asarray(self._rows(X) @ self.coef_ + self.intercept_)

    def _range(self, column: Number | Category | None) -> tuple[float, float]:
        if isinstance(column, Category):
            raise SchemaError(f"the target {column.name!r} is a category; LogisticRegression predicts categories")
        given: Any = self.target_range
        if given is None and column is not None:
            check_bounds(column)
            given = (column.lower, column.upper)
        if given is None:
            self._need("target_range", "the public lower and upper bound of y, such as (0, 100); beyond is clamped")
        try:
            low, high = (float(bound) for bound in given)
        except (TypeError, ValueError):
            raise RangeError(f"target_range must be two numbers (lower, upper), got {given!r}") from None
        except OverflowError:
            raise RangeError("target_range must be two finite numbers, the lower first, got a larger one") from None
        if not (np.isfinite([low, high, high - low]).all() and low < high):
            raise RangeError(f"target_range must be two finite numbers, the lower first, got {given!r}")
        return low, high

    def _loss(self, low: float, high: float, middle: float) -> Loss:
        scale = _SHARE * (Fraction(high) - Fraction(low)) if self.scale is None else positive(self.scale, name="scale")
        targets: dict[str, Any] = {"target_range": (low, high), "target_centre": middle}
        if self.loss == "huber":
            return HuberLoss(threshold=scale, **targets)
        if self.loss == "squared_clipped":
            return ClippedSquaredLoss(clip=scale, **targets)
        return LogCoshLoss(scale=scale, **targets)
