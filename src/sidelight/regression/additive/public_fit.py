"""An additive fit to public rows: the same basis and empirical Bayes as the private one, without noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from sidelight.records import Category, Number
from sidelight.regression.additive.basis import Coordinates, Offset, coordinates
from sidelight.regression.additive.counts import ColumnCounts, cells_of_category, cells_of_number
from sidelight.regression.additive.fine_codes import FINE_CELLS, fine_size
from sidelight.regression.descent.integer_rows import ERROR_BITS, Integers
from sidelight.regression.descent.rules import Kind
from sidelight.regression.descent.targets import Targets
from sidelight.regression.losses import Floats

#: Cells of public rows hold at least five of them: three deviations of a count.
_DEVIATION = 5 / 3
_ROUNDS, _ROUNDS_OF_CLASSES = 25, 40
#: The penalty relative to the prior: next to none, because there is no noise.
_LITTLE = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownCurves:
    """Curves that are known, with the posterior variances of their components.

    Args:
        offset: The curves on fine codes and the intercept.
        bases: Of each column √v·u on fine codes, (fine codes, components).
        variances: Of each column those of its components.
        intercept: The variance of the intercept; of several classes one each.
        mean: The mean of public targets, for a number.
    """

    offset: Offset
    bases: tuple[Floats, ...]
    variances: tuple[Floats, ...]
    intercept: float | Floats
    mean: float | None


def fit_public(
    columns: Sequence[Number | Category], codes: Integers, coded: Floats, *, targets: Targets
) -> KnownCurves:
    """Fit curves to public rows: fine codes (rows, columns) and coded targets (rows, 1)."""
    rows, kind = float(len(codes)), targets.kind
    cells = []
    for at, column in enumerate(columns):
        counts = np.bincount(codes[:, at], minlength=fine_size(column)).astype(np.float64)
        number = isinstance(column, Number)
        found = ColumnCounts(
            levels=(counts[:FINE_CELLS] if number else counts,),
            missing=float(counts[FINE_CELLS]) if number else 0.0,
            variances=(1.0, 1.0 if number else 0.0),
        )
        make = cells_of_number if number else cells_of_category
        cells.append(make(found, rows=rows, deviation=_DEVIATION))
    y = coded[:, 0] * 2.0**-ERROR_BITS if kind == "squared" else (coded[:, 0] > 0).astype(np.float64)
    variance = max(float(y.var()), 1e-6)
    scale = (variance / 2 if kind == "squared" else 1.5) / len(columns) ** 0.75
    place = coordinates(cells, scale=scale, noise=_LITTLE * scale)
    bases = tuple(
        place.on_codes(at, basis.values * np.sqrt(weights))
        for at, (basis, weights) in enumerate(zip(place.bases, place.weights, strict=True))
    )
    z = np.column_stack([np.ones(len(y)), *(basis[codes[:, at]] for at, basis in enumerate(bases))])
    if kind == "softmax":
        theta, diagonal = _posterior_of_classes(place, z, coded[:, 0].astype(int), targets.outputs, scale=scale)
    else:
        theta, covariance = _posterior(place, z, y, kind=kind, scale=scale, variance=variance)
        diagonal = np.diag(covariance)
    ends = np.cumsum([1, *(len(weights) for weights in place.weights)])
    parts = np.split(theta, ends)[1:-1]
    return KnownCurves(
        offset=Offset(tables=tuple(b @ part for b, part in zip(bases, parts, strict=True)), constant=_number(theta[0])),
        bases=bases,
        variances=tuple(np.split(diagonal, ends)[1:-1]),
        intercept=_number(diagonal[0]),
        mean=float(y.mean()) if kind == "squared" else None,
    )


def _number(value: Any) -> float | Floats:
    return np.asarray(value) if np.ndim(value) else float(value)


def _posterior(
    place: Coordinates, z: Floats, y: Floats, *, kind: Kind, scale: float, variance: float
) -> tuple[Floats, Floats]:
    """Return the posterior mean and covariance, the variances of columns and of residuals by EM."""
    kappa = np.full(len(place.weights), scale)
    share = float(np.clip(y.mean(), 0.01, 0.99))
    start = float(y.mean()) if kind == "squared" else float(np.log(share / (1 - share)))
    theta, rest = np.append(start, np.zeros(z.shape[1] - 1)), variance
    covariance = np.eye(len(theta))
    for _ in range(_ROUNDS):
        weights, response = np.full(len(y), 1 / rest), y
        if kind != "squared":
            odds = np.clip(z @ theta, -15, 15)
            p = 1 / (1 + np.exp(-odds))
            weights = np.maximum(p * (1 - p), 1e-4)
            response = odds + (y - p) / weights
        theta, covariance, prior, kappa = _updated(place, z, weights, response, kappa, scale=scale)
        if kind == "squared":
            used = len(theta) - float((np.diag(covariance) / prior).sum())
            rest = max(float(((y - z @ theta) ** 2).sum()) / max(len(y) - used, 1.0), 1e-9)
    return theta, covariance


def _updated(
    place: Coordinates, z: Floats, weights: Floats, response: Floats, kappa: Floats, *, scale: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return posterior mean, covariance and prior variances of a weighted regression, and the next κ by EM."""
    owner, spread = place.owner, place.priors / place.v
    prior = np.append(100.0, np.maximum(kappa[owner] * spread, 1e-12))
    root = np.sqrt(prior)
    inside = root[:, None] * ((z.T * weights) @ z) * root[None, :] + np.eye(len(root))
    covariance = np.linalg.inv(inside) * root[:, None] * root[None, :]
    theta = covariance @ (z.T @ (weights * response))
    squares = (theta[1:] ** 2 + np.diag(covariance)[1:]) / spread
    counts = np.bincount(owner, minlength=len(kappa))
    return theta, covariance, prior, (np.bincount(owner, weights=squares, minlength=len(kappa)) + scale) / (counts + 1)


def _posterior_of_classes(
    place: Coordinates, z: Floats, labels: Integers, classes: int, *, scale: float
) -> tuple[Floats, Floats]:
    """Return posterior means and variances of a softmax, (components, classes): weights p bound its curvature."""
    y = (labels[:, None] == np.arange(classes)).astype(np.float64)
    theta = np.zeros((z.shape[1], classes))
    theta[0] = np.log(np.clip(y.mean(axis=0), 0.01, 0.99))
    kappas, variances = [np.full(len(place.weights), scale)] * classes, np.zeros_like(theta)
    for _ in range(_ROUNDS_OF_CLASSES):
        theta -= theta.mean(axis=1, keepdims=True)
        linear = z @ theta
        p = softmax(linear, axis=1)
        for each in range(classes):
            weights = np.maximum(p[:, each], 1e-4)
            response = linear[:, each] + (y[:, each] - p[:, each]) / weights
            theta[:, each], covariance, _, kappas[each] = _updated(
                place, z, weights, response, kappas[each], scale=scale
            )
            variances[:, each] = np.diag(covariance)
    return theta - theta.mean(axis=1, keepdims=True), variances
