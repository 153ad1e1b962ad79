"""Labels for public inputs by a noisy vote of teachers, each taught by its own share of the private records."""

from sidelight.stability.pate.choosing import (
    LabelPrice,
    cheapest_proposal,
    cheapest_smooth_proposal,
    pass_chance,
    plain_epsilon,
    proposal_table,
)
from sidelight.stability.pate.labels import NoisyLabels
from sidelight.stability.pate.noisy_max import log_error_probability, noisy_max_renyi, vote_quantile
from sidelight.stability.pate.proposals import ClearVotes, Proposal, SmoothVotes
from sidelight.stability.pate.simulate import simulate_votes, votes_of_agreement
from sidelight.stability.pate.smooth_cost import SmoothBound
from sidelight.stability.pate.vote_distance import VoteCost, quantiles_of, vote_distance

__all__ = [
    "ClearVotes",
    "LabelPrice",
    "NoisyLabels",
    "Proposal",
    "SmoothBound",
    "SmoothVotes",
    "VoteCost",
    "cheapest_proposal",
    "cheapest_smooth_proposal",
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
