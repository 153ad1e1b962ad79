"""The priors under a name of their own: `sl.priors.Histogram(edges, weights)`; `sl.Histogram` is a query."""

from sidelight.predictions import Cauchy, Gaussian, HalfCauchy, Histogram, Laplace, Mixture, ScaleFree, Uniform, hedge

__all__ = ["Cauchy", "Gaussian", "HalfCauchy", "Histogram", "Laplace", "Mixture", "ScaleFree", "Uniform", "hedge"]
