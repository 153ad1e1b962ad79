"""Public rows of a Gaussian: what a user may pass, checked before anything is charged, and how much they tell."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.predictions import PublicData
from sidelight.predictions.origin import Origin, public
from sidelight.predictions.public_data import refuse_private

Floats = NDArray[np.float64]

#: Numbers beyond could overflow a square.
_LARGEST = 1e30

#: An eigenvalue of the correlation matrix below this share says that the rows span no space of full dimension.
_SINGULAR = 1e-10

#: With fewer rows a column may look a thousand times too narrow by chance.
_TELLING = 5


@dataclass(frozen=True, eq=False, repr=False)
class PointCloud:
    """Rows that anyone may see, from (about) the distribution of the private ones, and where they come from."""

    rows: Floats
    origin: Origin

    @property
    def width(self) -> int:
        """How many columns they have."""
        return int(self.rows.shape[1])

    @property
    def distinct(self) -> int:
        """How many different rows there are: a copy says nothing new."""
        return len(np.unique(self.rows, axis=0))

    @property
    def centre(self) -> Floats:
        """Their mean."""
        return np.asarray(self.rows.mean(axis=0))

    @property
    def trace(self) -> float:
        """The trace of their covariance; 0 for a single row and for copies of one row."""
        if self.distinct < 2:
            return 0.0
        return float(((self.rows - self.centre) ** 2).sum()) / (len(self.rows) - 1)

    @property
    def ratio(self) -> float:
        """The largest ratio of two columns' variances that these rows show; 1 where they are too few to show one."""
        variances = self.rows.var(axis=0)
        seen = variances[variances > 0]
        return float(seen.max() / seen.min()) if self.distinct >= _TELLING and seen.size else 1.0

    def whitening(self) -> Floats | None:
        """Return A with A S Aᵀ = I for their covariance S; None where S is singular (few, copied, constant columns).

        By way of the correlation matrix, so that the units of the columns do not matter.
        """
        if self.distinct < self.width + 1:
            return None
        deviations = self.rows - self.centre
        scales = np.sqrt((deviations**2).sum(axis=0) / (len(self.rows) - 1))
        if not (scales > _SINGULAR * np.abs(self.rows).max(axis=0)).all():
            return None
        scaled = deviations / scales
        values, vectors = np.linalg.eigh(scaled.T @ scaled / (len(self.rows) - 1))
        if values[0] < _SINGULAR * values[-1]:
            return None
        return np.asarray((vectors / np.sqrt(values)) @ vectors.T / scales)

    def for_columns(self, width: int) -> PointCloud:
        """Check that there is one number for each column."""
        if self.width != width:
            raise RangeError(
                f"public rows must have one number for each of the {width} columns, got rows of {self.width}; give the "
                "columns in the query's order"
            )
        return self

    @property
    def digest(self) -> str:
        """The SHA-256 of the numbers, for the ledger."""
        return hashlib.sha256(np.ascontiguousarray(self.rows, "<f8").tobytes()).hexdigest()

    def described(self) -> Mapping[str, Any]:
        """Return what a release says about them."""
        some = "one public row" if len(self.rows) == 1 else f"{len(self.rows)} public rows"
        return {"description": f"{some} ({self.origin})", "origin": self.origin.to_json(), "sha256": self.digest}

    def __repr__(self) -> str:
        return f"PointCloud({len(self.rows)} rows of {self.width}, {self.origin})"


def as_point_cloud(given: Any, columns: Sequence[str] | None = None) -> PointCloud:
    """Read public rows of these columns: `PublicData`, an array, a frame of numbers, or points read before.

    Raises:
        RangeError: no rows, a missing or infinite number, numbers beyond 1e30, differences below 1e-30, or a private
            table.
    """
    if type(given) is PointCloud:
        return given
    refuse_private(given)
    origin = given.origin if isinstance(given, PublicData) else public("public rows")
    numbers = given.matrix(columns) if isinstance(given, PublicData) else given
    try:
        rows = np.array(numbers, np.float64)
    except (TypeError, ValueError):
        raise RangeError("public rows must be a two-dimensional array of numbers, one row a record") from None
    if rows.ndim == 1 and rows.size:
        rows = rows[None, :]  # one row, written as a list
    if rows.ndim != 2 or not rows.size:
        raise RangeError(
            f"public rows must be at least one row of numbers, got an array of shape {rows.shape}; one row gives a "
            "centre, two a scale, and more than there are columns the shape"
        )
    if not np.isfinite(rows).all():
        raise RangeError("public rows must hold finite numbers only; leave out rows that miss one")
    if np.abs(rows).max() > _LARGEST:
        raise RangeError("public rows must lie within 1e30 of 0; change the unit of the columns")
    spread = np.ptp(rows, axis=0)
    if ((spread > 0) & (spread < 1 / _LARGEST)).any():
        raise RangeError("public rows that differ must differ by 1e-30 or more; change the unit of the columns")
    rows.setflags(write=False)
    return PointCloud(rows, origin)


