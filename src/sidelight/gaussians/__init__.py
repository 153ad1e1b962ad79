"""Gaussians from many private rows and a few public ones: no bound on mean or scale has to be guessed.

`estimate_gaussian` and `estimate_cells` are the functions under the queries: one Gaussian, and one in every cell of a
partition for the price of one.

`GaussianFit` and `GaussianMean` are the queries, `model.GaussianModel` the scikit-learn estimator. None is called
`Gaussian`: that is the prediction `sl.Gaussian(location, scale)` for one number.
"""

from sidelight.gaussians.estimate import estimate_cells, estimate_gaussian
from sidelight.gaussians.estimation import GaussianEstimate
from sidelight.gaussians.fitted import FittedGaussian
from sidelight.gaussians.mean_query import GaussianMean
from sidelight.gaussians.public_rows import PublicPoints, as_public_points
from sidelight.gaussians.query import GaussianFit
from sidelight.gaussians.tails import norm_bound

__all__ = [
    "FittedGaussian",
    "GaussianEstimate",
    "GaussianFit",
    "GaussianMean",
    "PublicPoints",
    "as_public_points",
    "estimate_cells",
    "estimate_gaussian",
    "norm_bound",
]
