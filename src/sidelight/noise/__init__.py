"""Entropy and exact samplers. Random numbers are drawn here and nowhere else.

Laws, proofs and costs: the noise proof page.
"""

from sidelight.noise.categorical import Categorical
from sidelight.noise.continuous import directions, gamma, standard_exponential, standard_normal, uniform
from sidelight.noise.fullcheck import full_check
from sidelight.noise.integers_and_coins import (
    below,
    bernoulli,
    bernoulli_exp,
    exp_coin,
    integers_below,
    random_order,
)
from sidelight.noise.lattice import discrete_gaussian, discrete_laplace, rounded_gaussian
from sidelight.noise.refinement import REFINEMENT_RATIO, geometric, refinement_noise
from sidelight.noise.rounding import disagreement, public_grid, to_grid
from sidelight.noise.scales import scale_up
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
    "disagreement",
    "discrete_gaussian",
    "discrete_laplace",
    "exp_coin",
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
