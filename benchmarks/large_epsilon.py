"""What the least penalty is worth where epsilon is large, and what the clip of a Poisson model is.

Made-up rows of the size of the wine set (6,497 x 11). At epsilon 50 the smallest λ that (epsilon, delta) allows leaves
the output noise, which grows as 1/λ, larger than the coefficients; `LEAST_PENALTY` keeps λ at β/30. Counts of a mean of
about 190 are fitted at epsilon 1 with a clip of 1, as it used to be, and with the default.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import print_figures, sized
from sidelight.noise import Source
from sidelight.regression.fit_core import private_fit
from sidelight.regression.losses import HuberLoss
from sidelight.regression.plan import plan_linear
from sidelight.regression.rows import BoundedArrays
from sidelight.testing import SeededEntropy

ROWS, COLUMNS = sized((6497, 11), (300, 3))


def made() -> tuple[Any, Any]:
    """Return correlated features within a norm of 1, and a predictor."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(ROWS, COLUMNS)) @ rng.normal(size=(COLUMNS, COLUMNS))
    rows = rows / np.abs(rows).max(axis=0) / COLUMNS**0.5
    return rows, rows @ rng.normal(size=COLUMNS) * 10


def explained(epsilon: int, penalty: Fraction | None, *, fits: int = 4) -> float:
    """Return the mean R² of Huber fits; the penalty is the default or a share of β."""
    rows, line = made()
    target = 5.8 + line / 3 + np.random.default_rng(1).normal(size=ROWS) * 0.7
    loss = HuberLoss(threshold="0.75", target_range=(0, 12), target_centre=6.0)
    public: dict[str, Any] = {"features": COLUMNS, "epsilon": epsilon, "delta": "1e-6", "data_norm": 1}
    plan = plan_linear(loss=loss, **public)
    if penalty is not None:
        least = plan.mechanism.shape.curvature * penalty
        plan = plan_linear(loss=loss, **public, regularisation=least, rows_at_most=10_000)  # refused without a bound
    scores = []
    for seed in range(fits):
        with Source(SeededEntropy(f"large epsilon {seed}")) as source:
            model = private_fit(plan, BoundedArrays(rows, target, policy=plan.policy), source=source).model()
        scores.append(
            1 - np.mean((rows @ model["coefficients"][0] + model["intercept"][0] + 6 - target) ** 2) / np.var(target)
        )
    return float(np.mean(scores))


def counted(clip: Any, *, fits: int = 4) -> float:
    """Return the mean of the predictions over the mean of the counts, at epsilon 1."""
    rows, line = made()
    counts = np.minimum(np.random.default_rng(2).poisson(np.exp(5 + line / 3)), 1000)
    means = []
    for seed in range(fits):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a seeded model is not private, and a clip of 1 is warned of
            model = sl.PoissonRegressor(
                epsilon=1, delta="1e-6", data_norm=1, largest_count=1000, clip=clip, random_state=seed
            )
            means.append(model.fit(rows, counts).predict(rows).mean())
    return float(np.mean(means) / counts.mean())


def measure() -> dict[str, float]:
    """Return R² with the default penalty and with a millionth of β, and the shares of the mean of the counts."""
    return {
        "huber_r2_epsilon_20": explained(20, None),
        "huber_r2_epsilon_50": explained(50, None),
        "huber_r2_epsilon_50_without_a_floor": explained(50, Fraction(1, 10**6)),
        "poisson_mean_share": counted(None),
        "poisson_mean_share_clip_1": counted(1),
    }


if __name__ == "__main__":
    print_figures(measure())
