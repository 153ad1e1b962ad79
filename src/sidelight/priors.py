"""Priors: predictions of one number as a distribution, for `sl.Quantiles` and its learners.

>>> import sidelight as sl
>>> known = sl.hedge(sl.priors.Laplace(location=40, scale=2), with_=sl.priors.Cauchy(location=40, scale=20))
>>> sl.Quantiles([0.5], epsilon=1, granularity=1, prediction=known).release([38, 41, 44] * 100).value.shape
(1,)
"""

from sidelight.predictions import (
    Cauchy,
    Gaussian,
    HalfCauchy,
    Histogram,
    Laplace,
    Mixture,
    ScaleFree,
    Uniform,
    hedge,
)

__all__ = [
    "Cauchy",
    "Gaussian",
    "HalfCauchy",
    "Histogram",
    "Laplace",
    "Mixture",
    "ScaleFree",
    "Uniform",
    "hedge",
]
