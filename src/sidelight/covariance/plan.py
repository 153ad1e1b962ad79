"""A covariance query against a schema, as public arithmetic: shares, noise, claims, request, bounds on the error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, isqrt, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import CodeArrays
from sidelight.aggregates.collect import coded_rows
from sidelight.aggregates.moments import ClippedMoments, Moments
from sidelight.covariance.error_tails import (
    STEPS,
    UNSURE,
    ErrorTail,
    count_tail,
    matrix_tail,
    pairing_tail,
    vector_tail,
)
from sidelight.covariance.matrices import PredictedMatrix
from sidelight.errors import RangeError
from sidelight.guarantees import Claims, Neighbours, decimal_text
from sidelight.guarantees.units import Unit
from sidelight.mechanisms.budget import Budget, together
from sidelight.mechanisms.denoise import Floats
from sidelight.mechanisms.noisy_moments import (
    CountNoise,
    MatrixLaw,
    MatrixNoise,
    VectorNoise,
    count_noise,
    matrix_noise,
    vector_noise,
)
from sidelight.noise import Source, random_order
from sidelight.records import Schema, Table
from sidelight.records.numbers import nearest_float, number_text
from sidelight.registry import load_published
from sidelight.release import TailBound

# Differences of randomly paired rows need no centre. Along a fresh uniformly random order, two neighbours' pairings can
# be coupled so that they differ in one pair for each changed row: the constants for replacing a vector then hold under
# adding and removing, too. Pairs by place in the table would not have that (covariance proof page, Theorem 9).


@dataclass(frozen=True, kw_only=True)
class PairedDifferences(ClippedVector):
    """The coding of a difference x - x' of two coded rows: clipped to √2 times their radius."""

    @classmethod
    def of(cls, coding: ClippedVector) -> PairedDifferences:
        """Return the coding of differences, in the steps of the rows."""
        levels = isqrt(2 * coding.levels**2)
        return cls(
            columns=coding.columns,
            radius=coding.radius * Fraction(levels, coding.levels),
            levels=levels,
            centres=coding.centres,
        )


def pair_statistics(coding: ClippedVector, *, rows_per_unit: int, unit: Unit) -> ClippedMoments:
    """Return the aggregate of pair differences, with the constants for replacing vectors."""
    return ClippedMoments(
        coding=PairedDifferences.of(coding), rows_per_unit=rows_per_unit, unit=unit, neighbours=Neighbours.REPLACE
    )


def pair_moments(
    table: Table, coding: ClippedVector, statistics: ClippedMoments, source: Source
) -> tuple[Moments, int]:
    """Pair the rows along a random order; return the moments of their differences, and the private number of rows."""
    parts = [np.stack(codes) for codes in coded_rows(table, coding)]
    rows = np.concatenate([np.zeros((len(coding.columns), 0), np.int64), *parts], axis=1)
    count = rows.shape[1]
    with source.free("which rows are paired"):
        order = random_order(count, source)
    half = count // 2
    differences = rows[:, order[:half]] - rows[:, order[half : 2 * half]]
    state = statistics.fold(statistics.empty(), clipped_integers(differences, levels=statistics.coding.levels))
    return statistics.finish(state), count


def clipped_integers(vectors: NDArray[np.int64], *, levels: int) -> CodeArrays:
    """Shorten integer vectors (in columns) to a length of at most `levels`, each by itself."""
    squares = np.zeros(vectors.shape[1], np.int64)
    for entry in vectors:
        squares += entry * entry
    # at most 2**30 (levels of 2**14), so the root is good to a relative 2**-52, and truncation makes up for it
    factor = np.minimum(1.0, levels / np.sqrt(np.maximum(squares, 1).astype(np.float64)))
    shortened = np.trunc(vectors * factor).astype(np.int64)
    over = np.zeros(vectors.shape[1], np.int64)
    for entry in shortened:
        over += entry * entry
    shortened[:, over > levels**2] = 0  # cannot happen; if it did, the bound would hold still
    return tuple(shortened)


