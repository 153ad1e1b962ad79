"""Bounded integer statistics of private rows: a value with its sensitivity, in one pass, on any engine. No noise."""

from sidelight.aggregates.bounded import Bounded, Norm
from sidelight.aggregates.collect_ranks import collect_ranks
from sidelight.aggregates.counts import cell_counts, grid_counts, row_count
from sidelight.aggregates.mapped_vector import CellRule, RowMap, mapped_moments, moments_by_cell
from sidelight.aggregates.moments import Moments, clipped_moments
from sidelight.aggregates.ranks import Ranks, ranks_of_codes
from sidelight.aggregates.sums import clipped_sum

__all__ = [
    "Bounded",
    "CellRule",
    "Moments",
    "Norm",
    "Ranks",
    "RowMap",
    "cell_counts",
    "clipped_moments",
    "clipped_sum",
    "collect_ranks",
    "grid_counts",
    "mapped_moments",
    "moments_by_cell",
    "ranks_of_codes",
    "row_count",
]
