"""Entropy and exact samplers. Random numbers are drawn here and nowhere else.

Laws, proofs and costs: the noise proof page.
"""

from sidelight.noise.coins import bernoulli, bernoulli_exp
from sidelight.noise.entropy import Entropy, OSEntropy
from sidelight.noise.integers import below, integers_below
from sidelight.noise.source import Source

__all__ = ["Entropy", "OSEntropy", "Source", "below", "bernoulli", "bernoulli_exp", "integers_below"]
