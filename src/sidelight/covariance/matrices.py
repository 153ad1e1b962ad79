"""Matrices that a covariance begins and ends with: predictions, and what is computed from a released matrix.

A prediction is a matrix with its origin, or public rows that become one. Correlations and principal components of a
release, or of a plain matrix, are free.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from sidelight.errors import RangeError
from sidelight.mechanisms.denoise import Floats, eigenvectors, with_eigenvalues
from sidelight.mechanisms.noisy_moments import MatrixLaw, effective_scale
from sidelight.predictions import PublicData
from sidelight.predictions.origin import Origin, guess, joint_origin, released
from sidelight.predictions.public_data import refuse_look_alike, refuse_private
from sidelight.records import Number
from sidelight.records.numbers import exact_number
from sidelight.release import Release
from sidelight.release.earlier_dates import calendar_of, later_than


def nearest_covariance(
    matrix: Any, *, largest_trace: float | None = None, largest_diagonal: Any = None, overwrite: bool = False
) -> Floats:
    """Return the nearest positive semidefinite matrix with a trace of at most `largest_trace`.

    Accuracy: this is the projection on a convex set that holds every second moment of rows of length at most
    √largest_trace, so it never increases the Frobenius error: negative eigenvalues become 0, and where the others sum
    up to too much, all are lowered by one number, as far as 0. With `largest_diagonal` (what each variance can be at
    most) rows and columns whose diagonal entry exceeds it are then scaled down: correlations stay. `overwrite` saves
    memory.

    >>> nearest_covariance([[1.0, 0.0], [0.0, -0.5]]).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    >>> nearest_covariance([[3.0, 0.0], [0.0, 2.0]], largest_trace=2.0).round(12).tolist()
    [[1.5, 0.0], [0.0, 0.5]]
    """
    given = np.asarray(matrix, np.float64) if overwrite else np.array(matrix, np.float64)
    if not is_possible(given, largest_trace=largest_trace):
        values, vectors = eigenvectors(given)
        given = with_eigenvalues(vectors, possible_eigenvalues(values, largest_trace), out=given)
    if largest_diagonal is not None:
        diagonal, largest = np.diag(given), np.asarray(largest_diagonal, np.float64)
        over = diagonal > largest
        roots = np.sqrt(np.where(over, largest / np.where(over, diagonal, 1.0), 1.0))
        given *= roots[:, None]
        given *= roots
        np.fill_diagonal(given, np.minimum(np.diag(given), largest_diagonal))  # what rounding has left
    return given if largest_trace is None else _with_trace(given, largest_trace)


def is_possible(matrix: Floats, *, largest_trace: float | None = None, largest_diagonal: Any = None) -> bool:
    """Return whether there is nothing to project: a tenth of the cost, and the common case."""
    if largest_trace is not None and not float(np.trace(matrix)) <= largest_trace:
        return False
    if largest_diagonal is not None and (np.diag(matrix) > largest_diagonal).any():
        return False
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def possible_eigenvalues(values: Floats, largest_trace: float | None) -> Floats:
    """Return the nearest numbers of at least 0 with a sum of at most `largest_trace`, for ascending ones.

    Where the positive ones sum up to too much, these are max(λ - θ, 0) with the θ that makes the sum right.
    """
    positive = np.maximum(values, 0.0)
    if largest_trace is None or float(positive.sum()) <= largest_trace:
        return positive
    descending = positive[::-1]
    # θ if the k largest stay above 0; the largest k whose smallest does is the right one
    lowered = (np.cumsum(descending) - largest_trace) / np.arange(1, len(values) + 1)
    kept = int(np.flatnonzero(descending > lowered)[-1]) if (descending > lowered).any() else 0
    found = np.maximum(positive - lowered[kept], 0.0)
    total = float(found.sum())
    return np.asarray(found * (largest_trace / total) if total > largest_trace else found)  # what rounding has left


def _with_trace(matrix: Floats, largest: float) -> Floats:
    """Scale a matrix down IN PLACE by the last bits by which rounding has left its trace above the largest."""
    less = 2.0**-52
    while float(np.trace(matrix)) > largest:  # NaN ends it, and so does a factor of 0
        matrix *= 1.0 - less
        less *= 2.0
    return matrix


@dataclass(frozen=True, eq=False)
class ReleasedMatrix:
    """What later computations need of a covariance release."""

    matrix: Floats
    noisy: Floats
    noise_scale: float
    noise: MatrixLaw
    rows: float


def read_release(release: Any) -> ReleasedMatrix:
    """Return the parts of a covariance release."""
    if not isinstance(release, Release) or release.kind != "covariance":
        kind = release.kind if isinstance(release, Release) else type(release).__name__
        raise RangeError(f"expected the release of a sl.Covariance query, got {kind}")
    value = release.value
    if value.get("noisy") is None:
        raise RangeError("this covariance release has no unshrunk matrix; release with method 'denoise' or 'gauss'")
    return ReleasedMatrix(
        matrix=np.asarray(value["matrix"]),
        noisy=np.asarray(value["noisy"]),
        noise_scale=float(value["noise_scale"]),
        noise=value["noise"],
        rows=float(value["rows"]),
    )


def matrix_of(released: Any) -> Floats:
    """Return the matrix of a release, or a matrix as it is."""
    if isinstance(released, Release):
        if released.kind != "covariance":
            raise RangeError(f"expected the release of a sl.Covariance query, got {released.kind}")
        return np.asarray(released.value["matrix"], np.float64)
    matrix = np.asarray(released, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise RangeError(f"expected a covariance release or a square matrix, got shape {matrix.shape}")
    return matrix


def correlation(released: Any) -> Floats:
    """Return the correlation matrix of a covariance release, or of a matrix.

    A variance that the noise has hidden (0 or less) has correlation 0 with everything; all others lie within [-1, 1].
    Of a release without centring these are the cosines of the columns, not their correlations.

    >>> correlation([[4.0, 1.0], [1.0, 1.0]]).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    matrix = matrix_of(released)
    variances = np.diag(matrix)
    known = variances > 0
    roots = np.sqrt(np.where(known, variances, 1.0))
    found = np.where(np.outer(known, known), matrix / np.outer(roots, roots), 0.0)
    found = np.clip(found, -1.0, 1.0)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class PrincipalComponents:
    """Directions of largest variance, one to a row, and their variances, the largest first.

    `variance_error` is the half width of the error bars of all variances at once: by Weyl, no eigenvalue is off by more
    than the operator norm of the matrix's error. None where there is no public bound.
    """

    components: Floats
    explained_variance: Floats
    explained_variance_ratio: Floats
    variance_error: float | None
    confidence: float


