"""Linear regression by one sample from the posterior, as private as the data allow (stability proof page)."""

from sidelight.stability.posterior_sampling.adaops import AdaOPS
from sidelight.stability.posterior_sampling.ops_ptr import OPSPTR
from sidelight.stability.posterior_sampling.ridge import largest_precision, posterior_divergence

__all__ = [
    "OPSPTR",
    "AdaOPS",
    "largest_precision",
    "posterior_divergence",
]
