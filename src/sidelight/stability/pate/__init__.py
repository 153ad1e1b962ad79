"""Labels for public inputs by a noisy vote of teachers, each taught by its own share of the private records."""

from sidelight.stability.pate.labels import ClearVotes, NoisyLabels, cheapest_proposal, plain_epsilon
from sidelight.stability.pate.noisy_max import log_error_probability, noisy_max_renyi, vote_quantile
from sidelight.stability.pate.smooth_cost import SmoothBound
from sidelight.stability.pate.vote_distance import VoteCost, quantiles_of, vote_distance

__all__ = [
    "ClearVotes",
    "NoisyLabels",
    "SmoothBound",
    "VoteCost",
    "cheapest_proposal",
    "log_error_probability",
    "noisy_max_renyi",
    "plain_epsilon",
    "quantiles_of",
    "vote_distance",
    "vote_quantile",
]
