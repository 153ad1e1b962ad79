"""Counts that public rows or earlier releases tell beforehand, with their variances: post-processing.

Public rows are weighted so that their columns agree with what was released: calibration, as in survey statistics.
A public sample often has other shares of women, ages or regions than the private table, and yet the same relations
between columns. Its rows get weights, factor by factor and column by column (iterative proportional fitting), until its
one-way marginals are those that the release knows well; what remains of it is the relations.

Earlier releases predict counts, too: their fitted marginals, with the noise they had. Two tables of one population
differ by sampling: a cell with a share p of N rows has the variance N·p, and the same again, scaled, in the earlier
table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sidelight.synthesis.cells.domain import CellNoise, Codes, Domain, cell_deviation
from sidelight.synthesis.cells.spaces import Floats
from sidelight.synthesis.cells.workload import Marginal
from sidelight.synthesis.fitting.fitted import Fitted
from sidelight.synthesis.predicted.pooling import Doubt, PredictedCounts

_SWEEPS = 10

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
        for _ in range(_SWEEPS):
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
