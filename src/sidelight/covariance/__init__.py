"""Private second-moment and covariance matrices with predictions, and what is computed from them."""

from sidelight.covariance.correlation import correlation
from sidelight.covariance.denoise import Denoised, denoise
from sidelight.covariance.learning import learned_prediction
from sidelight.covariance.predicted import PredictedMatrix, PublicRows
from sidelight.covariance.principal import PrincipalComponents, principal_components
from sidelight.covariance.private_choice import Choice
from sidelight.covariance.projection import nearest_covariance
from sidelight.covariance.query import Covariance

__all__ = [
    "Choice",
    "Covariance",
    "Denoised",
    "PredictedMatrix",
    "PrincipalComponents",
    "PublicRows",
    "correlation",
    "denoise",
    "learned_prediction",
    "nearest_covariance",
    "principal_components",
]
