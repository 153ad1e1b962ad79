"""Bounded integer statistics of private rows: a value with its sensitivity, in one pass, on any engine. No noise."""

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.collect_ranks import collect_ranks
from sidelight.aggregates.ranks import Ranks, ranks_of_codes

__all__ = ["Bounded", "Ranks", "collect_ranks", "ranks_of_codes"]
