"""Where noise meets a bounded statistic, and where a selection meets ranks and a prior."""

from sidelight.mechanisms.adapted import Adaptation, Conditional, Edge, Masses, adapt
from sidelight.mechanisms.additive import (
    gaussian,
    gaussian_claims,
    gaussian_scale,
    laplace,
    laplace_claims,
    laplace_scale,
)
from sidelight.mechanisms.rank_selection import select_rank, selection_claims
from sidelight.mechanisms.ranks_within import RanksWithin
from sidelight.mechanisms.rings import Score

__all__ = [
    "Adaptation",
    "Conditional",
    "Edge",
    "Masses",
    "RanksWithin",
    "Score",
    "adapt",
    "gaussian",
    "gaussian_claims",
    "gaussian_scale",
    "laplace",
    "laplace_claims",
    "laplace_scale",
    "select_rank",
    "selection_claims",
]
