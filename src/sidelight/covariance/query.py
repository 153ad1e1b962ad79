"""`Covariance`: the query, and what it becomes against a schema: one pass over the rows, noise, and shrinkage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import Any, Literal, Self, get_args

import numpy as np

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.collect import collect
from sidelight.aggregates.moments import Moments, MomentState
from sidelight.covariance.matrices import (
    CovarianceValue,
    PredictedMatrix,
    Prediction,
    as_predictions,
    described,
    is_possible,
    nearest_covariance,
    predict_matrix,
)
from sidelight.covariance.plan import Choice, CovariancePlan, Measured, Method, pair_moments
from sidelight.errors import RangeError, SchemaError, explains_removed, nearest
from sidelight.guarantees import Amount, positive
from sidelight.guarantees.amounts import whole
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.denoise import Denoised, Floats, denoise, operator_norm
from sidelight.mechanisms.noisy_moments import MatrixLaw, effective_scale
from sidelight.noise import Source
from sidelight.records import Number, Schema, Table
from sidelight.records.numbers import exact_number
from sidelight.records.schema import listed_names
from sidelight.records.table import bare_number, bare_numbers
from sidelight.registry import load_published
from sidelight.release import Release
from sidelight.session import Answer, release_once
from sidelight.session.query import SurePrepared

#: A noisy count below this many standard deviations only says "hardly any rows": predictions then stand alone.
_ENOUGH = 4.0


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedCovariance(SurePrepared):
    """A planned covariance."""

    plan: CovariancePlan

    @property
    def is_additive(self) -> bool:
        """Whether rows are only added up."""
        return self.plan.centre != "pairs"

    @classmethod
    def of(cls, plan: CovariancePlan) -> Self:
        """Price a plan."""
        return cls(
            claims=plan.claims,
            request=plan.request,
            labels=plan.labels,
            prediction=described(plan.predictions),
            plan=plan,
        )

    def run(self, table: Table, source: Source) -> Answer:
        """Read the rows once, add noise, and shrink."""
        moments, matrix_moments = self._collect(table, source)
        rows = self._rows(moments, source)
        raw_mean = self._raw_mean(moments, rows, source)
        mean = None if raw_mean is None else self._possible_mean(raw_mean)
        published = load_published("covariance", self.plan.method)
        with source.over(pairs=self.plan.centre == "pairs"):
            if published is not None:
                found: Answer = published.answer(self, matrix_moments, rows=rows, mean=mean, source=source)
                return found
            noisy = self.plan.matrix_noise(matrix_moments).release(source)
        del moments, matrix_moments
        clipped = raw_mean is not None and not np.array_equal(raw_mean, np.asarray(mean))
        return self.answer(noisy, rows=rows, mean=mean, mean_clipped=clipped)

    def _collect(self, table: Table, source: Source) -> tuple[Moments, Moments]:
        if self.plan.centre != "pairs":
            moments = collect(table, self.plan.statistics)
            return moments, moments
        pairs, count = pair_moments(table, self.plan.coding, self.plan.matrix_statistics, source)
        nothing = self.plan.statistics.empty()
        return self.plan.statistics.finish(MomentState(count, nothing.total, nothing.second)), pairs

    def _rows(self, moments: Moments, source: Source) -> float:
        if self.plan.rows is not None:
            return float(self.plan.rows)
        return self.plan.count_noise(moments).release(source)

    def _raw_mean(self, moments: Moments, rows: float, source: Source) -> Floats | None:
        if "mean" not in self.plan.shares:
            return None
        return np.asarray(self.plan.mean_noise(moments).release(source) / self.plan.divisor(rows))

    def _possible_mean(self, mean: Floats) -> Floats:
        low, high = self.plan.reach
        mean = np.clip(mean, low, high)
        length, radius = float(np.linalg.norm(mean)), float(self.plan.coding.radius)
        return np.asarray(mean * (radius / length) if length > radius else mean)

    def answer(self, noisy: Floats, *, rows: float, mean: Floats | None, mean_clipped: bool = False) -> Answer:
        """Turn noisy numbers into the answer: all post-processing. The memory of the noisy matrix is used up."""
        divisor = self.plan.divisor(rows)
        noisy /= divisor
        if mean is not None:
            noisy -= np.outer(mean, mean)
        scale, law = self.plan.public_noise.deviation / divisor, self.plan.public_noise.law
        kept = Packed.of(noisy)  # with the whole there would be four matrices at once
        found = self._shrunk(noisy, effective_scale(scale, law, len(noisy)), rows)
        matrix = noisy if found is None else found.matrix
        norm = found.norm if found is not None else operator_norm(noisy.copy())
        moved = 0.0 if found is None else found.moved
        if not self._is_possible(matrix):
            matrix = self.projected(matrix)
            moved = operator_norm(kept.subtracted_from(matrix))
        length = 0.0 if mean is None else float(np.linalg.norm(mean))
        error = self.plan.error_bound(moved, rows, Measured(norm=norm, mean_length=length, mean_clipped=mean_clipped))
        value = self.value(matrix, noisy=kept.whole(), noise_scale=scale, rows=rows, mean=mean)
        if found is not None:
            value["shrinkage"] = {
                "prediction": found.candidate,
                "identity": found.shift,
                "threshold": None if np.isinf(found.threshold) else found.threshold,
                "factor": found.factor,
                "estimated_error": None if np.isnan(found.risk) else sqrt(max(found.risk, 0.0)),
            }
        return Answer(value=value, labels=self.labels, error=error)

    def _shrunk(self, noisy: Floats, scale: float, rows: float) -> Denoised | None:
        if self.plan.method != "denoise":
            return None
        matrices = [each.matrix for each in self.plan.predictions]
        if matrices and self.plan.rows is None and rows < _ENOUGH * self.plan.count_deviation:
            return Denoised(
                matrix=matrices[0].copy(),
                candidate=0,
                shift=False,
                threshold=np.inf,
                factor=1.0,
                risk=np.nan,
                moved=operator_norm(noisy - matrices[0]),
                norm=operator_norm(noisy.copy()),
            )
        law = self.plan.public_noise.law
        return denoise(noisy, noise_scale=scale, predictions=matrices, law=law, overwrite=True)

    def _is_possible(self, matrix: Floats) -> bool:
        return not self.plan.project or is_possible(matrix, **self.plan.limits)

    def value(
        self, matrix: Floats, *, noisy: Floats | None, noise_scale: float | None, rows: float, mean: Floats | None
    ) -> CovarianceValue:
        """Return what a release holds."""
        value = CovarianceValue(
            matrix=matrix, noisy=noisy, noise_scale=noise_scale, noise=self.request["noise"], rows=max(rows, 0.0)
        )
        if mean is not None:
            value["mean"] = np.asarray(mean + np.array([float(centre) for centre in self.plan.coding.centres]))
        return value

    def projected(self, matrix: Floats) -> Floats:
        """Return the nearest possible matrix, if the query wants one. The memory of the matrix is used up."""
        if not self.plan.project:
            return matrix
        return nearest_covariance(matrix, **self.plan.limits, overwrite=True)


@dataclass(frozen=True, eq=False)
class Packed:
    """The upper triangle of a symmetric matrix, row after row.

    >>> matrix = np.array([[1.0, 2.0], [2.0, 3.0]])
    >>> Packed.of(matrix).whole().tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """

    size: int
    entries: Floats

    @classmethod
    def of(cls, matrix: Floats) -> Packed:
        """Copy the upper triangle."""
        size = len(matrix)
        entries = np.empty(size * (size + 1) // 2)
        packed = cls(size, entries)
        for row, part in packed._rows():
            part[...] = matrix[row, row:]
        return packed

    def whole(self) -> Floats:
        """Return the matrix again."""
        matrix = np.empty((self.size, self.size))
        for row, part in self._rows():
            matrix[row, row:] = part
            matrix[row:, row] = part
        return matrix

    def subtracted_from(self, matrix: Floats) -> Floats:
        """Return matrix - this one, for a symmetric matrix."""
        difference = matrix.copy()
        for row, part in self._rows():
            difference[row, row:] -= part
            difference[row:, row] = difference[row, row:]
        return difference

    def _rows(self) -> list[tuple[int, Floats]]:
        ends = np.cumsum(np.arange(self.size, 0, -1))
        return [(row, self.entries[end - (self.size - row) : end]) for row, end in enumerate(ends.tolist())]


Center = Literal["mean", "pairs"]
#: More rows than people. A public number that predictions are multiplied by before the noise has an end: up to here
#: floats of rows · W lose less than a hundredth of the sensitivity for 1000 columns.
MOST_ROWS = 10**10


@explains_removed
@dataclass(frozen=True)
class Covariance:
    """Release the second-moment or covariance matrix of some columns, better where a prediction is good.

    Guarantee: zCDP of at most `rho` (and the GDP claim of the Gaussian noise), exact on the machine; or PureDP(epsilon)
    with two-sided Wishart noise, idealized, or with noise="laplace", exact and noisier. For the schema's unit under
    adding or removing one; with a public number of `rows` under replacing one. Never depends on the prediction: rows
    longer than `radius` are shortened, and rows that miss a number are left out (covariance proof page).

    Accuracy: `release.error_bound(0.95)` bounds the error in every direction at once. With the default method and a
    prediction W from which the truth C differs by little, ‖Ĉ - C‖_F² is about 2τ‖C - W‖_tr, τ the operator norm of the
    noise; a bad prediction costs next to nothing.

    The matrix is (1/n) Σ x xᵀ, about 0, unless `centre` says otherwise. The value of a release has "matrix", which is
    one that rows of this length can have, and the unshrunk "noisy" matrix with its "noise_scale", on which later
    releases can build (`learned_prediction`): that one is unbiased (but for the noisy number of rows) and may be
    impossible.

    Args:
        columns: Names of number columns; all number columns of the schema if left out.
        radius: The public Euclidean length that (centred) rows are shortened to.
        rho, epsilon, delta: The price: rho, or epsilon (pure), or epsilon with delta (Gaussian noise).
        prediction: A matrix, a `PredictedMatrix` with its origin, `sl.PublicData`, or a list of them.
        method: "denoise" (one release of the whole budget, shrunk towards the best prediction, which is free); "gauss"
            (the noisy matrix as it is); "separate" and "ies" of the literature (`sidelight.published`): use "denoise".
        noise: "goe" for rho; "wishart" or "laplace" for epsilon. The best one if left out.
        centre: None; a public vector; "mean" to release and subtract a mean; "pairs" to use differences of pairs.
        rows: The public number of rows that count: with missing cells, or more rows of a person than count, it is wrong
            and so is the matrix. Neighbours then replace a row instead of adding or removing one.
        project: Publish a matrix that can be: positive semidefinite, with a trace of at most radius², and no variance
            above what the columns' declared bounds allow. False where an unbiased matrix is wanted (method="gauss").
        choice: How "separate" and "ies" choose privately between the predictions and none, for a tenth of the price.

    >>> data = np.random.default_rng(0).normal(size=(20_000, 2)) * [0.4, 0.1]
    >>> release = Covariance(radius=1, rho="0.5").release(data)
    >>> bool(0.12 < release.value["matrix"][0, 0] < 0.18)
    True
    """

    columns: Sequence[str] | None = None
    radius: Amount = field(kw_only=True)
    rho: Amount | None = field(default=None, kw_only=True)
    epsilon: Amount | None = field(default=None, kw_only=True)
    delta: Amount | None = field(default=None, kw_only=True)
    prediction: Any = field(default=None, kw_only=True)
    method: Method = field(default="denoise", kw_only=True)
    noise: MatrixLaw | None = field(default=None, kw_only=True)
    centre: Center | Sequence[float] | None = field(default=None, kw_only=True)
    rows: int | None = field(default=None, kw_only=True)
    project: bool = field(default=True, kw_only=True)
    choice: Choice | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", listed_names(self.columns))
        positive(self.radius, name="radius")
        _ = self.budget
        for name, known in (("method", get_args(Method)), ("noise", get_args(MatrixLaw))):
            given = getattr(self, name)
            if given not in known and not (name == "noise" and given is None):
                raise RangeError(f"{name} must be one of its choices, got {given!r}; {nearest(str(given), known)}")
        allowed = self.budget.laws("goe", "wishart", "laplace")
        if self.noise is not None and self.noise not in allowed:
            raise RangeError(f"noise must be {' or '.join(map(repr, allowed))} for this price, got {self.noise!r}")
        if self.rows is not None:
            rows = whole(self.rows, name="rows, the public number of rows,", most=MOST_ROWS)
            object.__setattr__(self, "rows", rows)
        self._read_centre()
        object.__setattr__(self, "prediction", as_predictions(self.prediction, self.columns))
        self._check_choice()
        if self.columns is not None:
            self.predictions_for(len(self.columns))

    def _check_choice(self) -> None:
        published = load_published("covariance", self.method)
        if published is not None:
            published.check(self)
        elif self.choice is not None:
            raise RangeError(
                f"method {self.method!r} takes no choice=...; 'denoise' chooses between predictions for free"
            )
        if self.choice is not None and not self.prediction:
            raise RangeError("choice=... chooses between predictions and none, and there is no prediction")
        if self.choice is not None:
            self.choice.check(len(self.prediction) + 1)

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return Budget.of(rho=self.rho, epsilon=self.epsilon, delta=self.delta)

    def _read_centre(self) -> None:
        if self.centre is None:
            return
        if isinstance(self.centre, str):
            known: tuple[str, ...] = get_args(Center)
            if self.centre not in known:
                raise RangeError(
                    f"centre must be one of its choices, got {self.centre!r}; {nearest(self.centre, known)}"
                )
            return
        middle = tuple(exact_number(entry, name="centre") for entry in np.asarray(self.centre).reshape(-1).tolist())
        if self.columns is not None and len(middle) != len(self.columns):
            raise RangeError(
                f"centre must have one number for each of the {len(self.columns)} columns, got {len(middle)}"
            )
        object.__setattr__(self, "centre", middle)

    def predictions_for(self, width: int) -> tuple[PredictedMatrix, ...]:
        """Return the predictions as matrices of the right size, cut to what can be: no entry exceeds radius²."""
        given: tuple[Prediction, ...] = self.prediction
        centre: Any = np.array(self.centre, np.float64) if isinstance(self.centre, tuple) else self.centre
        radius = float(positive(self.radius, name="radius"))
        return tuple(
            (each if isinstance(each, PredictedMatrix) else predict_matrix(each, radius=radius, centre=centre))
            .for_columns(width)
            .within(radius * radius)  # infinite for a radius that `prepare` refuses
            for each in given
        )

    def prepare(self, schema: Schema) -> PreparedCovariance:
        """Check the query against the schema and price it. Opens no data."""
        if self.columns is None:
            numbers = tuple(column for column in schema.columns if isinstance(column, Number))
        else:
            numbers = tuple(schema.number(name) for name in self.columns)
        if not numbers:
            raise SchemaError("a covariance wants at least one Number column; declare sl.Number(...) in the schema")
        centres = self.centre if isinstance(self.centre, tuple) else (Fraction(0),) * len(numbers)
        if len(centres) != len(numbers):
            raise RangeError(f"centre must have one number for each of the {len(numbers)} columns, got {len(centres)}")
        predictions = self.predictions_for(len(numbers))
        for each in predictions:
            each.check_dates(numbers, self.centre if isinstance(self.centre, str) else centres)
        coding = ClippedVector(
            columns=numbers, radius=positive(self.radius, name="radius"), levels=1 << 14, centres=centres
        )
        plan = CovariancePlan(
            coding=coding,
            schema=schema,
            budget=self.budget,
            predictions=predictions,
            method=self.method,
            noise=self.noise,
            centre=self.centre if isinstance(self.centre, str) else None,
            rows=self.rows,
            project=self.project,
            choice=self.choice,
        )
        return PreparedCovariance.of(plan)

    def declare(self) -> Number:
        """Return the declaration of a bare one-dimensional array."""
        return bare_number(self.columns)

    def release(self, data: Any) -> Release[Mapping[str, Any]]:
        """Release from a table, a two-dimensional array, or (with names) a frame, with exactly this query's budget."""
        return release_once(self, data if isinstance(data, Table) else self.table(data))

    def table(self, data: Any) -> Table:
        """Declare the columns of an array or a frame: numbers, and every row one protected unit."""
        return bare_numbers(data, self.columns)
