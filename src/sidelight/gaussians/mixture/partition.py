"""Public partitions of the rows into cells: by balls, by the nearest centroid after a projection, by public odds.

All are rules of `moments_by_cell`: a row's cell follows from that row, public rows and earlier releases alone. Sums run
over columns one after the other, never over an axis, so that a row's last bits do not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, log
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.mapped_vector import CellRule, RowMap, affine, moments_by_cell
from sidelight.errors import RangeError
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.noisy_moments import matrix_noise
from sidelight.noise import Source
from sidelight.records import Number, Table

# Regions: disjoint balls around groups of public rows (Algorithm 3 of the paper on public data for Gaussian mixtures),
# and private principal directions in each, for one noisy second moment a region, in parallel (Algorithm 4).

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ball:
    """A region: the rows within `radius` of `centre` that lie in no ball before. `members` are public rows."""

    centre: Floats
    radius: float
    members: Places


def least_group(rows: int, least_weight: float) -> int:
    """Return h: how many public rows a component must have at least, half of what its least weight leads to expect.

    >>> least_group(48, 1 / 8)
    3
    """
    return max(1, floor(least_weight * rows / 2 + 1e-9))


def supercluster(points: Floats, size: int) -> Ball | None:
    """Return the ball around the public row whose neighbours are farthest, widened while rows are near its edge.

    The unit r is the largest distance of a row to its `size`-th nearest neighbour; the ball grows by 3r as long as that
    takes in a row, shrinks to the farthest row it holds, and is widened by r for private rows. None for a single row,
    and for rows that repeat each other so often that they show no scale.
    """
    if len(points) < 2:
        return None
    between = distances(points)
    reach = np.sort(between, axis=1)[:, min(size, len(points) - 1)]
    start = int(reach.argmax())
    unit = float(reach[start])
    if not unit > 0:
        return None
    away = between[start]
    radius = unit
    # the ball grows while the next shell holds a row: walk along the sorted distances, one gap after the other
    while ((away > radius) & (away <= radius + 3 * unit)).any():
        radius += 3 * unit
    captured = np.flatnonzero(away <= radius)
    return Ball(points[start], float(away[captured].max()) + unit, captured)


def superclusters(points: Floats, size: int) -> tuple[Ball, ...]:
    """Return balls until at most `size` public rows are left over; those are stray and belong to none."""
    left = np.arange(len(points))
    balls = []
    while len(left) > size and len(left) > 1:
        ball = supercluster(points[left], size)
        if ball is None:
            raise RangeError(
                "the public rows repeat each other so often that they show no scale; give rows that differ, as a "
                "sample of the population does"
            )
        balls.append(Ball(ball.centre, ball.radius, left[ball.members]))
        left = np.delete(left, ball.members)
    return tuple(balls)


def distances(points: Floats) -> Floats:
    """Return all Euclidean distances; differences first, so that a common offset costs no digits."""
    from scipy.spatial.distance import pdist, squareform

    return np.asarray(squareform(pdist(points)), np.float64)


def inside_first(points: Floats, balls: Sequence[Ball]) -> Places:
    """Return for each public row the first ball that contains it, -1 for none."""
    found = np.full(len(points), -1)
    for place in range(len(balls) - 1, -1, -1):
        ball = balls[place]
        found[np.linalg.norm(points - ball.centre, axis=1) <= ball.radius] = place
    return found


@dataclass(frozen=True, eq=False)
class RegionFrame:
    """Where a region's rows are measured from and in which unit: public, or released before."""

    origin: Floats
    radius: float


def region_moments(
    table: Table,
    columns: tuple[Number, ...],
    rule: CellRule,
    frames: Sequence[RegionFrame],
    *,
    rho: Fraction,
    source: Source,
) -> list[Floats]:
    """Release Σ y yᵀ of each region, y = clip((x - origin)/radius, 1), about the origin and not about a mean.

    Guarantee: zCDP(rho), and GDP(√(2 rho)), for all regions together, for adding or removing a unit: a row lies in one
    region, and none of their sizes is used.
    """
    width = len(columns)
    maps = [RowMap.of(width, centre=each.origin, matrix=np.eye(width) / each.radius, radius=1) for each in frames]
    found = moments_by_cell(table, [column.name for column in columns], maps=maps, rule=rule)
    released, partition = [], source.partition()
    for place, moments in enumerate(found):
        with source.over(partition=partition, group=place, additive=True):
            released.append(matrix_noise(moments, Budget.of(rho=rho)).release(source))
    return released


