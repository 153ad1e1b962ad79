"""The value of a mixture release, and what follows from it for free: densities, labels, samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from sidelight.gaussians.mixture.supercluster import Floats


class MixtureValue(dict[str, Any]):
    """A plain mapping that prints in a few lines.

    "means" (k x d), "covariances" (k x d x d), "weights" (k); "certified" (False for the single Gaussian of
    on_failure="single"); "rows", the noisy number of rows; "checks" with the noisy "rows" and "ambiguous" rows of every
    cell, the noisy number of "dropped" rows and the noise's "deviation", or None; "components" with the account of
    each estimate; "warnings", from released and public numbers alone.
    """

    def __repr__(self) -> str:
        count, width = self["means"].shape
        shares = ", ".join(f"{weight:.3f}" for weight in self["weights"])
        state = "" if self["certified"] else ", not certified: one Gaussian of all rows"
        notes = "".join(f"\n  warning: {text}" for text in self["warnings"])
        return f"{count} Gaussian(s) of {width} columns, weights {shares}{state}{notes}"


def log_densities(rows: Floats, means: Floats, covariances: Floats) -> Floats:
    """Return log N(x; μ_j, Σ_j): one row a record, one column a component."""
    width = rows.shape[1]
    found = np.empty((len(rows), len(means)))
    for place, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        factor = np.linalg.cholesky(covariance)
        whitened = np.linalg.solve(factor, (rows - mean).T)
        log_scale = float(np.log(np.diag(factor)).sum())
        found[:, place] = -(width * np.log(2 * np.pi) + (whitened**2).sum(axis=0)) / 2 - log_scale
    return found
