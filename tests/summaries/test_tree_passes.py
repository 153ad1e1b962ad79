"""Least squares on a tree against dense linear algebra, and the reference numbers of the hierarchies proof page."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sidelight.records.hierarchy import Hierarchy, LabelTree
from sidelight.summaries.tree_areas import area_variance
from sidelight.summaries.tree_cells import OtherCells, other_cells
from sidelight.summaries.tree_least_squares import tree_estimates, tree_variances
from sidelight.summaries.tree_model import TreeModel
from sidelight.summaries.tree_runs import with_runs


def small() -> LabelTree:
    return Hierarchy("leaf", {"top": 1}).tree(["a1", "a2", "b1", "b2", "b3"])


def random_tree(rng: Any, depth: int = 3) -> LabelTree:
    leaves = [""]
    for _ in range(depth):
        leaves = [f"{leaf}{child}" for leaf in leaves for child in range(rng.integers(1, 4))]
    return Hierarchy("leaf", {f"l{place}": place for place in range(1, depth)}).tree(leaves)


def sums_to(tree: LabelTree, level: int) -> np.ndarray:
    """Return the matrix that adds leaves up to the nodes of a level."""
    found = np.eye(tree.sizes[-1])
    for each in range(tree.depth, level, -1):
        found = tree.up(found, each)
    return found


def test_reference_numbers() -> None:
    tree, values = small(), [np.array([[50.0]]), np.array([[20.0], [26.0]]), np.array([[3.0], [14], [9], [-2], [10]])]
    variances = tree_variances(tree, [1.0, 2.0, 4.0])
    found = tree_estimates(tree, values, variances)
    assert found[0][0, 0] == pytest.approx(48.635762, abs=1e-6)
    assert found[1][:, 0] == pytest.approx([21.582781, 27.052980], abs=1e-6)
    assert found[2][:, 0] == pytest.approx([5.291391, 16.291391, 12.350993, 1.350993, 13.350993], abs=1e-6)
    assert variances.pooled[2][:, 0] == pytest.approx([2.251656] * 2 + [2.781457] * 3, abs=1e-6)
    area = np.array([[0.0], [1.0], [1.0], [0.0], [0.0]])
    assert area_variance(tree, area, variances)[0] == pytest.approx(4.821192, abs=1e-6)


def test_dense_least_squares_agrees() -> None:
    """Values, variances and any weighted area, with levels left out at random."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        tree = random_tree(rng)
        kappas = [float(rng.uniform(0.5, 9)) if rng.random() < 0.7 else np.inf for _ in range(tree.depth)] + [2.0]
        values = [None if np.isinf(k) else rng.normal(size=(n, 1)) for k, n in zip(kappas, tree.sizes, strict=True)]
        rows = [sums_to(tree, level) / np.sqrt(k) for level, k in enumerate(kappas) if not np.isinf(k)]
        right = [y / np.sqrt(k) for y, k in zip(values, kappas, strict=True) if y is not None]
        design, target = np.concatenate(rows), np.concatenate(right)
        covariance = np.linalg.inv(design.T @ design)
        leaves = covariance @ design.T @ target
        variances = tree_variances(tree, kappas)
        found = tree_estimates(tree, values, variances)
        for level in range(tree.depth + 1):
            matrix = sums_to(tree, level)
            assert found[level] == pytest.approx(matrix @ leaves, abs=1e-10)
            dense = np.diag(matrix @ covariance @ matrix.T)
            assert variances.pooled[level][:, 0] == pytest.approx(dense, abs=1e-11)
        beta = rng.normal(size=(tree.sizes[-1], 1))
        assert area_variance(tree, beta, variances)[0] == pytest.approx((beta.T @ covariance @ beta)[0, 0], abs=1e-10)


