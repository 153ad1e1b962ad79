"""Private linear regression in a public range of the target, and regression of counts (experimental)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from sklearn.base import RegressorMixin

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.guarantees import Amount, exact, positive
from sidelight.records import Category, Number
from sidelight.regression.descent.targets import Targets
from sidelight.regression.estimators.goal import (
    EitherSolver,
    Goal,
    OnlyObjective,
    OnMissing,
    needed,
)
from sidelight.regression.estimators.linear_estimator import LinearEstimator
from sidelight.regression.losses import ClippedSquaredLoss, Floats, HuberLoss, LogCoshLoss, Loss, PoissonLoss
from sidelight.regression.rows import OnViolation
from sidelight.regression.table_rows import range_of
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
        epsilon, delta, data_norm, session, random_state: As in `LogisticRegression`.
        fit_intercept, on_violation, on_missing, solver, prediction, odds, rows: As in `LogisticRegression`.

    >>> import numpy as np
    >>> from sidelight.regression.estimators import LinearRegression
    >>> X = np.linspace(-1, 1, 4000)[:, None]
    >>> model = LinearRegression(epsilon=1, delta="1e-6", data_norm=1, target_range=(0, 10)).fit(X, 5 + 3 * X[:, 0])
    >>> bool(abs(model.predict([[1.0]])[0] - 8) < 0.5)
    True
    """

    target_range: Any
    loss: Any
    _solvers = ("descent", "objective")

    def __init__(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        data_norm: Amount | None = None,
        target_range: tuple[float, float] | None = None,
        loss: RegressionLoss | None = None,
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

    def _goal(self, column: Number | Category | None = None) -> Goal:
        if self.target_range is None and column is None:
            needed(self, "target_range", "the public lower and upper bound of y, such as (0, 100); beyond is clamped")
        low, high = declared_range(self.target_range, column)
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
        if not self._descends and self.loss == "squared":
            raise RangeError("the squared loss belongs to solver='descent'; objective perturbation has 'log_cosh'")

    def _keep(self, goal: Goal, coefficients: Floats, intercepts: Floats) -> None:
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0]) + goal.middle

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """Return the predicted target of each row; not clamped to the range."""
        return np.asarray(self._rows(X) @ self.coef_ + self.intercept_)

    def _loss(self, low: float, high: float, middle: float) -> Loss:
        given = getattr(self._settings, "scale", None)
        scale = _SHARE * (Fraction(high) - Fraction(low)) if given is None else positive(given, name="scale")
        targets: dict[str, Any] = {"target_range": (low, high), "target_centre": middle}
        if self.loss == "huber":
            return HuberLoss(threshold=scale, **targets)
        if self.loss == "squared_clipped":
            return ClippedSquaredLoss(clip=scale, **targets)
        return LogCoshLoss(scale=scale, **targets)


def declared_range(given: Any, column: Number | Category | None) -> tuple[float, float]:
    """Return the public range of a numeric target: the given one, or that of its column."""
    if isinstance(column, Category):
        raise SchemaError(f"the target {column.name!r} is a category; LogisticRegression predicts categories")
    if given is None and column is not None:
        given = range_of(column)
    try:
        low, high = (float(bound) for bound in given)
    except (TypeError, ValueError):
        raise RangeError(f"target_range must be two numbers (lower, upper), got {given!r}") from None
    except OverflowError:
        raise RangeError("target_range must be two finite numbers, the lower first, got a larger one") from None
    if not (np.isfinite([low, high, high - low]).all() and low < high):
        raise RangeError(f"target_range must be two finite numbers, the lower first, got {given!r}")
    return low, high


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
        fit_intercept, on_violation, on_missing, prediction, odds, rows: As in `LogisticRegression`.
        solver: "objective", objective perturbation, or `sl.ObjectiveSettings` for its settings.

    >>> import numpy as np
    >>> from sidelight.regression.estimators import PoissonRegressor
    >>> X = np.linspace(-1, 1, 20000)[:, None]
    >>> counts = np.round(np.exp(0.8 * X[:, 0]))
    >>> model = PoissonRegressor(epsilon=2, delta="1e-6", data_norm=1, largest_count=5).fit(X, counts)
    >>> bool(model.predict([[1.0]])[0] > model.predict([[-1.0]])[0] > 0)
    True
    """

    _has_forecast = False
    largest_count: Any
    clip: Any

    def __init__(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        data_norm: Amount | None = None,
        largest_count: Amount | None = None,
        clip: Amount | None = None,
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
            needed(self, "largest_count", "the public bound of a count; larger ones are clamped")
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
