"""Losses of linear models with proven bounds of slope and curvature, one family a file."""

from sidelight.regression.losses.clipped_squared import ClippedSquaredLoss
from sidelight.regression.losses.huber import HuberLoss
from sidelight.regression.losses.log_cosh import LogCoshLoss
from sidelight.regression.losses.logistic import LogisticLoss
from sidelight.regression.losses.loss import Floats, Loss
from sidelight.regression.losses.one_vs_rest import OneVsRestLoss
from sidelight.regression.losses.poisson import PoissonLoss
from sidelight.regression.losses.smoothed_hinge import SmoothedHingeLoss
from sidelight.regression.losses.softmax import SoftmaxLoss

__all__ = [
    "ClippedSquaredLoss",
    "Floats",
    "HuberLoss",
    "LogCoshLoss",
    "LogisticLoss",
    "Loss",
    "OneVsRestLoss",
    "PoissonLoss",
    "SmoothedHingeLoss",
    "SoftmaxLoss",
]