Method = Literal["denoise", "gauss", "separate", "ies"]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """How a choice is made: public.

    `form` is "exponential" (the exponential mechanism), or "threshold" for one prediction against 0 as printed: noise
    on the difference of the two distances. `shift_invariant` compares distances up to a multiple of the identity, which
    is what `separate` pays for; its sensitivity is up to twice as large.
    """

    form: Literal["exponential", "threshold"] = "exponential"
    shift_invariant: bool = False

    def __post_init__(self) -> None:
        if self.form not in ("exponential", "threshold"):
            raise RangeError(f"form must be 'exponential' or 'threshold', got {self.form!r}")

    @property
    def request(self) -> Mapping[str, str]:
        """The public description, in strings."""
        return {"form": self.form, "shift_invariant": str(self.shift_invariant).lower()}

    def check(self, candidates: int) -> None:
        """Refuse a number of candidates, the zero matrix among them, that cannot be chosen from: ask first."""
        if candidates < 2:
            raise RangeError(f"a choice needs at least two predictions, got {candidates}; the zero matrix is one")
        if candidates > 2 and self.form != "exponential":
            raise RangeError("the threshold form compares one prediction with 0; use form='exponential'")


#: The share of the budget for a private choice between predictions and none.
_CHOICE_SHARE = Fraction(1, 10)
#: The shares of the price for the noisy number of rows, and for the mean with centre="mean".
_COUNT_SHARE, _MEAN_SHARE = Fraction(3, 100), Fraction(1, 10)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How large noisy numbers are: the operator norm of the matrix, about the mean if there is one, and the mean."""

    norm: float
    mean_length: float = 0.0
    mean_clipped: bool = False


@dataclass(frozen=True, kw_only=True)
class CovariancePlan:
    """Everything about a covariance release that is a function of public parameters."""

    coding: ClippedVector
    schema: Schema
    budget: Budget
    predictions: tuple[PredictedMatrix, ...]
    method: Method
    noise: MatrixLaw | None
    centre: Literal["mean", "pairs"] | None
    rows: int | None
    project: bool
    choice: Choice | None

    @property
    def neighbours(self) -> Neighbours:
        """Replace one where the number of rows is public."""
        return Neighbours.ADD_REMOVE if self.rows is None else Neighbours.REPLACE

    @cached_property
    def shares(self) -> dict[str, Fraction]:
        """The budget's parts: "count", "mean", "choice" and "matrix", those that are needed."""
        count = _COUNT_SHARE if self.rows is None else Fraction(0)
        mean = _MEAN_SHARE if self.centre == "mean" else Fraction(0)
        choice = _CHOICE_SHARE if self.choice is not None else Fraction(0)
        shares = {"count": count, "mean": mean, "choice": choice, "matrix": 1 - count - mean - choice}
        return {name: share for name, share in shares.items() if share}

    @cached_property
    def parts(self) -> dict[str, Budget]:
        """What each part may spend."""
        return {name: self.budget.part(share) for name, share in self.shares.items()}

    @cached_property
    def statistics(self) -> ClippedMoments:
        """The sums that are made of the rows."""
        context: dict[str, Any] = {"rows_per_unit": self.schema.rows_per_unit, "unit": self.schema.unit}
        return ClippedMoments(coding=self.coding, neighbours=self.neighbours, **context)

    @cached_property
    def matrix_statistics(self) -> ClippedMoments:
        """The sums that the matrix is made of: of the rows, or of differences of pairs."""
        if self.centre != "pairs":
            return self.statistics
        return pair_statistics(self.coding, rows_per_unit=self.schema.rows_per_unit, unit=self.schema.unit)

    @cached_property
    def _public(self) -> Moments:
        return self.statistics.finish(self.statistics.empty())

    @cached_property
    def _public_matrix(self) -> Moments:
        return self.matrix_statistics.finish(self.matrix_statistics.empty())

    def count_noise(self, moments: Moments) -> CountNoise:
        """Return the noise of the number of rows."""
        return count_noise(moments, self.parts["count"])

    def mean_noise(self, moments: Moments) -> VectorNoise:
        """Return the noise of the sum of rows that the mean is made of."""
        return vector_noise(moments, self.parts["mean"], "laplace" if self.noise == "laplace" else None)

    def matrix_noise(self, moments: Moments) -> MatrixNoise:
        """Return the noise of the matrix."""
        return matrix_noise(moments, self.parts["matrix"], self.noise)

    @cached_property
    def public_noise(self) -> MatrixNoise:
        """The noise of the matrix of no rows: what is public of it."""
        return self.matrix_noise(self._public_matrix)

    @cached_property
    def claims(self) -> Claims:
        """The price: all parts together, for the noise that is drawn."""
        published = load_published("covariance", self.method)
        parts = [self.public_noise.claims] if published is None else published.claims(self, self._public_matrix)
        if "count" in self.shares:
            parts.append(self.count_noise(self._public).claims)
        if "mean" in self.shares:
            parts.append(self.mean_noise(self._public).claims)
        # pairs: constants of replacement, guarantee for the query's neighbours (covariance proof page)
        return together([(1, part.under(neighbours=self.neighbours)) for part in parts])

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns."""
        return self.coding.numbers

    @cached_property
    def request(self) -> Mapping[str, Any]:
        """The public description for ledger and report, in strings."""
        return {
            "kind": "covariance",
            "columns": list(self.labels),
            "radius": decimal_text(self.coding.radius),
            "method": self.method,
            "noise": "bingham" if self.method == "ies" else self.public_noise.law,
            "centre": self.centre or [number_text(centre) for centre in self.coding.centres],
            "rows": "private" if self.rows is None else str(self.rows),
            "project": str(self.project).lower(),
            "limit_trace": str(self.project).lower(),
            "shares": {name: decimal_text(share) for name, share in self.shares.items()},
            "predictions": [each.digest for each in self.predictions],
            **({} if self.choice is None else {"choice": self.choice.request}),
            **self.budget.request,
        }

    @cached_property
    def count_deviation(self) -> float:
        """The noise of the number of rows."""
        return self.count_noise(self._public).deviation

    def divisor(self, rows: float) -> float:
        """Return what sums are divided by: the number of rows, but no less than one deviation of its noise.

        A noisy count below its own noise says that there are few rows; to divide by it would publish the noise of the
        matrix many times over.
        """
        return max(rows, 1.0) if self.rows is not None else max(rows, self.count_deviation, 1.0)

    def noise_scale(self, rows: float) -> float:
        """Return the standard deviation of the noise on the diagonal of the matrix of this many rows."""
        return self.public_noise.deviation / max(rows, 1.0)

    @cached_property
    def reach(self) -> tuple[Floats, Floats]:
        """Return how far below and above its centre each column can lie: within its bounds, the centre and the radius.

        A row that is shortened moves towards the centre, which may lie outside of the bounds.
        """
        radius = float(self.coding.radius)
        centres = np.array([float(centre) for centre in self.coding.centres])
        columns = self.coding.columns
        low = np.array([-np.inf if each.lower is None else nearest_float(each.lower) for each in columns])
        high = np.array([np.inf if each.upper is None else nearest_float(each.upper) for each in columns])
        return np.clip(low - centres, -radius, 0.0), np.clip(high - centres, 0.0, radius)

    @cached_property
    def largest_diagonal(self) -> Floats | None:
        """The largest second moment (about a mean: variance) that bounds and radius allow each column; None: any."""
        low, high = self.reach
        if (np.minimum(-low, high) == float(self.coding.radius)).all():
            return None
        if self.centre is None:
            return np.asarray(np.maximum(-low, high) ** 2)
        # Popoviciu: a quarter of the squared range. Of n/2 pairs, each (x - x')² can be the squared range: a half of it
        return np.asarray((high - low) ** 2 / (4 if self.centre == "mean" else 2))

    @property
    def limits(self) -> dict[str, Any]:
        """What a matrix of such rows can have at most."""
        if not self.project:
            return {}
        return {"largest_trace": float(self.coding.radius) ** 2, "largest_diagonal": self.largest_diagonal}

    def noise_tail(self, rows: float, measured: Measured) -> ErrorTail:
        """Bound the operator norm of what noise does to the unshrunk matrix (covariance proof page, Theorem 12).

        Each noise has a bound at an equal part of the failure probability. A wrong number of rows moves the matrix by a
        share of it: how large the true one is, what was measured and these bounds say.

        Args:
            rows: The (noisy) number of rows.
            measured: The sizes of the noisy matrix and mean.
        """
        divisor, size = self.divisor(rows), len(self.labels)
        radius, nothing = float(self.coding.radius), np.zeros_like(STEPS)
        parts = 1 + sum(each in self.shares for each in ("count", "mean")) + (self.centre == "pairs")
        noise = matrix_tail(self.public_noise.law, size=size, noise_scale=self.noise_scale(divisor), parts=parts)
        # it is rounded to integers, whose unit is (r/M)²/D in the matrix and r/(MD) in the mean
        half = radius / (2 * self.coding.levels * divisor)
        of_matrix, of_rows, of_mean = noise.at_steps + half * size * radius / self.coding.levels, nothing, nothing
        if "count" in self.shares:
            gaussian = not self.budget.is_pure
            of_rows = count_tail(deviation=self.count_deviation, gaussian=gaussian, parts=parts).at_steps / divisor
        if "mean" in self.shares:
            of_sum = self.mean_noise(self._public)
            of_mean = vector_tail(of_sum.law, size=size, deviation=of_sum.deviation, parts=parts).at_steps / divisor
            of_mean = of_mean + half * sqrt(size)
        share = of_rows + (divisor - rows) / divisor  # |n − D| <= |n − n̂| + D − n̂
        # ‖A‖ <= ‖Ã‖ + ‖Z‖/D + ‖A‖ |n − D|/D, and in the same way for the mean, whose square is at most ‖A‖
        norm, length = measured.norm + of_matrix, measured.mean_length
        left = np.where(share < 1, 1 - share, 1.0)
        largest = np.where(share < 1, np.minimum(radius**2, (norm + length**2) / left), radius**2)
        longest = np.where(share < 1, np.minimum(np.sqrt(largest), (length + of_mean) / left), radius)
        if "mean" not in self.shares:
            weight, both = largest, nothing
        elif measured.mean_clipped:
            both = length + longest  # ‖ââᵀ − aaᵀ‖ <= (‖â‖ + ‖a‖) ‖â − a‖
            weight = largest + both * longest
        else:  # the number divides both, and most of that cancels
            both = 2 * length + of_mean
            spread = norm + share * (largest + share * longest**2) + of_mean * both
            weight = np.minimum(largest, np.maximum(spread, longest**2)) + share * longest**2
        found = of_matrix + share * weight + of_mean * both
        beyond = noise.beyond
        if self.centre == "pairs":
            pairing = pairing_tail(rows - divisor * of_rows, radius**2, parts=parts)
            found, beyond = found + pairing.at_steps, beyond + pairing.beyond
        # truncation moves an entry by less than r/M, so a row by √d r/M, and uᵀCu by 2r times that at most
        return ErrorTail(found + 2 * radius**2 * sqrt(size) / self.coding.levels, beyond)

    def error_bound(self, moved: float, rows: float, measured: Measured) -> TailBound:
        """Bound the error in every direction: how far the matrix was moved, which is known, and the noise."""
        fixed, per_log = self.noise_tail(rows, measured).line()
        apart = ", and no two rows are further apart than √2 times it" if self.centre == "pairs" else ""
        public = "" if self.rows is None else f", and exactly {self.rows} rows count: none is left out"
        return TailBound(
            unit="in operator norm",
            assumption=f"no row is longer than the radius {decimal_text(self.coding.radius)}{apart}{public}",
            fixed=(moved + fixed,),
            per_log=(per_log,),
            # both matrices are positive semidefinite with a trace of at most radius²
            largest=float(self.coding.radius) ** 2 if self.project else inf,
            up_to=1 - UNSURE if self.shares.keys() & {"count", "mean"} else 1.0,
        )
