"""Gaussians from many private rows and a few public ones: no bound on mean or scale has to be guessed.

`estimate_gaussian` and `estimate_cells` are the functions under the queries: one Gaussian, and one in every cell of a
partition for the price of one.

`GaussianFit` and `GaussianMean` are the queries, `model.GaussianModel` the scikit-learn estimator. `Gaussian`
is something else: the prediction `sl.priors.Gaussian(location, scale)` of one number.
"""

from sidelight.gaussians.estimate import FittedGaussian, estimate_cells, estimate_gaussian
from sidelight.gaussians.gaussian_steps import GaussianEstimate
from sidelight.gaussians.mean_and_fit_queries import GaussianFit, GaussianMean
from sidelight.gaussians.point_cloud import PointCloud, as_point_cloud
from sidelight.gaussians.step_arithmetic import norm_bound

__all__ = [
    "FittedGaussian",
    "GaussianEstimate",
    "GaussianFit",
    "GaussianMean",
    "PointCloud",
    "as_point_cloud",
    "estimate_cells",
    "estimate_gaussian",
    "norm_bound",
]
