"""Linear regression by one sample from the posterior, as private as the data allow (stability proof page)."""

from sidelight.stability.posterior_sampling.adaops import AdaOPS
from sidelight.stability.posterior_sampling.divergence import largest_precision, posterior_divergence, tail_epsilon
from sidelight.stability.posterior_sampling.ops_ptr import OPSPTR

__all__ = [
    "OPSPTR",
    "AdaOPS",
    "largest_precision",
    "posterior_divergence",
    "tail_epsilon",
]
