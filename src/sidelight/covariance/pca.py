"""Private principal component analysis as a scikit-learn transformer, through the release door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sidelight.covariance.denoise import Floats
from sidelight.covariance.prepared import Method, PreparedCovariance
from sidelight.covariance.principal import principal_components
from sidelight.covariance.query import Covariance
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Amount, Claims
from sidelight.mechanisms.noisy_moments import MatrixNoise
from sidelight.noise import OSEntropy, Source
from sidelight.records import Number, Schema, Table
from sidelight.release import Release
from sidelight.session import Answer, Session
from sidelight.session.accounts import OneOffAccount
from sidelight.session.brought_rows import claims_for
from sidelight.session.door import release_through


class _NoSeed:
    """A class of its own, because parameters are read off the nearest of `__new__` and `__init__`."""

    def __new__(cls, *_: Any, **parameters: Any) -> Any:
        """Answer `random_state` with more than "unexpected keyword"; scikit-learn reads parameters off `__init__`."""
        if "random_state" in parameters:
            raise RangeError(
                "PCA takes no random_state: a seed publishes the noise and with it the data; for reproducible tests "
                "pass session=sidelight.testing.SeededSession(..., seed=...), which brands the model"
            )
        return super().__new__(cls)


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, _NoSeed):  # type: ignore[misc]  # untyped library
    """Principal components of private rows, from one covariance release.

    Guarantee: that of `sl.Covariance` with the same arguments, in `guarantee_` after each fit; fitting again is another
    release. Components and variances are post-processing. What `transform` gives for private rows is private data.

    Accuracy: `explained_variance_error_` is the half width of error bars for all explained variances at once, with 95 %
    confidence, by public formula. Rows longer than `radius` are shortened, rows that miss a number take no part; none
    of it is reported, and no data makes `fit` fail.

    Args:
        n_components: How many; all if None; below 1 as many as explain that share of the released variance.
        radius: The public bound of a row's Euclidean length about the centre (about 0 where the mean is released).
        rho, epsilon, delta: The price: rho, or epsilon (pure), or epsilon with delta (Gaussian noise).
        center: "mean" releases a mean and subtracts it; None and a public vector cost nothing; "pairs" uses differences
            of pairs, and leaves `mean_` at 0.
        prediction, method, noise, rows: As for `sl.Covariance`.
        session: The budget to charge; X must be rows of what it protects, one for each unit.

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
        center: Any = "mean",
        prediction: Any = None,
        method: Method = "denoise",
        noise: MatrixNoise | None = None,
        rows: int | None = None,
        session: Session | None = None,
    ) -> None:
        self.n_components = n_components
        self.radius = radius
        self.rho = rho
        self.epsilon = epsilon
        self.delta = delta
        self.center = center
        self.prediction = prediction
        self.method = method
        self.noise = noise
        self.rows = rows
        self.session = session

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # private: a second fit draws new noise and is paid again
        return tags

    def __getstate__(self) -> Any:
        if self.session is not None:
            raise TypeError(
                "a model with a session cannot be copied or pickled, because its copy would spend the same budget "
                "again; to save a fitted model write model.set_params(session=None) first"
            )
        return super().__getstate__()

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803  # as scikit-learn names it
        """Charge, release the covariance, and decompose it."""
        del y
        if self.radius is None:
            raise RangeError("PCA wants radius=...: the public bound of a row's Euclidean length")
        if not isinstance(self.session, Session | None):
            raise RangeError(f"session must be a sidelight.Session or None, got {type(self.session).__name__}")
        table = _table(X)
        width = len(table.schema.columns)
        wanted = self.n_components
        if isinstance(wanted, int | np.integer) and not isinstance(wanted, bool) and not 1 <= wanted <= width:
            raise RangeError(f"n_components must be from 1 to the number of columns ({width}), got {wanted}")
        query = Covariance(
            radius=self.radius,
            rho=self.rho,
            epsilon=self.epsilon,
            delta=self.delta,
            prediction=self.prediction,
            method=self.method,
            noise=self.noise,
            center=self.center,
            rows=self.rows,
        )
        validate_data(self, X, skip_check_array=True)  # n_features_in_ and feature_names_in_
        bound = RowsOf(query=query, rows=table)
        if self.session is not None:
            outcome = self.session.release(bound)
        else:
            outcome = release_through(bound, table, OneOffAccount(), entropy=OSEntropy())
        assert isinstance(outcome, Release)  # no private test that could refuse
        return self._take(outcome)

    @classmethod
    def from_release(cls, release: Release, n_components: int | float | None = None) -> Self:
        """Return a fitted PCA from a covariance release that was already paid for."""
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
        center = release.query["center"]
        fixed = [0.0] * len(release.labels) if isinstance(center, str) else [float(Fraction(entry)) for entry in center]
        self.mean_ = np.asarray(release.value.get("mean", fixed), np.float64)
        self.release_: Release = release
        self.guarantee_ = release.guarantee
        return self

    def get_covariance(self) -> Floats:
        """Return the released matrix."""
        check_is_fitted(self)
        return np.asarray(self.release_.value["matrix"])

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Give the coordinates of rows along the components. Of private rows they are private data."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray((rows - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Floats:  # noqa: N803
        """Give the rows that have these coordinates."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X, np.float64) @ self.components_ + self.mean_)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)


@dataclass(frozen=True, kw_only=True)
class RowsOf:
    """A covariance query that brings its rows along: a matrix that the user derived from the session's table."""

    query: Covariance
    rows: Table

    def prepare(self, schema: Schema) -> PreparedRowsOf:
        """Price the query for the session's protected unit. Reads no row."""
        return PreparedRowsOf(prepared=self.query.prepare(self.rows.schema), rows=self.rows, schema=schema)


