"""The certificate: a proof in floats that the gradient at a point is below the tolerance.

The privacy proof of the released point rests on it, so the bound counts everything that floats can do between the ideal
objective and the number computed here: dot products, the slope of the loss, sums over rows, the linear term's own
rounding (objective-perturbation proof page, section 6). First with BLAS; where that bound is too coarse, again with
compensated dot products and exact sums. Hand-made for that reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sidelight.regression.clipping import is_sparse
from sidelight.regression.losses import Floats
from sidelight.regression.objective import Objective
from sidelight.regression.rows import Block

#: Rows a BLAS call: the rounding of a sum grows with its length.
CERTIFIED_BLOCK = 256
_ULP = 2.0**-53


@dataclass(frozen=True)
class Certificate:
    """The computed norm of the gradient and a bound of its error. Private: neither is ever shown."""

    norm: float
    error: float

    def proves(self, tolerance: float) -> bool:
        """Say whether the true gradient is certainly below the tolerance."""
        return bool(self.norm + self.error <= tolerance * (1 - 4 * _ULP))

    def __repr__(self) -> str:
        return "Certificate()"


def certify(objective: Objective, theta: Floats, *, tolerance: float) -> Certificate:
    """Evaluate the gradient with an error bound; the compensated way only where it can help."""
    if not np.isfinite(theta).all():
        return Certificate(math.inf, 0.0)
    found = _evaluate(objective, theta, exact=False)
    if not found.proves(tolerance) and found.norm - found.error <= tolerance and math.isfinite(found.norm):
        found = _evaluate(objective, theta, exact=True)
    return found


def error_bound(objective: Objective, theta: Floats, *, rows: int, exact: bool = False) -> float:
    """Bound ‖computed gradient - gradient of the ideal objective‖ for a number of rows.

    With u = 2⁻⁵³ and block m: rows·[L·(m+6)u + slope error + β·‖θ‖·(d+4)u] + 16u(λ‖θ‖ + ‖b‖), and a tenth on top for
    what is of second order. Compensated: m and d fall out of it.
    """
    shape = objective.loss.shape(objective.row_norm)
    size = float(np.linalg.norm(theta))
    coefficients = int(theta.shape[0])
    summing = 8.0 if exact else CERTIFIED_BLOCK + 8.0
    predicting = 8.0 + 2.0**-50 * coefficients * coefficients if exact else coefficients + 4.0
    a_row = (
        float(shape.gradient) * summing
        + objective.loss.slope_error(objective.row_norm)
        + float(shape.curvature) * size * predicting
    )
    rest = 16 * (float(objective.regularisation) * size + float(np.linalg.norm(objective.linear)))
    return float(1.1 * _ULP * (rows * a_row + rest))


def _evaluate(objective: Objective, theta: Floats, *, exact: bool) -> Certificate:
    total = np.zeros_like(theta)
    carried = np.zeros_like(theta)
    rows = 0
    for block in objective.rows.blocks():
        rows += block.size
        for start in range(0, block.size, CERTIFIED_BLOCK):
            part = block.part(start, start + CERTIFIED_BLOCK)
            piece = _exact_part(objective, part, theta) if exact else _blas_part(objective, part, theta)
            total, lost = _two_sum(total, piece)
            carried += lost
    gradient = (total + carried) + (float(objective.regularisation) * theta + objective.linear)
    norm = float(np.linalg.norm(gradient)) * (1 + (gradient.size + 8) * _ULP)
    return Certificate(norm if math.isfinite(norm) else math.inf, error_bound(objective, theta, rows=rows, exact=exact))


def _blas_part(objective: Objective, part: Block, theta: Floats) -> Floats:
    return part.gather(objective.loss.slope(part.predict(theta), part.targets, part.norms))


def _exact_part(objective: Objective, part: Block, theta: Floats) -> Floats:
    """The same sum with compensated predictors (Dot2 of Ogita, Rump and Oishi) and exact column sums."""
    features = np.asarray(part.features.todense()) if is_sparse(part.features) else part.features
    if part.intercept is not None:
        features = np.hstack([features, np.full((part.size, 1), part.intercept)])
    predictor = np.zeros((part.size, theta.shape[1]))
    carried = np.zeros_like(predictor)
    for j in range(features.shape[1]):
        product, lost = _two_product(features[:, j : j + 1], theta[j : j + 1])
        predictor, rest = _two_sum(predictor, product)
        carried += lost + rest
    slopes = objective.loss.slope(predictor + carried, part.targets, part.norms)
    out = np.empty_like(theta)
    for k in range(theta.shape[1]):
        product, lost = _two_product(features, slopes[:, k : k + 1])
        both = np.concatenate([product, lost])
        out[:, k] = [math.fsum(column) for column in both.T.tolist()]
    return out


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Knuth: a + b = sum + error, exactly."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Dekker and Veltkamp: a·b = product + error, exactly unless something under- or overflows."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _split(a: Floats) -> tuple[Floats, Floats]:
    wide = a * 134217729.0  # 2²⁷ + 1
    high = wide - (wide - a)
    return high, a - high
