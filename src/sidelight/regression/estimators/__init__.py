"""Private linear models as scikit-learn estimators: thin classes over one pure function, through one door."""

from sidelight.regression.estimators.fitted_privacy import FittedPrivacy
from sidelight.regression.estimators.linear_regression import LinearRegression
from sidelight.regression.estimators.linear_svc import LinearSVC
from sidelight.regression.estimators.logistic_regression import LogisticRegression
from sidelight.regression.estimators.poisson_regressor import PoissonRegressor
from sidelight.regression.estimators.table_encoding import TableEncoding

__all__ = [
    "FittedPrivacy",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "PoissonRegressor",
    "TableEncoding",
]
