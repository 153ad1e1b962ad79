"""Measured marginals pooled with those of public rows, as far as the two agree: post-processing of released numbers.

A noisy count has the variance σ² of the noise everywhere; a public one has the variance of sampling, which for rare
cells is far less. Each cell is pooled by inverse variances. How far the public population differs is judged by the
measured cells: cells of about the same public variance stand together, and their mean squared distance, less what noise
and sampling explain, is added to their public variances. Cells that claim to be precise are so held to their claim by
their own kind; a wrong public table is found worthless everywhere and changes next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sidelight.synthesis.calibration import CalibratedRows, one_way_deviation
from sidelight.synthesis.domain import Codes
from sidelight.synthesis.engine import MANY_POINTS
from sidelight.synthesis.fitted import Fitted
from sidelight.synthesis.refit import Evidence, Refit
from sidelight.synthesis.spaces import Floats
from sidelight.synthesis.workload import Marginal

#: So many cells at least are judged together, in so many groups at most.
_GROUP, _MOST_GROUPS = 200, 8
#: Sweeps of the refit to pooled counts, which starts where the engine ended, on few points and on many.
_SWEEPS, _MANY_POINTS_SWEEPS = 60, 20


@dataclass(frozen=True, eq=False, kw_only=True)
class PooledCounts:
    """Counts of a partition from noise and public rows together: each cell has its own standard deviation."""

    marginal: Marginal
    values: Floats = field(repr=False)
    deviation: Floats = field(repr=False)
    mean_error: float


def pool_cells(values: Floats, noise: Floats, means: Floats, variances: Floats, *, trust: float = 1.0) -> Floats:
    """Return the weight of `means` in every cell's pooled value; `values` have variances `noise`.

    w = σ²/(σ² + v + e), times trust; e is what is unexplained in the cell's group, at least 0.

    >>> even = np.full(400, 4.0)
    >>> float(pool_cells(np.zeros(400), even, np.zeros(400), even).max())
    0.5
    >>> bool(pool_cells(np.zeros(400), even, np.full(400, 100.0), even).max() < 0.001)
    True
    """
    unexplained = (values - means) ** 2 - noise - variances
    groups = int(np.clip(len(values) // _GROUP, 1, _MOST_GROUPS))
    spread = np.array(variances)
    for group in np.array_split(np.argsort(variances, kind="stable"), groups):
        spread[group] += max(0.0, float(unexplained[group].mean()))
    return np.asarray(trust * noise / (noise + spread))


def pooled(fitted: Fitted, codes: Codes, *, trust: float = 1.0) -> list[PooledCounts]:
    """Return the measurements with calibrated public counts pooled in; `trust` in [0, 1] multiplies their weight."""
    public = CalibratedRows(fitted.domain, codes, rows=fitted.rows)
    public.calibrate(_one_way_targets(fitted, public, trust=trust))
    held = fitted.measurements
    predicted = [public.counts(each.marginal) for each in held]
    values = np.concatenate([each.values.ravel() for each in held])
    noise = np.concatenate([np.full(each.values.size, each.deviation**2) for each in held])
    means = np.concatenate([each.means.ravel() for each in predicted])
    variances = np.concatenate([each.variances.ravel() for each in predicted])
    weight = pool_cells(values, noise, means, variances, trust=trust)
    together = values + weight * (means - values)
    deviation = np.sqrt(noise * (1.0 - weight))
    ends = np.cumsum([each.values.size for each in held])[:-1]
    return [
        PooledCounts(
            marginal=each.marginal,
            values=cells.reshape(each.values.shape),
            deviation=apart.reshape(each.values.shape),
            mean_error=each.mean_error,
        )
        for each, cells, apart in zip(held, np.split(together, ends), np.split(deviation, ends), strict=True)
    ]


def refit_again(fitted: Fitted, codes: Codes | None = None, *, trust: float = 1.0) -> Fitted:
    """Return the distribution fitted once more, from where the first fit ended, to the (pooled) counts.

    The first fit is pulled towards its prior; a second one, pulled towards the first, takes most of that bias away and
    keeps what the pull did against noise (Bregman iteration). The released measurements stay as they are.
    """
    assert fitted.space is not None
    assert fitted.weights is not None
    if not fitted.measurements:
        return fitted
    model = Refit(fitted.space, fitted.weights, rows=fitted.rows)
    evidence: Sequence[Evidence] = fitted.measurements
    if codes is not None:
        evidence = pooled(fitted, codes, trust=trust)
    for each in evidence:
        model.add(each)
    model.fit(sweeps=_SWEEPS if fitted.space.points <= MANY_POINTS else _MANY_POINTS_SWEEPS)
    return replace(fitted, weights=model.weights)


def _one_way_targets(fitted: Fitted, public: CalibratedRows, *, trust: float) -> list[Floats | None]:
    """Return the counts of every measured column: fitted and public ones pooled; None where none was measured."""
    domain = fitted.domain
    deviations = [one_way_deviation(fitted.measurements, domain, name) for name in domain.columns]
    known = [name for name, deviation in zip(domain.columns, deviations, strict=True) if np.isfinite(deviation)]
    if not known:
        return [None] * len(domain.columns)
    found = [fitted.rows * fitted.marginal((name,)) for name in known]
    predicted = [public.counts(Marginal((name,))) for name in known]
    noise = np.concatenate(
        [np.full(len(f), deviations[domain.columns.index(name)] ** 2) for name, f in zip(known, found, strict=True)]
    )
    values = np.concatenate(found)
    means = np.concatenate([each.means for each in predicted])
    variances = np.concatenate([each.variances for each in predicted])
    weight = pool_cells(values, noise, means, variances, trust=trust)
    together = np.maximum(values + weight * (means - values), 0.0)
    parts = dict(zip(known, np.split(together, np.cumsum([len(each) for each in found])[:-1]), strict=True))
    return [parts.get(name) for name in domain.columns]
