"""A Gaussian that was released: density, draws, and regions that hold a share of it. Post-processing, free."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log, pi
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.gaussians.public_rows import Floats


@dataclass(frozen=True, eq=False)
class FittedGaussian:
    """A mean and a covariance matrix with positive eigenvalues.

    >>> found = FittedGaussian(np.array([1.0, 2.0]), np.diag([4.0, 1.0]))
    >>> found.distances([[3.0, 2.0]]).tolist(), bool(found.contains([[3.0, 2.0]], share=0.5)[0])
    ([1.0], True)
    """

    mean: Floats
    covariance: Floats

    @cached_property
    def _factor(self) -> Floats:
        """The lower Cholesky factor; scaled columns keep it exact for columns of very different units."""
        scales = np.sqrt(np.diag(self.covariance))
        return np.asarray(scales[:, None] * np.linalg.cholesky(self.covariance / np.outer(scales, scales)))

    def distances(self, points: Any) -> Floats:
        """Return the Mahalanobis distance of each point."""
        from scipy.linalg import solve_triangular

        deviations = np.asarray(points, np.float64) - self.mean
        white = solve_triangular(self._factor, deviations.T, lower=True, check_finite=False)
        return np.asarray(np.sqrt((white**2).sum(axis=0)))

    def log_density(self, points: Any) -> Floats:
        """Return the logarithm of the density at each point."""
        constant = len(self.mean) * log(2 * pi) / 2 + float(np.log(np.diag(self._factor)).sum())
        return np.asarray(-(self.distances(points) ** 2) / 2 - constant)

    def density(self, points: Any) -> Floats:
        """Return the density at each point."""
        return np.asarray(np.exp(self.log_density(points)))

    def sample(self, size: int, *, seed: int | None = None) -> Floats:
        """Draw points: synthetic rows, as private as the release. A seed is harmless here: no noise depends on it."""
        rng = np.random.default_rng(seed)  # noqa: TID251 - draws from a released law protect nobody and need not
        return np.asarray(self.mean + rng.standard_normal((size, len(self.mean))) @ self._factor.T)

    def radius(self, share: float, *, columns: int | None = None) -> float:
        """Return the Mahalanobis distance within which this share of the law lies, in so many dimensions."""
        from scipy.stats import chi2

        if not 0 < share < 1:
            raise RangeError(f"share must lie strictly between 0 and 1, got {share}; 0.95 is usual")
        return float(np.sqrt(chi2.ppf(share, len(self.mean) if columns is None else columns)))

    def contains(self, points: Any, *, share: float = 0.95) -> np.ndarray:
        """Return for each point whether it lies in the ellipsoid that holds this share."""
        return np.asarray(self.distances(points) <= self.radius(share))

    def ellipse(self, columns: tuple[int, int] = (0, 1), *, share: float = 0.95, points: int = 200) -> Floats:
        """Return the outline, as rows of two numbers, of the ellipse that holds this share of two columns."""
        places = list(columns)
        if len(places) != 2 or len(set(places)) != 2 or not all(0 <= place < len(self.mean) for place in places):
            raise RangeError(f"columns must be two different places from 0 to {len(self.mean) - 1}, got {columns}")
        angle = np.linspace(0, 2 * np.pi, points)
        circle = self.radius(share, columns=2) * np.stack([np.cos(angle), np.sin(angle)])
        factor = np.linalg.cholesky(self.covariance[np.ix_(places, places)])
        return np.asarray(self.mean[places] + (factor @ circle).T)
