"""Runs of the central baselines: the leader of tree-aggregated prefix sums."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.baselines.experts.ftpl import SimulatedRuns, checked_gains
from benchmarks.baselines.experts.tree_baseline import TreeBaseline
from sidelight.errors import RangeError
from sidelight.experts.player import Floats


def simulate_tree_noise(
    tree: TreeBaseline,
    *,
    runs: int,
    actions: int,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    """Yield the noise of the prefix sums before rounds 1, 2, ...: (runs, n), shared nodes and fresh padding."""
    nodes: dict[int, tuple[int, Floats]] = {}
    for prefix in range(tree.rounds):
        used = tree.nodes(prefix)
        noise = np.sqrt(tree.depth - len(used)) * rng.standard_normal((runs, actions))
        for level, place in used:
            if level not in nodes or nodes[level][0] != place:
                nodes[level] = (place, rng.standard_normal((runs, actions)))
            noise += nodes[level][1]
        yield tree.node_scale * noise


def simulate_tree(
    gains: ArrayLike,
    tree: TreeBaseline,
    *,
    runs: int,
    rng: np.random.Generator,
) -> SimulatedRuns:
    """Run the baseline `runs` times on the same T x n gains."""
    true = checked_gains(gains)
    if len(true) != tree.rounds:
        raise RangeError(f"the tree is for {tree.rounds} rounds, got {len(true)}")
    total, switches = np.zeros(runs), np.zeros(runs, dtype=np.int64)
    sums = np.zeros(true.shape[1])
    played: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None
    for gain, noise in zip(true, simulate_tree_noise(tree, runs=runs, actions=true.shape[1], rng=rng), strict=True):
        action = np.argmax(sums + noise, axis=1)
        total += gain[action]
        switches += 0 if played is None else action != played
        played = action
        sums += gain
    return SimulatedRuns(gain=total, switches=switches)