def leading_directions(moment: Floats, count: int) -> Floats:
    """Return the eigenvectors of the largest eigenvalues, one to a row.

    As many as there are components: one fewer would do about the mean, and the mean is not known.
    """
    _, vectors = np.linalg.eigh((moment + moment.T) / 2)
    return np.ascontiguousarray(vectors[:, ::-1][:, :count].T)


#: A row beyond this share of the way to another centroid counts as ambiguous.
AMBIGUOUS_SHARE = 0.35
#: A row whose best component is less than nine times as likely as the next counts as ambiguous.
CLEAR_ODDS = log(9.0)

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Partition(CellRule, Protocol):
    """A rule that also says which rows lie between cells."""

    def ambiguous(self, columns: Sequence[Floats], labels: Places) -> Flags:
        """Tell for each row whether it lies between its cell and another."""


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of node `parent` go to `inside` if |A(x - centre)| <= radius, else to `outside`; -1 is no node."""

    parent: int
    inside: int
    outside: int
    centre: Floats
    matrix: Floats | None
    radius: float
    middle: Floats | None = None  # what is subtracted after the map


@dataclass(frozen=True, eq=False)
class SplitTree:
    """Splits one after the other, from node 0; `leaves` names the nodes that are cells, in order."""

    splits: tuple[Split, ...]
    leaves: tuple[int, ...]

    @property
    def cells(self) -> int:
        """How many leaves there are."""
        return len(self.leaves)

    def label(self, columns: Sequence[Floats]) -> Places:
        """Walk all rows through the splits."""
        node = np.zeros(len(columns[0]), np.int64)
        for split in self.splits:
            here = np.flatnonzero(node == split.parent)
            within = squared_distance([column[here] for column in columns], split) <= 1.0
            node[here] = np.where(within, split.inside, split.outside)
        cell = np.full(len(node), -1)
        for place, leaf in enumerate(self.leaves):
            cell[node == leaf] = place
        return cell

    def ambiguous(self, columns: Sequence[Floats], labels: Places) -> Flags:
        """Return that no row is: confirmation took place at the splits."""
        del columns
        return np.zeros(len(labels), bool)


def squared_distance(columns: Sequence[Floats], split: Split) -> Floats:
    """Return |A(x - centre) - middle|² in units of the radius."""
    scale = 1.0 / split.radius
    if split.matrix is None:
        parts: Sequence[Floats] = [(column - c) * scale for column, c in zip(columns, split.centre, strict=True)]
    else:
        mapped = affine(columns, split.matrix, split.centre)
        middle = np.zeros(len(mapped)) if split.middle is None else split.middle
        parts = [(row - m) * scale for row, m in zip(mapped, middle, strict=True)]
    total = parts[0] * parts[0]
    for part in parts[1:]:
        total += part * part
    return total


def ball_tree(balls: Sequence[Ball]) -> SplitTree:
    """Return the regions "first ball that contains the row"; rows in none belong to no cell.

    >>> tree = ball_tree([Ball(np.zeros(1), 2.0, np.arange(1)), Ball(np.ones(1), 2.0, np.arange(1))])
    >>> tree.label([np.array([-2.0, 2.5, 9.0])]).tolist()
    [0, 1, -1]
    """
    splits = []
    for place, ball in enumerate(balls):
        follow = 2 * place + 2 if place + 1 < len(balls) else -1
        splits.append(Split(2 * place, 2 * place + 1, follow, ball.centre, None, ball.radius))
    return SplitTree(tuple(splits), tuple(2 * place + 1 for place in range(len(balls))))


@dataclass(frozen=True, eq=False)
class Projection:
    """A region's origin, its directions (one to a row) and the centroids of its cells after projection."""

    origin: Floats
    directions: Floats
    centroids: Floats

    def project(self, columns: Sequence[Floats]) -> Floats:
        """Return the coordinates, one row a direction."""
        return affine(columns, self.directions, self.origin)


