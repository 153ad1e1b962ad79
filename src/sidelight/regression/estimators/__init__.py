"""Private linear models as scikit-learn estimators: thin classes over one pure function, through one door."""

from sidelight.regression.estimators.linear_regression import LinearRegression
from sidelight.regression.estimators.linear_svc import LinearSVC
from sidelight.regression.estimators.logistic_regression import LogisticRegression

__all__ = ["LinearRegression", "LinearSVC", "LogisticRegression"]
