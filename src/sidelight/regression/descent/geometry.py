"""The coordinates in which a descent takes its steps: rows centred and stretched by a released or a public covariance.

Post-processing of one noisy Gram matrix, or of public rows with that matrix as a guard. Noise that is the same in every
direction hurts least where the rows are as long in every direction; three quarters of the way there costs little and
amplifies the noise of the matrix less (descent proof page). Where that noise is small, two classes are
stretched the whole way: their steps then arrive in directions in which rows hardly vary, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sidelight.regression.descent.rules import PUBLIC_ROWS_A_FEATURE, GeometryKind

Floats = NDArray[np.float64]

#: The constant column of the rows in the Gram matrix, v.
CONSTANT = 0.5
_LEAST_LARGEST = 0.02
#: A column is shown by a matrix from this many deviations of its noise on.
SHOWN = 2.0
#: The same for a direction that the matrix itself showed: the one of least variance, often.
SURELY = 4.0
#: Deviations of its noise from which the released number of rows counts, and a declared one does not.
_CONTRADICTED = 3.0
#: The mean square, in half ranges, that predictions by a column of unknown scale may have.
UNSEEN = 0.64
#: The power of the inverse covariance that makes rows as long in every direction.
_FULL = 1.0
#: A ridge below it is rounding.
_LEAST_RIDGE = 2.0**-30


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometry:
    """How a row x of norm at most 1 becomes z, in whose coordinates the coefficients of a descent are.

    z = ((x - centre)ᵀ·map, 1); without an intercept the 1 is missing and the centre is 0. Without a map (kind "none")
    z = (x, ½).

    Args:
        map: (features, features), or None for kind "none".
        inverse: Its inverse, or None.
        centre: (features,).
        h: The mean square of each column of z, the constant column's 1 last.
        trace: The mean square of a mapped row without the constant column, at least 1.
        rows: The released or declared number of rows that steps are made for; a released one is a little too large.
        counted: The same number without what was added to it.
        surely: The mean squares less what noise explains, which may be negative; None where they have no noise.
        likely: The same mean squares with what the matrix's noise adds to them taken out; None for kind "none".
        step_factor: What shortens the step for a public geometry, None for a released one.
        unseen: The mean square, in half ranges, of predictions by columns that the matrix does not show.
        obscured: The noise of an entry of the released matrix over the mean variance of a column, at most 1; of
            public rows 0.
        intercept: Whether z has a constant column.
        kind: "private", "public" or "none".
    """

    map: Floats | None
    inverse: Floats | None
    centre: Floats
    h: Floats
    trace: float
    rows: float
    counted: float
    likely: Floats | None = None
    surely: Floats | None = None
    step_factor: float | None = None
    unseen: float = 0.0
    obscured: float = 0.0
    intercept: bool = True
    kind: GeometryKind = "private"

    @property
    def features(self) -> int:
        """The number of features."""
        return len(self.centre)

    @property
    def columns(self) -> int:
        """The number of columns of z."""
        return self.features + self.intercept

    @property
    def hides(self) -> bool:
        """Whether rows may vary along a direction by so little that the released matrix does not show it."""
        return self.surely is not None and bool((self.surely < 0).any())

    def product_noise(self, theta: Floats) -> Floats:
        """Return the variance that the matrix's noise gives each entry of (mean of zzᵀ)·theta, (columns,)."""
        if self.surely is None or self.map is None:
            return np.zeros(self.columns)
        # of the entries (i, j) of the mean it is a_i·a_j/2, and twice that on the diagonal
        of_entry = np.maximum(self.h - self.surely, 0.0) / SURELY
        found = of_entry * (of_entry @ theta**2 + of_entry * theta**2) / 2
        if not self.intercept:
            return np.asarray(found)
        # and of the mean of z_i, by the constant's entry ½ of the rows of the matrix, 2·a_i²/‖column i of the map‖²
        of_mean = 2 * of_entry[:-1] ** 2 / np.sum(self.map**2, axis=0)
        return np.asarray(found + np.append(of_mean * theta[-1] ** 2, of_mean @ theta[:-1] ** 2))

    def mapped(self, coefficients: Floats, intercepts: Floats) -> Floats:
        """Return coefficients (features, outputs) and intercepts (outputs,) of rows of norm 1 in these coordinates."""
        moved = intercepts + self.centre @ coefficients
        inside = coefficients if self.inverse is None else self.inverse @ coefficients
        if not self.intercept:
            return np.asarray(inside)
        return np.vstack([inside, (moved / self.constant)[None, :]])

    def unmapped(self, theta: Floats) -> tuple[Floats, Floats]:
        """Undo `mapped`: return coefficients (features, outputs) and intercepts (outputs,)."""
        inside = theta[: self.features]
        coefficients = inside if self.map is None else self.map @ inside
        constant = theta[-1] * self.constant if self.intercept else np.zeros(theta.shape[1])
        return np.asarray(coefficients), np.asarray(constant - self.centre @ coefficients)

    @property
    def constant(self) -> float:
        """The entry of the constant column of z."""
        return CONSTANT if self.kind == "none" else 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyGram:
    """A released Gram matrix of rows (x, ½), x of norm at most 1, and its noise.

    Args:
        matrix: (features + 1, features + 1), symmetric, the constant last.
        noise_scale: The standard deviation on its diagonal; off it 1/√2 of that.
    """

    matrix: Floats
    noise_scale: float

    @property
    def features(self) -> int:
        """The number of features."""
        return len(self.matrix) - 1

    @property
    def counted(self) -> float:
        """The number of rows."""
        return max(float(self.matrix[-1, -1]) / CONSTANT**2, 0.0)

    @property
    def rows(self) -> float:
        """The number of rows, one deviation too large: too small a number lets steps diverge."""
        return self.counted + self.noise_scale / CONSTANT**2

    def contradicts(self, rows: float) -> bool:
        """Return whether the number of rows is another one than this, whatever the noise is."""
        return abs(self.counted - rows) > _CONTRADICTED * self.noise_scale / CONSTANT**2

    def variances(self, rows: float, *, centred: bool) -> tuple[Floats, Floats]:
        """Return how much the columns vary, about their means or about 0, and the deviations of the noise in it.

        A column's mean c is noisy, and so is the number of rows: the variance is a form of the vector (1, -2c), through
        which noise enters by its square length, 1 + 4c².

        Args:
            rows: The number of rows, without anything added to it.
            centred: Whether about the means.
        """
        count = max(rows, 1.0)
        mean = np.clip(self.mean(count), -1.0, 1.0) if centred else np.zeros(self.features)
        return np.diag(self.matrix)[:-1] / count - mean**2, self.noise_scale * (1 + 4 * mean**2) / count

    def surely_varied(self, rows: float, *, centred: bool) -> Floats:
        """Return how much the columns vary as far as noise does not explain it, or 0 and less."""
        varied, noise = self.variances(rows, centred=centred)
        return np.asarray(varied - SHOWN * noise)

    def hidden(self, rows: float, *, centred: bool) -> NDArray[np.bool_]:
        """Return which columns vary too little for the matrix to show it."""
        return np.asarray(self.surely_varied(rows, centred=centred) < 0)

    def mean(self, rows: float) -> Floats:
        """Return the noisy mean row."""
        return np.asarray(self.matrix[:-1, -1] / (CONSTANT * rows))


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicMoments:
    """Mean and covariance of public rows of norm at most 1, and how many they are."""

    mean: Floats
    covariance: Floats
    count: int

    @classmethod
    def of(cls, rows: Floats) -> PublicMoments:
        """Compute them."""
        mean = rows.mean(axis=0)
        centred = rows - mean
        return cls(mean=mean, covariance=centred.T @ centred / len(rows), count=len(rows))

    @property
    def enough(self) -> bool:
        """Whether a geometry can be made of them."""
        return self.count >= PUBLIC_ROWS_A_FEATURE * len(self.mean)


