"""Runs of neighbouring leaves between the leaves and their parents: levels that are never measured nor published.

A level without measurements changes no estimate of the others. Predictions need them: what a prediction misses is alike
in neighbouring leaves as a rule, and adds up in every area that is made of them. How far that reaches differs between
tables, so every run is halved again down to single leaves, and trust is learned for each of them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sidelight.records.hierarchy import LabelTree
from sidelight.summaries.tree_model import TreeModel


def with_runs(model: TreeModel) -> TreeModel:
    """Return the model with levels of runs above the leaves; itself where no family is large enough for two.

    Runs lie in the order of the tree, which is that of the labels.

    >>> from sidelight.records.hierarchy import Hierarchy
    >>> from sidelight.summaries.tree_cells import other_cells
    >>> tree = Hierarchy("leaf", {"top": 1}).tree([f"{top}{leaf:02}" for top in "ab" for leaf in range(25)])
    >>> model = TreeModel(tree=tree, cells=other_cells(()), kappas=(1.0, 1.0, 1.0), law="gaussian")
    >>> with_runs(model).tree.sizes
    (1, 2, 4, 8, 16, 32, 50)
    """
    tree = model.tree
    largest = int(np.diff(np.append(tree.starts[-1], tree.sizes[-1])).max())
    for power in range(largest.bit_length() - 1, 0, -1):
        tree = _split(tree, 2**power)
    if tree is model.tree:
        return model
    added = [math.inf] * (tree.depth - model.tree.depth)
    return replace(model, tree=tree, kappas=(*model.kappas[:-1], *added, model.kappas[-1]))


def _split(tree: LabelTree, about: int) -> LabelTree:
    """Return the tree with a level of runs of `about` leaves; itself where no family is large enough for two."""
    leaves = tree.sizes[-1]
    family, start = tree.parents[-1], tree.starts[-1]
    size = np.diff(np.append(start, leaves))
    runs = np.maximum(np.rint(size / about).astype(np.int64), 1)
    if runs.max() == 1:
        return tree
    place = np.arange(leaves) - start[family]
    run = place * runs[family] // size[family]
    changes = np.append(True, (family[1:] != family[:-1]) | (run[1:] != run[:-1]))
    first = np.flatnonzero(changes)
    above = family[first]
    return LabelTree(
        names=(*tree.names[:-1], f"run of {about}", tree.names[-1]),
        ids=(*tree.ids[:-1], tuple(map(str, range(len(first)))), tree.ids[-1]),
        parents=(*tree.parents[:-1], above, np.cumsum(changes) - 1),
        starts=(*tree.starts[:-1], np.searchsorted(above, np.arange(tree.sizes[-2])), first),
        order=tree.order,
    )
