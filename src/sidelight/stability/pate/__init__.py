"""Labels for public inputs by a noisy vote of teachers, each taught by its own share of the private records."""

from sidelight.stability.pate.noisy_max import log_error_probability, noisy_max_renyi, vote_quantile

__all__ = ["log_error_probability", "noisy_max_renyi", "vote_quantile"]
