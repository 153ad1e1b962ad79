"""Private principal directions of every region at once: one noisy second moment each, in parallel (Algorithm 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sidelight.aggregates.celled_moments import CellRule, moments_by_cell
from sidelight.aggregates.mapped_vector import RowMap
from sidelight.gaussians.mixture.supercluster import Floats
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.noisy_moments import matrix_noise
from sidelight.noise import Source
from sidelight.records import Number, Table


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
    return [matrix_noise(moments, Budget.of(rho=rho)).release(source) for moments in found]


def leading_directions(moment: Floats, count: int) -> Floats:
    """Return the eigenvectors of the largest eigenvalues, one to a row.

    As many as there are components: one fewer would do about the mean, and the mean is not known.
    """
    _, vectors = np.linalg.eigh((moment + moment.T) / 2)
    return np.ascontiguousarray(vectors[:, ::-1][:, :count].T)