# How well the covariance S of a few public rows brackets the true one: L·S ⪯ Σ ⪯ U·S with probability 1 - β.
#
# The numbers depend on the width, the number of public rows and β only. Between d + 1 rows, where Edelman's law is
# exact, and many rows, where Davidson and Szarek's bound is good, they are simulated once with a fixed seed: by the
# tridiagonal form of a Wishart matrix, so that a thousand columns take seconds.

#: The failure probability of the public bounds, by default.
CHANCE = 0.05
_DRAWS = 4000


@dataclass(frozen=True)
class Bracket:
    """L and U, and the squared Mahalanobis length that the offset of the public mean rarely exceeds."""

    lower: float
    upper: float
    offset: float


@lru_cache(maxsize=256)
def bracket(size: int, rows: int, chance: float = CHANCE) -> Bracket:
    """Return L, U and the squared offset for `rows` >= size + 1 public rows; all hold with probability 1 - chance.

    (Gaussians proof page, Theorem 3.) Simulated where the bound of Davidson and Szarek is weak.

    >>> found = bracket(10, 11)
    >>> round(found.lower, 6), round(found.upper)
    (0.118504, 360000)
    """
    rare = log(3 / chance)
    offset = (size + 2 * sqrt(size * rare) + 2 * rare) / rows
    if rows == size + 1:
        lower = size / (4 * size + 4 * sqrt(2 * size * rare) + 2 * rare)
        return Bracket(lower, 9 * size**2 / chance**2, offset)
    freedom = rows - 1
    spread = sqrt(size / freedom) + sqrt(2 * rare / freedom)
    if 1 - spread >= 0.5:
        return Bracket((1 + spread) ** -2, (1 - spread) ** -2, offset)
    smallest, largest = _extreme_eigenvalues(size, freedom)
    return Bracket(
        1 / float(np.quantile(largest, 1 - chance / 3)), 1 / float(np.quantile(smallest, chance / 3)), offset
    )


@dataclass(frozen=True)
class GapBounds:
    """The bracket of a public population at total-variation distance γ, in the coordinates of its rows.

    With Y = S^{-1/2}(x - c)/√L the private rows satisfy I ⪯ Σ_Y ⪯ condition·I and ‖μ_Y‖ <= mean_bound.
    """

    lower: float
    upper: float
    condition: float
    mean_bound: float


def gap_bounds(size: int, rows: int, gap: float, chance: float = CHANCE) -> GapBounds:
    """Return the bounds for a gap 0 <= γ < 1 (Gaussians proof page, Theorem 4).

    >>> found = gap_bounds(10, 11, 0.5)
    >>> round(found.lower, 8), round(found.upper), round(found.mean_bound, 1)
    (0.00185163, 23040000, 210588.7)
    """
    base = bracket(size, rows, chance)
    ratio = 4 / (1 - gap) ** 4 if gap > 0 else 1.0
    lower, upper = base.lower / ratio, base.upper * ratio
    apart = 2 * sqrt((1 + ratio) * log(1 / (1 - gap))) if gap > 0 else 0.0
    mean_bound = sqrt(base.upper / lower) * (sqrt(base.offset) + apart)
    return GapBounds(lower, upper, upper / lower, mean_bound)


@lru_cache(maxsize=64)
def _extreme_eigenvalues(size: int, freedom: int) -> tuple[np.ndarray, np.ndarray]:
    """Simulate the smallest and largest eigenvalue of Wishart(freedom)/freedom matrices.

    A Gaussian matrix is orthogonally equivalent to a bidiagonal one of independent chi variables (Dumitriu, Edelman).
    """
    from scipy.linalg.lapack import dstebz  # `eigvalsh_tridiagonal` is this call, with ten times as much around it

    # a constant of the method, the same in every process: no noise
    rng = np.random.default_rng((20_240_607, size, freedom))  # noqa: TID251
    diagonal = rng.chisquare(freedom - np.arange(size), (_DRAWS, size))
    below = rng.chisquare(np.arange(size - 1, 0, -1), (_DRAWS, size - 1))
    middle = diagonal.copy()
    middle[:, 1:] += below
    beside = np.sqrt(diagonal[:, :-1] * below)
    found = np.empty((_DRAWS, 2))
    for draw in range(_DRAWS):
        if size == 1:
            found[draw] = middle[draw, 0]
            continue
        for place, which in enumerate((1, size)):
            _, values, _, _, failed = dstebz(middle[draw], beside[draw], 2, 0.0, 1.0, which, which, 0.0, "E")
            if failed:
                raise ArithmeticError(f"the eigenvalues of a simulated matrix of size {size} were not found")
            found[draw, place] = values[0]
    return found[:, 0] / freedom, found[:, 1] / freedom
