"""Public rows weighted so that their columns agree with what was released: calibration, as in survey statistics.

A public sample often has other shares of women, ages or regions than the private table, and yet the same relations
between columns. Its rows get weights, factor by factor and column by column (iterative proportional fitting), until its
one-way marginals are those that the release knows well; what remains of it is the relations. Post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sidelight.synthesis.domain import Codes, Domain
from sidelight.synthesis.measurement import Measurement
from sidelight.synthesis.spaces import Floats
from sidelight.synthesis.workload import Marginal

_SWEEPS = 10
#: Weights whose effective number of rows, (Σw)²/Σw², is less than this share of the rows are given up.
_LEAST_EFFECTIVE = 0.25
#: A value's factor counts at most so much, or one over it, when the weight of a row that was not seen is guessed.
_MOST_FACTOR = 8.0
#: Half a row is added to what a public cell holds when its variance is judged: an empty cell is not certainly empty.
_UNSEEN = 0.5


@dataclass(frozen=True, eq=False)
class PublicCounts:
    """Counts of a partition that public rows predict, in rows of the table, with their sampling variances."""

    means: Floats = field(repr=False)
    variances: Floats = field(repr=False)


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

    def counts(self, marginal: Marginal) -> PublicCounts:
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
        return PublicCounts(summed(self.weights), summed(self.weights**2) + _UNSEEN * unseen)


def one_way_deviation(measurements: Sequence[Measurement], domain: Domain, name: str) -> float:
    """Return the standard deviation of a value's count from all measured marginals with its column; inf without one."""
    (size,) = domain.shape_of([name])
    information = sum(
        size / (each.deviation**2 * each.values.size)
        for each in measurements
        if name in each.marginal.columns and each.marginal.fine
    )
    return 1.0 / float(np.sqrt(information)) if information else float("inf")
