"""Labels for public inputs by a noisy vote of teachers, each taught by its own share of the private records."""

from sidelight.stability.pate.labels import NoisyLabels
from sidelight.stability.pate.plan import simulate_votes, votes_of_agreement
from sidelight.stability.pate.proposals import (
    ClearVotes,
    LabelPrice,
    cheapest_proposal,
    pass_chance,
    plain_epsilon,
    proposal_table,
)
from sidelight.stability.pate.vote_cost import (
    VoteCost,
    log_error_probability,
    noisy_max_renyi,
    quantiles_of,
    vote_distance,
    vote_quantile,
)

__all__ = [
    "ClearVotes",
    "LabelPrice",
    "NoisyLabels",
    "VoteCost",
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
