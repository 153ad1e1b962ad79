"""Find cells: "project-link-verify" for few public rows, "public-cluster" for many; both verified by noisy counts.

The public rows are too few to show the clusters in all columns, and enough to show them in the k directions that a
private principal component analysis finds. Whether the cells are what they seem is then asked of the private rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from sidelight.errors import RangeError
from sidelight.gaussians.mixture.partition import (
    Ball,
    Floats,
    NearestCentroid,
    Places,
    Projection,
    PublicOdds,
    RegionFrame,
    SplitTree,
    ball_tree,
    inside_first,
    leading_directions,
    region_moments,
)
from sidelight.gaussians.mixture.search import (
    SearchResult,
    SearchSetting,
    count_checks,
    judge,
    noisy_rows,
    public_columns,
)
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.registry import import_with_extras

# Many public rows, method "public-cluster": scikit-learn's mixture after a projection, fitted to public rows alone.

#: The most components that are tried where their number is not given.
MOST_COMPONENTS = 12
_STARTS = 10


@dataclass(frozen=True, eq=False)
class PublicClusters:
    """The cells, the number of public rows in each and the share of them that is ambiguous."""

    odds: PublicOdds
    rows: tuple[int, ...]
    ambiguous: tuple[float, ...]

    @property
    def separated(self) -> bool:
        """Whether at most a tenth of each cell is ambiguous, as far as so few rows can tell."""
        return all(
            rows > 0 and share <= 0.10 + 2 * sqrt(0.09 / rows)
            for rows, share in zip(self.rows, self.ambiguous, strict=True)
        )


def cluster_publicly(points: Floats, components: int) -> PublicClusters:
    """Fit a mixture to public rows in their leading directions and label them by its odds.

    The starts are fixed (random_state=0): the fit is a function of the rows, and nothing secret is drawn.
    """
    origin, directions = _leading(points, min(components, points.shape[1], len(points) - 1))
    projected = (points - origin) @ directions.T
    scale = _scale(projected)
    fitted = _mixture(projected / scale, components)
    # component j is standard normal after Lⱼᵀ(y/scale) with the Cholesky factor of its precision
    factors = np.asarray(fitted.precisions_cholesky_, np.float64)
    whitening = np.stack([factor.T @ directions / scale for factor in factors])
    middles = np.stack([factor.T @ mean for factor, mean in zip(factors, fitted.means_, strict=True)])
    determinants = np.array([np.log(np.diag(factor)).sum() for factor in factors])
    odds = PublicOdds(origin, whitening, middles, np.log(fitted.weights_) + determinants)
    columns = list(np.ascontiguousarray(points.T))
    labels = odds.label(columns)
    flags = odds.ambiguous(columns, labels)
    rows = tuple(int((labels == place).sum()) for place in range(components))
    shares = tuple(float(flags[labels == place].mean()) if rows[place] else 1.0 for place in range(components))
    return PublicClusters(odds, rows, shares)


def number_of_components(points: Floats) -> int:
    """Choose the number by BIC, among those that leave each component 2d public rows on average; 1 at least."""
    most = min(MOST_COMPONENTS, len(points) // (2 * points.shape[1]))
    if most < 2:
        raise RangeError(
            f"to find the number of components there must be at least 4 public rows for each of the {points.shape[1]} "
            f"columns, got {len(points)} rows; say n_components=..., or give more rows"
        )
    origin, directions = _leading(points, min(most, points.shape[1]))
    projected = (points - origin) @ directions.T
    projected /= _scale(projected)
    scores = [float(_mixture(projected, count).bic(projected)) for count in range(1, most + 1)]
    return int(np.argmin(scores)) + 1


def _leading(points: Floats, count: int) -> tuple[Floats, Floats]:
    origin = points.mean(axis=0)
    _, _, directions = np.linalg.svd(points - origin, full_matrices=False)
    return origin, np.ascontiguousarray(directions[: max(count, 1)])


def _scale(projected: Floats) -> float:
    scale = float(np.sqrt((projected**2).mean()))
    if not scale > 0:
        raise RangeError("the public rows are all the same; give rows that differ, as a sample of the population does")
    return scale


def _mixture(projected: Floats, components: int) -> Any:
    import warnings

    convergence = import_with_extras("sklearn.exceptions").ConvergenceWarning
    model = import_with_extras("sklearn.mixture").GaussianMixture(
        components, n_init=_STARTS, random_state=0, reg_covar=1e-6
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", convergence)  # the separation check says whether the fit is of use
        return model.fit(projected)


#: Shares of the budget: number of rows; with public clusters also checks, and the rest for the components.
ROWS, PUBLIC_CHECKS, PUBLIC_COMPONENTS = Fraction(1, 100), Fraction(5, 100), Fraction(94, 100)


@dataclass(frozen=True, eq=False)
class PublicCluster:
    """The method with its public cells."""

    clusters: PublicClusters
    has_gdp_claim: ClassVar[bool] = True
    estimation: ClassVar[Fraction] = PUBLIC_COMPONENTS

    def search(self, table: Table, setting: SearchSetting, source: Source) -> SearchResult:
        """Verify the cells.

        Guarantee: zCDP of 6 % of the budget, GDP likewise (Gaussian-mixture proof page, Theorem 1).
        """
        odds = self.clusters.odds
        rows = noisy_rows(table, setting.columns, rho=setting.rho * ROWS, source=source)
        checks = count_checks(table, setting.columns, odds, rho=setting.rho * PUBLIC_CHECKS, source=source)
        labels = odds.label(public_columns(setting.public))
        return SearchResult(
            cells=odds.cells,
            rows=rows,
            partition=odds,
            publics=tuple(setting.public[labels == cell] for cell in range(odds.cells)),
            checks=checks,
            verdict=judge(checks, rows=rows, least_weight=setting.least_weight),
        )


# Where to cut the linkage trees of projected public rows, so that k cells remain. Public, hence free.
#
# The trees are SciPy's. Heights are compared across regions only after division by the region's median merge
# height: without it one wide region would take all cuts.


@dataclass(frozen=True, eq=False)
class TreeCut:
    """The cells: the region and the public rows of each; the smallest height used and the next one."""

    regions: tuple[int, ...]
    members: tuple[Places, ...]
    last_used: float | None
    next_unused: float | None


def cut_trees(projected: Sequence[Floats], *, cells: int, least: float) -> TreeCut:
    """Start with one cell a region and cut the largest normalised heights until there are `cells` of them.

    A cut that would leave fewer than `least` rows in a cell is skipped, and the search goes on below; those few rows
    have no say in where cells are once there is a cut below. Fewer cells come out if nothing is left to cut.

    >>> line = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> [part.tolist() for part in cut_trees([line], cells=2, least=1).members]
    [[0, 1, 2], [3, 4, 5]]
    """
    trees = [_Tree.of(points) for points in projected]
    # a cell is a node of a tree; where it might be cut next waits in a heap by normalised height
    found = {region: (region, tree.root) for region, tree in enumerate(trees)}
    heap = [(-tree.height(tree.root), region, tree.root, region) for region, tree in enumerate(trees)]
    heapq.heapify(heap)
    last_used, names = None, count(len(trees))
    while heap:
        height, region, node, cell = heap[0]
        tree = trees[region]
        if tree.is_leaf(node):
            heapq.heappop(heap)
            continue
        first, second = tree.children(node)
        if min(tree.size(first), tree.size(second)) < least:
            larger = max(first, second, key=tree.size)
            heapq.heapreplace(heap, (-tree.height(larger), region, larger, cell))
            continue
        if len(found) >= cells:
            return _cut(trees, found, last_used=last_used, next_unused=-height)
        heapq.heappop(heap)
        last_used = -height
        del found[cell]
        for child in (first, second):
            name = next(names)
            found[name] = (region, child)
            heapq.heappush(heap, (-tree.height(child), region, child, name))
    return _cut(trees, found, last_used=last_used, next_unused=None)


@dataclass(frozen=True, eq=False)
class _Tree:
    merges: Floats
    leaves: int
    median: float

    @classmethod
    def of(cls, points: Floats) -> _Tree:
        from scipy.cluster.hierarchy import linkage

        if len(points) < 2:
            return cls(np.empty((0, 4)), len(points), 1.0)
        merges = np.asarray(linkage(points, method="average"), np.float64)
        heights = merges[:, 2]
        positive = heights[heights > 0]
        # rows that repeat each other merge at 0, and say nothing about the scale
        middle = float(np.median(heights)) or (float(np.median(positive)) if positive.size else 1.0)
        return cls(merges, len(points), middle)

    @property
    def root(self) -> int:
        return self.leaves + len(self.merges) - 1

    def is_leaf(self, node: int) -> bool:
        return node < self.leaves

    def children(self, node: int) -> tuple[int, int]:
        row = self.merges[node - self.leaves]
        return int(row[0]), int(row[1])

    def size(self, node: int) -> int:
        return 1 if self.is_leaf(node) else int(self.merges[node - self.leaves, 3])

    def height(self, node: int) -> float:
        return 0.0 if self.is_leaf(node) else float(self.merges[node - self.leaves, 2]) / self.median

    def rows(self, node: int) -> Places:
        waiting, found = [node], []
        while waiting:
            each = waiting.pop()
            if self.is_leaf(each):
                found.append(each)
            else:
                waiting.extend(self.children(each))
        return np.array(sorted(found), np.int64)


def _cut(
    trees: Sequence[_Tree],
    found: Mapping[int, tuple[int, int]],
    *,
    last_used: float | None,
    next_unused: float | None,
) -> TreeCut:
    ordered = sorted(found.values())
    return TreeCut(
        regions=tuple(region for region, _ in ordered),
        members=tuple(trees[region].rows(node) for region, node in ordered),
        last_used=last_used,
        next_unused=next_unused,
    )


#: Shares of the budget with few public rows: directions, checks; the rest, less `ROWS`, is for the components.
DIRECTIONS, CHECKS, COMPONENTS = Fraction(29, 100), Fraction(10, 100), Fraction(60, 100)

#: An unused cut this close to the smallest one used says that more groups are visible.
_CLOSE = 0.6


@dataclass(frozen=True, eq=False)
class LinkVerify:
    """The method with its public regions."""

    balls: tuple[Ball, ...]
    has_gdp_claim: ClassVar[bool] = True
    estimation: ClassVar[Fraction] = COMPONENTS

    def search(self, table: Table, setting: SearchSetting, source: Source) -> SearchResult:
        """Find and verify k cells.

        Guarantee: zCDP of 40 % of the budget, GDP likewise (Gaussian-mixture proof page, Theorem 1).
        """
        columns, rho = setting.columns, setting.rho
        rows = noisy_rows(table, columns, rho=rho * ROWS, source=source)
        regions = ball_tree(self.balls)
        frames = [RegionFrame(ball.centre, ball.radius) for ball in self.balls]
        moments = region_moments(table, columns, regions, frames, rho=rho * DIRECTIONS, source=source)
        directions = [leading_directions(moment, setting.directions) for moment in moments]
        partition, cut, publics = place_cells(setting, self.balls, regions, directions)
        # all checks are drawn before anything is decided, whatever the number of cells
        checks = count_checks(table, columns, partition, rho=rho * CHECKS, source=source)
        verdict = judge(checks, rows=rows, least_weight=setting.least_weight)
        warnings = []
        if cut.last_used is not None and cut.next_unused is not None and cut.next_unused > _CLOSE * cut.last_used:
            warnings.append(
                f"more than {setting.components} groups are visible in the public rows: the next cut is at "
                f"{cut.next_unused / cut.last_used:.0%} of the height of the last one"
            )
        if checks.dropped > setting.least_weight * rows / 2:
            warnings.append(f"about {max(checks.dropped, 0):.0f} rows are far from all public rows and took no part")
        right = partition.cells == setting.components
        return SearchResult(
            cells=partition.cells,
            rows=rows,
            partition=partition if right else None,
            publics=publics,
            checks=checks,
            verdict=verdict,
            warnings=tuple(warnings),
        )


def place_cells(
    setting: SearchSetting, balls: tuple[Ball, ...], regions: SplitTree, directions: list[Floats]
) -> tuple[NearestCentroid, TreeCut, tuple[Floats, ...]]:
    """Cut the linkage trees of the projected public rows; a function of them and of the released directions."""
    points = setting.public
    where = inside_first(points, balls)
    members = [np.flatnonzero(where == place) for place in range(len(balls))]
    # differences first: a common offset of the columns must not cost digits
    projected = [
        (points[here] - ball.centre) @ turn.T for here, ball, turn in zip(members, balls, directions, strict=True)
    ]
    cut = cut_trees(projected, cells=setting.components, least=max(1.0, setting.least / 2))
    projections, linked = [], []
    for place, ball in enumerate(balls):
        parts = [each for region, each in zip(cut.regions, cut.members, strict=True) if region == place]
        centroids = np.stack([projected[place][part].mean(axis=0) for part in parts])
        projections.append(Projection(ball.centre, directions[place], centroids))
        linked += [members[place][part] for part in parts]
    partition = NearestCentroid(regions, tuple(projections))
    labels = partition.label(public_columns(points))
    publics = []
    for cell, part in enumerate(linked):
        here = np.flatnonzero(labels == cell)
        publics.append(points[here] if here.size else points[part])
    return partition, cut, tuple(publics)
