"""Labels for public inputs by a noisy vote of teachers, each taught by its own share of the private records."""

from sidelight.stability.pate.labels import NoisyLabels, votes_of_agreement
from sidelight.stability.pate.proposals import (
    ClearVotes,
    VoteCost,
    VotePrice,
    cheapest_proposal,
    log_error_probability,
    noisy_max_renyi,
    pass_chance,
    plain_epsilon,
    proposal_table,
    quantiles_of,
    vote_distance,
    vote_quantile,
)
from sidelight.stability.pate.teachers import simulate_votes

__all__ = [
    "ClearVotes",
    "NoisyLabels",
    "VoteCost",
    "VotePrice",
    "cheapest_proposal",
    "log_error_probability",
    "noisy_max_renyi",
    "pass_chance",
    "plain_epsilon",
    "proposal_table",
    "quantiles_of",
    "simulate_votes",
    "vote_distance",
    "vote_quantile",
    "votes_of_agreement",
]
