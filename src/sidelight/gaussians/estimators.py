"""`sl.GaussianModel` and `sl.GaussianMixture`: private Gaussians as scikit-learn estimators."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

from sidelight.errors import RangeError, WeakFitWarning
from sidelight.gaussians.estimate import CONDITION, FittedGaussian, FittedMixture
from sidelight.gaussians.mean_and_fit_queries import GaussianFit
from sidelight.gaussians.mixture.prepared import Method, OnFailure
from sidelight.gaussians.mixture.query import SeparatedMixture
from sidelight.gaussians.point_cloud import Floats
from sidelight.gaussians.step_arithmetic import Version
from sidelight.guarantees import Amount
from sidelight.records import Table
from sidelight.records.table import bare_rows
from sidelight.release import Outcome, Refused, Release
from sidelight.session import Session
from sidelight.session.paid_estimator import ExternalRows, PaidEstimator
from sidelight.session.query import check_source, prepare_query


class _GaussianEstimator(PaidEstimator, DensityMixin, BaseEstimator):  # type: ignore[misc]  # untyped library
    """What both estimators share: a query, its release of private rows, and the log-density of others."""

    #: The query under the estimator, the kind of its release, and the parameters that it calls otherwise.
    _query: ClassVar[Any]
    _kind: ClassVar[str]
    _renamed: ClassVar[Mapping[str, str]] = {}
    session: Session | None

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803  # as scikit-learn names it
        """Charge, release and keep the estimate. X: an array, a frame, or a `sl.Table` of numbers."""
        del y
        self._check_session()
        table = bare_rows(X, taker=type(self).__name__)
        renamed = {theirs: getattr(self, mine) for mine, theirs in self._renamed.items()}
        prepared = prepare_query(self._query(**renamed, **self._settings_of_query(*self._renamed)), table.schema)
        check_source(prepared, table)  # before names are kept: a refused fit leaves the model as it was
        if isinstance(X, Table):
            self.n_features_in_ = len(prepared.labels)
        else:
            validate_data(self, X, skip_check_array=True)  # n_features_in_ and feature_names_in_
        return self._take(ExternalRows(prepared=prepared, rows=table).release(self.session))

    @classmethod
    def from_release(cls, release: Release) -> Self:
        """Return a fitted model from a release of the query that was already paid for."""
        if not isinstance(release, Release) or release.kind != cls._kind:
            kind = release.kind if isinstance(release, Release) else type(release).__name__
            raise RangeError(f"expected the release of a sl.{cls._query.__name__} query, got {kind}")
        model = cls()
        model.n_features_in_ = len(release.labels)
        return model._take(release)

    def _take(self, outcome: Outcome) -> Self:
        """Keep what was released."""
        raise NotImplementedError

    def _fitted(self) -> Any:
        """Return the released law, or say that there is none."""
        raise NotImplementedError

    def _rows(self, X: Any) -> Floats:  # noqa: N803
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def score_samples(self, X: Any) -> Floats:  # noqa: N803
        """Return the log-density of each row. Of private rows it is private."""
        found: Floats = self._fitted().log_density(self._rows(X))
        return found

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Return the mean log-density of rows. Of private rows it is private."""
        del y
        return float(self.score_samples(X).mean())


class GaussianModel(_GaussianEstimator):
    """Fit a Gaussian to private rows, with a few public ones.

    Guarantee: that of `sl.GaussianFit` with the same arguments, in `guarantee_`; fitting again is another release.
    Density, draws and ellipses are post-processing. What `score_samples` gives for private rows is private.

    Accuracy: as `sl.GaussianFit`. A `WeakFitWarning` says when the released numbers do not certify the fit. Rows that
    miss a number take no part; none of it is reported, and no data makes `fit` fail.

    Args:
        prediction, rho, epsilon, delta, condition, scale, gap: As for `sl.GaussianFit`.
        mean_bound, variance_bound, steps, rows, noise, constants: As for `sl.GaussianFit`.
        session: The budget to charge; X must be rows of what it protects. One of persons wants a table of them.

    Attributes: `mean_`, `covariance_`, `n_rows_` (noisy), `weak_`, `gaussian_`, `release_`, `guarantee_`.

    >>> rng = np.random.default_rng(0)
    >>> X, public = rng.normal(1000, 2, (20_000, 3)), rng.normal(1000, 2, (5, 3))
    >>> model = GaussianModel(prediction=public, rho="0.5").fit(X)
    >>> model.mean_.round().tolist(), model.sample(2).shape
    ([1000.0, 1000.0, 1000.0], (2, 3))
    """

    _query, _kind = GaussianFit, "gaussian"

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
        self._store(locals())

    def _take(self, outcome: Outcome) -> Self:
        assert isinstance(outcome, Release)  # no private test that could refuse
        value = outcome.value
        self.mean_ = np.asarray(value["mean"], np.float64)
        self.covariance_ = np.asarray(value["covariance"], np.float64)
        self.n_rows_ = float(value["rows"])
        self.weak_ = bool(value["weak"])
        self.gaussian_ = FittedGaussian(self.mean_, self.covariance_)
        self.release_: Release = outcome
        self.guarantee_ = outcome.guarantee
        if self.weak_:
            warnings.warn(
                f"with about {self.n_rows_:.0f} rows and this budget the fit is not certified for the assumed "
                "condition number; more public rows, more rows or a larger budget help",
                WeakFitWarning,
                stacklevel=3,
            )
        return self

    def _fitted(self) -> FittedGaussian:
        check_is_fitted(self)
        fitted: FittedGaussian = self.gaussian_
        return fitted

    def density(self, X: Any) -> Floats:  # noqa: N803
        """Return the density at each row."""
        return np.asarray(np.exp(self.score_samples(X)))

    def mahalanobis(self, X: Any) -> Floats:  # noqa: N803
        """Return the squared Mahalanobis distance of each row, as scikit-learn's covariance estimators do."""
        return self._fitted().distances(self._rows(X)) ** 2

    def sample(self, n_samples: int = 1, *, seed: int | None = None) -> Floats:
        """Return synthetic rows: free, and as private as the fit.

        Args:
            n_samples: How many rows.
            seed: For the same rows again; another draw each time if left out.
        """
        return self._fitted().sample(n_samples, seed=seed)

    def ellipse(self, columns: tuple[int, int] = (0, 1), *, share: float = 0.95, points: int = 200) -> Floats:
        """Return the outline of the ellipse that holds a share of two columns, for drawing.

        Args:
            columns: The positions of the two columns.
            share: The share.
            points: How many points the outline has.
        """
        return self._fitted().ellipse(columns, share=share, points=points)


