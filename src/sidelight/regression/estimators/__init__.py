"""Private linear and additive models as scikit-learn estimators: thin classes over one pure function."""

from sidelight.regression.estimators.additive_models import AdditiveClassifier, AdditiveRegressor
from sidelight.regression.estimators.classifiers import LinearSVC, LogisticRegression
from sidelight.regression.estimators.fitted_privacy import FittedPrivacy
from sidelight.regression.estimators.regressors import LinearRegression, PoissonRegressor
from sidelight.regression.estimators.table_encoding import TableEncoding

__all__ = [
    "AdditiveClassifier",
    "AdditiveRegressor",
    "FittedPrivacy",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "PoissonRegressor",
    "TableEncoding",
]
