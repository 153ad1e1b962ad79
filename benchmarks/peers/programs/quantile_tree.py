"""Google's quantile tree in NumPy, for machines on which python-dp has no wheel: compares errors, not speed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.peers.programs.trial import Data, Job, main

HEIGHT, BRANCHING, EMPTY = 4, 16, 0.005


def quantiles(job: Job) -> Callable[[Data], list[float]]:
    """Return quantiles by descending a tree of noisy counts, level by level."""
    lower, upper = job["bounds"]
    leaves = BRANCHING**HEIGHT
    rng = np.random.default_rng()

    def release(data: Data) -> list[float]:
        inside = (np.clip(data["x"], lower, upper) - lower) / (upper - lower)
        layers = [np.bincount((inside * (leaves - 1)).astype(np.int64), minlength=leaves).astype(np.float64)]
        while len(layers) < HEIGHT:
            layers.append(layers[-1].reshape(-1, BRANCHING).sum(axis=1))
        noisy = [layer + rng.laplace(scale=HEIGHT / job["epsilon"], size=len(layer)) for layer in reversed(layers)]
        return [descend(noisy, level) for level in job["levels"]]

    def descend(noisy: list[np.ndarray], rank: float) -> float:
        node, width = 0, upper - lower
        for layer in noisy:
            counts = np.maximum(layer[node * BRANCHING : (node + 1) * BRANCHING], 0.0)
            counts[counts < EMPTY * counts.sum()] = 0.0
            if counts.sum() <= 0:
                break
            reached = np.cumsum(counts) / counts.sum()
            child = int(np.flatnonzero((reached >= rank - 1e-6) & (counts > 0))[0])
            share = counts[child] / counts.sum()
            rank = min(max((rank - (reached[child] - share)) / share, 0.0), 1.0)
            node, width = node * BRANCHING + child, width / BRANCHING
        return float(lower + (node + rank) * width)

    return release


if __name__ == "__main__":
    main("numpy", {"quantiles": quantiles})
