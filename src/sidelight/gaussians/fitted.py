"""Released Gaussians and mixtures: density, draws, labels, and regions that hold a share. Post-processing, free."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log, pi
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.gaussians.point_cloud import Floats


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
        """Return the Mahalanobis distance within which this share of the law lies, in `columns` dimensions."""
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


@dataclass(frozen=True, eq=False)
class FittedMixture:
    """Means (one to a row), covariances and weights of the components.

    >>> found = FittedMixture(np.array([[0.0], [4.0]]), np.ones((2, 1, 1)), np.array([0.5, 0.5]))
    >>> found.labels(np.array([[0.3], [9.0]])).tolist(), found.shares(np.array([[2.0]])).tolist()
    ([0, 1], [[0.5, 0.5]])
    """

    means: Floats
    covariances: Floats
    weights: Floats

    @cached_property
    def components(self) -> tuple[FittedGaussian, ...]:
        """The components as Gaussians."""
        return tuple(FittedGaussian(*each) for each in zip(self.means, self.covariances, strict=True))

    def joint(self, points: Any) -> Floats:
        """Return log(w_j N(x; μ_j, Σ_j)): one row a point, one column a component."""
        return np.stack([each.log_density(points) for each in self.components], axis=1) + np.log(self.weights)

    def log_density(self, points: Any) -> Floats:
        """Return the logarithm of the density at each point."""
        from scipy.special import logsumexp

        return np.asarray(logsumexp(self.joint(points), axis=1))

    def shares(self, points: Any) -> Floats:
        """Return how likely each component is to have made each point; rows add up to 1."""
        from scipy.special import softmax

        return np.asarray(softmax(self.joint(points), axis=1))

    def labels(self, points: Any) -> np.ndarray:
        """Return the likeliest component of each point."""
        return np.asarray(self.joint(points).argmax(axis=1))

    def sample(self, size: int, *, seed: int | None = None) -> tuple[Floats, np.ndarray]:
        """Draw synthetic rows and their components, grouped by component as in scikit-learn."""
        if isinstance(size, bool) or int(size) != size or size < 1:
            raise RangeError(f"n_samples must be a whole number of at least 1, got {size!r}")
        rng = np.random.default_rng(seed)  # noqa: TID251 - draws from a released law protect nobody and need not
        counts = rng.multinomial(size, self.weights)
        seeds = rng.integers(2**63, size=len(counts))
        drawn = [
            each.sample(int(count), seed=int(own))
            for each, count, own in zip(self.components, counts, seeds, strict=True)
        ]
        return np.concatenate(drawn), np.repeat(np.arange(len(counts)), counts)

    def ellipses(self, columns: tuple[int, int] = (0, 1), *, share: float = 0.95, points: int = 200) -> list[Floats]:
        """Return for each component the outline of the ellipse that holds this share of two of its columns."""
        return [each.ellipse(columns, share=share, points=points) for each in self.components]
