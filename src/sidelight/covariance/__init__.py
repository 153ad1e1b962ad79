"""Private second-moment and covariance matrices with predictions, and what is computed from them."""

from sidelight.covariance.matrices import (
    PredictedMatrix,
    PrincipalComponents,
    correlation,
    learned_prediction,
    nearest_covariance,
    principal_components,
)
from sidelight.covariance.plan import Choice
from sidelight.covariance.query import Covariance
from sidelight.mechanisms.denoise import Denoised, denoise

__all__ = [
    "Choice",
    "Covariance",
    "Denoised",
    "PredictedMatrix",
    "PrincipalComponents",
    "correlation",
    "denoise",
    "learned_prediction",
    "nearest_covariance",
    "principal_components",
]
