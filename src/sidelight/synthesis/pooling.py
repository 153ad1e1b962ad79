"""Measured marginals pooled with those of public rows, as far as the two agree: post-processing of released numbers.

A noisy count has the variance σ² of the noise everywhere; a public one has the variance of sampling, which for rare
cells is far less. Each cell is pooled by inverse variances. How far the public population differs is judged by the
measured cells: cells of about the same public variance stand together, and their mean squared distance, less what noise
and sampling explain, is added to their public variances. Cells that claim to be precise are so held to their claim by
their own kind; a wrong public table is found worthless everywhere and changes next to nothing. Where public rows told
the relations of measured columns, they are believed about marginals of the workload that were not measured, too.
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
_GROUP, _MOST_GROUPS = 100, 8
#: Public rows that told less of the relations than this are not asked about others.
_LEAST_TOLD = 0.25
#: So many points times marginals may a refit go through in a sweep; unmeasured marginals beyond that are left out.
_MOST_WORK = 50_000_000
#: Sweeps of the refit to pooled counts, which starts where the engine ended, on few points and on many.
_SWEEPS, _MANY_POINTS_SWEEPS = 60, 20


@dataclass(frozen=True, eq=False, kw_only=True)
class PooledCounts:
    """Counts of a partition from noise and public rows together: each cell has its own standard deviation."""

    marginal: Marginal
    values: Floats = field(repr=False)
    deviation: Floats = field(repr=False)
    mean_error: float


class Doubt:
    """What is unexplained in the distance between values with noise and public means, by the size of the variance.

    >>> even = np.full(400, 4.0)
    >>> doubt = Doubt(np.zeros(400), even, np.full(400, 100.0), even)
    >>> doubt.added(np.array([0.0, 4.0, 50.0])).tolist()
    [9992.0, 9992.0, 9992.0]
    """

    def __init__(self, values: Floats, noise: Floats, means: Floats, variances: Floats) -> None:
        unexplained = (values - means) ** 2 - noise - variances
        count = int(np.clip(len(values) // _GROUP, 1, _MOST_GROUPS))
        groups = np.array_split(np.argsort(variances, kind="stable"), count)
        self._ends: Floats = np.array([variances[group[-1]] for group in groups[:-1]])
        self._excess: Floats = np.array([max(0.0, float(unexplained[group].mean())) for group in groups])

    def added(self, variances: Floats) -> Floats:
        """Return what is added to public variances of these sizes."""
        return np.asarray(self._excess[np.searchsorted(self._ends, variances, "left")])


def pooled(fitted: Fitted, codes: Codes, *, wanted: Sequence[Marginal] = (), trust: float = 1.0) -> list[PooledCounts]:
    """Return the measurements with calibrated public counts pooled in, then what public rows say of other marginals.

    `trust` in [0, 1] multiplies the weight of the public counts.
    """
    public = CalibratedRows(fitted.domain, codes, rows=fitted.rows)
    public.calibrate(_one_way_targets(fitted, public, trust=trust))
    held = fitted.measurements
    predicted = [public.counts(each.marginal) for each in held]
    doubt = Doubt(
        np.concatenate([each.values.ravel() for each in held]),
        np.concatenate([np.full(each.values.size, each.deviation**2) for each in held]),
        np.concatenate([each.means.ravel() for each in predicted]),
        np.concatenate([each.variances.ravel() for each in predicted]),
    )
    found = []
    for each, prediction in zip(held, predicted, strict=True):
        noise = each.deviation**2
        weight = trust * noise / (noise + prediction.variances + doubt.added(prediction.variances))
        found.append(
            PooledCounts(
                marginal=each.marginal,
                values=each.values + weight * (prediction.means - each.values),
                deviation=np.sqrt(noise * (1.0 - weight)),
                mean_error=each.mean_error,
            )
        )
    told = trust * relations_told(fitted, [each.means for each in predicted])
    if told >= _LEAST_TOLD:
        fits = fitted.marginals(wanted)
        found += [
            _public_alone(each, fitted.rows * mass, public, doubt, trust=told)
            for each, mass in zip(wanted, fits, strict=True)
        ]
    return found


def relations_told(fitted: Fitted, predicted: Sequence[Floats]) -> float:
    """Return how much of the relations between measured columns was predicted, in 0..1; 0 if noise hides them.

    1 - d/i for the squared distances d of the predicted counts and i of independent columns to the measured counts,
    less the noise.
    """
    told = independent = fluctuation = 0.0
    for each, means in zip(fitted.measurements, predicted, strict=True):
        names = each.marginal.columns
        product = np.ones(1)
        for name in names:
            product = np.multiply.outer(product, fitted.marginal((name,)))
        alone = fitted.rows * each.marginal.grouped(product.reshape(fitted.domain.shape_of(names)))
        noise = each.values.size * each.deviation**2
        told += float(((each.values - means) ** 2).sum()) - noise
        independent += float(((each.values - alone) ** 2).sum()) - noise
        fluctuation += 5 * each.values.size * each.deviation**4  # of a squared Laplace; a Gaussian has less
    if independent <= 2 * np.sqrt(fluctuation):
        return 0.0
    return float(np.clip(1.0 - told / independent, 0.0, 1.0))


def _public_alone(
    marginal: Marginal, fit: Floats, public: CalibratedRows, doubt: Doubt, *, trust: float
) -> PooledCounts:
    """Return the public counts of a marginal that was not measured, drawn to the fit by what sampling explains.

    Of the squared distance between both, the variances explain a share; as much is taken back (James and Stein). A
    marginal that the fit knows from others stays as it is.
    """
    prediction = public.counts(marginal)
    variances = prediction.variances + doubt.added(prediction.variances)
    apart = float(((prediction.means - fit) ** 2).sum())
    kept = max(0.0, 1.0 - float(variances.sum()) / apart) if apart > 0.0 else 0.0
    deviation = np.sqrt(variances / trust)
    return PooledCounts(
        marginal=marginal,
        values=fit + kept * (prediction.means - fit),
        deviation=deviation,
        mean_error=float(deviation.mean()),
    )


def refit_again(
    fitted: Fitted, codes: Codes | None = None, *, wanted: Sequence[Marginal] = (), trust: float = 1.0
) -> Fitted:
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
        measured = {each.marginal for each in fitted.measurements}
        most = max(0, _MOST_WORK // fitted.space.points - len(measured))
        open_ones = [each for each in wanted if each not in measured][:most]
        evidence = pooled(fitted, codes, wanted=open_ones, trust=trust)
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
    weight = trust * noise / (noise + variances + Doubt(values, noise, means, variances).added(variances))
    together = np.maximum(values + weight * (means - values), 0.0)
    parts = dict(zip(known, np.split(together, np.cumsum([len(each) for each in found])[:-1]), strict=True))
    return [parts.get(name) for name in domain.columns]
