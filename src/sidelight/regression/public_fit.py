"""A model of public rows alone, the minimum of a penalised loss: a start, a centre, or the law of a forecast.

Nothing public is certified.

Hand-made because scikit-learn takes a second to load, and because the losses are the library's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sidelight.regression.losses import Floats, Loss
from sidelight.regression.rows import Block

_MOST_STEPS = 500
#: An intercept that is not penalised may run off where all rows agree; this holds it.
_LEAST_PENALTY = 1e-6
#: Penalties of a ridge regression; leaving one row out says which.
_PENALTIES = np.logspace(-4, 3, 15)


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicRidge:
    """A ridge regression of public rows, and how sure it is of itself.

    Args:
        weights: One a column.
        level: What it predicts at `mean`.
        mean: The mean row; 0 without an intercept.
        penalty: The one under which a row that is left out is predicted best.
        residual_variance: Of targets about the model.
        errors: The targets minus what the model says of their rows.
        ways: (directions, columns): the rows' own directions, of length 1.
        squares: The sum of squares of the rows along each.
        left_out: The mean squared error of rows that are left out.
    """

    weights: Floats
    level: float
    mean: Floats
    penalty: float
    residual_variance: float
    errors: Floats
    ways: Floats
    squares: Floats
    left_out: float


def public_ridge(rows: Floats, targets: Floats, *, intercept: bool) -> PublicRidge:
    """Fit public rows by ridge regression, with the penalty under which rows that are left out are predicted best."""
    m, d = rows.shape
    mean = rows.mean(axis=0) if intercept else np.zeros(d)
    level = float(targets.mean()) if intercept else 0.0
    left, sizes, right = np.linalg.svd(rows - mean, full_matrices=False)
    squares, seen, centred = sizes**2, left.T @ (targets - level), targets - level

    def residuals(penalty: float) -> tuple[Floats, Floats]:
        kept = squares / (squares + penalty)
        return centred - left @ (kept * seen), left**2 @ kept + (1 / m if intercept else 0.0)

    def left_out(penalty: float) -> float:
        errors, leverage = residuals(penalty)
        return float(np.sum((errors / np.maximum(1 - leverage, 1e-6)) ** 2))

    penalty = float(min(_PENALTIES, key=left_out))
    errors, leverage = residuals(penalty)
    return PublicRidge(
        weights=right.T @ (sizes / (squares + penalty) * seen),
        level=level,
        mean=mean,
        penalty=penalty,
        residual_variance=max(float(errors @ errors) / max(m - float(leverage.sum()), m / 2), 1e-12),
        errors=errors,
        ways=right,
        squares=squares,
        left_out=left_out(penalty) / m,
    )


def penalised_fit(loss: Loss, block: Block, *, penalty: float, start: Floats | None = None) -> Floats:
    """Return coefficients (columns, outputs) that minimise Σ f + penalty/2·‖w‖² over public rows, intercept free.

    Args:
        loss: The loss.
        block: Bounded public rows.
        penalty: Beside the sum of the losses; scikit-learn's 1/C.
        start: Where to begin; 0 if left out.
    """
    from scipy.optimize import minimize

    columns = block.features.shape[1] + (block.intercept is not None)
    shape = (columns, loss.outputs)
    weights = np.full((columns, 1), penalty)
    if block.intercept is not None:
        weights[-1] = _LEAST_PENALTY

    def value_and_slope(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(shape)
        predictor = block.predict(theta)
        value = float(loss.value(predictor, block.targets, block.norms).sum() + (weights * theta**2).sum() / 2)
        slope = block.gather(loss.slope(predictor, block.targets, block.norms)) + weights * theta
        return value, slope.ravel()

    begin = np.zeros(shape) if start is None else start
    found = minimize(
        value_and_slope, begin.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _MOST_STEPS, "gtol": 1e-6}
    )
    point = np.asarray(found.x, np.float64).reshape(shape)
    return point if np.isfinite(point).all() else np.zeros(shape)