def principal_components(
    released: Any, n_components: int | float | None = None, *, confidence: float = 0.95
) -> PrincipalComponents:
    """Return the leading components of a covariance release, or of a matrix.

    Args:
        released: A release of `sl.Covariance`, or a symmetric matrix.
        n_components: How many; all if None; for a number below 1 as many as explain that share of the variance.
        confidence: Of the error bars.

    >>> found = principal_components([[0.5, 0.0], [0.0, 2.0]])
    >>> found.components.tolist(), found.explained_variance.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [2.0, 0.5])
    """
    matrix = matrix_of(released)
    values, vectors = eigenvectors(matrix.copy())
    variances, components = np.maximum(values[::-1], 0.0), vectors.T[::-1]
    # the sign of a component is arbitrary: its largest entry is positive, as in scikit-learn
    largest = np.abs(components).argmax(axis=1)
    signs = np.where(components[np.arange(len(components)), largest] < 0, -1.0, 1.0)
    components = components * signs[:, None] + 0.0  # no negative zeros
    total = float(variances.sum())
    ratios = variances / total if total > 0 else np.zeros_like(variances)
    kept = number_of_components(n_components, ratios)
    error = float(released.error_bound(confidence)[0]) if isinstance(released, Release) and released.error else None
    return PrincipalComponents(
        components=components[:kept],
        explained_variance=variances[:kept],
        explained_variance_ratio=ratios[:kept],
        variance_error=error,
        confidence=confidence,
    )


def number_of_components(wanted: int | float | None, ratios: Floats) -> int:
    """Return how many components are kept of those that explain these shares of the variance, largest first."""
    size = len(ratios)
    if wanted is None:
        return size
    if isinstance(wanted, float | np.floating) and 0 < wanted < 1:
        return min(size, int(np.searchsorted(np.cumsum(ratios), wanted)) + 1)
    if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer) or not 1 <= wanted <= size:
        raise RangeError(
            f"n_components must be a whole number from 1 to the number of columns ({size}), a share below 1, or None, "
            f"got {wanted!r}"
        )
    return int(wanted)