#: What a fit sets, and a refused fit takes away again.
_FITTED = ("means_", "covariances_", "weights_", "mixture_", "certified_", "warnings_", "n_components_", "release_")


class GaussianMixture(_GaussianEstimator):
    """Fit means, covariances and weights of separated Gaussians to private rows, with a few public ones.

    Guarantee: that of `sl.SeparatedMixture` with the same arguments (zCDP of at most `rho`, for adding or removing a
    row), in `guarantee_` after each fit; fitting again is another release. Everything else is post-processing. What
    `predict` and `score_samples` give for private rows is private data.

    Accuracy: as `sl.SeparatedMixture`. Whether the clusters are separated is tested privately. If not, the fit is
    refused: `outcome_` is the `Refused` with its reason, which was paid for, the model stays unfitted, and `predict`
    says so. on_failure="single" returns one Gaussian instead. `warnings_` holds what released and public numbers tell.

    Args:
        n_components: k; chosen by BIC on many public rows if left out.
        prediction: Public rows of the same mixture, 6 or more for each component: `sl.PublicData`, or an array.
        rho, epsilon, delta: The price: rho, or epsilon with delta.
        method: "auto", "project-link-verify", "recursive" or "public-cluster".
        least_weight: The smallest weight of a component; 1/(2k) if left out.
        condition: The largest ratio of variances in one component.
        on_failure: "refuse" or "single".
        session: The budget to charge; X must be rows of what it protects. One of persons wants a table of them.

    Attributes: `means_`, `covariances_`, `weights_`, `n_components_`, `certified_`, `warnings_`, `mixture_` (a
    `FittedMixture`), `outcome_`, `release_`, `guarantee_`.

    >>> rng = np.random.default_rng(0)
    >>> centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    >>> X, public = (centres[rng.integers(3, size=n)] + rng.normal(size=(n, 2)) for n in (9_000, 30))
    >>> model = GaussianMixture(3, prediction=public, rho=1).fit(X)
    >>> sorted(model.means_.round().astype(int).tolist())
    [[0, 0], [0, 10], [10, 0]]
    """

    _query, _kind, _renamed = SeparatedMixture, "gaussian_mixture", MappingProxyType({"n_components": "components"})

    def __init__(
        self,
        n_components: int | None = None,
        *,
        prediction: Any = None,
        rho: Amount | None = None,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        method: Method = "auto",
        least_weight: Amount | None = None,
        condition: Amount = CONDITION,
        on_failure: OnFailure = "refuse",
        session: Session | None = None,
    ) -> None:
        self._store(locals())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "means_")

    def _take(self, outcome: Outcome) -> Self:
        for name in _FITTED:  # of a fit before: a refusal must not look like its result
            self.__dict__.pop(name, None)
        self.outcome_: Outcome = outcome
        self.guarantee_ = outcome.guarantee
        if isinstance(outcome, Refused):
            return self
        value = outcome.value
        self.means_ = np.asarray(value["means"], np.float64)
        self.covariances_ = np.asarray(value["covariances"], np.float64)
        self.weights_ = np.asarray(value["weights"], np.float64)
        self.mixture_ = FittedMixture(self.means_, self.covariances_, self.weights_)
        self.n_components_ = len(self.weights_)
        self.certified_ = bool(value["certified"])
        self.warnings_: tuple[str, ...] = tuple(value["warnings"])
        self.release_: Release = outcome
        return self

    def fit_predict(self, X: Any, y: Any = None, **_: Any) -> np.ndarray:  # noqa: N803
        """Return the component of each row, after a fit to the same rows: of private rows it is private data."""
        return self.fit(X, y).predict(X)

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the likeliest component of each row. Of private rows it is private data."""
        return self._fitted().labels(self._rows(X))

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return how likely each component is for each row. Of private rows it is private data."""
        return self._fitted().shares(self._rows(X))

    def sample(self, n_samples: int = 1, *, seed: int | None = None) -> tuple[Floats, np.ndarray]:
        """Return synthetic rows and their components: free, and as private as the fit.

        Args:
            n_samples: How many rows.
            seed: For the same rows again; another draw each time if left out.
        """
        return self._fitted().sample(n_samples, seed=seed)

    def _fitted(self) -> FittedMixture:
        outcome = getattr(self, "outcome_", None)
        if isinstance(outcome, Refused):
            raise NotFittedError(f"the fit was refused, so there is no mixture: {outcome.reason}")
        check_is_fitted(self)
        fitted: FittedMixture = self.mixture_
        return fitted
