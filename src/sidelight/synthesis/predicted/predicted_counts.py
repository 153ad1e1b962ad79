"""Counts that something known beforehand predicts, public rows or earlier releases, with their variances."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from sidelight.synthesis.cells.spaces import Floats
from sidelight.synthesis.cells.workload import Marginal


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
