"""Least squares on a tree in two passes: every level informs every other (hierarchies proof page, Theorem 3).

Hand-made because a general solver would need the whole matrix. A level has one variance κ for all of its nodes, or one
for each: infinite where nothing was measured, 0 where the number is exact. Values have a row for each node and a column
for each cell of the other columns; variances have the same, or one column that holds for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.records.hierarchy import LabelTree

Floats: TypeAlias = NDArray[np.float64]
#: The variance of each level: a number, or one for each node.
Kappas: TypeAlias = Sequence["float | Floats"]


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeVariances:
    """The public numbers of both passes.

    Args:
        kappas: κ, of the measurements.
        subtree: s, the variance of each node from its subtree alone.
        children: q, the sum of s over the children of each node; none for leaves.
        pooled: P, the variance of each node after both passes.
    """

    kappas: tuple[Floats, ...]
    subtree: tuple[Floats, ...]
    children: tuple[Floats, ...]
    pooled: tuple[Floats, ...]

    def share(self, tree: LabelTree, level: int) -> Floats:
        """Return f = s/q, what a node of this level takes of what its parent is off; 0 where all siblings are exact."""
        whole = self.children[level - 1][tree.parents[level]]
        return np.divide(self.subtree[level], whole, out=np.zeros_like(whole), where=whole > 0)


def tree_variances(tree: LabelTree, kappas: Kappas) -> TreeVariances:
    """Return the variances of both passes.

    Args:
        tree: The tree.
        kappas: The variance of the measurements of each level, from the root to the leaves, which are measured.

    >>> from sidelight.records.hierarchy import Hierarchy
    >>> tree = Hierarchy("leaf", {"top": 1}).tree(["a1", "a2", "b1", "b2", "b3"])
    >>> [each[:, 0].round(6).tolist() for each in tree_variances(tree, [1.0, 2.0, 4.0]).pooled[:2]]
    [[0.768212], [1.006623, 1.033113]]
    """
    spread = [np.broadcast_to(_column(kappa), (size, _column(kappa).shape[1])) for kappa, size in
              zip(kappas, tree.sizes, strict=True)]  # fmt: skip
    subtree = [np.asarray(spread[-1], np.float64)]
    children = [np.zeros((tree.sizes[-1], 1))]
    for level in range(tree.depth - 1, -1, -1):
        below = tree.up(subtree[0], level + 1)
        children.insert(0, below)
        subtree.insert(0, _together(spread[level], below))
    pooled = [subtree[0]]
    found = TreeVariances(kappas=tuple(spread), subtree=tuple(subtree), children=tuple(children), pooled=())
    for level in range(1, tree.depth + 1):
        own, share = subtree[level], found.share(tree, level)
        pooled.append(own - share * own + share**2 * pooled[-1][tree.parents[level]])
    return TreeVariances(kappas=found.kappas, subtree=found.subtree, children=found.children, pooled=tuple(pooled))


def tree_estimates(tree: LabelTree, measured: Sequence[Floats | None], variances: TreeVariances) -> list[Floats]:
    """Return the least-squares estimate of every node, by level; children add up to their parents.

    Args:
        tree: The tree.
        measured: The noisy values of each level; None where nothing was measured.
        variances: Of these measurements.

    >>> from sidelight.records.hierarchy import Hierarchy
    >>> tree = Hierarchy("leaf", {"top": 1}).tree(["a1", "a2", "b1", "b2", "b3"])
    >>> values = [np.array([[float(each)] for each in row]) for row in ([50], [20, 26], [3, 14, 9, -2, 10])]
    >>> found = tree_estimates(tree, values, tree_variances(tree, [1.0, 2.0, 4.0]))
    >>> found[0].round(6).tolist(), found[2][:2, 0].round(6).tolist()
    ([[48.635762]], [5.291391, 16.291391])
    """
    leaves = measured[-1]
    assert leaves is not None
    up, sums = [np.asarray(leaves, np.float64)], list[Floats]()
    for level in range(tree.depth - 1, -1, -1):
        below = tree.up(up[0], level + 1)
        sums.insert(0, below)
        own = measured[level]
        up.insert(0, below if own is None else _pooled(own, variances.kappas[level], below, variances.children[level]))
    found = [up[0]]
    for level in range(1, tree.depth + 1):
        parents = tree.parents[level]
        found.append(up[level] + variances.share(tree, level) * (found[-1] - sums[level - 1])[parents])
    return found


def _column(kappa: float | Floats) -> Floats:
    array = np.asarray(kappa, np.float64)
    return array.reshape(-1, 1) if array.ndim < 2 else array


def _together(kappa: Floats, below: Floats) -> Floats:
    """Return 1/(1/κ + 1/q): q where nothing was measured, 0 where one of both is exact."""
    with np.errstate(invalid="ignore", divide="ignore"):
        both = kappa * below / (kappa + below)
    return np.where(np.isinf(kappa), below, np.where((kappa == 0) | (below == 0), 0.0, both))


def _pooled(own: Floats, kappa: Floats, sums: Floats, below: Floats) -> Floats:
    """Return s·(y/κ + S/q): S where nothing was measured or all children are exact, y where it is exact itself."""
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = below / (kappa + below)
    weight = np.where(np.isinf(kappa), 0.0, np.where(kappa == 0, 1.0, np.where(below == 0, 0.0, weight)))
    return sums + weight * (own - sums)
