"""A model of public rows alone, the minimum of a penalised loss: a start or a centre. Nothing public is certified.

Hand-made because scikit-learn takes a second to load, and because the losses are the library's own.
"""

from __future__ import annotations

import numpy as np

from sidelight.regression.losses import Floats, Loss
from sidelight.regression.rows import Block

_MOST_STEPS = 500
#: An intercept that is not penalised may run off where all rows agree; this holds it.
_LEAST_PENALTY = 1e-6


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
