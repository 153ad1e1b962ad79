"""Where noise meets a bounded statistic (`budget`), and where a selection meets ranks and a prior."""

from sidelight.mechanisms.rank_selection import RanksWithin, select_rank, selection_claims
from sidelight.mechanisms.rings import Adaptation, Conditional, Edge, Masses, Score, adapt

__all__ = [
    "Adaptation",
    "Conditional",
    "Edge",
    "Masses",
    "RanksWithin",
    "Score",
    "adapt",
    "select_rank",
    "selection_claims",
]
