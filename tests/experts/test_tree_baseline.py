"""The central baselines: scales, shared nodes, and a constant law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.baselines.experts import simulate_tree, simulate_tree_noise
from benchmarks.baselines.experts.tree_baseline import TreeBaseline

from sidelight.errors import RangeError


def test_reference_scales():
    tree = TreeBaseline(rounds=148, sensitivity=math.sqrt(2) / 8, mu=1.0)
    assert tree.depth == 8
    assert (tree.node_scale, tree.total_scale) == pytest.approx((0.5, math.sqrt(2)), rel=1e-9)
    regret = TreeBaseline(rounds=148, sensitivity=math.sqrt(2) / 8, mu=1.0, aim="min_regret")
    assert regret.total_scale == pytest.approx(math.sqrt(148))
    assert TreeBaseline(rounds=148, sensitivity=1.0, mu=math.inf).total_scale == 0
    assert TreeBaseline(rounds=1, sensitivity=1.0, mu=1.0).depth == 1


@pytest.mark.parametrize("rounds", [1, 2, 3, 8, 148, 256])
def test_a_prefix_needs_at_most_depth_nodes_and_a_report_enters_at_most_depth(rounds):
    tree = TreeBaseline(rounds=rounds, sensitivity=1.0, mu=1.0)
    used = [tree.nodes(prefix) for prefix in range(rounds)]
    assert max(len(nodes) for nodes in used) <= tree.depth
    everything = {node for nodes in used for node in nodes}
    for report in range(rounds - 1):
        assert sum(report >> level == place for level, place in everything) <= tree.depth
    for prefix, nodes in enumerate(used):
        covered = [r for level, place in nodes for r in range(place << level, (place + 1) << level)]
        assert sorted(covered) == list(range(prefix))


def test_the_covariance_of_two_prefixes_counts_shared_nodes():
    tree = TreeBaseline(rounds=16, sensitivity=1.0, mu=1.0)
    noise = np.array(list(simulate_tree_noise(tree, runs=4000, actions=5, rng=np.random.default_rng(1))))
    flat = noise.reshape(16, -1)
    sample = flat @ flat.T / flat.shape[1]
    nodes = [set(tree.nodes(prefix)) for prefix in range(16)]
    shared = np.array([[len(a & b) for b in nodes] for a in nodes]) + 0.0
    np.fill_diagonal(shared, tree.depth)
    assert np.abs(sample - tree.node_scale**2 * shared).max() < 6 * tree.total_scale**2 / math.sqrt(flat.shape[1])


def test_without_noise_it_follows_the_leader():
    gains = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    found = simulate_tree(
        gains, TreeBaseline(rounds=3, sensitivity=1.0, mu=math.inf), runs=2, rng=np.random.default_rng(0)
    )
    assert found.gain.tolist() == [1.0, 1.0]


def test_parameters_are_checked():
    for wrong in ({"rounds": 0}, {"mu": 0.0}, {"aim": "most"}):
        with pytest.raises(RangeError):
            TreeBaseline(**{"rounds": 3, "sensitivity": 1.0, "mu": 1.0, **wrong})
    with pytest.raises(RangeError, match="3 rounds"):
        simulate_tree(
            np.zeros((2, 2)), TreeBaseline(rounds=3, sensitivity=1.0, mu=1.0), runs=1, rng=np.random.default_rng(0)
        )
