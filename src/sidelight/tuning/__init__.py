"""Honest tuning: try several private computations, keep the best, and pay for the search."""

from sidelight.tuning.best import Fit, ModelScore, Tuned, best_of, select, tune
from sidelight.tuning.pricing import ratio_bound, renyi_curve, selection_claims, selection_epsilon
from sidelight.tuning.runs import Poisson, Runs, TruncatedNegativeBinomial, geometric, logarithmic
from sidelight.tuning.scores import PrivateScore, PublicScore, Score
from sidelight.tuning.selection import Selection

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
