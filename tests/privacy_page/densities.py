"""Fits with known rows, and the density of their minimum by finite differences: what formula (1) is tested against."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.regression.losses import (
    ClippedSquaredLoss,
    HuberLoss,
    LogCoshLoss,
    LogisticLoss,
    PoissonLoss,
    SmoothedHingeLoss,
    SoftmaxLoss,
)
from sidelight.regression.objective import Objective
from sidelight.regression.rows import Block, BoundedArrays, RowPolicy

LOSSES: dict[str, tuple[Any, list[Any]]] = {
    "logistic": (LogisticLoss(classes=(-1, 1)), [1, -1, 1, -1]),
    "logistic, weights": (LogisticLoss(classes=(-1, 1), class_weights=(0.5, 3)), [1, -1, 1, -1]),
    "log-cosh": (LogCoshLoss(scale=0.5), [0.5, -0.3, 0.2, 2.0]),
    "huber": (HuberLoss(threshold=0.4), [0.5, -0.3, 0.2, 0.1]),
    "huber beyond": (HuberLoss(threshold=0.4), [0.5, -0.3, 0.2, 2.0]),
    "squared-clipped": (ClippedSquaredLoss(clip=1), [0.5, -0.3, 0.2, -0.4]),
    "squared-clipped beyond": (ClippedSquaredLoss(clip=1), [0.5, -0.3, 0.2, 2.0]),
    "smoothed-hinge": (SmoothedHingeLoss(classes=(-1, 1), width=0.9), [1, -1, 1, 1]),
    "poisson": (PoissonLoss(largest_count=5, clip=2), [1, 0, 2, 1]),
    "softmax": (SoftmaxLoss(classes=("a", "b", "c")), ["a", "b", "c", "b"]),
}
#: Three rows of the data, and one more person.
ROWS = np.array([[0.6, 0.8], [-1.0, 0.0], [0.0, 0.5], [0.8, -0.6]])


def objective(loss: Any, rows: np.ndarray, labels: list[Any], *, lam: float = 1.0) -> Objective:
    """Give an objective of rows as they are, without noise and constant column."""
    policy = RowPolicy(loss=loss, features=rows.shape[1], data_norm=Fraction(4), intercept=None)
    return Objective(
        rows=BoundedArrays(rows, labels, policy=policy),
        loss=loss,
        row_norm=Fraction(4),
        regularisation=Fraction(lam),
        linear=np.zeros((rows.shape[1], loss.outputs)),
    )


def at_minimum(found: Objective, theta: np.ndarray) -> Objective:
    """Give the objective whose noise makes theta its minimum: b = -∇J(θ)."""
    return replace(found, linear=-found.gradient(theta))


def one_block(loss: Any, rows: np.ndarray, labels: list[Any]) -> Block:
    policy = RowPolicy(loss=loss, features=rows.shape[1], data_norm=Fraction(4), intercept=None)
    return policy.block(rows, labels)


def log_density(found: Objective, theta: np.ndarray, *, sigma: float) -> float:
    """log p_D(θ) but for a constant: the normal density of ∇J, times the Jacobian of ∇J by central differences."""
    gradient = found.gradient(theta)
    step, columns = 1e-5, []
    for place in range(theta.size):
        shift = np.zeros(theta.size)
        shift[place] = step
        move = shift.reshape(theta.shape)
        columns.append((found.gradient(theta + move) - found.gradient(theta - move)).ravel() / (2 * step))
    sign, logarithm = np.linalg.slogdet(np.array(columns))
    assert sign > 0
    return float(-np.sum(gradient**2) / (2 * sigma**2) + logarithm)
