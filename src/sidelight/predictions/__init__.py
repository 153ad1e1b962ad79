"""Priors on the outputs, where they came from, and how to hedge them. Nothing here sees a private record.

A prediction changes the accuracy of a release, never its guarantee (quantiles proof page, section 1.3).
"""

from sidelight.predictions.compiled import CompiledPrior, Prior
from sidelight.predictions.histogram import HistogramPrior as Histogram
from sidelight.predictions.histogram import ScaleFree, Uniform
from sidelight.predictions.location_scale import Cauchy, Gaussian, HalfCauchy, Laplace, PowerLaw
from sidelight.predictions.mixture import (
    Mixture,
    describe,
    hedge,
    is_prior,
    own_prior,
    prior_from_json,
    warn_if_unhedged,
)
from sidelight.predictions.origin import Origin, guess, origin_from_json, public, released
from sidelight.predictions.public_data import PublicData

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
    "is_prior",
    "origin_from_json",
    "own_prior",
    "prior_from_json",
    "public",
    "released",
    "warn_if_unhedged",
]
