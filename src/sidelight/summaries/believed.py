"""How far predictions of group means are believed of which nobody says how they are off.

They may be in another unit, of other groups, all too large, or means of a small sample, whose small groups are mostly
noise. Four numbers are learned from the noisy table and the prediction itself; all of it is post-processing.

1. The level. Whether groups lie around the prediction's own overall mean or around the released one: a share of 0..1
   of their difference, from the total of all predicted groups.
2. Noise that falls with size. A sample of the same groups has variance A + B/n in a group of n rows. That is seen in
   the deviations of the prediction alone, which have no noise of this release: the most likely B/A scales the
   deviations of small groups down.
3. The deviations. A share of 0..1 of what is left of them, and one of what was taken for noise, by least squares on
   the noisy sums: in a table of the same rows small groups do lie further away.

What small groups may still be off by is not what large ones say: `doubt` is at least the scatter of groups around the
overall mean times the part of it that was not believed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.summaries.ratio import Floats, Moments, residuals
from sidelight.summaries.reading import UNIT
from sidelight.summaries.shrink import pull_means

#: Ratios B/A that are tried, beside 0: from an eighth of the smallest size to eight times the largest.
_RATIOS = 60
_BEYOND = 8.0
#: With fewer predicted groups nobody can tell noise by its size.
_LEAST = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class Believed:
    """What group means are drawn to, in units of -1..1, and the variance of groups around it."""

    means: Floats
    doubt: Floats


def believed_means(moments: Moments, told: ArrayLike, *, overall: float) -> Believed:
    """Return a bare prediction as far as it holds; where nothing is predicted, the overall mean.

    Accuracy: each fitted share costs less than one noise variance over all groups (summaries proof page, Theorem 14).
    For the table that comes out it is measured: at most 1.06 times the error without a prediction, for most wrong
    ones 1.00, and far below with a good one.

    Args:
        moments: The noisy reading.
        told: Predicted means of t; NaN where there is none.
        overall: The released overall mean of t.
    """
    given = np.asarray(told, dtype=np.float64)
    known = np.isfinite(given)
    base = np.full(given.shape, overall)
    if not known.any():
        return Believed(means=base, doubt=np.full(given.shape, _spread(moments, base)))
    counts = np.maximum(moments.count, 0.0)
    r, v = residuals(moments, UNIT, base)
    level, middle = _level(moments, given, known, overall, float(v[known].sum()))
    deviations = np.where(known, given - middle, 0.0)
    # above 0, as `clean_shares` wants it, also of an empty group under noise whose variance is 0
    sizes = np.sqrt(np.maximum(counts**2 + moments.count_variance, 1e-12))
    clean = np.where(known, clean_shares(deviations, sizes, known), 0.0)
    spread = _spread(moments, np.where(known, given, base))
    lifted = np.where(known, level, 0.0)
    share, rest = believed_parts(
        r - counts * lifted, v, counts, clean * deviations, (1.0 - clean) * deviations, spread=spread
    )
    kept = np.where(known, share * clean + rest * (1.0 - clean), 0.0)
    means = base + lifted + kept * deviations
    doubt = np.maximum(_spread(moments, means), _spread(moments, base) * (1.0 - kept))
    return Believed(means=means, doubt=doubt)


def _spread(moments: Moments, prediction: Floats) -> float:
    """Return the estimated variance of groups around a prediction."""
    r, v = residuals(moments, UNIT, prediction)
    return pull_means(r, v, moments.count, prediction, lower=-1.0, upper=1.0).spread


def _level(
    moments: Moments, told: Floats, known: NDArray[np.bool_], overall: float, variance: float
) -> tuple[float, float]:
    """Return how far predicted groups together lie from the overall mean, and the prediction's own overall mean.

    One number is seen of the first, Σ(x - overall) of all predicted groups: its share of what the prediction says.
    """
    rows = np.where(known, moments.count, 0.0)
    within = told[np.isfinite(told)]
    said = float((rows * np.where(known, told, 0.0)).sum()) / max(float(rows.sum()), 1.0)
    middle = float(np.clip(said, within.min(), within.max()))
    total = float(np.where(known, moments.sums - overall * moments.count, 0.0).sum())
    share = believed_share([total], [variance], [float(rows.sum())], [middle - overall], spread=0.0)
    return share * (middle - overall), middle


def clean_shares(deviations: ArrayLike, sizes: ArrayLike, known: ArrayLike | None = None) -> Floats:
    """Return which part of each deviation is not the noise of a small sample, as against that of the largest group.

    Deviations of variance A·(1 + κ/size): κ is the most likely of a grid (normal law, A profiled out), and what is
    returned is (1 + κ/largest)/(1 + κ/size). Where deviations are no larger in small groups κ = 0, and all is believed.

    Args:
        deviations: Of the predictions from their own mean: no noise of this release is in them.
        sizes: About how many rows each group has, above 0.
        known: Where something is predicted; everywhere if left out.

    >>> sizes = np.array([1.0, 1.0, 4.0, 4.0, 100.0, 100.0])
    >>> clean_shares([3.0, -3.0, 3.0, -3.0, 3.0, -3.0], sizes).round(2).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    >>> clean_shares([30.0, -30.0, 15.0, -15.0, 3.0, -3.0], sizes).round(2).tolist()
    [0.01, 0.01, 0.04, 0.04, 1.0, 1.0]
    """
    d, h = (np.asarray(each, dtype=np.float64) for each in (deviations, sizes))
    there = np.ones(d.shape, bool) if known is None else np.asarray(known, bool)
    if np.count_nonzero(there) < _LEAST or not np.any(d[there]):
        return np.ones(d.shape)
    squares, seen = d[there] ** 2, h[there]
    largest = float(seen.max())
    ratios = np.concatenate([[0.0], np.geomspace(float(seen.min()) / _BEYOND, largest * _BEYOND, _RATIOS)])
    fit = []
    for ratio in ratios:
        shape = 1.0 + ratio / seen
        fit.append(len(seen) * np.log(max(float((squares / shape).mean()), 1e-300)) + float(np.log(shape).sum()))
    best = float(ratios[int(np.argmin(fit))])
    return np.asarray((1.0 + best / largest) / (1.0 + best / np.minimum(h, largest)))


def believed_share(
    residuals: ArrayLike, variances: ArrayLike, counts: ArrayLike, deviations: ArrayLike, *, spread: float
) -> float:
    """Return how much of a prediction's deviations from the overall mean is believed: a slope of 0..1.

    b = (Σw·n̂·δ·R + 1)/(Σw·n̂²·δ² + 1) with R_g = Σ(x - overall) of group g, δ_g = p_g - overall and w = 1/(n̂²γ + V),
    cut to 0..1: least squares, and one unit of evidence for the prediction as it is. 0 is the overall mean, so that a
    prediction that says nothing about groups, or is in another unit, becomes one without deviations.

    Accuracy: for fixed weights the fit costs less than one noise variance over all groups, whatever the best slope of
    0..1 is (summaries proof page, Theorem 14).

    Args:
        residuals: R_g, noisy.
        variances: V, their noise variances.
        counts: Noisy counts n̂; below 0 counts as 0.
        deviations: δ_g; 0 where nothing is predicted.
        spread: γ, the variance of groups around the prediction (`pull_means(...).spread`).

    >>> believed_share([30.0, -30.0], [1.0, 1.0], [10.0, 10.0], [3.0, -3.0], spread=0.0)
    1.0
    >>> round(believed_share([10.0, -10.0], [1.0, 1.0], [10.0, 10.0], [3.0, -3.0], spread=0.0), 3)
    0.334
    """
    r, v, n, d = (np.asarray(each, dtype=np.float64) for each in (residuals, variances, counts, deviations))
    n = np.maximum(n, 0.0)
    weights = 1 / np.maximum(n * n * max(spread, 0.0) + v, 1e-300)
    evidence = float((weights * n * n * d * d).sum())
    return min(max((float((weights * n * d * r).sum()) + 1.0) / (evidence + 1.0), 0.0), 1.0)


def believed_parts(
    residuals: ArrayLike, variances: ArrayLike, counts: ArrayLike, first: ArrayLike, second: ArrayLike, *, spread: float
) -> tuple[float, float]:
    """Return how much is believed of deviations that are clean, and of those that look like noise of small samples.

    Least squares of both together, as `believed_share`, with one unit of evidence for the first and against the second.
    In a table of the same rows small groups do lie further away, and it takes the noisy sums to tell that from noise.

    Args:
        residuals: R_g, noisy.
        variances: V, their noise variances.
        counts: Noisy counts n̂; below 0 counts as 0.
        first: Clean deviations; 0 where nothing is predicted.
        second: The rest of them.
        spread: γ, the variance of groups around the prediction.
    """
    r, v, n, d, e = (np.asarray(each, dtype=np.float64) for each in (residuals, variances, counts, first, second))
    n = np.maximum(n, 0.0)
    w = 1 / np.maximum(n * n * max(spread, 0.0) + v, 1e-300)
    a, b, c = (float((w * n * n * x * y).sum()) for x, y in ((d, d), (d, e), (e, e)))
    x, y = (float((w * n * each * r).sum()) for each in (d, e))
    x, a, c = x + 1.0, a + 1.0, c + 1.0
    share = min(max((c * x - b * y) / (a * c - b * b), 0.0), 1.0)
    return share, min(max((y - b * share) / c, 0.0), 1.0)
