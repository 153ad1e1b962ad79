"""Honest tuning: try several private computations, keep the best, and pay for the search."""

from sidelight.tuning.pricing import ratio_bound, renyi_curve, selection_claims, selection_epsilon
from sidelight.tuning.runs import Poisson, Runs, TruncatedNegativeBinomial, geometric, logarithmic
from sidelight.tuning.scores import PrivateScore, PublicScore, Score
from sidelight.tuning.selection import Fit, ModelScore, Selection, Tuned, best_of, select, tune

__all__ = [
    "Fit",
    "ModelScore",
    "Poisson",
    "PrivateScore",
    "PublicScore",
    "Runs",
    "Score",
    "Selection",
    "TruncatedNegativeBinomial",
    "Tuned",
    "best_of",
    "geometric",
    "logarithmic",
    "ratio_bound",
    "renyi_curve",
    "select",
    "selection_claims",
    "selection_epsilon",
    "tune",
]
