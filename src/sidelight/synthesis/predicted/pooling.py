"""Measured marginals pooled with predicted ones, as far as the two agree: post-processing of released numbers.

A noisy count has the variance σ² of the noise everywhere; one of public rows has the variance of sampling, which for
rare cells is far less; one of an earlier release has that release's noise. Each cell is pooled by inverse variances.
How far the prediction differs is judged by the measured cells (`doubt`) and added to its variances: a wrong prediction
is found worthless everywhere and changes next to nothing. Where a prediction told the relations of measured columns, it
is believed about marginals of the workload that were not measured, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from sidelight.synthesis.cells.spaces import Floats
from sidelight.synthesis.cells.workload import Marginal
from sidelight.synthesis.engines.marginals import MANY_POINTS
from sidelight.synthesis.fitting.fitted import Fitted
from sidelight.synthesis.fitting.refit import Evidence, Refit


@dataclass(frozen=True, eq=False)
class PredictedCounts:
    """Predicted counts of a partition, in rows of the table, with their variances; infinite where nothing is known."""

    means: Floats = field(repr=False)
    variances: Floats = field(repr=False)


class CountsPredictor(Protocol):
    """Whatever predicts counts: public rows, or earlier releases."""

    def counts(self, marginal: Marginal) -> PredictedCounts:
        """Return the predicted counts of a partition."""
        ...


#: So many cells at least are judged together, in so many groups at most.
_GROUP, _MOST_GROUPS = 100, 8


class Doubt:
    """What is unexplained in the distance between values with noise and predicted means, by the size of the variance.

    Cells of about the same predicted variance stand together: those that claim to be precise are held to their claim by
    their own kind.

    >>> even = np.full(400, 4.0)
    >>> doubt = Doubt(np.zeros(400), even, np.full(400, 100.0), even)
    >>> doubt.added(np.array([0.0, 4.0, 50.0])).tolist()
    [9992.0, 9992.0, 9992.0]
    """

    def __init__(self, values: Floats, noise: Floats, means: Floats, variances: Floats) -> None:
        known = np.flatnonzero(np.isfinite(variances))
        ordered = known[np.argsort(variances[known], kind="stable")]
        groups = np.array_split(ordered, int(np.clip(len(known) // _GROUP, 1, _MOST_GROUPS)))
        self._ends: Floats = np.array([variances[group[-1]] for group in groups[:-1]])
        self._excess: Floats = np.array(
            [
                max(0.0, float(((values - means)[group] ** 2 - noise[group] - variances[group]).mean()))
                if len(group)
                else 0.0
                for group in groups
            ]
        )

    def added(self, variances: Floats) -> Floats:
        """Return what is added to predicted variances of these sizes."""
        return np.asarray(self._excess[np.searchsorted(self._ends, variances, "left")])

    def pool(
        self, values: Floats, noise: Floats | float, predicted: PredictedCounts, *, trust: float
    ) -> tuple[Floats, Floats]:
        """Return values of variance σ² (`noise`) pooled with predicted ones of variance v, and the variances of that.

        The prediction has the weight t·σ²/(σ² + v + e) for a trust t. Written without 1 - weight, which would be 0 for
        noise that is far larger than v.

        >>> doubt = Doubt(np.zeros(1), np.ones(1), np.zeros(1), np.ones(1))
        >>> one = PredictedCounts(np.ones(1), np.ones(1))
        >>> [each.tolist() for each in doubt.pool(np.array([4.0]), 1e60, one, trust=1.0)]
        [[1.0], [1.0]]
        """
        spread = predicted.variances + self.added(predicted.variances)
        with np.errstate(invalid="ignore"):  # where nothing is predicted
            own = ((1.0 - trust) * noise + spread) / (noise + spread)
            weight = trust * noise / (noise + spread)
        known = np.isfinite(spread)
        together = np.where(known, own * values + weight * predicted.means, values)
        return together, np.where(known, own * noise, noise)


#: Predictions that told less of the relations than this are not asked about others.
_LEAST_TOLD = 0.25

#: So many points times marginals may a refit go through in a sweep; unmeasured marginals beyond that are left out.
_MOST_WORK = 50_000_000

#: Sweeps of the refit to pooled counts, which starts where the engine ended, on few points and on many.
_SWEEPS, _MANY_POINTS_SWEEPS = 60, 20


@dataclass(frozen=True, eq=False, kw_only=True)
class PooledCounts:
    """Counts of a partition from noise and a prediction together: each cell has its own standard deviation."""

    marginal: Marginal
    values: Floats = field(repr=False)
    deviation: Floats = field(repr=False)
    mean_error: float


def pooled(
    fitted: Fitted, known: CountsPredictor, *, wanted: Sequence[Marginal] = (), trust: float = 1.0
) -> list[PooledCounts]:
    """Return the measurements with predicted counts pooled in, then what is predicted of other marginals.

    `trust` in [0, 1] multiplies the weight of the predicted counts.
    """
    held = fitted.measurements
    predicted = [known.counts(each.marginal) for each in held]
    doubt = Doubt(
        np.concatenate([each.values.ravel() for each in held]),
        np.concatenate([np.full(each.values.size, each.deviation**2) for each in held]),
        np.concatenate([each.means.ravel() for each in predicted]),
        np.concatenate([each.variances.ravel() for each in predicted]),
    )
    found = []
    for each, prediction in zip(held, predicted, strict=True):
        values, variances = doubt.pool(each.values, each.deviation**2, prediction, trust=trust)
        found.append(
            PooledCounts(
                marginal=each.marginal, values=values, deviation=np.sqrt(variances), mean_error=each.mean_error
            )
        )
    told = trust * relations_told(fitted, [each.means for each in predicted])
    if told >= _LEAST_TOLD:
        for marginal, mass in zip(wanted, fitted.marginals(wanted), strict=True):
            prediction = known.counts(marginal)
            if np.isfinite(prediction.variances).all():
                found.append(_predicted_alone(marginal, fitted.rows * mass, prediction, doubt, trust=told))
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


def _predicted_alone(
    marginal: Marginal, fit: Floats, prediction: PredictedCounts, doubt: Doubt, *, trust: float
) -> PooledCounts:
    """Return the predicted counts of a marginal that was not measured, drawn to the fit by what chance explains.

    Of the squared distance between both, the variances explain a share; as much is taken back (James and Stein). A
    marginal that the fit knows from others stays as it is.
    """
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
    fitted: Fitted, known: CountsPredictor | None = None, *, wanted: Sequence[Marginal] = (), trust: float = 1.0
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
    if known is not None:
        measured = {each.marginal for each in fitted.measurements}
        most = max(0, _MOST_WORK // fitted.space.points - len(measured))
        open_ones = [each for each in wanted if each not in measured][:most]
        evidence = pooled(fitted, known, wanted=open_ones, trust=trust)
    for each in evidence:
        model.add(each)
    model.fit(sweeps=_SWEEPS if fitted.space.points <= MANY_POINTS else _MANY_POINTS_SWEEPS)
    return replace(fitted, weights=model.weights)
