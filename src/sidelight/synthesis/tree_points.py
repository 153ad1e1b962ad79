"""Rows that stand for a table of any size: drawn from trees of released marginals of two columns.

A log-linear fit puts weights on points. Which points are worth having follows from released counts: those of a tree of
the strongest relations (Chow and Liu 1968), of trees in which chance has a say, so that relations outside the first
tree have rows as well, and of independent columns. All of it is post-processing; released numbers seed the draws, so
that the same ones give the same points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from sidelight.noise import Source, standard_normal, uniform
from sidelight.synthesis.domain import Codes, Domain
from sidelight.synthesis.refit import Evidence
from sidelight.synthesis.spaces import Floats

#: Shares of the draws: from the tree of the strongest relations, and from trees with a random part; the rest is
#: independent.
BEST_SHARE, OTHER_SHARE = 0.5, 0.4
#: How many trees have a random part, and the deviation of the logarithm of their weights.
OTHER_TREES, TREE_SPREAD = 8, 0.7
#: The least share of a value of a column, and of independence in a table of two columns.
LEAST_SHARE, LEAST_INDEPENDENCE = 1e-5, 1e-6

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class ColumnTables:
    """Estimated shares of the values of every column, and of every pair of columns that was counted together."""

    one_way: tuple[Floats, ...] = field(repr=False)
    pairs: dict[Pair, Floats] = field(repr=False)

    def information(self) -> Floats:
        """Return the mutual information of each pair, in their order."""
        return np.array([_mutual_information(table) for table in self.pairs.values()])


def column_tables(domain: Domain, evidence: Sequence[Evidence], *, rows: float) -> ColumnTables:
    """Return the tables of one and two columns that released counts say, by inverse variances.

    Of a pair, what differs from independence is kept as far as it exceeds the noise: r·max(0, 1 - σ²/r²).
    """
    fine = [each for each in evidence if each.marginal.fine]
    one_way = []
    for axis, size in enumerate(domain.sizes):
        found = _summed(domain, fine, (axis,))
        counts = np.full(size, rows / size) if found is None else found[0]
        counts = np.maximum(counts, LEAST_SHARE * rows)
        one_way.append(counts / counts.sum())
    pairs: dict[Pair, Floats] = {}
    for first, second in combinations(range(len(domain.sizes)), 2):
        found = _summed(domain, fine, (first, second))
        if found is None:
            continue
        counts, variances = found
        independent = rows * np.multiply.outer(one_way[first], one_way[second])
        apart = counts - independent
        kept = np.maximum(0.0, 1.0 - variances / np.maximum(apart**2, np.finfo(float).tiny))
        table = np.maximum(independent + kept * apart, 0.0) + LEAST_INDEPENDENCE * independent
        pairs[first, second] = table / table.sum()
    return ColumnTables(tuple(one_way), pairs)


def _summed(domain: Domain, evidence: Sequence[Evidence], axes: tuple[int, ...]) -> tuple[Floats, Floats] | None:
    """Return the average counts of some columns over all marginals that contain them, and its variances."""
    information = weighted = np.zeros(())
    for each in evidence:
        places = domain.axes(each.marginal.columns)
        if not set(axes) <= set(places):
            continue
        others = tuple(place for place, axis in enumerate(places) if axis not in axes)
        deviations = np.broadcast_to(np.asarray(each.deviation, np.float64), each.values.shape)
        weights = 1.0 / (deviations**2).sum(axis=others)
        information = information + weights
        weighted = weighted + weights * each.values.sum(axis=others)
    return (weighted / information, 1.0 / information) if information.ndim else None


def _mutual_information(table: Floats) -> float:
    independent = np.multiply.outer(table.sum(axis=1), table.sum(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(table > 0, table * np.log(table / independent), 0.0).sum())


def spanning_forest(columns: int, pairs: Sequence[Pair], weights: Sequence[float]) -> list[Pair]:
    """Return the pairs of a forest of largest weight (Kruskal), each as (parent, child), parents first.

    >>> spanning_forest(4, [(0, 1), (1, 2), (0, 2)], [1.0, 2.0, 3.0])
    [(0, 2), (2, 1)]
    """
    group = list(range(columns))
    joined: dict[int, list[int]] = {column: [] for column in range(columns)}
    for place in sorted(range(len(pairs)), key=lambda place: -weights[place]):
        first, second = pairs[place]
        if group[first] != group[second]:
            gone = group[second]
            group = [group[first] if each == gone else each for each in group]
            joined[first].append(second)
            joined[second].append(first)
    found: list[Pair] = []
    seen: set[int] = set()
    for root in range(columns):
        open_ones = [] if root in seen else [root]
        seen.add(root)
        while open_ones:
            parent = open_ones.pop(0)
            for child in joined[parent]:
                if child not in seen:
                    seen.add(child)
                    found.append((parent, child))
                    open_ones.append(child)
    return found


def draw_points(tables: ColumnTables, draws: int, *, source: Source) -> Codes:
    """Return coded rows from trees of the tables, and a tenth from independent columns."""
    columns, pairs, strength = len(tables.one_way), list(tables.pairs), tables.information()
    chance = standard_normal(OTHER_TREES * len(pairs), source).reshape(OTHER_TREES, -1)
    parts = [(spanning_forest(columns, pairs, strength.tolist()), round(BEST_SHARE * draws))]
    for noise in chance:
        tilted = strength * np.exp(TREE_SPREAD * noise)
        parts.append((spanning_forest(columns, pairs, tilted.tolist()), round(OTHER_SHARE * draws / OTHER_TREES)))
    parts.append(([], draws - sum(count for _, count in parts)))
    return np.concatenate([_from_forest(tables, forest, count, source) for forest, count in parts])


def _from_forest(tables: ColumnTables, forest: Sequence[Pair], count: int, source: Source) -> Codes:
    """Draw each root by its own shares, each child given its parent."""
    parents = {child: parent for parent, child in forest}
    codes = np.empty((count, len(tables.one_way)), np.int64)
    for root in (column for column in range(len(tables.one_way)) if column not in parents):
        codes[:, root] = _conditional(tables.one_way[root][None, :], np.zeros(count, np.int64), source)
    for parent, child in forest:
        table = tables.pairs[parent, child] if parent < child else tables.pairs[child, parent].T
        codes[:, child] = _conditional(table, codes[:, parent], source)
    return codes


def _conditional(table: Floats, given: Codes, source: Source) -> Codes:
    """Draw a column of a table for each given row of it; running shares lie in one array, row r in r..r + 1."""
    sums = np.cumsum(table, axis=1)
    ends = (np.arange(len(table))[:, None] + sums / sums[:, -1:]).reshape(-1)
    found = np.searchsorted(ends, given + uniform(len(given), source), side="right")
    return np.asarray(np.clip(found - given * table.shape[1], 0, table.shape[1] - 1), np.int64)
