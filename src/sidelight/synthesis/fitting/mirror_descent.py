"""Entropic mirror descent with backtracking, for the objective of `refit`: the textbook method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sidelight.synthesis.cells.spaces import Floats, Space
from sidelight.synthesis.fitting.refit import PRIOR_WEIGHT, Evidence, objective


def mirror_descent(
    space: Space,
    prior: Floats,
    measurements: Sequence[Evidence],
    *,
    rows: float,
    prior_weight: float = PRIOR_WEIGHT,
    start: Floats | None = None,
    steps: int = 150,
    tolerance: float = 1e-7,
) -> Floats:
    """Return the fitted weights: W ← W·exp(-a·gradient), normalised, with a step that grows by 1.4 and halves.

    In logarithms; the least gradient is subtracted before exponentiating, so nothing overflows.
    """
    inside = prior > 0
    weights = np.array(prior if start is None else start)
    weights /= weights.sum()
    partitions = [each.marginal for each in measurements]

    def value(at: Floats) -> float:
        return objective(space, at, prior, measurements, rows=rows, tau=prior_weight)

    def gradient(at: Floats) -> Floats:
        fitted = space.marginals(at, partitions)
        parts = [rows * (rows * m - e.values) / e.deviation**2 for m, e in zip(fitted, measurements, strict=True)]
        total = space.spread(parts, partitions)
        total[inside] += prior_weight * rows * np.log(np.maximum(at[inside], 1e-300) / prior[inside])
        return total

    current, step = value(weights), 1.0 / rows
    slope = gradient(weights)
    for _ in range(steps):
        lowered = slope - slope[inside].min()
        with np.errstate(under="ignore"):
            trial = np.where(inside, weights * np.exp(-step * np.minimum(lowered, 700.0 / step)), 0.0)
        trial /= trial.sum()
        reached = value(trial)
        if reached <= current:
            gained = current - reached
            weights, current, step = trial, reached, step * 1.4
            if gained <= tolerance * abs(current):
                break
            slope = gradient(weights)
        else:
            step *= 0.5
    return weights