@pytest.mark.parametrize("exact", [False, True])
def test_margins_of_other_columns_and_exact_totals(exact: bool) -> None:
    """Five possible cells of 2 by 3, all margins of one column measured, against constrained dense least squares."""
    rng = np.random.default_rng(2)
    for _ in range(25):
        tree = random_tree(rng)
        possible = np.array([True, True, False, True, True, True])
        base = other_cells((("x", "y"), ("u", "v", "w")), possible)
        cells = OtherCells(labels=base.labels, weights={(0, 1): 0.7, (0,): 0.1, (1,): 0.1, (): 0.1}, possible=possible)
        top = int(rng.integers(0, tree.depth)) if exact else None
        kappas = tuple(float(rng.uniform(0.5, 9)) for _ in range(tree.depth + 1))
        model = TreeModel(tree=tree, cells=cells, kappas=kappas, law="gaussian", exact_level=top)
        truth = rng.integers(0, 9, (tree.sizes[-1], 6)) * possible
        rows, right, pooled, totals, fixed, levels = [], [], [], [], [], [truth.astype(float)]
        for level in range(tree.depth, 0, -1):
            levels.insert(0, tree.up(levels[0], level))
        there = np.flatnonzero(possible)
        for level, kappa in enumerate(kappas):
            noisy = {}
            for axes, weight in cells.weights.items():
                if top is not None and level <= top and not axes:
                    continue
                sd = np.sqrt(kappa / weight)
                noisy[axes] = cells.summed(levels[level], axes)
                noisy[axes] = noisy[axes] + rng.normal(size=noisy[axes].shape) * sd
                onto = np.zeros((cells.width(axes), 6))
                onto[cells.places(axes), np.arange(6)] = 1
                rows.append(np.kron(sums_to(tree, level), onto[:, there]) / sd)
                right.append(noisy[axes].reshape(-1) / sd)
            pooled.append(cells.pooled(noisy))
            if top is not None and level <= top:
                totals.append(levels[level].sum(axis=1))
                fixed.append(np.kron(sums_to(tree, level), np.ones((1, len(there)))))
        design, target = np.concatenate(rows), np.concatenate(right)
        normal, side = design.T @ design, design.T @ target
        if top is not None:  # exact totals of the finest such level hold those above
            a, b = fixed[-1], totals[-1]
            whole = np.block([[normal, a.T], [a, np.zeros((len(a), len(a)))]])
            inverse = np.linalg.inv(whole)
            covariance = inverse[: len(normal), : len(normal)]
            solution = (inverse @ np.concatenate([side, b]))[: len(normal)]
        else:
            covariance = np.linalg.inv(normal)
            solution = covariance @ side
        found = model.estimates(pooled, totals)
        dense = np.zeros((tree.sizes[-1], 6))
        dense[:, there] = solution.reshape(tree.sizes[-1], -1)
        for level in range(tree.depth + 1):
            matrix = sums_to(tree, level)
            assert found[level] == pytest.approx(matrix @ dense, abs=1e-8)
            shown, at = model.node_variances(level), 0
            for axes in cells.shown:
                onto = np.zeros((cells.width(axes), 6))
                onto[cells.places(axes), np.arange(6)] = 1
                big = np.kron(matrix, onto[:, there])
                wanted = np.diag(big @ covariance @ big.T).reshape(len(matrix), -1)
                assert shown[:, at : at + cells.width(axes)] == pytest.approx(wanted, abs=1e-8)
                at += cells.width(axes)


def test_an_unmeasured_level_of_single_children_changes_nothing() -> None:
    plain = Hierarchy("leaf", {"top": 1}).tree(["a1x", "a2x", "b1x"])
    longer = Hierarchy("leaf", {"top": 1, "between": 2}).tree(["a1x", "a2x", "b1x"])
    values = [np.array([[9.0]]), np.array([[4.0], [6.0]]), np.array([[1.0], [2.0], [5.0]])]
    one = tree_estimates(plain, values, tree_variances(plain, [1.0, 2.0, 3.0]))
    other = tree_estimates(longer, [*values[:2], None, values[2]], tree_variances(longer, [1.0, 2.0, np.inf, 3.0]))
    assert other[3] == pytest.approx(one[2])


def test_exact_twice_gives_no_nan() -> None:
    tree = small()
    variances = tree_variances(tree, [0.0, 0.0, 4.0])
    found = tree_estimates(tree, [np.array([[46.0]]), np.array([[20.0], [26.0]]), np.ones((5, 1))], variances)
    assert np.isfinite(np.concatenate(found)).all()
    assert found[1][:, 0].tolist() == [20, 26]
    assert variances.pooled[1].max() == 0 < variances.pooled[2].min()


def test_runs_of_leaves_change_no_estimate() -> None:
    """Runs are a level without measurements: estimates and variances of all others stay."""
    rng = np.random.default_rng(4)
    labels = [f"{top}{leaf:03}" for top, many in (("a", 61), ("b", 7), ("c", 20)) for leaf in range(many)]
    tree = Hierarchy("leaf", {"top": 1}).tree(labels)
    model = TreeModel(tree=tree, cells=other_cells(()), kappas=(9.0, 4.0, 1.0), law="gaussian")
    wide = with_runs(model)
    sizes, extra = wide.tree.sizes, wide.tree.depth - tree.depth
    assert (sizes[:2], sizes[-1]) == ((1, 3), 88)
    assert sizes[2] == 4  # the largest family is halved first
    assert all(1.5 < after / before < 2.5 for before, after in pairwise(sizes[3:-1]))
    above = np.arange(88)
    for level in range(wide.tree.depth, tree.depth - 1, -1):
        above = wide.tree.parents[level][above]
    assert (above == tree.parents[2]).all()  # no run lies in two families
    measured: list[Any] = [rng.normal(size=(size, 1)) for size in tree.sizes]
    found, other = model.estimates(measured), wide.estimates([*measured[:2], *[None] * extra, measured[2]])
    for mine, theirs in zip(found, [*other[:2], other[-1]], strict=True):
        assert mine == pytest.approx(theirs, abs=1e-12)
    for level in range(tree.depth, wide.tree.depth):
        assert other[level] == pytest.approx(wide.tree.up(other[level + 1], level + 1), abs=1e-12)
    pairs = TreeModel(
        tree=Hierarchy("leaf", {"top": 1}).tree(["a1", "a2", "b1"]),
        cells=other_cells(()),
        kappas=(9.0, 4.0, 1.0),
        law="gaussian",
    )
    assert with_runs(pairs) is pairs  # no family is large enough for two runs
