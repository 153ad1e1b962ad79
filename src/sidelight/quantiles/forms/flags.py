"""Which fine cells are not as smooth as the interpolation took them to be: a public function of released numbers.

A target that lies deep inside a leaf, further from both its ends than the coarse counts can be off, says that records
are not where the curve put them. Such a leaf keeps its rough count and spends what is left on a selection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.quantiles.forms.cells_plan import CellsPlan

#: Depths that count as deep: in noise of the selection that would follow, and in errors of the coarse ranks.
_SELECTION_NOISE = 20.0
_PLACEMENT_ERRORS = 2.5
#: Where levels are many, cells lie between chosen levels: deep is then a share of a usual cell, in a cell that is full.
_DEEP_SHARE = 0.8
_FULL_CELL = 1.7


@dataclass(frozen=True, kw_only=True)
class Structure:
    """The public shape of what was counted: how many cells each round had."""

    coarse_cells: int  # the tails included
    middle_cells: int  # 0 with two rounds
    leaves: int


def leaves_of(targets: ArrayLike, ranks: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return for each target the leaf that holds it, by the ranks at the ends of all leaves; -1 and beyond: the tails.

    >>> leaves_of([1, 5, 12, 99], np.array([5.0, 10.0, 20.0])).tolist()
    [-1, 0, 1, 2]
    """
    return np.searchsorted(ranks, np.asarray(targets, np.float64), "right") - 1


def flagged_leaves(
    targets: ArrayLike,
    ranks: NDArray[np.float64],
    rough: ArrayLike,
    *,
    plan: CellsPlan,
    structure: Structure,
    total: float,
) -> NDArray[np.bool_]:
    """Return for each leaf whether it is to be finished by selection.

    Args:
        targets: The ranks that are asked for, of all levels.
        ranks: The ranks at the ends of all leaves, from least squares with the rough counts: one more than leaves.
        rough: The rough count of each leaf.
        plan: The plan.
        structure: How many cells there were.
        total: N.
    """
    asked = np.asarray(targets, np.float64)
    count = ranks.size - 1
    flags = np.zeros(count, np.bool_)
    if count < 1:
        return flags
    leaf = leaves_of(asked, ranks)
    inside = (leaf >= 0) & (leaf < count)
    leaf, asked, many = leaf[inside], asked[inside], asked.size > plan.fine_count
    depth = np.minimum(asked - ranks[leaf], ranks[leaf + 1] - asked)
    noise = _SELECTION_NOISE / plan.rate(plan.left)
    if many:
        usual = float(ranks[-1] - ranks[0]) / count
        full = np.asarray(rough, np.float64)[leaf] > _FULL_CELL * usual + 2 / plan.rate(plan.rough)
        deep = (depth > max(noise, _DEEP_SHARE * usual)) & full
    else:
        deep = depth > max(noise, _PLACEMENT_ERRORS * placement_error(plan, structure, total))
    flags[leaf[deep]] = True
    return flags


def placement_error(plan: CellsPlan, structure: Structure, total: float) -> float:
    """Return how many ranks the ends of leaves are off, by the counts from which they were interpolated.

    Half way between the ends of a chain of k cells the sum of their noise has a quarter of the variance of all; the
    records of a cell of c records lie off a straight line by about sqrt(c / 6).
    """
    cells = structure.coarse_cells
    variance = plan.variance(plan.coarse)
    inner = 0.0
    if structure.middle_cells:
        several = structure.middle_cells / cells
        finer = plan.variance(plan.middle)
        variance = 1 / (1 / variance + 1 / (several * finer))
        inner = several * finer / 4
    records = total / (6 * max(cells, structure.middle_cells))
    return math.sqrt(cells * variance / 4 + inner + records)
