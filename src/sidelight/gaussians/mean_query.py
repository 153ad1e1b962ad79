"""`GaussianMean`: the mean of rows with a known covariance, from one public row on, which replaces the range."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import log, sqrt
from typing import Any, Literal

import numpy as np

from sidelight.errors import RangeError
from sidelight.gaussians.estimate import number_columns
from sidelight.gaussians.exact_map import rounded
from sidelight.gaussians.gaussian_query import DeclaredLimits, GaussianQuery, PreparedGaussian, amount_text, bound_of
from sidelight.gaussians.gaussian_steps import COUNT, mean_parts, mean_steps
from sidelight.gaussians.point_cloud import Floats
from sidelight.gaussians.row_reader import MeasurementPlan, request_count, request_rows
from sidelight.gaussians.step_arithmetic import BudgetSplit, Constants, norm_bound
from sidelight.guarantees import Amount, decimal_text, exact
from sidelight.noise import Source
from sidelight.records import Schema


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanEstimate:
    """A released mean, the (noisy) number of rows, and the noise: of the count, and of the mean when white."""

    mean: Floats
    rows: float
    steps: int
    noise: Mapping[str, float]

    def account(self) -> dict[str, Any]:
        """Return the public numbers that go with the mean."""
        return {"rows": self.rows, "steps": self.steps, "noise": dict(self.noise)}


def public_radius(size: int, rows: int, chance: float) -> float:
    """Return how far the mean of m public rows rarely is from the truth, when white: tb(d, β/2)/√m.

    In the number of columns. (A published simulation takes the number of rows here, and understates the gain.)

    >>> round(public_radius(50, 1, 0.05), 6)
    9.194552
    """
    return norm_bound(size, chance / 2) / sqrt(rows)


def one_shot_clip(size: int, radius: float, rows: float, chance: float) -> float:
    """Return a length that no row exceeds about the public mean, with probability 1 - 5β/4.

    √(R² + 2R√(2 log(2n/β)) + γ²), γ = tb(d, β/(2n)): the cross term ⟨μ - c, x - μ⟩/R is normal; never more than R + γ.

    >>> radius = public_radius(50, 1, 0.05)
    >>> round(one_shot_clip(50, radius, 1000, 0.05), 6)
    16.924112
    """
    longest = norm_bound(size, chance / (2 * rows))
    cross = 2 * radius * sqrt(2 * log(2 * rows / chance))
    return min(sqrt(radius**2 + cross + longest**2), radius + longest)


def public_mean_steps(
    matrix: Floats,
    centre: Floats,
    *,
    radius: float,
    steps: int | None,
    chance: float,
    split: BudgetSplit,
    source: Source,
) -> MeasurementPlan[MeanEstimate]:
    """Estimate the mean in coordinates A(x - c), where rows are white and the mean is within `radius`.

    Guarantee: the price of `split` (Gaussians proof page, Theorem 1).
    """
    size, constants, matrix = len(centre), Constants(), rounded(matrix)
    moments = yield request_count(size)
    rows = split.count(moments, COUNT, source)
    share = Fraction(1) - (COUNT if split.rows is None else 0)
    if steps == 1:
        clip = one_shot_clip(size, radius, rows, chance)
        moments = yield request_rows(matrix, centre, clip, second=False)
        offset = split.total(moments, share, source) / rows
        deviation, taken = split.total_deviation(share, clip) / rows, 1
    else:
        parts = mean_parts(radius, steps, split, share, rows, constants)
        taken = len(parts)
        offset, deviation = yield from mean_steps(
            matrix, centre, split, source, constants, radius=radius, share=share, rows=rows, parts=parts
        )
    return MeanEstimate(
        mean=centre + np.linalg.solve(matrix, offset),
        rows=rows,
        steps=taken,
        noise={"count": split.count_deviation(COUNT), "mean": deviation},
    )


@dataclass(frozen=True)
class GaussianMean(GaussianQuery):
    """Release the mean of rows whose covariance is known, with one public row instead of a range.

    Guarantee: as `GaussianFit`. Accuracy: as if the range of the mean were known to √d standard deviations: the public
    row is that close, wherever the mean is. With m public rows their mean is √m times closer.

    Args:
        columns: Names of number columns; all number columns of the schema if left out.
        prediction: One public row or more, as for `GaussianFit`.
        covariance: The known covariance matrix; the identity if left out.
        mean_bound: Without public rows: ‖μ‖ <= mean_bound (plain CoinPress).
        rho, epsilon, delta: The price: rho, or epsilon (pure), or epsilon with delta (Gaussian noise).
        steps: 2; 1 clips once, at a length that no row exceeds; None chooses by public formula.
        chance: The probability that the public rows are further off than assumed; accuracy only.
        rows: The public number of rows. Neighbours then replace a row instead of adding or removing one.
        noise: "laplace" for exact pure noise.

    >>> rng = np.random.default_rng(0)
    >>> query = GaussianMean(prediction=rng.normal(1000, 1, 50), rho="0.5")
    >>> release = query.release(rng.normal(1000, 1, (1000, 50)))
    >>> bool(np.linalg.norm(release.value["mean"] - 1000) < 0.5)
    True
    """

    columns: Sequence[str] | None = None
    prediction: Any = field(default=None, kw_only=True)
    covariance: Any = field(default=None, kw_only=True)
    mean_bound: Amount | None = field(default=None, kw_only=True)
    rho: Amount | None = field(default=None, kw_only=True)
    epsilon: Amount | None = field(default=None, kw_only=True)
    delta: Amount | None = field(default=None, kw_only=True)
    steps: int | None = field(default=2, kw_only=True)
    chance: Amount = field(default="0.05", kw_only=True)
    rows: int | None = field(default=None, kw_only=True)
    noise: Literal["laplace"] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._check()
        if (self.prediction is None) == (self.mean_bound is None):
            raise RangeError(
                "a mean wants one public row, prediction=[...], or a range, mean_bound=...: exactly one of the two"
            )
        if self.mean_bound is not None:
            bound_of(self.mean_bound, name="mean_bound")
        if not 0 < exact(self.chance, name="chance") < 1:
            raise RangeError(f"chance must lie strictly between 0 and 1, got {self.chance}; 0.05 is the default")
        if self.covariance is not None:
            object.__setattr__(self, "covariance", _covariance(self.covariance))
        if self.columns is not None:
            self._points(len(self.columns))
            self._whitening(len(self.columns))

    def prepare(self, schema: Schema) -> PreparedGaussian:
        """Check the query against the schema and price it. Opens no data."""
        columns = number_columns(schema, self.columns)
        points = self._points(len(columns))
        matrix = self._whitening(len(columns))
        split = self._split(schema, columns)
        chance = float(exact(self.chance, name="chance"))
        if points is not None:
            centre, radius = points.centre, public_radius(len(columns), points.distinct, chance)
        else:
            centre = np.zeros(len(columns))
            radius = bound_of(self.mean_bound, name="mean_bound") * float(np.linalg.norm(matrix, 2))

        def make_plan(source: Any, sample_rows: int | None) -> Any:
            del sample_rows  # both steps look at all rows
            return public_mean_steps(
                matrix, centre, radius=radius, steps=self.steps, chance=chance, split=split, source=source
            )

        return PreparedGaussian(
            claims=split.claims(schema.unit),
            request={
                "kind": "gaussian_mean",
                "columns": list(columns),
                "covariance": "identity" if self.covariance is None else "known",
                **(
                    {}
                    if self.covariance is None
                    else {"covariance_sha256": hashlib.sha256(self.covariance.tobytes()).hexdigest()}
                ),
                "mean_bound": amount_text(self.mean_bound),
                "steps": "chosen" if self.steps is None else str(self.steps),
                "chance": decimal_text(exact(self.chance, name="chance")),
                **self._priced(),
            },
            labels=columns,
            prediction=None if points is None else points.described(),
            neighbours=split.neighbours,
            make_plan=make_plan,
            limits=DeclaredLimits(
                columns=tuple(schema.number(name) for name in columns),
                mean_bound=None if self.mean_bound is None else bound_of(self.mean_bound, name="mean_bound"),
            ),
        )

    def _whitening(self, width: int) -> Floats:
        if self.covariance is None:
            return np.eye(width)
        if len(self.covariance) != width:
            raise RangeError(
                f"the covariance must have the shape ({width}, {width}) of the columns, got {self.covariance.shape}"
            )
        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def _covariance(given: Any) -> Floats:
    try:
        matrix = np.array(given, np.float64)
    except (TypeError, ValueError):
        raise RangeError("the covariance must be a square matrix of numbers") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise RangeError(f"the covariance must be a square matrix of finite numbers, got shape {matrix.shape}")
    if np.abs(matrix - matrix.T).max() > 1e-8 * np.abs(matrix).max():
        raise RangeError("the covariance must be symmetric")
    matrix = matrix / 2 + matrix.T / 2  # no sum of two entries overflows
    values = np.linalg.eigvalsh(matrix)
    if values[0] <= 1e-14 * values[-1] or not 1e-60 < values[-1] < 1e60:
        raise RangeError("the covariance must have positive eigenvalues; leave out columns that are constant")
    matrix.setflags(write=False)
    return matrix