def learned_prediction(releases: Iterable[Release]) -> PredictedMatrix:
    """Average earlier covariance releases, the more precise ones more, as the prediction of the next.

    Guarantee: free, because the releases were paid for; one with seeded noise was not, and a release that is private
    refuses what was learned from it. Accuracy: the unshrunk matrices enter, each with weight 1/σ²;
    shrunk ones would carry the old predictions along as if they were data.

    >>> import numpy as np
    >>> from sidelight.covariance import Covariance
    >>> rows = np.random.default_rng(0).normal(size=(5000, 3)) * 0.3
    >>> days = [Covariance(radius=1, rho="0.1").release(rows) for _ in range(3)]
    >>> better = Covariance(radius=1, rho="0.1", prediction=learned_prediction(days)).release(rows)
    """
    given = list(releases)
    if not given:
        raise RangeError("a prediction is learned from at least one release, got none; start without a prediction")
    parts = [read_release(each) for each in given]
    said = ("radius", "centre", "dates")
    if len({(each.labels, *(str(each.query.get(name)) for name in said)) for each in given}) > 1:
        raise RangeError(
            "the releases have other columns, radii or centres, or their dates count otherwise; learn from releases of "
            "the same query"
        )
    weights = [effective_scale(part.noise_scale, part.noise, len(part.noisy)) ** -2 for part in parts]
    mean = sum(weight * part.noisy for weight, part in zip(weights, parts, strict=True)) / sum(weights)
    entries = [each.circumstances.entry_id for each in given if each.circumstances.entry_id is not None]
    origin = released(entries) if entries else guess("the average of earlier releases, which no ledger names")
    seeded = not all(each.private for each in given)
    return PredictedMatrix(nearest_covariance(mean), replace(origin, seeded=seeded), given[0].query)


#: Entries (i, j) and (j, i) may differ by this share of the largest entry: what computing a matrix leaves.
_ROUNDING = 1e-8


@dataclass(frozen=True, eq=False, repr=False)
class PredictedMatrix:
    """A guess of the matrix that will be released, and where it came from. It is never charged.

    >>> PredictedMatrix([[1.0, 0.2], [0.2, 0.5]])
    PredictedMatrix(2 columns, a guess)
    """

    matrix: Any
    origin: Origin = field(default_factory=guess)
    #: The request of the releases that it was learned from, which says how their dates count.
    asked: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        try:
            given = np.array(self.matrix, np.float64)
        except (TypeError, ValueError):
            raise RangeError("a prediction must be a square matrix of numbers") from None
        if given.ndim != 2 or given.shape[0] != given.shape[1]:
            raise RangeError(f"a prediction must be a square matrix, one row and column each, got shape {given.shape}")
        if not np.isfinite(given).all():
            raise RangeError("a prediction must hold finite numbers only; leave it out where nothing is known")
        halved = given / 2  # no sum of two entries overflows
        largest = float(np.abs(halved).max(initial=0.0))
        if float(np.abs(halved - halved.T).max(initial=0.0)) > _ROUNDING * largest:
            raise RangeError("a prediction must be symmetric; if both halves are estimates, give (W + W.T) / 2")
        given = given if np.array_equal(given, given.T) else halved + halved.T
        given.setflags(write=False)
        object.__setattr__(self, "matrix", given)

    def for_columns(self, width: int) -> PredictedMatrix:
        """Check that the matrix is of the right size."""
        if len(self.matrix) != width:
            raise RangeError(
                f"a prediction must have the shape ({width}, {width}) of the columns, got {self.matrix.shape}"
            )
        return self

    def within(self, largest: float) -> PredictedMatrix:
        """Cut entries beyond what any second moment has: it never takes the prediction further from the truth."""
        if float(np.abs(self.matrix).max(initial=0.0)) <= largest:
            return self
        return replace(self, matrix=np.clip(self.matrix, -largest, largest))

    def check_dates(self, numbers: Sequence[Number], centre: str | Sequence[Fraction]) -> None:
        """Refuse what was learned about other days, or in another unit of time; by hand a matrix is as the query's.

        About the mean and of pairs it is the same from every start, and about a declared centre that has moved along.
        """
        if self.asked is None:
            return
        before: Any = self.asked["centre"]
        for place, (number, name) in enumerate(zip(numbers, self.asked["columns"], strict=True)):
            later = later_than(self.asked, name, calendar_of(number))
            if isinstance(centre, str) or isinstance(before, str):
                same = centre == before
            else:
                same = exact_number(before[place], name="centre") - later == centre[place]
            if later and not same:
                raise RangeError(
                    f"the prediction is about another day of {name!r} than the query: its releases count dates from "
                    "another start; declare both alike, move the centre along, or use centre='mean'"
                )

    @property
    def digest(self) -> str:
        """The SHA-256 of the numbers, for the ledger."""
        return hashlib.sha256(np.ascontiguousarray(self.matrix, "<f8").tobytes()).hexdigest()

    def __repr__(self) -> str:
        return f"PredictedMatrix({len(self.matrix)} columns, {self.origin})"


