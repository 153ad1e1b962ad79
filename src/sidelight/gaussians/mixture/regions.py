"""Regions: balls around groups of public rows that lie close together, and private principal directions in each.

The balls ("superclusters") are public, hence free, after Algorithm 3 of the paper on public data for Gaussian mixtures.
By hand, because nothing else gives disjoint regions with a radius that a private row can be tested against. The
directions cost one noisy second moment a region, in parallel (Algorithm 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.mapped_vector import CellRule, RowMap, moments_by_cell
from sidelight.errors import RangeError
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.noisy_moments import matrix_noise
from sidelight.noise import Source
from sidelight.records import Number, Table

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
class Frame:
    """Where a region's rows are measured from and in which unit: public, or released before."""

    origin: Floats
    radius: float


def region_moments(
    table: Table,
    columns: tuple[Number, ...],
    rule: CellRule,
    frames: Sequence[Frame],
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
