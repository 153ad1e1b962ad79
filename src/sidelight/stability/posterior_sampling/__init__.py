"""Linear regression by one sample from the posterior, as private as the data allow (stability proof page)."""

from sidelight.stability.posterior_sampling.adaops import AdaOPS
from sidelight.stability.posterior_sampling.balanced import BalancedOPS, OutputPerturbation
from sidelight.stability.posterior_sampling.divergence import largest_precision, posterior_divergence, tail_epsilon
from sidelight.stability.posterior_sampling.ops_ptr import OPSPTR
from sidelight.stability.posterior_sampling.true_loss import (
    nonprivate_gaussian_divergence,
    nonprivate_posterior_divergence,
    nonprivate_posterior_loss,
)

__all__ = [
    "OPSPTR",
    "AdaOPS",
    "BalancedOPS",
    "OutputPerturbation",
    "largest_precision",
    "nonprivate_gaussian_divergence",
    "nonprivate_posterior_divergence",
    "nonprivate_posterior_loss",
    "posterior_divergence",
    "tail_epsilon",
]