@dataclass(frozen=True, eq=False)
class NearestCentroid:
    """Rows of a region go to its nearest projected centroid; cells are numbered region by region."""

    regions: SplitTree
    projections: tuple[Projection, ...]

    @property
    def cells(self) -> int:
        """How many centroids there are."""
        return sum(len(each.centroids) for each in self.projections)

    def label(self, columns: Sequence[Floats]) -> Places:
        """Find the region, project, and take the nearest centroid."""
        region = self.regions.label(columns)
        cell = np.full(len(region), -1)
        first = 0
        for place, projection in enumerate(self.projections):
            here = np.flatnonzero(region == place)
            if len(projection.centroids) == 1:
                cell[here] = first
            else:
                mapped = projection.project([column[here] for column in columns])
                cell[here] = first + _nearest(mapped, projection.centroids)
            first += len(projection.centroids)
        return cell

    def ambiguous(self, columns: Sequence[Floats], labels: Places) -> Flags:
        """Return whether a row of cell b is beyond 35 % of the way towards the centroid of some other cell a."""
        found = np.zeros(len(labels), bool)
        first = 0
        for projection in self.projections:
            count = len(projection.centroids)
            for own in range(count if count > 1 else 0):
                here = np.flatnonzero(labels == first + own)
                mapped = projection.project([column[here] for column in columns])
                flags = np.zeros(len(here), bool)
                for other in range(count):
                    if other != own:
                        way = projection.centroids[other] - projection.centroids[own]
                        flags |= _share_of_way(mapped, projection.centroids[own], way) > AMBIGUOUS_SHARE
                found[here] = flags
            first += count
        return found


@dataclass(frozen=True, eq=False)
class PublicOdds:
    """Rows go to the component of a public mixture that is likeliest for them; every row has a cell.

    `whitening[j]` maps x - origin to where component j is standard normal about `middles[j]`.
    """

    origin: Floats
    whitening: Floats
    middles: Floats
    log_factors: Floats

    @property
    def cells(self) -> int:
        """How many components there are."""
        return len(self.log_factors)

    def label(self, columns: Sequence[Floats]) -> Places:
        """Take the likeliest."""
        best, _, _ = self._best(columns)
        return best

    def ambiguous(self, columns: Sequence[Floats], labels: Places) -> Flags:
        """Return whether the next component is within the odds of nine to one."""
        del labels
        _, top, second = self._best(columns)
        return np.asarray(~(top - second >= CLEAR_ODDS)) if self.cells > 1 else np.zeros(len(top), bool)

    def _best(self, columns: Sequence[Floats]) -> tuple[Places, Floats, Floats]:
        rows = len(columns[0])
        best = np.zeros(rows, np.int64)
        top, second = np.full(rows, -np.inf), np.full(rows, -np.inf)
        for place in range(self.cells):
            mapped = affine(columns, self.whitening[place], self.origin)
            odds = self.log_factors[place] - squares_about(mapped, self.middles[place]) / 2
            better = odds > top
            second = np.where(better, top, np.maximum(second, odds))
            top = np.where(better, odds, top)
            best[better] = place
        return best, top, second


@dataclass(frozen=True, eq=False)
class Everything:
    """One cell that holds every row."""

    cells: ClassVar[int] = 1

    def label(self, columns: Sequence[Floats]) -> Places:
        """Return 0."""
        return np.zeros(len(columns[0]), np.int64)

    def ambiguous(self, columns: Sequence[Floats], labels: Places) -> Flags:
        """Return False."""
        del columns
        return np.zeros(len(labels), bool)


def squares_about(mapped: Floats, middle: Floats) -> Floats:
    """Return the squared distances of mapped rows, one coordinate to a row, from a middle."""
    squares = np.zeros(mapped.shape[1])
    for row, at in zip(mapped, middle, strict=True):
        squares += (row - at) ** 2
    return squares


def _nearest(mapped: Floats, centroids: Floats) -> Places:
    best = np.zeros(mapped.shape[1], np.int64)
    least = np.full(mapped.shape[1], np.inf)
    for place, centroid in enumerate(centroids):
        squares = squares_about(mapped, centroid)
        closer = squares < least
        best[closer] = place
        least = np.where(closer, squares, least)
    return best


def _share_of_way(mapped: Floats, start: Floats, way: Floats) -> Floats:
    """Return ⟨y - start, way⟩ / |way|²; 0 where two centroids coincide."""
    length = float(way @ way)
    total = np.zeros(mapped.shape[1])
    if length > 0:
        for row, middle, step in zip(mapped, start, way / length, strict=True):
            total += (row - middle) * step
    return total
