"""CoinPress from declared ranges (Biswas, Dong, Kamath and Ullman 2020), without public rows and without shrinkage.

Use two or more public rows instead, `GaussianFit(prediction=...)`: no range has to be guessed, and the error is lower.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from sidelight.gaussians.gaussian_steps import KnownRanges
from sidelight.gaussians.point_cloud import Floats
from sidelight.gaussians.step_arithmetic import Preconditioner, symmetric
from sidelight.mechanisms.additive import Law

_FLOOR = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class DeclaredRanges(KnownRanges):
    """Ranges ‖μ‖ <= mean_bound and Σ ⪯ variance_bound·I that the user declares."""

    def whitened(self, noisy: Floats, *, rows: float, noise_scale: float, law: Law) -> Floats:
        """Return the noisy covariance with positive eigenvalues, as CoinPress leaves it."""
        del noise_scale, law
        values, vectors = np.linalg.eigh(symmetric(noisy / rows))
        floor = max(_FLOOR, 1e-12 * float(values[-1]))  # less is lost beside the largest one
        return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def declared_ranges(width: int, *, mean_bound: float, variance_bound: float) -> DeclaredRanges:
    """Return what the ranges of a query say before any row is read."""
    start = Preconditioner("ranges", np.eye(width) / sqrt(variance_bound), variance_bound)
    return DeclaredRanges(start=start, centre=np.zeros(width), mean_bound=mean_bound, white=False)
