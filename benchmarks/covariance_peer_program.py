"""The program that `covariance_peers` runs inside the peers' own environment: a private covariance. Never imports us.

Called as `python covariance_peer_program.py PEER ROWS.npy TRIALS`; prints one JSON object: the median Frobenius error
and the median seconds, at a pure epsilon of 1.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

EPSILON = 1.0


def diffprivlib(rows: np.ndarray) -> tuple[Callable[[], np.ndarray], np.ndarray]:
    """Iterative eigenvector sampling, about 0."""
    from diffprivlib.models.utils import covariance_eig

    def run() -> np.ndarray:
        values, vectors = covariance_eig(rows, epsilon=EPSILON, norm=1.0)
        return np.asarray((vectors * values) @ vectors.T / len(rows))

    return run, rows.T @ rows / len(rows)


def opendp(rows: np.ndarray) -> tuple[Callable[[], np.ndarray], np.ndarray]:
    """The library's PCA, which also pays for a mean."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious", "floating-point")
    from opendp.extras.sklearn.decomposition import PCA

    def run() -> np.ndarray:
        model = PCA(epsilon=EPSILON, row_norm=1.0, n_samples=len(rows), n_features=rows.shape[1])
        model.fit(rows)
        return np.asarray((model.components_.T * model.explained_variance_) @ model.components_)

    return run, np.cov(rows.T)


def main() -> None:
    """Run one peer."""
    warnings.simplefilter("ignore")
    peer, path, trials = sys.argv[1], sys.argv[2], int(sys.argv[3])
    run, truth = {"diffprivlib": diffprivlib, "opendp": opendp}[peer](np.load(path))
    errors, seconds = [], []
    for _ in range(trials):
        start = time.perf_counter()
        found = run()
        seconds.append(time.perf_counter() - start)
        errors.append(float(np.linalg.norm(found - truth)))
    print(json.dumps({"error": statistics.median(errors), "seconds": statistics.median(seconds)}))


if __name__ == "__main__":
    main()
