"""A tree of selections inside one cell: the part of every form that looks at ranks (EMTREE of the specification)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sidelight.aggregates.ranks import Ranks
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.predictions.compiled import CompiledPrior
from sidelight.quantiles.descend import Cell, descend
from sidelight.quantiles.tree import QuantileTree, quantile_tree

#: Relative levels are multiples of 2**-40, at least this far from 0 and 1, and so far apart.
_STEP = 2**40
_MARGIN = Fraction(_STEP // 1000 + 1, _STEP)
_APART = Fraction(1, 2**30)


def inner_levels(levels: Sequence[Fraction | float]) -> tuple[Fraction, ...]:
    """Return levels relative to a cell that a tree can take: inside (0, 1), strictly increasing, short fractions.

    Public post-processing: the levels come from released counts, which may be anything.

    >>> [round(float(each), 4) for each in inner_levels([-3.0, 0.5, 0.5, 7.0])]
    [0.001, 0.5, 0.5, 0.999]
    """
    found: list[Fraction] = []
    for level in levels:
        rounded = Fraction(round(Fraction(level) * _STEP), _STEP)
        inside = min(max(rounded, _MARGIN), 1 - _MARGIN)
        found.append(max(inside, found[-1] + _APART) if found else inside)
    return tuple(found)


def cell_tree(levels: Sequence[Fraction | float], budget: Budget) -> QuantileTree:
    """Return the binary tree for relative levels that costs a record at most the budget, in epsilon or in rho."""
    inside = inner_levels(levels)
    if budget.is_pure:
        return quantile_tree(inside, epsilon=budget.amount)
    return quantile_tree(inside, rho=budget.rho)


def select_in_cell(
    ranks: Ranks,
    cell: Cell,
    levels: Sequence[Fraction | float],
    *,
    budget: Budget,
    priors: CompiledPrior | Sequence[CompiledPrior],
    source: Source,
) -> tuple[int, ...]:
    """Release an outcome of the cell for each relative level, from the records of the cell alone.

    Guarantee: at most `budget` for adding or removing one record, and nothing for a record outside the cell (quantiles
    proof page, Theorem 4, on the records first <= index < end).

    Args:
        ranks: Of all records. Private.
        cell: Outcomes and records, told apart.
        levels: Of the cell's records, in increasing order; anything finite.
        budget: Of one record.
        priors: On the whole grid: one for all levels or one for each.
        source: The release's source.
    """
    if not levels:
        return ()
    return descend(cell_tree(levels, budget), ranks, priors=priors, source=source, cell=cell)
