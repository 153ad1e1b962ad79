"""Private principal component analysis as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sidelight.covariance.matrices import number_of_components, principal_components
from sidelight.covariance.plan import Method
from sidelight.covariance.query import Covariance
from sidelight.errors import RangeError
from sidelight.guarantees import Amount
from sidelight.mechanisms.denoise import Floats
from sidelight.mechanisms.noisy_moments import MatrixLaw
from sidelight.records.numbers import exact_number
from sidelight.records.table import bare_rows
from sidelight.release import Release
from sidelight.session import Session
from sidelight.session.paid_estimator import ExternalRows, PaidEstimator
from sidelight.session.query import prepare_query


class PCA(PaidEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped library
    """Fit the principal components of private rows, from one covariance release.

    Guarantee: that of `sl.Covariance` with the same arguments, in `guarantee_` after each fit; fitting again is another
    release. Components and variances are post-processing. What `transform` gives for private rows is private data.

    Accuracy: `explained_variance_error_` is the half width of error bars for all explained variances at once, with 95 %
    confidence, by public formula. Rows longer than `radius` are shortened, rows that miss a number take no part; none
    of it is reported, and no data makes `fit` fail.

    Args:
        n_components: How many; all if None; below 1 as many as explain that share of the released variance.
        radius: The public bound of a row's Euclidean length about the centre (about 0 where the mean is released).
        rho, epsilon, delta: The price: rho, or epsilon (pure), or epsilon with delta (Gaussian noise).
        centre: "mean" releases a mean and subtracts it; None and a public vector cost nothing; "pairs" uses differences
            of pairs, and leaves `mean_` at 0.
        prediction, method, noise, rows: As for `sl.Covariance`.
        session: The budget to charge; X must be rows of what it protects. One of persons wants a table of them.

    >>> X = np.random.default_rng(0).normal(size=(20_000, 3)) * [0.1, 0.5, 0.2]
    >>> model = PCA(1, radius=1, rho="0.5").fit(X)
    >>> int(np.abs(model.components_[0]).argmax())
    1
    """

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        radius: Amount | None = None,
        rho: Amount | None = None,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        centre: Any = "mean",
        prediction: Any = None,
        method: Method = "denoise",
        noise: MatrixLaw | None = None,
        rows: int | None = None,
        session: Session | None = None,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803  # as scikit-learn names it
        """Charge, release the covariance, and decompose it."""
        del y
        if self.radius is None:
            raise RangeError("PCA wants radius=...: the public bound of a row's Euclidean length")
        self._check_session()
        table = bare_rows(X, taker="PCA")
        number_of_components(self.n_components, np.ones(len(table.schema.columns)))  # before the charge
        prepared = prepare_query(Covariance(**self._settings_of_query("n_components")), table.schema)
        validate_data(self, X, skip_check_array=True)  # n_features_in_ and feature_names_in_
        outcome = ExternalRows(prepared=prepared, rows=table).release(self.session)
        assert isinstance(outcome, Release)  # no private test that could refuse
        return self._take(outcome)

    @classmethod
    def from_release(cls, release: Release, n_components: int | float | None = None) -> Self:
        """Return a fitted PCA from a covariance release that was already paid for.

        Args:
            release: The release of a `sl.Covariance` query.
            n_components: As for the constructor.
        """
        model = cls(n_components)
        model._take(release)
        model.n_features_in_ = len(release.labels)
        return model

    def _take(self, release: Release) -> Self:
        found = principal_components(release, self.n_components)
        self.components_ = found.components
        self.explained_variance_ = found.explained_variance
        self.explained_variance_ratio_ = found.explained_variance_ratio
        self.explained_variance_error_ = found.variance_error
        self.n_components_ = len(found.components)
        centre = release.query["centre"]
        fixed = (
            [0.0] * len(release.labels)
            if isinstance(centre, str)
            else [float(exact_number(entry, name="centre")) for entry in centre]
        )
        self.mean_ = np.asarray(release.value.get("mean", fixed), np.float64)
        self.release_: Release = release
        self.guarantee_ = release.guarantee
        return self

    def get_covariance(self) -> Floats:
        """Return the released matrix."""
        check_is_fitted(self)
        return np.asarray(self.release_.value["matrix"])

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the coordinates of rows along the components. Of private rows they are private data."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray((rows - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the rows that have these coordinates."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X, np.float64) @ self.components_ + self.mean_)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)
