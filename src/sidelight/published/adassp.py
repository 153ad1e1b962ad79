"""Ridge regression in one pass from private sufficient statistics, with a penalty that adapts to the data (AdaSSP).

Use `LinearRegression` instead: its error is at or below this one's on every set of
`benchmarks/linear_regression_accuracy.py`, at epsilon 0.1 and 1.

After Wang (2018), "Revisiting differentially private linear regression", with four changes. The noise is calibrated as
Gaussian differential privacy (the paper's constants lose a factor) and shaped for a symmetric matrix, on integers, so
that the guarantee holds for the released bits. The eigenvalues are read off the noisy Gram matrix instead of being
released by themselves: that is free, and gives a third of the budget back. And each direction is penalised by what it
lacks: the paper's one penalty for all of them also shrinks the directions that the data determine well. All of this is
post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.collect import collect
from sidelight.aggregates.regression_moments import LeastSquares, RegressionMoments
from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.guarantees import GDP, Amount, Claims, decimal_text, exact, native_claims, positive
from sidelight.guarantees.intervals import root_above
from sidelight.mechanisms.additive import GaussianNoise, SymmetricGaussianNoise
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source, scale_up
from sidelight.records import Number, Schema, Table
from sidelight.records.engines.arrays import as_numbers
from sidelight.regression.estimators.examples import examples
from sidelight.regression.least_squares_codes import LeastSquaresCodes, least_squares_codes
from sidelight.release import Release
from sidelight.session import Answer, release_once
from sidelight.session.query import SurePrepared

Shrinkage: TypeAlias = Literal["directions", "uniform"]
#: The noise exceeds the level of the penalty with at most this probability: accuracy, never privacy.
_FAILURE = 0.05
_ROOT_BITS = 100


@dataclass(frozen=True, kw_only=True)
class LinearFit:
    """Coefficients of a private least-squares fit: the prediction is features @ coefficients + intercept."""

    coefficients: NDArray[np.float64]
    intercept: float
    claims: Claims

    def predict(self, features: Any) -> NDArray[np.float64]:
        """Predict rows of features."""
        return np.asarray(np.asarray(features, np.float64) @ self.coefficients + self.intercept)


@dataclass(frozen=True, kw_only=True)
class AdaSSP:
    """Release a linear regression from one noisy Gram matrix and one noisy vector.

    Guarantee: GDP(mu) for the schema's unit under adding or removing one, exact on the machine: the Gram matrix of rows
    clipped to `feature_norm` with symmetric Gaussian noise, and their products with the clamped target with Gaussian
    noise; everything else is computed from these two (limits: rows longer than `feature_norm` are shortened).

    Accuracy: that of least squares once the smallest eigenvalue of the Gram matrix is large against the noise, and of a
    ridge regression with a penalty of that size before. The noise is the same in every direction, so features of very
    different sizes should be scaled by public ranges first. The intercept's column is penalised like every other.

    Args:
        features: Names of `Number` columns.
        target: A `Number` column with both bounds.
        feature_norm: The public bound of a row's Euclidean norm. Where every feature declares both bounds it may be
            left out, and rows are taken about the middle of their ranges unless it is shorter than these.
        mu, rho, epsilon, delta: The price: exactly one of mu, rho, or epsilon with delta.
        intercept: The value of the constant column, 0 for none; half as long as a row can be if left out.
        penalty: The least ridge penalty (scikit-learn's alpha).
        gram_share: The share of mu² for the Gram matrix.
        shrinkage: "directions" (each by what it lacks) or "uniform" (one penalty for all, as in the paper).

    >>> x = np.linspace(-1, 1, 5000)
    >>> rows = Table({"x": x, "y": 0.5 * x}, schema=[Number("x"), Number("y", lower=-1, upper=1)])
    >>> release = AdaSSP(features=["x"], target="y", feature_norm=1, mu=1).release(rows)
    >>> release.labels, bool(0.4 < release.value[0] < 0.6)
    (('x', 'intercept'), True)
    """

    features: Sequence[str]
    target: str
    feature_norm: Amount | None = None
    mu: Amount | None = None
    rho: Amount | None = None
    epsilon: Amount | None = None
    delta: Amount | None = None
    intercept: Amount | None = None
    penalty: Amount = 0
    gram_share: Amount = field(default="1/2")
    shrinkage: Shrinkage = "directions"

    def __post_init__(self) -> None:
        if self.shrinkage not in get_args(Shrinkage):
            raise RangeError(
                f"unknown shrinkage {self.shrinkage!r}; {nearest(str(self.shrinkage), get_args(Shrinkage))}"
            )
        object.__setattr__(self, "features", tuple(self.features))
        self.mu_squared  # noqa: B018  # a price that is not one is found now
        if self.feature_norm is not None:
            positive(self.feature_norm, name="feature_norm")
        exact(self.penalty, name="penalty")
        if self.intercept is not None and exact(self.intercept, name="intercept") < 0:
            raise RangeError(f"intercept must not be negative, got {self.intercept}; 0 is none")
        if not 0 < exact(self.gram_share, name="gram_share") < 1:
            raise RangeError(f"gram_share must lie strictly between 0 and 1, got {self.gram_share}")

    @property
    def mu_squared(self) -> Fraction:
        """The whole budget as mu²."""
        rho = Budget.of(mu=self.mu, rho=self.rho, epsilon=self.epsilon, delta=self.delta).rho
        if rho is None:
            raise RangeError("epsilon and delta come together; delta has no default, 1e-6 is usual")
        return 2 * rho

    def prepare(self, schema: Schema) -> PreparedAdaSSP:
        """Check the query against the schema and price it. Opens no data."""
        codes = least_squares_codes(schema, self)
        statistics = codes.statistics
        share = exact(self.gram_share, name="gram_share")
        gram_scale = _scale(statistics.gram_sensitivity, share * self.mu_squared)
        cross_scale = _scale(statistics.cross_sensitivity, (1 - share) * self.mu_squared)
        # the cost of both releases together, for the noise scales that are used
        squares = (statistics.gram_sensitivity / gram_scale) ** 2 + (statistics.cross_sensitivity / cross_scale) ** 2
        return PreparedAdaSSP(
            claims=native_claims(GDP.from_squares(squares, unit=statistics.unit), mechanism="rounded_gaussian"),
            request={
                "kind": "adassp",
                "features": list(self.features),
                "target": self.target,
                "feature_norm": decimal_text(codes.radius),
                "centres": [decimal_text(centre) for centre in codes.centres],
                "mu_squared": decimal_text(self.mu_squared),
                "intercept": decimal_text(codes.intercept),
                "penalty": decimal_text(exact(self.penalty, name="penalty")),
                "gram_share": decimal_text(share),
                "shrinkage": self.shrinkage,
            },
            labels=codes.labels,
            query=self,
            codes=codes,
            gram_scale=gram_scale,
            cross_scale=cross_scale,
        )

    def declare(self) -> Number:
        """Refuse a bare array: a regression needs named columns."""
        raise SchemaError("a regression wants sl.Table(data, schema=[...]); for arrays (X, y) there is adassp(...)")

    def release(self, table: Table) -> Release:
        """Release from a table with exactly this query's budget and no ledger."""
        return release_once(self, table)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedAdaSSP(SurePrepared):
    """An `AdaSSP` query fitted to a schema: codes and noise scales, all public."""

    query: AdaSSP
    codes: LeastSquaresCodes
    gram_scale: Fraction
    cross_scale: Fraction

    is_additive = True

    @property
    def statistics(self) -> LeastSquares:
        """What is read of the rows."""
        return self.codes.statistics

    def run(self, table: Table, source: Source) -> Answer:
        """Read the rows once, add noise, solve."""
        fit = self.fit(collect(table, self.statistics), source)
        return Answer(value=np.append(fit.coefficients, fit.intercept))

    def fit(self, moments: RegressionMoments, source: Source) -> LinearFit:
        """Add the noise and solve; of the moments only their noisy versions are used."""
        gram = SymmetricGaussianNoise(moments.gram, mu=moments.gram.sensitivity / self.gram_scale).release(source)
        cross = GaussianNoise(moments.cross, mu=moments.cross.sensitivity / self.cross_scale).release(source)
        noisy = np.array(gram, np.float64)
        least = float(exact(self.query.penalty, name="penalty")) / float(self.codes.unit) ** 2
        # codes are x/unit and (y - centre)/step, so coefficients come in steps of the target by units of a feature
        solution = ridge_from_noisy(
            noisy,
            np.array(cross, np.float64),
            noise_scale=float(self.gram_scale),
            penalty=least,
            shrinkage=self.query.shrinkage,
        )
        coefficients, intercept = self.codes.in_units(solution)
        return LinearFit(coefficients=coefficients, intercept=intercept, claims=self.claims)


def ridge_from_noisy(
    gram: NDArray[np.float64],
    cross: NDArray[np.float64],
    *,
    noise_scale: float,
    penalty: float = 0.0,
    shrinkage: Shrinkage = "directions",
) -> NDArray[np.float64]:
    """Solve (G + Λ)θ = c with the smallest penalty Λ that lifts the eigenvalues of the noisy G to the noise level.

    The noise level τ = σ(√(2d) + t) is exceeded by the norm of the noise with a probability of at most 5 %. "uniform"
    adds one λ >= penalty to all eigenvalues until the smallest is τ (Wang 2018); "directions" adds `penalty` to all and
    raises each that is still below τ/2 to it. Both read noisy numbers only, and the system can be solved whatever the
    data are. The rule ranks first on generated rows (`benchmarks/ridge_shrinkage.py`).
    """
    d = len(cross)
    level = noise_scale * (np.sqrt(2 * d) + np.sqrt(2 * np.log(2 / _FAILURE)))
    values, vectors = np.linalg.eigh(gram)
    if shrinkage == "uniform":
        lifted = values + max(penalty, level - float(values[0]), 0.0)
    else:
        lifted = np.maximum(values + penalty, level / 2)
    return np.asarray(vectors @ ((vectors.T @ cross) / lifted))


def adassp(
    data: Table | tuple[Any, Any],
    *,
    feature_norm: Amount,
    source: Source,
    features: Sequence[str] | None = None,
    target: str | None = None,
    target_bounds: tuple[float, float] | None = None,
    **price: Any,
) -> LinearFit:
    """Fit once, as a pure function of rows and a noise source; `LinearFit.claims` says what it cost.

    Guarantee: that of `AdaSSP`, which takes the same arguments and charges a ledger. `data` is a table with `features`
    and `target`, or a pair (X, y) of arrays, frames or lists with the public `target_bounds` of y. Rows that miss a
    value, or have a cell that is no number, are left out.

    >>> from sidelight.noise import OSEntropy
    >>> X = np.linspace(-1, 1, 4000)[:, None]
    >>> with Source(OSEntropy()) as source:
    ...     fit = adassp((X, 0.5 * X[:, 0]), feature_norm=1, target_bounds=(-1, 1), mu=2, source=source)
    >>> bool(0.4 < fit.coefficients[0] < 0.6)
    True
    """
    if isinstance(data, Table):
        if features is None or target is None or target_bounds is not None:
            raise SchemaError("a table wants features=[...] and target=...; the target's bounds stand in its schema")
        table, names, goal = data, tuple(features), target
    else:
        if target_bounds is None or features is not None or target is not None:
            raise SchemaError("arrays (X, y) want target_bounds=(lower, upper), the public range of y, and no names")
        table, names, goal = _table_of(*data, target_bounds)
    prepared = AdaSSP(features=names, target=goal, feature_norm=feature_norm, **price).prepare(table.schema)
    return prepared.fit(collect(table, prepared.statistics), source)


def _table_of(rows: Any, goal: Any, bounds: tuple[float, float]) -> tuple[Table, tuple[str, ...], str]:
    """Make a table of arrays, frames or lists, cell by cell: what is no number is missing, and no cell raises."""
    found = examples(rows, goal, target_kinds="Ofiub")
    if found.sparse:
        raise SchemaError("X is a sparse matrix, and here rows are read column by column; write X.toarray()")
    matrix, target = found.read()
    names = tuple(f"x{place}" for place in range(found.features))
    columns = {name: np.ascontiguousarray(matrix[:, place]) for place, name in enumerate(names)}
    schema = [*(Number(name) for name in names), Number("y", lower=bounds[0], upper=bounds[1])]
    return Table(columns | {"y": as_numbers(target)}, schema=schema), names, "y"


def _scale(sensitivity: Fraction, mu_squared: Fraction) -> Fraction:
    """Return Δ/μ, rounded up to a dyadic number; the claim is made for what is returned."""
    return scale_up(root_above(sensitivity**2 / mu_squared, bits=_ROOT_BITS))
