"""Bounded integer statistics of private rows: a value with its sensitivity, in one pass, on any engine. No noise."""

from sidelight.aggregates.bounded import Bounded, Norm
from sidelight.aggregates.collect_ranks import collect_ranks
from sidelight.aggregates.counts import cell_counts
from sidelight.aggregates.mapped_vector import CellRule, RowMap, moments_by_cell
from sidelight.aggregates.moments import Moments, clipped_moments
from sidelight.aggregates.ranks import Ranks

__all__ = [
    "Bounded",
    "CellRule",
    "Moments",
    "Norm",
    "Ranks",
    "RowMap",
    "cell_counts",
    "clipped_moments",
    "collect_ranks",
    "moments_by_cell",
]
