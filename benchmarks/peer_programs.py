"""The programs that `peers` runs inside the peers' own environment: nine deciles with each library. Never imports us.

Called as `python peer_programs.py PEER ROWS TRIALS`; prints one JSON object: mean largest gap, median seconds, version.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

LEVELS = [i / 10 for i in range(1, 10)]
LOWER, UPPER, EPSILON = -10.0, 10.0, 1.0
Release = Callable[[np.ndarray], "list[float]"]


def diffprivlib() -> Release:
    """Nine calls with a ninth of the budget each: the library has nothing joint."""
    from diffprivlib import tools

    share = EPSILON / len(LEVELS)
    return lambda values: [tools.quantile(values, level, epsilon=share, bounds=(LOWER, UPPER)) for level in LEVELS]


def opendp() -> Release:
    """A b-ary tree of counts with Laplace noise, made consistent, assembled from the library's constructors."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    leaves, branching = 4096, 16
    edges = np.linspace(LOWER, UPPER, leaves + 1).tolist()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    tree = (
        space
        >> dp.t.then_find_bin(edges[1:-1])
        >> dp.t.then_count_by_categories(categories=list(range(leaves)), null_category=False)
        >> dp.t.then_b_ary_tree(leaf_count=leaves, branching_factor=branching)
    )
    noisy = dp.binary_search_chain(lambda scale: tree >> dp.m.then_laplace(scale), d_in=1, d_out=EPSILON)
    consistent = dp.t.make_consistent_b_ary_tree(branching)
    read = dp.t.make_quantiles_from_counts(edges, LEVELS)
    return lambda values: read(consistent(noisy(values)))


def python_dp() -> Release:
    """Google's quantile tree (the one of PipelineDP), with its default height 4 and branching 16."""
    from pydp.algorithms.quantile_tree import QuantileTree  # type: ignore[import-not-found]

    def release(values: np.ndarray) -> list[float]:
        tree = QuantileTree(LOWER, UPPER, 4, 16)
        for value in values:
            tree.add_entry(value)
        return list(tree.compute_quantiles(EPSILON, 0.0, 1, 1, LEVELS, "laplace"))

    return release


def quantile_tree() -> Release:
    """The same algorithm in NumPy, for machines on which python-dp has no wheel: compares errors, not speed."""
    height, branching, empty = 4, 16, 0.005
    leaves = branching**height
    rng = np.random.default_rng()

    def release(values: np.ndarray) -> list[float]:
        inside = (np.clip(values, LOWER, UPPER) - LOWER) / (UPPER - LOWER)
        layers = [np.bincount((inside * (leaves - 1)).astype(np.int64), minlength=leaves).astype(np.float64)]
        while len(layers) < height:
            layers.append(layers[-1].reshape(-1, branching).sum(axis=1))
        noisy = [layer + rng.laplace(scale=height / EPSILON, size=len(layer)) for layer in reversed(layers)]
        return [descend(noisy, level) for level in LEVELS]

    def descend(noisy: list[np.ndarray], rank: float) -> float:
        node, width = 0, UPPER - LOWER
        for layer in noisy:
            counts = np.maximum(layer[node * branching : (node + 1) * branching], 0.0)
            counts[counts < empty * counts.sum()] = 0.0
            if counts.sum() <= 0:
                break
            reached = np.cumsum(counts) / counts.sum()
            child = int(np.flatnonzero((reached >= rank - 1e-6) & (counts > 0))[0])
            share = counts[child] / counts.sum()
            rank = min(max((rank - (reached[child] - share)) / share, 0.0), 1.0)
            node, width = node * branching + child, width / branching
        return LOWER + (node + rank) * width

    return release


PEERS: dict[str, tuple[Callable[[], Release], str]] = {
    "diffprivlib": (diffprivlib, "diffprivlib"),
    "opendp": (opendp, "opendp"),
    "python_dp": (python_dp, "python-dp"),
    "quantile_tree": (quantile_tree, "numpy"),
}


def largest_gap(values: np.ndarray, outputs: list[float]) -> float:
    """Return the largest |rank - q n| over the levels."""
    ranks = np.searchsorted(np.sort(values), outputs)
    return float(np.abs(ranks - np.array(LEVELS) * len(values)).max())


def main(peer: str, rows: int, trials: int) -> None:
    """Run one peer and print what came out."""
    warnings.simplefilter("ignore")
    build, package = PEERS[peer]
    release = build()
    rng = np.random.default_rng(rows)
    gaps, seconds = [], []
    for _ in range(trials):
        values = rng.standard_normal(rows)
        start = time.perf_counter()
        outputs = release(values)
        seconds.append(time.perf_counter() - start)
        gaps.append(largest_gap(values, outputs))
    print(
        json.dumps({"gap": statistics.mean(gaps), "seconds": statistics.median(seconds), "version": version(package)})
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
