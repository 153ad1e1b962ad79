"""Entropy and exact samplers. Random numbers are drawn here and nowhere else.

Laws, proofs and costs: the noise proof page.
"""

from sidelight.noise.continuous import (
    directions,
    gamma,
    public_grid,
    standard_exponential,
    standard_normal,
    to_grid,
    uniform,
)
from sidelight.noise.integers_and_coins import (
    Categorical,
    below,
    bernoulli,
    bernoulli_exp,
    integers_below,
    random_order,
)
from sidelight.noise.lattice import (
    REFINEMENT_RATIO,
    discrete_laplace,
    geometric,
    refinement_noise,
    rounded_gaussian,
    scale_up,
)
from sidelight.noise.self_check import full_check
from sidelight.noise.source import Entropy, Numerics, OSEntropy, Source

__all__ = [
    "REFINEMENT_RATIO",
    "Categorical",
    "Entropy",
    "Numerics",
    "OSEntropy",
    "Source",
    "below",
    "bernoulli",
    "bernoulli_exp",
    "directions",
    "discrete_laplace",
    "full_check",
    "gamma",
    "geometric",
    "integers_below",
    "public_grid",
    "random_order",
    "refinement_noise",
    "rounded_gaussian",
    "scale_up",
    "standard_exponential",
    "standard_normal",
    "to_grid",
    "uniform",
]
