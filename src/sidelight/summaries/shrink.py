"""Shrink released numbers towards a prediction, so that total squared error does not grow.

Post-processing: nothing here sees a record. For Gaussian noise "never worse in total squared error" is a theorem for
every truth and every prediction (summaries proof page, Theorem 8); for Laplace noise it is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError

Floats: TypeAlias = NDArray[np.float64]

#: The relative doubt of a prediction without a stated doubt.
USUAL_DOUBT = 0.25


@dataclass(frozen=True, eq=False, kw_only=True)
class Shrunk:
    """Values shrunk towards a prediction, and how much of each deviation stayed: 1 is the raw value, 0 the prediction.

    `change` is an unbiased estimate of how much total squared error changed (Gaussian noise): negative is better.
    """

    values: Floats
    kept: Floats
    change: float


def shrink(
    values: ArrayLike,
    prediction: ArrayLike,
    *,
    variance: ArrayLike,
    directions: ArrayLike,
    step: ArrayLike = 1.0,
    fitted: bool = False,
    largest_eigenvalue: float | None = None,
) -> Shrunk:
    """Return p + (1 - c·a/S)₊·(y - p), S = k + Σa²(y-p)², c = Σda - 2·max(da), k = Σa²·step²/12.

    Accuracy: expected total squared error below that of `values` for every truth and prediction if the noise is
    independent and Gaussian and the prediction does not depend on it (Theorem 8). Nothing is drawn where c <= 0.

    Args:
        values: y, unbiased.
        prediction: p; NaN where there is none, which leaves that value alone.
        variance: d, the noise variance of each value, or one for all.
        directions: a >= 0, public: how much to shrink each value (`directions`).
        step: The grid of the noise of each value, or of all, in the unit of y: 1 for counts. Integer noise is exactly 0
            with positive probability, and without k an exact prediction of small cells would drag a large one along.
        fitted: Whether the prediction was scaled to the sum of these very values: one more is taken off c.
        largest_eigenvalue: Of the covariance of correlated noise, whose diagonal `variance` then is.

    >>> shrink([3, -1, 4, 1, -5], 0, variance=4, directions=1).values.round(6).tolist()
    [2.313196, -0.771065, 3.084261, 0.771065, -3.855326]
    """
    y = np.asarray(values, dtype=np.float64)
    p, d, a, grid = (
        np.broadcast_to(np.asarray(each, dtype=np.float64), y.shape)
        for each in (prediction, variance, directions, step)
    )
    if y.ndim != 1 or (a < 0).any() or (d < 0).any() or (grid < 0).any():
        raise RangeError("shrinking needs a list of values, and variances, directions and a step of at least 0")
    absent = ~np.isfinite(p)
    a = np.where(absent, 0.0, a)
    r = np.where(absent, 0.0, y - np.where(absent, 0.0, p))
    da = d * a
    strongest = float(da.max(initial=0.0))
    if largest_eigenvalue is not None:
        strongest = max(strongest, largest_eigenvalue * float(a.max(initial=0.0)))
    weight = float(da.sum()) - (3.0 if fitted else 2.0) * strongest
    spread = float((a * a * grid * grid).sum()) / 12 + float((a * a * r * r).sum())
    if weight <= 0 or spread <= 0:
        # S = 0: nothing deviates and the noise has no grid, so prediction and value agree where a > 0
        return Shrunk(values=y.copy(), kept=np.ones_like(y), change=0.0)
    kept = np.maximum(1.0 - weight * a / spread, 0.0)
    change = (weight**2 - 2 * weight * float(da.sum())) / spread
    change += 4 * weight * float((da * a * a * r * r).sum()) / spread**2
    return Shrunk(values=y - (1.0 - kept) * r, kept=kept, change=change)


def count_doubt(prediction: ArrayLike, *, relative: float = USUAL_DOUBT) -> Floats:
    """Return γ = (0.25·p)² + p + 1: a relative doubt, the Poisson variance, and one.

    >>> count_doubt([100.0, 0.0]).tolist()
    [726.0, 1.0]
    """
    p = np.maximum(np.asarray(prediction, dtype=np.float64), 0.0)
    return np.asarray((relative * p) ** 2 + p + 1)


def sum_doubt(prediction: ArrayLike, *, width: float, relative: float = USUAL_DOUBT) -> Floats:
    """Return γ = (0.25·p)² + width² for tables of sums of values on an interval of this width."""
    p = np.asarray(prediction, dtype=np.float64)
    return np.asarray((relative * p) ** 2 + width**2)


def directions(variance: ArrayLike, doubt: ArrayLike) -> Floats:
    """Return a = v/(v + γ): cells whose prediction is sharper than the noise are shrunk, others are left alone.

    A doubt that is infinite or NaN gives 0.
    """
    v, g = np.broadcast_arrays(np.asarray(variance, dtype=np.float64), np.asarray(doubt, dtype=np.float64))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = v / (v + g)
    return np.asarray(np.where(np.isfinite(share), share, 0.0))


def shrink_counts(
    values: ArrayLike,
    prediction: ArrayLike,
    *,
    variance: ArrayLike,
    doubt: ArrayLike | None = None,
    fitted: bool = False,
    largest_eigenvalue: float | None = None,
) -> Shrunk:
    """Shrink a table of counts towards predicted counts, in the directions of a doubt (variance).

    >>> drawn = shrink_counts([120, 60, 35, 30, 10], [100, 50, 33, 25, 20], variance=200)
    >>> drawn.values.round(6).tolist()
    [110.942812, 50.0, 33.0, 25.0, 20.0]
    """
    p = np.maximum(np.asarray(prediction, dtype=np.float64), 0.0)  # keeps NaN
    gamma = count_doubt(p) if doubt is None else np.asarray(doubt, dtype=np.float64)
    return shrink(
        values,
        p,
        variance=variance,
        directions=directions(variance, gamma),
        fitted=fitted,
        largest_eigenvalue=largest_eigenvalue,
    )


def best_of(candidates: Sequence[Shrunk], values: ArrayLike) -> Shrunk:
    """Return the candidate with the lowest estimated change of total squared error, the raw values if none is below 0.

    The theorem does not cover the choice; measured, it was within 8 % of the best single one.
    """
    best = min(candidates, key=lambda each: each.change, default=None)
    if best is None or best.change >= 0:
        y = np.asarray(values, dtype=np.float64)
        return Shrunk(values=y.copy(), kept=np.ones_like(y), change=0.0)
    return best


def noisy_prediction(
    prediction: ArrayLike, noise: ArrayLike, *, drift: float, overall: float, scatter: float
) -> tuple[Floats, Floats]:
    """Return noisy predictions shrunk to the overall mean by inverse variances, and the variance that is left.

    A group lies around its own prediction with variance G = P + q and around the overall mean with τ²: together
    p = overall + τ²/(τ² + G)·(prediction - overall), of variance τ²G/(τ² + G). A prediction that is only noise becomes
    the overall mean, as if there were none.

    Args:
        prediction: Of an earlier release or a sample; NaN where there is none.
        noise: P, the variance of its noise or of its sampling.
        drift: q, the variance of the change since then, `pull_means(..., noise=P).spread`.
        overall: The mean of all groups.
        scatter: τ², the variance of groups around it.

    >>> means, left = noisy_prediction([10.0, 30.0, np.nan], [0.0, 100.0, 0.0], drift=0.0, overall=20.0, scatter=25.0)
    >>> means.tolist(), left.tolist()
    ([10.0, 22.0, 20.0], [0.0, 20.0, 25.0])
    """
    p, own = (np.asarray(each, dtype=np.float64) for each in (prediction, noise))
    known = np.isfinite(p)
    variance = own + drift
    both = np.maximum(scatter + variance, 1e-300)
    # nothing scatters and nothing is doubted: the prediction as it is
    share = np.where(known, np.where(scatter + variance > 0, scatter / both, 1.0), 0.0)
    means = overall + share * (np.where(known, p, overall) - overall)
    return means, np.asarray(np.where(known, share * variance, scatter))


@dataclass(frozen=True, eq=False, kw_only=True)
class Pulled:
    """Group means shrunk towards a prediction, and the estimated variance γ of groups around it."""

    means: Floats
    spread: float


def pull_means(
    residuals: ArrayLike,
    variances: ArrayLike,
    counts: ArrayLike,
    prediction: ArrayLike,
    *,
    lower: float,
    upper: float,
    doubt: ArrayLike | None = None,
    noise: ArrayLike = 0.0,
) -> Pulled:
    """Return p + n̂·R/(n̂² + V/γ̂), clamped: R_g = Σ(x - p_g) of group g, with noise of known variance V_g.

    γ̂ = max(0, Σω(R²-V-n̂²P)/Σω n̂²), ω = n̂²/(n̂² + median V/w²), w = upper - lower. A group without rows gets p.
    Nothing is divided by a small count, and the unit of x does not matter.

    Accuracy: measured (worst 1.04 to 1.11 times the plain means, usually far below); summaries proof page, section 5.

    Args:
        residuals: Noisy sums of x - p_g by group (`NoisyMoments.residuals`).
        variances: Their noise variances.
        counts: Noisy counts n̂; below 0 counts as 0.
        prediction: p_g, one for all or one per group, within the bounds; NaN is taken as the middle.
        lower: Of the interval of values.
        upper: Of the interval of values.
        doubt: The variance of groups around the prediction where that is stated; NaN or left out: γ̂.
        noise: P, the known variance of each prediction's own noise, in which `spread` has no part; 0 where it has none.
    """
    r, v, n = (np.asarray(each, dtype=np.float64) for each in (residuals, variances, counts))
    p = np.broadcast_to(np.asarray(prediction, dtype=np.float64), r.shape)
    p = np.clip(np.where(np.isfinite(p), p, (lower + upper) / 2), lower, upper)
    n = np.maximum(n, 0.0)
    width = upper - lower
    if r.size == 0 or width <= 0:
        return Pulled(means=p.copy(), spread=0.0)
    squares = n * n
    omega = squares / (squares + max(float(np.median(v)) / width**2, 1e-300))
    below = float((omega * squares).sum())
    excess = r * r - v - squares * np.asarray(noise, dtype=np.float64)
    spread = max(0.0, float((omega * excess).sum()) / below) if below > 0 else 0.0
    stated = np.broadcast_to(np.asarray(np.nan if doubt is None else doubt, dtype=np.float64), r.shape)
    around = np.maximum(np.where(np.isnan(stated), spread, stated), 0.0)
    means = p + n * r * around / np.maximum(squares * around + v, 1e-300)
    return Pulled(means=np.clip(means, lower, upper), spread=spread)
