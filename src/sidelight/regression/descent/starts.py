"""A prediction in the coordinates of a geometry: where a descent starts, and how far off that may be in each direction.

Public rows of a numeric target are fitted by ridge regression in these coordinates, of classes in their own: a public
classifier that is fitted in a noisy geometry is worse by several points. Everything here is computed from public and
released numbers; it moves accuracy only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sidelight.regression.descent.geometry import Floats, Geometry
from sidelight.regression.descent.rules import Kind
from sidelight.regression.losses import LogisticLoss, Loss, SoftmaxLoss
from sidelight.regression.model_predictions import Candidate, PredictedCoefficients, PublicExamples
from sidelight.regression.public_fit import penalised_fit
from sidelight.regression.rows import Block

#: A direction in which rows do not vary is not believed to be known better than this share of the others.
_LEAST_H = 0.01
_RIDGE_ROUNDS = 3
#: scikit-learn's C of a public classifier.
_CLASSIFIER_PENALTY = 1 / 10
#: Trust in a public classifier: 8/(m·h + 3).
_CLASSIFIER_VARIANCE, _CLASSIFIER_ROWS = 8.0, 3.0
#: Trust where nobody knows: this over the mean square of a row, in half ranges², or in log odds².
_UNKNOWN_NUMBER, _UNKNOWN_CLASS = 1.0, 16.0
#: No fit is surer of itself than this, nor less sure.
_LEAST_VARIANCE, _MOST_VARIANCE = 1e-12, 1e12


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """Where a descent starts.

    Args:
        theta: (columns, outputs), in coordinates of z.
        variances: How far off it may be, of the same shape.
        residual_variance: Of the public rows it came from, in half ranges²; None where there are none.
        public_rows: Whether it came from public rows.
    """

    theta: Floats
    variances: Floats
    residual_variance: float | None = None
    public_rows: bool = False


def start_of(candidate: Candidate, geometry: Geometry, *, kind: Kind, outputs: int = 1) -> Start:
    """Return a prediction as a start.

    Args:
        candidate: What `prediction_sources.predictions_of` read; public rows have targets.
        geometry: The coordinates of the descent.
        kind: The loss: "squared", "logistic" or "softmax".
        outputs: Predictors of a row.
    """
    if isinstance(candidate, PredictedCoefficients):
        return _of_coefficients(candidate, geometry, kind=kind)
    assert candidate.targets is not None  # public rows without targets never are candidates
    if kind == "squared":
        return _ridge(candidate, candidate.targets, geometry)
    return _classifier(candidate, candidate.targets, geometry, outputs=outputs)


def nowhere(geometry: Geometry, *, outputs: int) -> Floats:
    """Return the start without a prediction: the middle of the range, or equal classes."""
    return np.zeros((geometry.columns, outputs))


def _of_coefficients(given: PredictedCoefficients, geometry: Geometry, *, kind: Kind) -> Start:
    theta = geometry.mapped(given.theta[:-1], given.theta[-1])
    if given.basis is None or given.variances is None or geometry.inverse is None:
        unknown = _UNKNOWN_NUMBER if kind == "squared" else _UNKNOWN_CLASS
        return Start(theta=theta, variances=np.full(theta.shape, unknown / geometry.trace))
    # coordinates = bordered · basis · (independent parts): map⁻¹·w for the columns, b + ĉᵀw for the constant
    bordered = np.zeros((geometry.columns, geometry.features + 1))
    bordered[: geometry.features, :-1] = geometry.inverse
    if geometry.intercept:
        bordered[-1, :-1], bordered[-1, -1] = geometry.centre, 1.0
    variances = np.square(bordered @ given.basis) @ given.variances
    return Start(theta=theta, variances=_sensible(np.broadcast_to(variances, theta.shape)))


def _ridge(public: PublicExamples, targets: Floats, geometry: Geometry) -> Start:
    """Fit public rows by ridge regression, whose penalty is the residual variance over the mean square coefficient."""
    z = _coordinates(public.features, geometry)
    m, columns = z.shape
    free = np.ones(columns)
    if geometry.intercept:
        free[-1] = 0.0  # neither penalised nor counted
    penalty = 1.0
    for _ in range(_RIDGE_ROUNDS + 1):
        used = penalty
        theta = _ridge_solution(z, targets, used * free + 1e-9 * m * (1 - free))
        residual = max(float(np.sum((targets - z @ theta) ** 2)) / max(m - columns, m / 2), 1e-12)
        penalty = residual * columns / max(float(np.sum(free * theta**2)), 1e-12)
    variances = residual / (m * np.maximum(geometry.h, _LEAST_H) + used)
    return Start(
        theta=theta[:, None],
        variances=_sensible(variances[:, None]),
        residual_variance=residual,
        public_rows=True,
    )


def _classifier(public: PublicExamples, places: Floats, geometry: Geometry, *, outputs: int) -> Start:
    loss, targets = _class_loss(places, outputs)
    constant = 1.0 if geometry.intercept else None
    norms = np.full((public.size, 1), np.sqrt(1.0 + (constant or 0.0) ** 2))
    block = Block(public.features, constant, targets, norms)
    raw = penalised_fit(loss, block, penalty=_CLASSIFIER_PENALTY)
    weights, constants = (raw[:-1], raw[-1]) if geometry.intercept else (raw, np.zeros(outputs))
    theta = geometry.mapped(weights, constants)
    variances = _CLASSIFIER_VARIANCE / (public.size * np.maximum(geometry.h, _LEAST_H) + _CLASSIFIER_ROWS)
    return Start(theta=theta, variances=np.repeat(variances[:, None], outputs, axis=1), public_rows=True)


def _class_loss(places: Floats, outputs: int) -> tuple[Loss, Floats]:
    if outputs == 1:
        return LogisticLoss(classes=(0, 1)), np.where(places == 1, 1.0, -1.0)[:, None]
    return SoftmaxLoss(classes=tuple(range(outputs))), places[:, None]


def _coordinates(rows: Floats, geometry: Geometry) -> Floats:
    """Return public rows in the coordinates of a geometry, in floats: nothing here is private."""
    z = rows if geometry.map is None else (rows - geometry.centre) @ geometry.map
    if not geometry.intercept:
        return np.asarray(z)
    last = np.zeros((geometry.columns, 1))
    last[-1] = 1.0
    return np.column_stack([z, np.full(len(z), geometry.unmapped(last)[1][0])])  # what a unit of it adds to all


def _ridge_solution(z: Floats, targets: Floats, penalties: Floats) -> Floats:
    """Solve (ZᵀZ + diag(penalties))·θ = Zᵀy, by the smaller of the two systems."""
    m, columns = z.shape
    try:
        if columns <= m:
            found = np.linalg.lstsq(z.T @ z + np.diag(penalties), z.T @ targets, rcond=None)[0]
        else:
            weighed = z / penalties
            found = weighed.T @ np.linalg.lstsq(z @ weighed.T + np.eye(m), targets, rcond=None)[0]
    except np.linalg.LinAlgError:  # after the charge: no start rather than no release
        found = np.zeros(columns)
    return np.asarray(found if np.isfinite(found).all() else np.zeros(columns), np.float64)


def _sensible(variances: Floats) -> Floats:
    return np.clip(np.nan_to_num(variances, nan=_MOST_VARIANCE), _LEAST_VARIANCE, _MOST_VARIANCE)
