"""Private linear regression with a robust loss, fitted in a public range of the target."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from sidelight.errors import RangeError, nearest
from sidelight.guarantees import Amount, positive
from sidelight.mechanisms.objective_perturbation import Bound
from sidelight.records.engines.arrays import as_array, as_numbers
from sidelight.regression.clipping import OnViolation
from sidelight.regression.estimators.examples import Examples
from sidelight.regression.estimators.linear_estimator import LinearEstimator
from sidelight.regression.losses import ClippedSquaredLoss, Floats, HuberLoss, LogCoshLoss, Loss
from sidelight.regression.solver import Solver
from sidelight.session import Session

RegressionLoss = Literal["log_cosh", "huber", "squared_clipped"]
#: The scale of a loss as a share of the target's range, where none is given.
_SHARE = Fraction(1, 8)


class LinearRegression(RegressorMixin, LinearEstimator):  # type: ignore[misc]
    """Linear regression with (ε, δ)-differential privacy.

    Guarantee: as `LogisticRegression` (objective-perturbation proof page, Theorems 1 to 4).

    Accuracy: with the log-cosh loss the regularised minimum, moved by little more than the Gaussian mechanism's noise,
    which is proportional to `scale`. A robust loss estimates a robust centre, not the mean, when errors are skewed.

    Args (the others are those of `LogisticRegression`):
        target_range: The public lower and upper bound of y; targets beyond are clamped. With an intercept its middle
            is what the model predicts before it has learned anything.
        loss: "log_cosh", "huber", or "squared_clipped".
        scale: Errors beyond it count linearly (for "squared_clipped": the bound of a record's gradient). Default an
            eighth of the range. Smaller is less noise and more robust.

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
        loss: RegressionLoss = "log_cosh",
        scale: Amount | None = None,
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
        self.target_range = target_range
        self.loss = loss
        self.scale = scale
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
        low, high = self._range()
        middle = low / 2 + high / 2 if self.fit_intercept else 0.0  # the penalty pulls the intercept to the middle
        loss = self._loss(low - middle, high - middle)
        found = self._examples(X, y, target_kinds="Ofiub")
        shifted = CentredExamples(found.rows, found.targets, found.features, low, high, middle)
        coefficients, intercepts = self._release(loss, shifted)
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0]) + middle
        return self

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """Give the predicted target of each row; not clamped to the range."""
        return np.asarray(self._rows(X) @ self.coef_ + self.intercept_)

    def _range(self) -> tuple[float, float]:
        given = self._need("target_range", "the public lower and upper bound of y, such as (0, 100); beyond is clamped")
        try:
            low, high = (float(bound) for bound in given)
        except (TypeError, ValueError):
            raise RangeError(f"target_range must be two numbers (lower, upper), got {given!r}") from None
        if not (np.isfinite([low, high, high - low]).all() and low < high):
            raise RangeError(f"target_range must be two finite numbers, the lower first, got {given!r}")
        return low, high

    def _loss(self, low: float, high: float) -> Loss:
        width = Fraction(high) - Fraction(low)
        scale = _SHARE * width if self.scale is None else positive(self.scale, name="scale")
        if self.loss == "log_cosh":
            return LogCoshLoss(scale=scale, target_range=(low, high))
        if self.loss == "huber":
            return HuberLoss(threshold=scale, target_range=(low, high))
        if self.loss == "squared_clipped":
            return ClippedSquaredLoss(clip=scale, target_range=(low, high))
        raise RangeError(f"unknown loss {self.loss!r}; {nearest(str(self.loss), get_args(RegressionLoss))}")


@dataclass(frozen=True, repr=False)
class CentredExamples(Examples):
    """Examples whose targets are clamped to a public range and counted from its middle, each by itself."""

    low: float
    high: float
    middle: float

    def _labels(self) -> NDArray[Any]:
        targets = as_numbers(as_array(self.targets).reshape(-1))
        return np.where(np.isfinite(targets), np.clip(targets, self.low, self.high) - self.middle, np.nan)
