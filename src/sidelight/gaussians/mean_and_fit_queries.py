"""`GaussianMean`: the mean of rows with a known covariance, from one public row on, which replaces the range.

`GaussianFit`: mean and covariance, as the query a user writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import Any, Literal, get_args

import numpy as np

from sidelight.errors import RangeError, nearest
from sidelight.gaussians.estimate import CONDITION, budget_split, length, number_columns, ratio
from sidelight.gaussians.exact_map import rounded
from sidelight.gaussians.gaussian_query import DeclaredLimits, GaussianQuery, PreparedGaussian, amount_text, bound_of
from sidelight.gaussians.gaussian_steps import (
    FARTHEST,
    KnownRanges,
    gaussian_steps,
    mean_parts,
    mean_steps,
    pair_steps,
)
from sidelight.gaussians.mean_error import COUNT, LastStep
from sidelight.gaussians.point_cloud import Floats, PointCloud, gap_bounds
from sidelight.gaussians.row_reader import MeasurementPlan, check_pairs, request_count, request_rows
from sidelight.gaussians.step_arithmetic import (
    BudgetSplit,
    Constants,
    Preconditioner,
    Version,
    one_shot_clip,
    possible_starts,
    public_radius,
)
from sidelight.guarantees import Amount, Neighbours, decimal_text, exact, positive
from sidelight.noise import Source
from sidelight.records import Schema
from sidelight.registry import load_published


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanEstimate:
    """A released mean, the (noisy) number of rows, and the noise: of the count, and of the mean when white."""

    mean: Floats
    rows: float
    steps: int
    noise: Mapping[str, float]
    last: LastStep

    def account(self) -> dict[str, Any]:
        """Return the public numbers that go with the mean."""
        return {"rows": self.rows, "steps": self.steps, "noise": dict(self.noise)}


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
        clip = min(one_shot_clip(size, radius, rows, chance), FARTHEST)
        moments = yield request_rows(matrix, centre, clip, second=False)
        offset, taken = split.total(moments, share, source) / rows, 1
        last = LastStep(matrix=matrix, moved=offset, clip=clip, share=share, rows=rows)
    else:
        parts = mean_parts(radius, steps, split, share, rows, constants)
        taken = len(parts)
        offset, last = yield from mean_steps(
            matrix, centre, split, source, constants, radius=radius, share=share, rows=rows, parts=parts
        )
    return MeanEstimate(
        mean=centre + np.linalg.solve(matrix, offset),
        rows=rows,
        steps=taken,
        noise={"count": split.count_deviation(COUNT), "mean": last.deviation(split)},
        last=last,
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
        rows: The public number of rows that count, as for `sl.Covariance`. Neighbours then replace a row.
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
            split=split,
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


@dataclass(frozen=True)
class GaussianFit(GaussianQuery):
    """Release mean and covariance of Gaussian-like rows, with a few public rows instead of ranges.

    Guarantee: zCDP of at most `rho` (and the GDP claim of Gaussian noise), exact on the machine; or PureDP(epsilon),
    idealized, or with noise="laplace", exact and noisier. For adding or removing one unit of the schema; with a public
    number of `rows` for replacing one. It holds for any rows and any public rows (Gaussians proof page, Theorem 1). A
    public row that is also a private record is not protected: what is public stays public.

    Accuracy: for rows that are close to Gaussian, within a few percent of the non-private estimate once there are
    enough rows; the value's "weak" says from released numbers alone when there are not, and `release.error`, which
    bounds the noise of the mean, is then None. With `constants="proven"` and
    d + 1 public rows the paper's guarantee holds, with larger radii.

    The value has "mean", "covariance", the noisy number of "rows", and a public account: "start", "steps", "weak",
    "noise". The mean lies within the columns' declared bounds and `mean_bound`, and no variance exceeds what these and
    `variance_bound` allow.

    Args:
        columns: Names of number columns; all number columns of the schema if left out.
        prediction: Public rows of the columns: `sl.PublicData` with a description, or an array or a frame in their
            order. Two or more (one with `scale`); d + 1 give their shape too. None for the baseline with ranges.
        rho, epsilon, delta: The price: rho, or epsilon (pure), or epsilon with delta (Gaussian noise).
        condition: The largest ratio of variances in any two directions, for starts from fewer than d + 1 public rows.
        scale: An upper guess of √tr Σ; needed with a single public row only.
        gap: The total-variation distance below 1 that the public population may have from the private one. More than 0
            needs d + 1 public rows, and differences of pairs.
        mean_bound, variance_bound: Without public rows: ‖μ‖ <= mean_bound and Σ ⪯ variance_bound·I (CoinPress, see
            `sidelight.published`; a few public rows are better).
        steps: The number of steps of these two variants; chosen by public formula if left out.
        rows: The public number of rows. Neighbours then replace a row instead of adding or removing one.
        noise: "laplace" for exact pure noise.
        constants: "practical", or "proven".

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows, public = rng.normal([1000, -50], [3, 0.1], (20_000, 2)), rng.normal([1000, -50], [3, 0.1], (4, 2))
    >>> release = GaussianFit(prediction=public, condition=1000, rho="0.5").release(rows)
    >>> release.value["mean"].round().tolist(), release.value["start"], release.value["weak"]
    ([1000.0, -50.0], 'precond', False)
    """

    columns: Sequence[str] | None = None
    prediction: Any = field(default=None, kw_only=True)
    rho: Amount | None = field(default=None, kw_only=True)
    epsilon: Amount | None = field(default=None, kw_only=True)
    delta: Amount | None = field(default=None, kw_only=True)
    condition: Amount = field(default=CONDITION, kw_only=True)
    scale: Amount | None = field(default=None, kw_only=True)
    gap: Amount = field(default=0, kw_only=True)
    mean_bound: Amount | None = field(default=None, kw_only=True)
    variance_bound: Amount | None = field(default=None, kw_only=True)
    steps: int | None = field(default=None, kw_only=True)
    rows: int | None = field(default=None, kw_only=True)
    noise: Literal["laplace"] | None = field(default=None, kw_only=True)
    constants: Version = field(default="practical", kw_only=True)

    def __post_init__(self) -> None:
        self._check()
        ratio(self.condition)
        length(self.scale)
        if self.constants not in get_args(Version):
            hint = nearest(str(self.constants), get_args(Version))
            raise RangeError(f"constants must be one of its choices, got {self.constants!r}; {hint}")
        gap = exact(self.gap, name="gap")
        if gap >= 1:
            raise RangeError(f"gap must be a total-variation distance below 1, got {self.gap}; at 1 nothing is known")
        bounds = (self.mean_bound, self.variance_bound)
        if self.prediction is None:
            if None in bounds:
                raise RangeError(
                    "there are no public rows: pass prediction=..., two rows or more, or the ranges mean_bound=... and "
                    "variance_bound=... that hold for the mean's length and for every variance"
                )
            self._bounds()
        elif any(bound is not None for bound in bounds):
            raise RangeError("public rows replace mean_bound and variance_bound; give one or the other")
        if self.method == "public":
            if self.steps is not None:
                raise RangeError("steps is for gap=... and for ranges; with public rows the number follows from them")
            possible_starts(
                self.prediction, Constants(self.constants), condition=ratio(self.condition), scale=length(self.scale)
            )
        elif self.constants == "proven" and self.method == "ranges":
            raise RangeError("the proven constants are for public rows; leave constants out for the baseline")
        points: PointCloud | None = self.prediction
        if self.method == "gap" and points is not None and points.whitening() is None:
            raise RangeError(
                f"gap=... wants {points.width + 1} public rows that span all {points.width} columns, got "
                f"{points.distinct} different ones; give more, or gap=0 if they are from the same population"
            )
        if self.columns is not None:
            self._points(len(self.columns))

    @property
    def method(self) -> Literal["public", "gap", "ranges"]:
        """Which of the three variants the arguments mean."""
        if self.prediction is None:
            return "ranges"
        return "gap" if exact(self.gap, name="gap") > 0 else "public"

    def prepare(self, schema: Schema) -> PreparedGaussian:
        """Check the query against the schema and price it. Opens no data."""
        columns = number_columns(schema, self.columns)
        points = self._points(len(columns))
        split = self._split(schema, columns)
        constants = Constants(self.constants)
        if points is not None and self.method == "public":
            first = possible_starts(points, constants, condition=ratio(self.condition), scale=length(self.scale))

            def make_plan(source: Any, sample_rows: int | None) -> Any:
                return gaussian_steps(points, first, split, source, constants, sample_rows=sample_rows)
        else:
            check_pairs(schema)
            known = self._ranges(len(columns), points)
            pairs = BudgetSplit(
                budget=self.budget,
                moments=budget_split(schema, columns, budget=self.budget, neighbours=Neighbours.REPLACE).moments,
                noise=self.noise,
                rows=self.rows,
            )

            def make_plan(source: Any, sample_rows: int | None) -> Any:
                del sample_rows  # pairs are of all rows
                return pair_steps(known, self.steps, split, pairs, source, constants)

        return PreparedGaussian(
            claims=split.claims(schema.unit),
            request={
                "kind": "gaussian",
                "columns": list(columns),
                "method": self.method,
                "condition": decimal_text(positive(self.condition, name="condition")),
                "scale": amount_text(self.scale),
                "gap": decimal_text(exact(self.gap, name="gap")),
                "mean_bound": amount_text(self.mean_bound),
                "variance_bound": amount_text(self.variance_bound),
                "steps": "chosen" if self.steps is None else str(self.steps),
                "constants": self.constants,
                **self._priced(),
            },
            labels=columns,
            prediction=None if points is None else points.described(),
            neighbours=split.neighbours,
            make_plan=make_plan,
            split=split,
            pairs=self.method != "public",
            limits=DeclaredLimits(columns=tuple(schema.number(name) for name in columns), **self._bounds()),
        )

    def _bounds(self) -> dict[str, float]:
        """Return the declared ranges; none where public rows replace them."""
        given = {name: getattr(self, name) for name in ("mean_bound", "variance_bound")}
        return {name: bound_of(value, name=name) for name, value in given.items() if value is not None}

    def _ranges(self, width: int, points: PointCloud | None) -> KnownRanges:
        if points is None:
            found: KnownRanges = load_published("gaussian", self.method).declared_ranges(width, **self._bounds())
            return found
        known = gap_bounds(width, points.distinct, float(exact(self.gap, name="gap")))
        whitening = points.whitening()
        assert whitening is not None  # checked when the query was made
        start = Preconditioner("precond", whitening / sqrt(known.upper), known.condition)
        return KnownRanges(start=start, centre=points.centre, mean_bound=known.mean_bound)
