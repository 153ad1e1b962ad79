"""How far the numbers of a release were moved to a predicted table, and how far off they then probably are.

Computed from the released numbers and the prediction, which are public; nothing here sees a record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.group_table import ALL, GroupTable
from sidelight.release.shown import as_read, beside, leading_statistic


@dataclass(frozen=True, kw_only=True)
class PredictionUse:
    """How far a predicted table was believed, and the likely error of a group with it and without.

    Args:
        share: How far the numbers were moved: 0 are the measured numbers, 1 the predicted ones.
        likely_sd: The root mean square error that is likely, over the predicted groups; an estimate, not a bound.
        noise_sd: That of the noise alone: what the error would be without the prediction.
        groups: How many groups are predicted.
    """

    share: float
    likely_sd: float
    noise_sd: float
    groups: int

    def __str__(self) -> str:
        likely, alone = (as_read(float(f"{size:.2g}")) for size in (self.likely_sd, self.noise_sd))
        said = f"believed to {100 * self.share:.0f} %"
        if self.share < 0.005:
            return f"{said}: the numbers are as measured, off by about {alone}"
        return f"{said}: a number is likely off by about {likely}, by the noise alone by {alone} (standard deviations)"


def prediction_use(table: GroupTable, told: Mapping[str, Any] | None) -> PredictionUse | None:
    """Return how a predicted table was used in a released one; None where that cannot be told.

    A measured number y was moved to the predicted p by the weight w = (y - x)/(y - p), which was learned from all y.
    Stein's unbiased estimate of the mean square error of x = y - w·(y - p), with w = c·a/Σa²(y - p)², is the mean of
    d + w²·(y - p)² - 2·d·(w - 2·w·s), where d is the variance of the noise and s the share of w²·(y - p)² in its sum
    (for Gaussian noise, before rounding). Means are moved by weights of their own: there it is (1 - w)²·d + w²·b², with
    b² the mean of (y - p)² - d. Both are kept between (1 - w)²·d and d.
    Intervals are about y, and are the same with and without a prediction.

    Args:
        table: The released table.
        told: The description of the prediction that the release carries.
    """
    try:
        values = {tuple(labels): float(value) for *labels, value in (told or {}).get("values") or ()}
    except (TypeError, ValueError):  # a release from a file may say anything
        return None
    name = leading_statistic(table)
    plain = beside(table, name, "plain")
    measured = beside(table, name, "unbiased") if plain is None else plain
    noise = beside(table, name, "noise_sd")
    if not values or measured is None or noise is None or "others" in (told or {}):
        return None
    whole = zip(table.groups, table[name].tolist(), measured, noise, strict=True)
    found = [
        (x, y, sd, values[group])
        for group, x, y, sd in whole
        if group in values and ALL not in group and all(map(math.isfinite, (x, y, sd)))
    ]
    if not found or max(sd for _, _, sd, _ in found) <= 0:
        return None
    x, y, sd, p = np.array(found, np.float64).T
    if "shares" in (told or {}):
        p = p * (max(float(y.sum()), 0.0) / max(float(p.sum()), 1e-300))
    r, variance = y - p, sd * sd
    moved = np.clip(np.divide(y - x, r, out=np.zeros_like(r), where=r != 0), 0.0, 1.0)
    squares = moved**2 * r * r
    if plain is None:
        steep = np.divide(2 * moved * squares, squares.sum(), out=np.zeros_like(r), where=squares.sum() > 0)
        risk = float(np.mean(variance + squares - 2 * variance * (moved - steep)))
    else:
        sure = 1 / np.maximum(variance, 1e-300) ** 2
        apart = max(float((sure * (r * r - variance)).sum() / sure.sum()), 0.0)
        risk = float(np.mean((1 - moved) ** 2 * variance + moved**2 * apart))
    least = float(np.mean((1 - moved) ** 2 * variance))
    share = float((variance * moved).sum() / variance.sum())
    return PredictionUse(
        share=share,
        likely_sd=math.sqrt(min(max(risk, least), float(variance.mean()))),
        noise_sd=math.sqrt(float(variance.mean())),
        groups=len(found),
    )
