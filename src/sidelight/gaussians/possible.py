"""What a mean and a covariance can be, by declarations alone: the last step of every estimate, and free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sidelight.gaussians.public_rows import Floats
from sidelight.records import Number
from sidelight.records.numbers import nearest_float


@dataclass(frozen=True, kw_only=True, eq=False)
class Limits:
    """The declared bounds of the columns (values are clamped to them), and the ranges of the query if it has any.

    Accuracy: means and eigenvalues are moved to the nearest ones in convex sets that hold the true ones, so they come
    no further from them. Where a variance is more than its column's bounds allow, its row and column are scaled down.
    """

    columns: tuple[Number, ...]
    mean_bound: float | None = None
    variance_bound: float | None = None

    @classmethod
    def of(cls, columns: Sequence[Number], **ranges: float | None) -> Limits:
        """Take what the columns declare."""
        return cls(columns=tuple(columns), **ranges)

    def mean(self, found: Floats) -> Floats:
        """Return the nearest mean that can be: within the query's range, and within the bounds of the columns."""
        mean = np.nan_to_num(np.asarray(found, np.float64))
        if self.mean_bound is not None:
            mean = mean / max(1.0, float(np.abs(mean).max(initial=0.0)) / 1e150)  # no square overflows
            mean = mean * min(1.0, self.mean_bound / max(float(np.linalg.norm(mean)), 1e-300))
        return np.asarray(np.clip(mean, *self._ends))

    def covariance(self, found: Floats) -> Floats:
        """Return a covariance that can be: positive semidefinite, and no variance above what is declared."""
        matrix = np.nan_to_num(np.asarray(found, np.float64))
        low, high = self._ends
        largest = (high - low) ** 2 / 4  # Popoviciu; infinite without both bounds
        if self.variance_bound is not None:
            # the values of a symmetric matrix that can be decomposed whatever the noise was
            size = max(float(np.abs(matrix).max(initial=0.0)), 1e-300)
            values, vectors = np.linalg.eigh(matrix / size)
            if values[0] < 0 or values[-1] * size > self.variance_bound:
                matrix = (vectors * np.clip(values * size, 0.0, self.variance_bound)) @ vectors.T
        variances = np.diag(matrix)
        over = variances > largest
        if not over.any():
            return matrix
        roots = np.sqrt(np.where(over, largest / np.where(over, variances, 1.0), 1.0))
        return np.asarray(matrix * roots[:, None] * roots)

    @property
    def _ends(self) -> tuple[Floats, Floats]:
        with np.errstate(over="ignore"):
            low = np.array([-np.inf if each.lower is None else nearest_float(each.lower) for each in self.columns])
            high = np.array([np.inf if each.upper is None else nearest_float(each.upper) for each in self.columns])
        return np.maximum(low, -1e150), np.minimum(high, 1e150)
