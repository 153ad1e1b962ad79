"""What earlier releases predict of the counts of the next table: their fitted marginals, with the noise they had.

Two tables of one population differ by sampling, too: a cell with a share p of N rows has the variance N·p, and the same
again, scaled, in the earlier table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sidelight.synthesis.cells.cell_deviation import CellNoise, cell_deviation
from sidelight.synthesis.cells.workload import Marginal
from sidelight.synthesis.fitting.fitted import Fitted
from sidelight.synthesis.predicted.predicted_counts import PredictedCounts


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