def from_gram(
    gram: NoisyGram,
    *,
    rows: float | None = None,
    counted: float | None = None,
    intercept: bool = True,
    outputs: int = 1,
    full: bool = False,
) -> Geometry:
    """Return the geometry of a released Gram matrix.

    Args:
        gram: The release.
        rows: A declared number of rows instead of the released one, or one that was released before.
        counted: The latter without what was added to it.
        intercept: Whether rows are centred and get a constant column.
        outputs: Predictors of a row: with three or more the stretching is weaker.
        full: Whether rows are stretched all the way where the noise of the matrix is below the mean variance of a
            column.
    """
    d, count = gram.features, gram.rows if rows is None else rows
    centre = np.zeros(d)
    if intercept:
        centre = _shrunk_mean(gram.mean(count), noise=gram.noise_scale / (CONSTANT * math.sqrt(2) * count))
    covariance = gram.matrix[:-1, :-1] / count - np.outer(centre, centre)
    level = gram.noise_scale * math.sqrt(2 * d) / count
    likely = _without_noise(covariance, noise=gram.noise_scale / count)
    noise, known = gram.noise_scale / count, gram.counted if rows is None else rows if counted is None else counted
    varied, noise_of_it = (float(each.mean()) for each in gram.variances(known, centred=intercept))
    found = _stretched(
        covariance,
        0.25 * level,
        noise=noise,
        obscured=min(1.0, noise_of_it / (max(varied, 0.0) + noise_of_it / math.sqrt(d))),
        likely=likely,
        centre=centre,
        rows=count,
        counted=known,
        intercept=intercept,
        power=_FULL if full and outputs < 3 and level <= float(np.trace(covariance)) / d else _power(outputs),
    )
    return replace(found, unseen=UNSEEN) if gram.hidden(known, centred=intercept).any() else found


