"""`sl.GaussianModel`: a private Gaussian as a scikit-learn estimator, through the release door."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sidelight.errors import RangeError, WeakFitWarning
from sidelight.gaussians.estimate import CONDITION
from sidelight.gaussians.fit_query import GaussianFit
from sidelight.gaussians.fitted import FittedGaussian
from sidelight.gaussians.point_cloud import Floats
from sidelight.gaussians.step_arithmetic import Version
from sidelight.guarantees import Amount
from sidelight.records import Table
from sidelight.records.table import bare_rows
from sidelight.release import Release
from sidelight.session import Session
from sidelight.session.external_rows import ExternalRows
from sidelight.session.paid_estimator import PaidEstimator
from sidelight.session.query import prepare_query


class GaussianModel(PaidEstimator, DensityMixin, BaseEstimator):  # type: ignore[misc]  # untyped library
    """Fit a Gaussian to private rows, with a few public ones.

    Guarantee: that of `sl.GaussianFit` with the same arguments, in `guarantee_`; fitting again is another release.
    Density, draws and ellipses are post-processing. What `score_samples` gives for private rows is private.

    Accuracy: as `sl.GaussianFit`. A `WeakFitWarning` says when the released numbers do not certify the fit. Rows that
    miss a number take no part; none of it is reported, and no data makes `fit` fail.

    Args:
        prediction, rho, epsilon, delta, condition, scale, gap: As for `sl.GaussianFit`.
        mean_bound, variance_bound, steps, rows, noise, constants: As for `sl.GaussianFit`.
        session: The budget to charge; X must be rows of what it protects, one for each unit.

    Attributes: `mean_`, `covariance_`, `n_rows_` (noisy), `weak_`, `gaussian_`, `release_`, `guarantee_`.

    >>> rng = np.random.default_rng(0)
    >>> X, public = rng.normal(1000, 2, (20_000, 3)), rng.normal(1000, 2, (5, 3))
    >>> model = GaussianModel(prediction=public, rho="0.5").fit(X)
    >>> model.mean_.round().tolist(), model.sample(2).shape
    ([1000.0, 1000.0, 1000.0], (2, 3))
    """

    def __init__(
        self,
        *,
        prediction: Any = None,
        rho: Amount | None = None,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        condition: Amount = CONDITION,
        scale: Amount | None = None,
        gap: Amount = 0,
        mean_bound: Amount | None = None,
        variance_bound: Amount | None = None,
        steps: int | None = None,
        rows: int | None = None,
        noise: Literal["laplace"] | None = None,
        constants: Version = "practical",
        session: Session | None = None,
    ) -> None:
        self.prediction = prediction
        self.rho = rho
        self.epsilon = epsilon
        self.delta = delta
        self.condition = condition
        self.scale = scale
        self.gap = gap
        self.mean_bound = mean_bound
        self.variance_bound = variance_bound
        self.steps = steps
        self.rows = rows
        self.noise = noise
        self.constants = constants
        self.session = session

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803  # as scikit-learn names it
        """Charge, release mean and covariance, and keep them. X: an array, a frame, or a `sl.Table` of numbers."""
        del y
        self._check_session()
        table = bare_rows(X, taker="GaussianModel")
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "session"}
        query = GaussianFit(**parameters)
        prepared = prepare_query(query, table.schema)  # before names are kept: a refused fit leaves the model as it was
        if isinstance(X, Table):
            self.n_features_in_ = len(prepared.labels)
        else:
            validate_data(self, X, skip_check_array=True)  # n_features_in_ and feature_names_in_
        outcome = ExternalRows(prepared=prepared, rows=table).release(self.session)
        assert isinstance(outcome, Release)  # no private test that could refuse
        return self._take(outcome)

    @classmethod
    def from_release(cls, release: Release) -> Self:
        """Return a fitted model from a `sl.GaussianFit` release that was already paid for."""
        if not isinstance(release, Release) or release.kind != "gaussian":
            kind = release.kind if isinstance(release, Release) else type(release).__name__
            raise RangeError(f"expected the release of a sl.GaussianFit query, got {kind}")
        model = cls()
        model.n_features_in_ = len(release.labels)
        return model._take(release)

    def _take(self, release: Release) -> Self:
        value = release.value
        self.mean_ = np.asarray(value["mean"], np.float64)
        self.covariance_ = np.asarray(value["covariance"], np.float64)
        self.n_rows_ = float(value["rows"])
        self.weak_ = bool(value["weak"])
        self.gaussian_ = FittedGaussian(self.mean_, self.covariance_)
        self.release_: Release = release
        self.guarantee_ = release.guarantee
        if self.weak_:
            warnings.warn(
                f"with about {self.n_rows_:.0f} rows and this budget the fit is not certified for the assumed "
                "condition number; more public rows, more rows or a larger budget help",
                WeakFitWarning,
                stacklevel=3,
            )
        return self

    def score_samples(self, X: Any) -> Floats:  # noqa: N803
        """Return the log-density of each row. Of private rows it is private."""
        check_is_fitted(self)
        return self.gaussian_.log_density(validate_data(self, X, dtype=np.float64, reset=False))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Return the mean log-density of rows. Of private rows it is private."""
        del y
        return float(self.score_samples(X).mean())

    def density(self, X: Any) -> Floats:  # noqa: N803
        """Return the density at each row."""
        return np.asarray(np.exp(self.score_samples(X)))

    def mahalanobis(self, X: Any) -> Floats:  # noqa: N803
        """Return the squared Mahalanobis distance of each row, as scikit-learn's covariance estimators do."""
        check_is_fitted(self)
        return self.gaussian_.distances(validate_data(self, X, dtype=np.float64, reset=False)) ** 2

    def sample(self, n_samples: int = 1, *, seed: int | None = None) -> Floats:
        """Return synthetic rows: free, and as private as the fit.

        Args:
            n_samples: How many rows.
            seed: For the same rows again; another draw each time if left out.
        """
        check_is_fitted(self)
        return self.gaussian_.sample(n_samples, seed=seed)

    def ellipse(self, columns: tuple[int, int] = (0, 1), *, share: float = 0.95, points: int = 200) -> Floats:
        """Return the outline of the ellipse that holds a share of two columns, for drawing.

        Args:
            columns: The positions of the two columns.
            share: The share.
            points: How many points the outline has.
        """
        check_is_fitted(self)
        return self.gaussian_.ellipse(columns, share=share, points=points)
