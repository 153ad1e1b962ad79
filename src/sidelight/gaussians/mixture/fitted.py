"""A mixture that was released: densities, labels, draws and ellipses. Post-processing, free."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.gaussians.fitted import FittedGaussian
from sidelight.gaussians.public_rows import Floats


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
