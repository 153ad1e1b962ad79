"""Runs of neighbouring leaves between the leaves and their parents: a level that is never measured nor published.

A level without measurements changes no estimate of the others. Predictions need it: what a prediction misses is alike
in neighbouring leaves as a rule, and adds up in every area that is made of them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sidelight.records.hierarchy import LabelTree
from sidelight.summaries.tree_model import TreeModel

#: About how many leaves a run has; in the order of the tree, which is that of the labels.
_RUN = 12


def with_runs(model: TreeModel) -> TreeModel:
    """Return the model with a level of runs above the leaves; itself where no family is large enough for two.

    >>> from sidelight.records.hierarchy import Hierarchy
    >>> from sidelight.summaries.tree_cells import other_cells
    >>> tree = Hierarchy("leaf", {"top": 1}).tree([f"{top}{leaf:02}" for top in "ab" for leaf in range(25)])
    >>> model = TreeModel(tree=tree, cells=other_cells(()), kappas=(1.0, 1.0, 1.0), law="gaussian")
    >>> with_runs(model).tree.sizes
    (1, 2, 4, 50)
    """
    tree, leaves = model.tree, model.tree.sizes[-1]
    family, start = tree.parents[-1], tree.starts[-1]
    size = np.diff(np.append(start, leaves))
    runs = np.maximum(np.rint(size / _RUN).astype(np.int64), 1)
    if runs.max() == 1:
        return model
    place = np.arange(leaves) - start[family]
    run = place * runs[family] // size[family]
    changes = np.append(True, (family[1:] != family[:-1]) | (run[1:] != run[:-1]))
    first = np.flatnonzero(changes)
    above = family[first]
    grown = LabelTree(
        names=(*tree.names[:-1], "run", tree.names[-1]),
        ids=(*tree.ids[:-1], tuple(map(str, range(len(first)))), tree.ids[-1]),
        parents=(*tree.parents[:-1], above, np.cumsum(changes) - 1),
        starts=(*tree.starts[:-1], np.searchsorted(above, np.arange(tree.sizes[-2])), first),
        order=tree.order,
    )
    return replace(model, tree=grown, kappas=(*model.kappas[:-1], math.inf, model.kappas[-1]))