@dataclass(frozen=True, kw_only=True)
class PreparedRowsOf:
    """The prepared query and the rows it will read."""

    prepared: PreparedCovariance
    rows: Table
    schema: Schema

    @property
    def claims(self) -> Claims:
        """The price, for the session's unit; a unit with more rows than the noise is for is refused."""
        return claims_for(self.schema, self.prepared.claims, brought=self.rows.schema)

    @property
    def numerics(self) -> Literal["exact", "idealized"]:
        """Those of the covariance."""
        return self.prepared.numerics

    @property
    def request(self) -> Mapping[str, Any]:
        """The public description."""
        return self.prepared.request

    @property
    def prediction(self) -> Mapping[str, Any] | None:
        """What was predicted."""
        return self.prepared.prediction

    def run(self, table: Table, source: Source) -> Answer:
        """Read the rows that were brought along, once."""
        del table
        return self.prepared.run(self.rows, source)


def _table(rows: Any) -> Table:
    """Check what is public about X, and declare its columns; no cell is read."""
    if hasattr(rows, "toarray") or hasattr(rows, "tocsr"):
        raise TypeError("PCA takes no sparse matrix: centring would fill it; pass X.toarray()")
    shape = getattr(rows, "shape", None)
    if shape is None:
        raise SchemaError(
            f"X must be a two-dimensional array or a frame, got {type(rows).__name__}: its shape must be known before "
            "the data is opened; write np.asarray(X, dtype=float)"
        )
    if len(shape) != 2:
        raise SchemaError(
            f"Expected 2D array, rows and columns, got {len(shape)} dimension(s). Reshape your data either using "
            "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it contains a single sample"
        )
    if shape[1] == 0:
        raise SchemaError("X must have columns: 0 feature(s) (shape=(., 0)) while a minimum of 1 is required")
    names = [f"x{place}" for place in range(shape[1])]
    if hasattr(rows, "columns"):  # pandas and Polars: the table reads columns of frames by name
        names = [str(name) for name in rows.columns]
        if all(isinstance(name, str) for name in rows.columns):
            return Table(rows, schema=[Number(name) for name in names], name="arrays")
    array = np.asanyarray(rows)
    if array.dtype.kind == "c":
        raise SchemaError("Complex data not supported; give real numbers, for example two columns")
    return Table(array, schema=[Number(name) for name in names], name="arrays")