def guarded(
    public: PublicMoments,
    gram: NoisyGram,
    *,
    rows: float,
    counted: float | None = None,
    intercept: bool = True,
    outputs: int = 1,
) -> Geometry:
    """Return the geometry of public rows, widened where the private rows certainly vary more.

    Without the guard a column that is constant in the public rows would let the descent diverge.

    Args:
        public: Moments of the public rows.
        gram: A release from the private rows.
        rows: The released or declared number of private rows.
        counted: A released one without what was added to it.
        intercept: Whether rows are centred and get a constant column.
        outputs: Predictors of a row.
    """
    d, m = gram.features, public.count
    centre = public.mean if intercept else np.zeros(d)
    known = public.covariance if intercept else public.covariance + np.outer(public.mean, public.mean)
    about = np.outer(centre, gram.mean(rows))
    seen = gram.matrix[:-1, :-1] / rows - about - about.T + np.outer(centre, centre)
    level = gram.noise_scale * math.sqrt(2 * d) / rows
    values, vectors = np.linalg.eigh(seen - known - 0.5 * level * np.eye(d))
    more = (vectors * np.maximum(values, 0.0)) @ vectors.T
    total = float(np.trace(known))
    ridge = 0.25 * total / m + 0.05 * min(level, 10 * total / d)
    return _stretched(
        known + more,
        ridge,
        likely=known + _without_noise(seen - known, noise=gram.noise_scale / rows, sure=1.0),
        centre=centre,
        rows=rows,
        counted=rows if counted is None else counted,
        intercept=intercept,
        power=_power(outputs),
        step_factor=(1 - math.sqrt(d / m)) ** 2,
        kind="public",
    )


def without_map(features: int, *, rows: float, intercept: bool = True) -> Geometry:
    """Return the geometry of rows as they are: for sparse and for very wide ones."""
    return Geometry(
        map=None,
        inverse=None,
        centre=np.zeros(features),
        h=np.ones(features + intercept),
        trace=1.0,
        rows=rows,
        counted=rows,
        intercept=intercept,
        kind="none",
    )


def _power(outputs: int) -> float:
    """Return how far rows are stretched: less where several classes lie along few long directions."""
    return 0.5 if outputs > 2 else 0.75


def _shrunk_mean(mean: Floats, *, noise: float) -> Floats:
    """Return a noisy mean, shrunk by its noise and to a norm of at most 1."""
    square = float(mean @ mean)
    if square == 0.0:
        return np.zeros_like(mean)
    shrunk = mean * max(0.0, 1.0 - len(mean) * noise**2 / square)
    return np.asarray(shrunk / max(1.0, float(np.linalg.norm(shrunk))))


def _without_noise(covariance: Floats, *, noise: float, sure: float = 0.0) -> Floats:
    """Return a noisy covariance, drawn towards a multiple of the identity with the same trace as far as it is noise.

    The noise's mean square norm is known: noise²·d·(d + 1)/2; the mean of the diagonal has noise/√d, and so many of
    these (`sure`) are taken off it.
    """
    d = len(covariance)
    mean = max(float(np.trace(covariance)) / d - sure * noise / math.sqrt(d), 0.0)
    apart = float(np.sum((covariance - mean * np.eye(d)) ** 2))
    kept = max(0.0, 1.0 - noise**2 * d * (d + 1) / 2 / apart) if apart > 0 else 0.0
    return np.asarray(kept * covariance + (1 - kept) * mean * np.eye(d))


def _stretched(
    covariance: Floats,
    ridge: float,
    *,
    likely: Floats,
    centre: Floats,
    rows: float,
    counted: float,
    intercept: bool,
    power: float,
    noise: float = 0.0,
    step_factor: float | None = None,
    obscured: float = 0.0,
    kind: GeometryKind = "private",
) -> Geometry:
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    values = np.clip(values, 0.0, 1.0)
    stretch = (values + max(ridge, _LEAST_RIDGE)) ** (-power / 2)
    # what one deviation of noise may hide, so that steps do not diverge where the matrix shows nothing at all
    hidden = noise * float(np.max(stretch**2))
    stretch /= math.sqrt(max(float(np.max(values * stretch**2)), hidden, _LEAST_LARGEST))
    h = values * stretch**2
    map_ = vectors * stretch
    shown = h - SURELY * noise * stretch**2
    varied = np.maximum(np.einsum("ij,ij->j", map_, likely @ map_), 0.0)
    # the covariance of rows of norm 1 has a trace of at most 1, so that z cannot be longer than this on average
    trace = max(1.0, min(float(h.sum()), float(np.max(stretch)) ** 2))
    return Geometry(
        map=map_,
        inverse=(vectors / stretch).T,
        centre=centre,
        h=np.append(h, 1.0) if intercept else h,
        trace=trace,
        rows=rows,
        counted=counted,
        likely=np.append(varied, 1.0) if intercept else varied,
        surely=np.append(shown, 1.0) if intercept else shown,
        step_factor=step_factor,
        obscured=obscured,
        intercept=intercept,
        kind=kind,
    )
