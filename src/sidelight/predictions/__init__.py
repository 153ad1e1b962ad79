"""Priors on the outputs, where they came from, and how to hedge them. Nothing here sees a private record.

A prediction changes the accuracy of a release, never its guarantee (quantiles proof page, section 1.3).
"""

from sidelight.predictions.cauchy import Cauchy, HalfCauchy
from sidelight.predictions.compiled import CompiledPrior
from sidelight.predictions.exchange import describe, prior_from_json
from sidelight.predictions.gaussian import Gaussian
from sidelight.predictions.histogram import Histogram
from sidelight.predictions.laplace import Laplace
from sidelight.predictions.mixture import (
    Mixture,
    hedge,
    hedge_cost,
    is_prior,
    needs_hedge,
    own_prior,
    warn_if_unhedged,
)
from sidelight.predictions.origin import Origin, guess, origin_from_json, public, released
from sidelight.predictions.power_law import PowerLaw
from sidelight.predictions.priors import Prior
from sidelight.predictions.public_data import PublicData
from sidelight.predictions.scale_free import ScaleFree
from sidelight.predictions.uniform import Uniform

__all__ = [
    "Cauchy",
    "CompiledPrior",
    "Gaussian",
    "HalfCauchy",
    "Histogram",
    "Laplace",
    "Mixture",
    "Origin",
    "PowerLaw",
    "Prior",
    "PublicData",
    "ScaleFree",
    "Uniform",
    "describe",
    "guess",
    "hedge",
    "hedge_cost",
    "is_prior",
    "needs_hedge",
    "origin_from_json",
    "own_prior",
    "prior_from_json",
    "public",
    "released",
    "warn_if_unhedged",
]
