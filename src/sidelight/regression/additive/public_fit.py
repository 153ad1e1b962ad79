"""An additive fit to public rows: the same basis and empirical Bayes as the private one, without noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sidelight.records import Category, Number
from sidelight.regression.additive.basis import Coordinates, coordinates
from sidelight.regression.additive.counts import ColumnCounts, cells_of_category, cells_of_number
from sidelight.regression.additive.fine_codes import FINE_CELLS, fine_size
from sidelight.regression.additive.offsets import Offset
from sidelight.regression.descent.integer_rows import ERROR_BITS, Integers
from sidelight.regression.descent.rules import Kind
from sidelight.regression.losses import Floats

#: Cells of public rows hold at least five of them: three deviations of a count.
_DEVIATION = 5 / 3
_ROUNDS = 25
#: Beside the prior: water is filled almost to the brim, because there is no noise.
_LITTLE = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownCurves:
    """Curves that are known, with the posterior variances of their components.

    Args:
        offset: The curves on fine codes and the intercept.
        bases: Of each column √v·u on fine codes, (fine codes, components).
        variances: Of each column those of its components.
        intercept: The variance of the intercept.
        mean: The mean of public targets, for a number.
    """

    offset: Offset
    bases: tuple[Floats, ...]
    variances: tuple[Floats, ...]
    intercept: float
    mean: float | None


def fit_public(columns: Sequence[Number | Category], codes: Integers, targets: Floats, *, kind: Kind) -> KnownCurves:
    """Fit curves to public rows: fine codes (rows, columns) and coded targets (rows, 1)."""
    rows = float(len(codes))
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
    y = targets[:, 0] * 2.0**-ERROR_BITS if kind == "squared" else (targets[:, 0] > 0).astype(np.float64)
    variance = max(float(y.var()), 1e-6)
    scale = (variance / 2 if kind == "squared" else 1.5) / len(columns) ** 0.75
    place = coordinates(cells, scale=scale, noise=_LITTLE * scale)
    bases = tuple(
        place.on_codes(at, basis.values * np.sqrt(weights))
        for at, (basis, weights) in enumerate(zip(place.bases, place.weights, strict=True))
    )
    z = np.column_stack([np.ones(len(y)), *(basis[codes[:, at]] for at, basis in enumerate(bases))])
    theta, covariance = _posterior(place, z, y, kind=kind, scale=scale, variance=variance)
    ends = np.cumsum([1, *(len(weights) for weights in place.weights)])
    parts = np.split(theta, ends)[1:-1]
    diagonal = np.diag(covariance)
    return KnownCurves(
        offset=Offset(tables=tuple(b @ part for b, part in zip(bases, parts, strict=True)), constant=float(theta[0])),
        bases=bases,
        variances=tuple(np.split(diagonal, ends)[1:-1]),
        intercept=float(diagonal[0]),
        mean=float(y.mean()) if kind == "squared" else None,
    )


def _posterior(
    place: Coordinates, z: Floats, y: Floats, *, kind: Kind, scale: float, variance: float
) -> tuple[Floats, Floats]:
    """Return the posterior mean and covariance, the variances of columns and of residuals by EM."""
    owner, spread = place.owner, place.priors / place.v
    kappa = np.full(len(place.weights), scale)
    counts = np.bincount(owner, minlength=len(kappa))
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
        prior = np.append(100.0, np.maximum(kappa[owner] * spread, 1e-12))
        root = np.sqrt(prior)
        inside = root[:, None] * ((z.T * weights) @ z) * root[None, :] + np.eye(len(root))
        covariance = np.linalg.inv(inside) * root[:, None] * root[None, :]
        theta = covariance @ (z.T @ (weights * response))
        squares = (theta[1:] ** 2 + np.diag(covariance)[1:]) / spread
        kappa = (np.bincount(owner, weights=squares, minlength=len(kappa)) + scale) / (counts + 1)
        if kind == "squared":
            used = len(theta) - float((np.diag(covariance) / prior).sum())
            rest = max(float(((y - z @ theta) ** 2).sum()) / max(len(y) - used, 1.0), 1e-9)
    return theta, covariance
