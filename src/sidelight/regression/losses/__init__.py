"""Losses of linear models with proven bounds of slope and curvature."""

from sidelight.regression.losses.classes import LogisticLoss, SmoothedHingeLoss, SoftmaxLoss
from sidelight.regression.losses.loss import Floats, Loss
from sidelight.regression.losses.numbers import ClippedSquaredLoss, HuberLoss, LogCoshLoss, PoissonLoss

__all__ = [
    "ClippedSquaredLoss",
    "Floats",
    "HuberLoss",
    "LogCoshLoss",
    "LogisticLoss",
    "Loss",
    "PoissonLoss",
    "SmoothedHingeLoss",
    "SoftmaxLoss",
]
