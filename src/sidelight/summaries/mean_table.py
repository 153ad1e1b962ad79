"""Make the table of means: shrink measured means to a prediction or the overall mean, and add intervals.

A prediction of unknown accuracy may be in another unit, of other groups, all too large, or from a small sample whose
small groups are mostly noise. Four shrinkage weights are learned from the noisy table and the prediction itself:

1. The level. Whether groups lie around the prediction's own overall mean or around the released one: a share of 0..1
   of their difference, from the total of all predicted groups.
2. Noise that falls with size. A sample of the same groups has variance A + B/n in a group of n rows. That is seen in
   the deviations of the prediction alone, which have no noise of this release: the most likely B/A scales the
   deviations of small groups down.
3. The deviations. A share of 0..1 of what is left of them, and one of what was taken for noise, by least squares on
   the noisy sums: in a table of the same rows small groups do lie further away.

The variance of small groups around the result is not learned from large ones: `doubt` is at least the scatter of groups
around the overall mean times the part of it that the weights left out. Post-processing of released numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.group_table import POOLED
from sidelight.summaries.clip_subject import ClipInterval
from sidelight.summaries.moments import SUPPORT, Floats, MeasuredGroups, NoisyMoments
from sidelight.summaries.predicted import PredictedTable
from sidelight.summaries.shrink import Pulled, noisy_prediction, pull_means

#: With fewer groups means are not shrunk to one another.
LEAST_GROUPS = 3
#: The doubt of an uninformed prediction, in units of half the width: larger ones change nothing.
_NO_IDEA = 1e3
#: Ratios B/A that are tried, and 0: from an eighth of the smallest size to eight times the largest.
_RATIOS = 60
_BEYOND = 8.0
#: With fewer predicted groups noise cannot be recognised by its size.
_LEAST_PREDICTED = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanReading:
    """The public settings by which a measurement becomes a table of means; see `Mean`."""

    name: str  # "mean" or "proportion"
    table: PredictedTable | None
    confidence: float = 0.95
    finds: bool = False  # whether undeclared groups may have been found

    def columns(self, measured: MeasuredGroups) -> dict[str, Any]:
        """Return the columns of the table."""
        name = self.name
        ends = measured.mean_ends(self.confidence)
        columns: dict[str, Any] = {name: measured.means}
        shrunk = self._numbers(measured)
        if shrunk is not None:
            columns = {name: shrunk, f"{name}_plain": columns[name]}
            if self.table is None and len(shrunk) >= LEAST_GROUPS:
                columns[POOLED] = self._pooled(measured, shrunk)
        columns |= {"noise_sd": measured.noise_sd, "low": ends.low, "high": ends.high}
        columns |= measured.counts | measured.count_ends(self.confidence)
        if measured.moments.squares is not None and name == "mean":
            columns["sd"] = measured.half * np.sqrt(measured.moments.variances())
        columns["supported"] = measured.supported
        return columns | measured.interval.columns

    def _numbers(self, measured: MeasuredGroups) -> Floats | None:
        """Return the shrunken means of each group; None where nothing is shrunk.

        Where each group has its own interval, its mean stays in it. An unsupported group, whose interval may lie
        anywhere, takes what it is shrunk to.
        """
        if isinstance(measured.interval, ClipInterval):
            shrunk = self._shrunk(measured)
            return None if shrunk is None else measured.number(shrunk)
        there = measured.supported
        if self.table is None and len(there) < LEAST_GROUPS:
            return measured.means if self.finds else None
        predicted = np.full(len(there), np.nan) if self.table is None else self.table.on(measured.names).values
        predicted = np.clip(predicted, *measured.interval.bounds)
        if not there.any():
            return np.where(np.isfinite(predicted), predicted, measured.means)
        common = measured.common
        shrunk = self._shrunk(common)
        assert shrunk is not None
        found = common.number(shrunk)
        within = np.clip(found, measured.lower, measured.upper)
        # a group with too few rows for an interval is shrunk as all are; of one without rows only the prediction is
        # known, and it is taken where its doubt was stated
        seen = measured.moments.count > SUPPORT * math.sqrt(measured.moments.count_variance)
        stated = self.table is not None and (
            self.table.sd is not None or self.table.on(measured.names).relative is not None
        )
        return np.where(there, within, np.where(np.isfinite(predicted) & ~seen & stated, predicted, found))

    def _pooled(self, measured: MeasuredGroups, shrunk: Floats) -> Any:
        """Return which shrunken means lie nearer to the overall mean than to the group's own measurement."""
        common = measured if isinstance(measured.interval, ClipInterval) else measured.common
        overall = common.number(np.full(len(shrunk), common.overall))
        return np.abs(shrunk - overall) < np.abs(shrunk - measured.means)

    def _shrunk(self, measured: MeasuredGroups) -> Floats | None:
        """Return means of t shrunk to the prediction, else to the overall mean; None where there is neither."""
        groups = measured.names
        prediction = np.full(len(groups), measured.overall)
        doubt = np.full(len(groups), np.nan)
        if self.table is not None:
            matched = self.table.on(groups)
            known = np.isfinite(matched.values)
            predicted = np.where(known, measured.unit(np.where(known, matched.values, 0.0)), np.nan)
            with np.errstate(over="ignore"):  # an overflowing doubt is that of an uninformed prediction
                if matched.relative is not None:
                    doubt = self._doubt(measured, matched.relative * np.abs(matched.values), known)
                elif self.table.sd is not None:
                    doubt = self._doubt(measured, np.full(len(groups), self.table.sd), known)
                elif np.isfinite(matched.sds).any():
                    noise = self._doubt(measured, np.where(np.isfinite(matched.sds), matched.sds, 0.0), known)
                    predicted, doubt = self._denoised(measured, predicted, np.where(known, noise, 0.0))
                elif len(groups) >= LEAST_GROUPS:
                    predicted, doubt = prior_estimates(measured.moments, predicted, overall=measured.overall)
            prediction = np.where(known, predicted, prediction)
        elif len(groups) < LEAST_GROUPS:
            return measured.moments.means if self.finds else None
        if not groups:
            return measured.moments.means
        if len(groups) < LEAST_GROUPS:
            doubt = np.where(np.isnan(doubt), _NO_IDEA**2, doubt)  # not predicted: as measured
        return self._pulled(measured, prediction, doubt=doubt).means

    def _doubt(self, measured: MeasuredGroups, sds: Floats, known: Any) -> Floats:
        """Return variances of t from standard deviations of the number; NaN where nothing is predicted."""
        return np.where(known, np.minimum(sds / measured.half, _NO_IDEA) ** 2, np.nan)

    def _denoised(self, measured: MeasuredGroups, predicted: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return a noisy prediction shrunk to the overall mean, and the variance of groups around it.

        A small group of an earlier release, or of a sample, is mostly noise: unshrunk it would be worse than nothing.
        """
        overall = np.full(len(predicted), measured.overall)
        scatter = self._pulled(measured, overall).spread
        # where nothing is predicted the overall mean replaces it, around which groups scatter: no sign of drift
        stands_in = np.where(np.isfinite(predicted), predicted, overall)
        own = np.where(np.isfinite(predicted), noise, scatter)
        drift = self._pulled(measured, stands_in, noise=own).spread
        return noisy_prediction(predicted, noise, drift=drift, overall=measured.overall, scatter=scatter)

    def _pulled(self, measured: MeasuredGroups, prediction: Floats, **more: Any) -> Pulled:
        # clipped rows lie in their group's interval: a prediction beyond it would only draw in the noise of the count
        prediction = np.clip(prediction, *measured.within)
        r, v = measured.moments.residuals(prediction)
        return pull_means(r, v, measured.moments.count, prediction, lower=-1.0, upper=1.0, **more)


def prior_estimates(moments: NoisyMoments, predicted: ArrayLike, *, overall: float) -> tuple[Floats, Floats]:
    """Return a prediction of unknown accuracy by its shrinkage weights, and the variance of groups around it.

    Where nothing is predicted the estimate is the overall mean.

    Accuracy: each fitted share costs less than one noise variance over all groups (summaries proof page, Theorem 14).
    For the table that comes out it is measured: at most 1.06 times the error without a prediction, for most wrong
    ones 1.00, and far below with a good one.

    Args:
        moments: The measurement.
        predicted: Means of t; NaN where there is none.
        overall: The released overall mean of t.
    """
    given = np.asarray(predicted, dtype=np.float64)
    known = np.isfinite(given)
    base = np.full(given.shape, overall)
    if not known.any():
        return base, np.full(given.shape, _spread(moments, base))
    counts = np.maximum(moments.count, 0.0)
    r, v = moments.residuals(base)
    level, middle = _level(moments, given, known, overall, float(v[known].sum()))
    deviations = np.where(known, given - middle, 0.0)
    # above 0, as `clean_shares` wants it, also of an empty group under noise whose variance is 0
    sizes = np.sqrt(np.maximum(counts**2 + moments.count_variance, 1e-12))
    clean = np.where(known, clean_shares(deviations, sizes, known), 0.0)
    spread = _spread(moments, np.where(known, given, base))
    lifted = np.where(known, level, 0.0)
    share, rest = _two_weights(
        r - counts * lifted, v, counts, clean * deviations, (1.0 - clean) * deviations, spread=spread
    )
    kept = np.where(known, share * clean + rest * (1.0 - clean), 0.0)
    means = base + lifted + kept * deviations
    doubt = np.maximum(_spread(moments, means), _spread(moments, base) * (1.0 - kept))
    return means, doubt


def _spread(moments: NoisyMoments, prediction: Floats) -> float:
    """Return the estimated variance of groups around a prediction."""
    r, v = moments.residuals(prediction)
    return pull_means(r, v, moments.count, prediction, lower=-1.0, upper=1.0).spread


def _level(
    moments: NoisyMoments, predicted: Floats, known: NDArray[np.bool_], overall: float, variance: float
) -> tuple[float, float]:
    """Return the weighted difference of predicted groups from the overall mean, and the prediction's own mean.

    The weight is learned from one number, Σ(x - overall) over all predicted groups.
    """
    rows = np.where(known, moments.count, 0.0)
    within = predicted[np.isfinite(predicted)]
    said = float((rows * np.where(known, predicted, 0.0)).sum()) / max(float(rows.sum()), 1.0)
    middle = float(np.clip(said, within.min(), within.max()))
    total = float(np.where(known, moments.sums - overall * moments.count, 0.0).sum())
    share = shrinkage_weight([total], [variance], [float(rows.sum())], [middle - overall])
    return share * (middle - overall), middle


def clean_shares(deviations: ArrayLike, sizes: ArrayLike, known: ArrayLike | None = None) -> Floats:
    """Return the part of each deviation that is not small-sample noise, relative to the largest group.

    Deviations of variance A·(1 + κ/size): κ is the most likely of a grid (normal law, A profiled out), and what is
    returned is (1 + κ/largest)/(1 + κ/size). κ = 0 and the weight is 1 where deviations are no larger in small groups.

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
    if np.count_nonzero(there) < _LEAST_PREDICTED or not np.any(d[there]):
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


def shrinkage_weight(residuals: ArrayLike, variances: ArrayLike, counts: ArrayLike, deviations: ArrayLike) -> float:
    """Return the weight of a prediction's deviations from the overall mean: a slope of 0..1.

    b = (Σw·n̂·δ·R + 1)/(Σw·n̂²·δ² + 1) with R_g = Σ(x - overall) of group g, δ_g = p_g - overall and w = 1/V,
    cut to 0..1: least squares, and one unit of evidence for the prediction as it is. 0 is the overall mean, so that a
    prediction that says nothing about groups, or is in another unit, becomes one without deviations.

    Accuracy: for fixed weights the fit costs less than one noise variance over all groups, whatever the best slope of
    0..1 is (summaries proof page, Theorem 14).

    Args:
        residuals: R_g, noisy.
        variances: V, their noise variances.
        counts: Noisy counts n̂; below 0 counts as 0.
        deviations: δ_g; 0 where nothing is predicted.

    >>> shrinkage_weight([30.0, -30.0], [1.0, 1.0], [10.0, 10.0], [3.0, -3.0])
    1.0
    >>> round(shrinkage_weight([10.0, -10.0], [1.0, 1.0], [10.0, 10.0], [3.0, -3.0]), 3)
    0.334
    """
    r, v, n, d = (np.asarray(each, dtype=np.float64) for each in (residuals, variances, counts, deviations))
    n = np.maximum(n, 0.0)
    weights = 1 / np.maximum(v, 1e-300)
    evidence = float((weights * n * n * d * d).sum())
    return min(max((float((weights * n * d * r).sum()) + 1.0) / (evidence + 1.0), 0.0), 1.0)


def _two_weights(
    residuals: ArrayLike, variances: ArrayLike, counts: ArrayLike, first: ArrayLike, second: ArrayLike, *, spread: float
) -> tuple[float, float]:
    """Return the weights of clean deviations and of those that look like small-sample noise.

    Least squares of both together, as in `shrinkage_weight`, with one unit of evidence for the first and against the
    second. In a table of the same rows small groups do lie further away: only the noisy sums tell that from noise.
    """
    r, v, n, d, e = (np.asarray(each, dtype=np.float64) for each in (residuals, variances, counts, first, second))
    n = np.maximum(n, 0.0)
    w = 1 / np.maximum(n * n * max(spread, 0.0) + v, 1e-300)
    a, b, c = (float((w * n * n * x * y).sum()) for x, y in ((d, d), (d, e), (e, e)))
    x, y = (float((w * n * each * r).sum()) for each in (d, e))
    x, a, c = x + 1.0, a + 1.0, c + 1.0
    share = min(max((c * x - b * y) / (a * c - b * b), 0.0), 1.0)
    return share, min(max((y - b * share) / c, 0.0), 1.0)
