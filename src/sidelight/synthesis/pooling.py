"""Measured marginals pooled with predicted ones, as far as the two agree: post-processing of released numbers.

A noisy count has the variance σ² of the noise everywhere; one of public rows has the variance of sampling, which for
rare cells is far less; one of an earlier release has that release's noise. Each cell is pooled by inverse variances.
How far the prediction differs is judged by the measured cells (`doubt`) and added to its variances: a wrong prediction
is found worthless everywhere and changes next to nothing. Where a prediction explains the relations between measured
columns, it is also used for marginals of the workload that were not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from sidelight.synthesis.domain import CellNoise, Codes, Domain, cell_deviation
from sidelight.synthesis.marginal_engine import MANY_POINTS
from sidelight.synthesis.refit import Evidence, Fitted, PooledCounts, Refit
from sidelight.synthesis.spaces import Floats
from sidelight.synthesis.workload import Marginal


@dataclass(frozen=True, eq=False)
class PredictedCounts:
    """Predicted counts of a partition, in rows of the table, with their variances; infinite where nothing is known."""

    means: Floats = field(repr=False)
    variances: Floats = field(repr=False)


#: The fewest cells that are judged together, and the most groups of them.
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


#: Predictions that explain less of the relations than this are not used for other marginals.
_LEAST_EXPLAINED = 0.25

#: The most points times marginals in a sweep of a refit; unmeasured marginals beyond that are left out.
_MOST_WORK = 50_000_000

#: Sweeps of the refit to pooled counts, which starts where the engine ended, on few points and on many.
_SWEEPS, _MANY_POINTS_SWEEPS = 20, 10


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
    explained = trust * relations_explained(fitted, [each.means for each in predicted])
    if explained >= _LEAST_EXPLAINED:
        for marginal, mass in zip(wanted, fitted.marginals(wanted), strict=True):
            prediction = known.counts(marginal)
            if np.isfinite(prediction.variances).all():
                found.append(_predicted_alone(marginal, fitted.rows * mass, prediction, doubt, trust=explained))
    return found


def relations_explained(fitted: Fitted, predicted: Sequence[Floats]) -> float:
    """Return how much of the relations between measured columns was predicted, in 0..1; 0 if noise hides them.

    1 - d/i for the squared distances d of the predicted counts and i of independent columns to the measured counts,
    less the noise.
    """
    explained = independent = fluctuation = 0.0
    for each, means in zip(fitted.measurements, predicted, strict=True):
        names = each.marginal.columns
        product = np.ones(1)
        for name in names:
            product = np.multiply.outer(product, fitted.marginal((name,)))
        alone = fitted.rows * each.marginal.grouped(product.reshape(fitted.domain.shape_of(names)))
        noise = each.values.size * each.deviation**2
        explained += float(((each.values - means) ** 2).sum()) - noise
        independent += float(((each.values - alone) ** 2).sum()) - noise
        fluctuation += 5 * each.values.size * each.deviation**4  # of a squared Laplace; a Gaussian has less
    if independent <= 2 * np.sqrt(fluctuation):
        return 0.0
    return float(np.clip(1.0 - explained / independent, 0.0, 1.0))


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
    model.settle(sweeps=_SWEEPS if fitted.space.points <= MANY_POINTS else _MANY_POINTS_SWEEPS)
    return replace(fitted, weights=model.weights)


# Public rows are weighted by iterative proportional fitting until their one-way marginals are those that the release
# knows well (calibration, as in survey statistics): what remains of them is the relations between columns. Earlier
# releases of one population differ by sampling: a cell with a share p of N rows has the variance N·p.

_CALIBRATION_SWEEPS = 10

#: Weights whose effective number of rows, (Σw)²/Σw², is less than this share of the rows are given up.
_LEAST_EFFECTIVE = 0.25

#: A value's factor counts at most so much, or one over it, when the weight of a row that was not seen is guessed.
_MOST_FACTOR = 8.0

#: Half a row is added to what a public cell holds when its variance is judged: an empty cell is not certainly empty.
_UNSEEN = 0.5


class CalibratedRows:
    """Public rows, their weights (which sum to the table's rows), and each value's factor in them."""

    def __init__(self, domain: Domain, codes: Codes, *, rows: float) -> None:
        self.domain = domain
        self.codes = codes
        self._usual = rows / len(codes)
        self.weights: Floats
        self._factors: list[Floats]
        self._start_again()

    def calibrate(self, targets: Sequence[Floats | None]) -> None:
        """Bring the one-way marginals to the targets, one for each column or None; values without a row stay without.

        Where only few rows would then carry the weight, another population, all rows keep the same. The number of
        sweeps is fixed.
        """
        total = float(self.weights.sum())
        for _ in range(_CALIBRATION_SWEEPS):
            for place, target in enumerate(targets):
                if target is None:
                    continue
                present = np.bincount(self.codes[:, place], weights=self.weights, minlength=len(target))
                factor = np.divide(target, present, out=np.ones_like(present), where=present > 0)
                self.weights = self.weights * factor[self.codes[:, place]]
                self._factors[place] = self._factors[place] * factor
                left = float(self.weights.sum())
                if left <= 0.0:  # the targets want only what the public rows have nothing of
                    self._start_again()
                    return
                self.weights *= total / left
        if total**2 < _LEAST_EFFECTIVE * len(self.codes) * float((self.weights**2).sum()):
            self._start_again()

    def _start_again(self) -> None:
        self.weights = np.full(len(self.codes), self._usual)
        self._factors = [np.ones(size) for size in self.domain.sizes]

    def counts(self, marginal: Marginal) -> PredictedCounts:
        """Return the weighted counts of a partition; the variance of a sum of weighted rows is the sum of squares."""
        columns = marginal.columns
        shape = self.domain.shape_of(columns)
        cells = self.domain.ravel(self.codes, columns)
        size = self.domain.cells_of(columns)

        def summed(values: Floats) -> Floats:
            inside = np.bincount(cells, weights=values, minlength=size).reshape(shape)
            return np.asarray(marginal.grouped(inside), np.float64)

        weight = np.full(1, self._usual)
        for name in columns:
            factor = np.clip(self._factors[self.domain.columns.index(name)], 1 / _MOST_FACTOR, _MOST_FACTOR)
            weight = np.multiply.outer(weight, factor)
        weight = weight.reshape(shape)
        unseen = marginal.grouped(weight**2) / marginal.grouped(np.ones(shape))
        return PredictedCounts(summed(self.weights), summed(self.weights**2) + _UNSEEN * unseen)


def calibrated(fitted: Fitted, codes: Codes, *, trust: float = 1.0) -> CalibratedRows:
    """Return public rows with the released shares of every column that was measured."""
    public = CalibratedRows(fitted.domain, codes, rows=fitted.rows)
    public.calibrate(_one_way_targets(fitted, public, trust=trust))
    return public


def _one_way_targets(fitted: Fitted, public: CalibratedRows, *, trust: float) -> list[Floats | None]:
    """Return the counts of every measured column: fitted and public ones pooled; None where none was measured."""
    domain = fitted.domain
    noises = [CellNoise(each.marginal.columns, each.deviation) for each in fitted.measurements if each.marginal.fine]
    deviations = {name: cell_deviation((name,), domain, noises) for name in domain.columns}
    known = [name for name, deviation in deviations.items() if np.isfinite(deviation)]
    if not known:
        return [None] * len(domain.columns)
    found = [fitted.rows * fitted.marginal((name,)) for name in known]
    predicted = [public.counts(Marginal((name,))) for name in known]
    values = np.concatenate(found)
    noise = np.concatenate([np.full(len(each), deviations[name] ** 2) for name, each in zip(known, found, strict=True)])
    means = np.concatenate([each.means for each in predicted])
    variances = np.concatenate([each.variances for each in predicted])
    doubt = Doubt(values, noise, means, variances)
    together, _ = doubt.pool(values, noise, PredictedCounts(means, variances), trust=trust)
    parts = dict(
        zip(known, np.split(np.maximum(together, 0.0), np.cumsum([len(each) for each in found])[:-1]), strict=True)
    )
    return [parts.get(name) for name in domain.columns]


class EarlierCounts:
    """Earlier releases of the same domain, each with the noise of its measured marginals; `rows` of the next table."""

    def __init__(self, releases: Sequence[Fitted], noises: Sequence[Sequence[CellNoise]], *, rows: float) -> None:
        self._releases = tuple(zip(releases, noises, strict=True))
        self._rows = rows

    def counts(self, marginal: Marginal) -> PredictedCounts:
        """Return the average by inverse variances of all releases in which the columns were measured."""
        averages, variances = [], []
        for release, noises in self._releases:
            (mass,) = release.marginals([marginal])
            cells = release.domain.cells_of(marginal.columns) / mass.size  # in a group of values
            scale = self._rows / release.rows
            noise = cells * (cell_deviation(marginal.columns, release.domain, noises) * scale) ** 2
            averages.append(self._rows * mass)
            variances.append(noise + (1.0 + scale) * self._rows * mass + 1.0)
        information = 1.0 / np.array(variances)
        total = information.sum(axis=0)
        if not total.all():  # measured in none
            return PredictedCounts(np.mean(averages, axis=0), np.full(averages[0].shape, np.inf))
        return PredictedCounts((information * np.array(averages)).sum(axis=0) / total, 1.0 / total)


#: Whatever predicts counts: public rows, or earlier releases.
CountsPredictor: TypeAlias = CalibratedRows | EarlierCounts
