"""Measured marginals pooled with those of public rows, as far as the two agree: post-processing of released numbers.

A noisy count has the variance σ² of the noise everywhere; a public one, scaled to the table's rows N, has the variance
N²p/n of sampling n public rows, which for rare cells is far less. Each cell is pooled by inverse variances. How far the
public population differs is judged by all measured cells together: their mean squared distance, less what noise and
sampling explain, is added to the variances of the public counts, a part of it to every cell alike, so that a public 0
is doubted, too. A wrong public table is found worthless and changes next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sidelight.synthesis.domain import Codes, Domain
from sidelight.synthesis.fitted import Fitted
from sidelight.synthesis.measurement import Measurement
from sidelight.synthesis.refit import Refit
from sidelight.synthesis.spaces import Floats

#: The share of the distance that every cell gets alike; the rest goes where public counts are large.
_EVEN = 0.25
#: Sweeps of the refit to pooled counts, which starts where the engine ended.
_SWEEPS = 20


def pooled(
    measurements: Sequence[Measurement], domain: Domain, codes: Codes, *, rows: float, trust: float = 1.0
) -> list[Measurement]:
    """Return the measurements with public counts pooled in; `trust` in [0, 1] multiplies their weight."""
    public = [_public_counts(each, domain, codes, rows=rows) for each in measurements]
    apart = sum(float(((each.values - mean) ** 2).sum()) for each, (mean, _) in zip(measurements, public, strict=True))
    noise = sum(each.values.size * each.deviation**2 for each in measurements)
    sampling = sum(float(variance.sum()) for _, variance in public)
    cells = sum(each.values.size for each in measurements)
    drift = max(0.0, apart - noise - sampling) / cells
    found = []
    for each, (mean, variance) in zip(measurements, public, strict=True):
        spread = drift * (_EVEN + (1 - _EVEN) * variance * cells / sampling)
        weight = trust * each.deviation**2 / (each.deviation**2 + variance + spread)
        found.append(replace(each, values=each.values + weight * (mean - each.values)))
    return found


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
    counts: Sequence[Measurement] = fitted.measurements
    if codes is not None:
        counts = pooled(counts, fitted.domain, codes, rows=fitted.rows, trust=trust)
    for each in counts:
        model.add(each)
    model.fit(sweeps=_SWEEPS)
    return replace(fitted, weights=model.weights)


def _public_counts(measurement: Measurement, domain: Domain, codes: Codes, *, rows: float) -> tuple[Floats, Floats]:
    """Return the public counts of a marginal, scaled to the table's rows, and their variances; half a row is added."""
    columns = measurement.marginal.columns
    counts = np.bincount(domain.ravel(codes, columns), minlength=domain.cells_of(columns))
    grouped = measurement.marginal.grouped(counts.reshape(domain.shape_of(columns))).astype(np.float64)
    scale = rows / len(codes)
    return grouped * scale, (grouped + 0.5) * scale**2
