"""`areas`: any sum of leaves of a released table of a hierarchy, with its own exact variance (Theorem 5).

Free: everything is computed from the release. The tree is read from the table, and the variances of the passes are
computed again from its notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, nearest
from sidelight.group_table import GroupTable
from sidelight.records.hierarchy import LabelTree
from sidelight.release import Release
from sidelight.summaries.tree_least_squares import TreeVariances
from sidelight.summaries.tree_tables import TreeNotes

Floats: TypeAlias = NDArray[np.float64]

#: By how much floats can be off, as a share of all that was added up.
_ROUNDING = 1e-12


def areas(
    release: Release[GroupTable] | GroupTable, areas: Mapping[str, Iterable[str]], *, confidence: float | None = None
) -> GroupTable:
    """Return counts of other areas than those of the hierarchy: sums of leaves, each with its interval.

    Guarantee: nothing is drawn and nothing is charged: it is computed from the release.

    Accuracy: `unbiased` is the sum over the leaves, with its exact variance, which is less than that of independent
    leaves where an area holds most of a node. `low` and `high` hold the sum of the bounded table with the confidence,
    each by itself.

    Args:
        release: A release of `sl.Count` or `sl.Sum` by an `sl.Hierarchy`, or its table.
        areas: The labels of the leaves of each area, by its name.
        confidence: Of the intervals; that of the release if left out.

    Returns:
        A table with a row for each area and each cell of the other columns and their totals.

    >>> import sidelight as sl
    >>> blocks = ["11", "12", "13", "21", "22"]
    >>> people = sl.Table({"block": blocks * 200}, schema=[sl.Category("block", blocks, other=None)])
    >>> release = sl.Count(by=sl.Hierarchy("block", {"town": 1}), rho="0.1").release(people)
    >>> sl.areas(release, {"lake": ["13", "21"]}).columns
    ('count', 'unbiased', 'noise_sd', 'low', 'high')
    """
    table = release.value if isinstance(release, Release) else release
    notes = TreeNotes.of(table)
    if "unbiased" not in table.columns:
        raise RangeError(f"areas are sums of leaves, and a {notes.statistic} is not additive; ask sl.Count and sl.Sum")
    if not isinstance(areas, Mapping) or any(isinstance(each, str) for each in areas.values()):
        raise RangeError("areas are lists of leaves by name: {'lake': ['111', '112']}")
    if confidence is None:
        confidence = notes.confidence
    elif not isinstance(confidence, (int, float)) or not 0 < confidence <= 1 - 1e-12:
        raise RangeError(f"confidence must lie strictly between 0 and 1, got {confidence!r}; 0.95 is a usual choice")
    tree, leaves = notes.tree, {label: place for place, label in enumerate(notes.tree.ids[-1])}
    rows = notes.rows[-1]
    columns: dict[str, list[Any]] = {name: [] for name in (notes.statistic, "unbiased", "noise_sd", "low", "high")}
    for name, wanted in areas.items():
        weights = np.zeros((tree.sizes[-1], 1))
        for label in wanted:
            if label not in leaves:
                raise RangeError(
                    f"area {name!r} names {label!r}, which is no leaf; {nearest(str(label), list(leaves)[:2000])}"
                )
            weights[leaves[label]] = 1.0
        if not weights.any():
            raise RangeError(f"area {name!r} has no leaves")
        inside = rows[weights[:, 0] > 0]
        leaves_of_it = np.asarray(table["unbiased"])[inside]
        unbiased = leaves_of_it.sum(axis=0)
        stated = notes.stated(partial(area_variance, tree, weights), confidence)
        sd, reach = (each * notes.unit for each in stated)
        # a sum of exact totals is exact, but for the rounding of floats: counts lose it, sums have room for it
        if notes.statistic == "count":
            unbiased = np.where(sd > 0, unbiased, np.rint(unbiased))
        else:
            reach = np.where(sd > 0, reach, _ROUNDING * np.abs(leaves_of_it).sum(axis=0))
        columns[notes.statistic].append(np.asarray(table[notes.statistic])[inside].sum(axis=0))
        columns["unbiased"].append(unbiased)
        columns["noise_sd"].append(sd)
        columns["low"].append(np.clip(unbiased - reach, notes.lowest, notes.highest))
        columns["high"].append(np.clip(unbiased + reach, notes.lowest, notes.highest))
    further = notes.cells
    groups = [(name, *cell) for name in areas for cell in further]
    whole = {name: np.concatenate(parts) if parts else np.zeros(0) for name, parts in columns.items()}
    return GroupTable(keys=["area", *notes.others], groups=groups, columns=whole)


def area_variance(tree: LabelTree, weights: Floats, variances: TreeVariances) -> Floats:
    """Return the variance of Σ β·x over the leaves, for each column of variances (Theorem 5).

    Args:
        tree: The tree.
        weights: β of each leaf.
        variances: Of the passes.

    >>> from sidelight.records.hierarchy import Hierarchy
    >>> from sidelight.summaries.tree_least_squares import tree_variances
    >>> tree = Hierarchy("leaf", {"top": 1}).tree(["a1", "a2", "b1", "b2", "b3"])
    >>> chosen = np.array([[0.0], [1.0], [1.0], [0.0], [0.0]])
    >>> area_variance(tree, chosen, tree_variances(tree, [1.0, 2.0, 4.0])).round(6).tolist()
    [4.821192]
    """
    beta, tau = np.asarray(weights, np.float64), np.zeros((tree.sizes[-1], 1))
    for level in range(tree.depth, 0, -1):
        own, below = variances.subtree[level], variances.children[level - 1]
        seen, squares = tree.up(beta * own, level), tree.up(beta**2 * own, level)
        safe = np.where(below > 0, below, 1.0)
        tau = tree.up(tau, level) + np.where(below > 0, squares - seen**2 / safe, 0.0)
        beta = np.where(below > 0, seen / safe, 0.0)
    return np.asarray((np.maximum(tau, 0.0) + beta**2 * variances.pooled[0])[0])