Prediction = PredictedMatrix | PublicData


def predict_matrix(
    given: PublicData, *, radius: float, centre: Floats | Literal["mean", "pairs"] | None = None
) -> PredictedMatrix:
    """Return the matrix of public rows, clipped and centred as the query does with the private ones."""
    rows = given.matrix()
    if isinstance(centre, np.ndarray):
        if centre.shape != (rows.shape[1],):
            raise RangeError(f"the public rows have {rows.shape[1]} columns, the query {len(centre)}")
        rows = rows - centre
    if isinstance(centre, str) and centre == "pairs":
        rows = (rows - np.roll(rows, 1, axis=0)) / np.sqrt(2) if len(rows) > 1 else np.zeros_like(rows)
    rows = rows * np.minimum(1.0, radius / np.maximum(np.linalg.norm(rows, axis=1), radius))[:, None]
    matrix = rows.T @ rows / len(rows)
    if isinstance(centre, str) and centre == "mean":
        mean = rows.mean(axis=0)
        matrix = matrix - np.outer(mean, mean)
    return PredictedMatrix((matrix + matrix.T) / 2, given.origin)


def as_predictions(given: Any, columns: Sequence[str] | None = None) -> tuple[Prediction, ...]:
    """Read what a user may pass: nothing, a matrix, public rows of these columns, or a list of them."""
    refuse_private(given)
    refuse_look_alike(given, PredictedMatrix)
    if given is None:
        return ()
    if isinstance(given, Prediction):
        return (_read(given, columns),)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        parts = list(given)
        # a list of matrices or predictions, or one matrix written as a list of rows
        if all(isinstance(part, Prediction) or np.ndim(part) == 2 for part in parts):
            return tuple(_read(part, columns) for part in parts)
    if isinstance(given, np.ndarray) and given.ndim == 3:
        return tuple(PredictedMatrix(part) for part in given)
    return (PredictedMatrix(given),)


def _read(given: Any, columns: Sequence[str] | None) -> Prediction:
    """Return a prediction of our own; public rows as an array, so that what is wrong with them is found now."""
    refuse_look_alike(given, PublicData, PredictedMatrix)
    if isinstance(given, PublicData):
        return given.read(columns)
    return replace(given) if isinstance(given, PredictedMatrix) else PredictedMatrix(given)


def described(predictions: Sequence[PredictedMatrix]) -> Mapping[str, Any] | None:
    """Return what a release says about its predictions."""
    if not predictions:
        return None
    origin = joint_origin(each.origin for each in predictions)
    count = "a predicted matrix" if len(predictions) == 1 else f"{len(predictions)} predicted matrices"
    return {
        "description": f"{count} ({'; '.join(dict.fromkeys(str(each.origin) for each in predictions))})",
        "origin": origin.to_json(),
        "sha256": [each.digest for each in predictions],
    }


class CovarianceValue(dict[str, Any]):
    """The value of a covariance release: a plain mapping that prints in a few lines."""

    def __repr__(self) -> str:
        matrix = self["matrix"]
        shown = np.array2string(matrix, precision=4, suppress_small=True, threshold=36, edgeitems=3)
        scale = self["noise_scale"]
        noise = "" if scale is None else f", noise {scale:.3g} on the diagonal"
        return f"{len(matrix)} x {len(matrix)} matrix {shown}{noise}"
