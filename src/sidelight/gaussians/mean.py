"""The mean of rows whose covariance is known, from one public row on: the public row replaces the range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt
from typing import Any

import numpy as np

from sidelight.gaussians.asked import Asking, about_rows, how_many
from sidelight.gaussians.coinpress import mean_parts
from sidelight.gaussians.constants import Constants
from sidelight.gaussians.estimation import COUNT, mean_steps
from sidelight.gaussians.exact_map import rounded
from sidelight.gaussians.public_rows import Floats
from sidelight.gaussians.spending import Spending
from sidelight.gaussians.tails import norm_bound
from sidelight.noise import Source


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanEstimate:
    """A released mean, the (noisy) number of rows, and the noise: of the count, and of the mean when white."""

    mean: Floats
    rows: float
    steps: int
    noise: Mapping[str, float]

    def account(self) -> dict[str, Any]:
        """Return what is public beside the mean."""
        return {"rows": self.rows, "steps": self.steps, "noise": dict(self.noise)}


def public_radius(size: int, rows: int, chance: float) -> float:
    """Return how far the mean of m public rows rarely is from the truth, when white: tb(d, β/2)/√m.

    In the number of columns. (A published simulation takes the number of rows here, and understates the gain.)

    >>> round(public_radius(50, 1, 0.05), 6)
    9.194552
    """
    return norm_bound(size, chance / 2) / sqrt(rows)


def one_shot_clip(size: int, radius: float, rows: float, chance: float) -> float:
    """Return a length that no row exceeds about the public mean, with probability 1 - 5β/4.

    √(R² + 2R√(2 log(2n/β)) + γ²), γ = tb(d, β/(2n)): the cross term ⟨μ - c, x - μ⟩/R is normal; never more than R + γ.

    >>> radius = public_radius(50, 1, 0.05)
    >>> round(one_shot_clip(50, radius, 1000, 0.05), 6)
    16.924112
    """
    longest = norm_bound(size, chance / (2 * rows))
    cross = 2 * radius * sqrt(2 * log(2 * rows / chance))
    return min(sqrt(radius**2 + cross + longest**2), radius + longest)


def public_mean_steps(
    matrix: Floats,
    center: Floats,
    *,
    radius: float,
    steps: int | None,
    chance: float,
    spending: Spending,
    source: Source,
) -> Asking[MeanEstimate]:
    """Estimate the mean in coordinates A(x - c), where rows are white and the mean is within `radius`.

    Guarantee: the price of `spending` (Gaussians proof page, Theorem 1).
    """
    size, constants, matrix = len(center), Constants(), rounded(matrix)
    moments = yield how_many(size)
    rows = spending.count(moments, COUNT, source)
    share = Fraction(1) - (COUNT if spending.rows is None else 0)
    if steps == 1:
        clip = one_shot_clip(size, radius, rows, chance)
        moments = yield about_rows(matrix, center, clip, second=False)
        offset = spending.total(moments, share, source) / rows
        deviation, taken = spending.total_deviation(share, clip) / rows, 1
    else:
        parts = mean_parts(radius, steps, spending, share, rows, constants)
        taken = len(parts)
        offset, deviation = yield from mean_steps(
            matrix,
            center,
            radius=radius,
            share=share,
            rows=rows,
            spending=spending,
            source=source,
            constants=constants,
            parts=parts,
        )
    return MeanEstimate(
        mean=center + np.linalg.solve(matrix, offset),
        rows=rows,
        steps=taken,
        noise={"count": spending.count_deviation(COUNT), "mean": deviation},
    )
