"""A covariance query fitted to a schema: its parts, their prices, and the one pass over the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any, Literal, Self

import numpy as np

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.collect import collect
from sidelight.aggregates.moments import ClippedMoments, Moments, MomentState
from sidelight.covariance.bounds import Tail, added, count_tail, matrix_tail, vector_tail
from sidelight.covariance.denoise import Denoised, Floats, denoise, eigenvalues
from sidelight.covariance.eigenvector_sampling import sample_eigenvectors, sampling_claims
from sidelight.covariance.packed import Packed
from sidelight.covariance.pairs import pair_moments, pair_statistics
from sidelight.covariance.predicted import PredictedMatrix, described
from sidelight.covariance.price import Price, together
from sidelight.covariance.private_choice import Choice, choice_claims, choose_prediction, use_prediction
from sidelight.covariance.projection import is_possible, nearest_covariance
from sidelight.covariance.separate import separate, separate_claims
from sidelight.guarantees import Claims, Neighbours, decimal_text
from sidelight.mechanisms.noisy_moments import (
    MatrixNoise,
    NoisyMatrix,
    count_claims,
    count_deviation,
    matrix_noise,
    noisy_count,
    noisy_second_moment,
    noisy_vector_sum,
    second_moment_claims,
    second_moment_scale,
    vector_noise,
    vector_sum_claims,
    vector_sum_deviation,
)
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.records.numbers import nearest_float, number_text
from sidelight.release import TailBound
from sidelight.session import Answer
from sidelight.session.query import SurePrepared

Method = Literal["denoise", "gauss", "separate", "ies"]
#: A noisy count below so many standard deviations says nothing but "hardly any rows": predictions then stand alone.
_ENOUGH = 4.0


class CovarianceValue(dict[str, Any]):
    """The value of a covariance release: a plain mapping that prints in a few lines."""

    def __repr__(self) -> str:
        matrix = self["matrix"]
        shown = np.array2string(matrix, precision=4, suppress_small=True, threshold=36, edgeitems=3)
        scale = self["noise_scale"]
        noise = "" if scale is None else f", noise {scale:.3g} on the diagonal"
        return f"{len(matrix)} x {len(matrix)} matrix {shown}{noise}"


@dataclass(frozen=True, kw_only=True)
class CovariancePlan:
    """What a covariance query is against a schema; everything but `run` is a function of public parameters."""

    coding: ClippedVector
    schema: Schema
    price: Price
    predictions: tuple[PredictedMatrix, ...]
    method: Method
    noise: MatrixNoise | None
    center: Literal["mean", "pairs"] | None
    rows: int | None
    project: bool
    limit_trace: bool
    count_share: Fraction
    mean_share: Fraction
    value_share: Fraction
    choice: Choice | None
    choice_share: Fraction

    @property
    def neighbours(self) -> Neighbours:
        """Replace one where the number of rows is public."""
        return Neighbours.ADD_REMOVE if self.rows is None else Neighbours.REPLACE

    @cached_property
    def shares(self) -> dict[str, Fraction]:
        """The budget's parts: "count", "mean", "choice" and "matrix", those that are needed."""
        count = self.count_share if self.rows is None else Fraction(0)
        mean = self.mean_share if self.center == "mean" else Fraction(0)
        choice = self.choice_share if self.choice is not None else Fraction(0)
        shares = {"count": count, "mean": mean, "choice": choice, "matrix": 1 - count - mean - choice}
        return {name: share for name, share in shares.items() if share}

    @cached_property
    def statistics(self) -> ClippedMoments:
        """The sums that are made of the rows."""
        context: dict[str, Any] = {"rows_per_unit": self.schema.rows_per_unit, "unit": self.schema.unit}
        return ClippedMoments(coding=self.coding, neighbours=self.neighbours, **context)

    @cached_property
    def matrix_statistics(self) -> ClippedMoments:
        """The sums that the matrix is made of: of the rows, or of differences of pairs."""
        if self.center != "pairs":
            return self.statistics
        return pair_statistics(self.coding, rows_per_unit=self.schema.rows_per_unit, unit=self.schema.unit)

    @cached_property
    def _public(self) -> Moments:
        return self.statistics.finish(self.statistics.empty())

    @cached_property
    def _public_matrix(self) -> Moments:
        return self.matrix_statistics.finish(self.matrix_statistics.empty())

    @cached_property
    def law(self) -> MatrixNoise:
        """The law of the matrix's noise."""
        part = self.price.part(self.shares["matrix"])
        return matrix_noise(self._public_matrix, rho=part.get("rho"), epsilon=part.get("epsilon"), noise=self.noise)

    @cached_property
    def claims(self) -> Claims:
        """The price: all parts together, for the noise that is drawn."""
        parts = [self._matrix_claims()]
        if self.choice is not None:
            part = self.price.part(self.shares["choice"])
            parts.append(choice_claims(self._public_matrix, **part, choice=self.choice))
        if "count" in self.shares:
            parts.append(count_claims(self._public, **self.price.part(self.shares["count"])))
        if "mean" in self.shares:
            parts.append(
                vector_sum_claims(self._public, **self.price.part(self.shares["mean"]), noise=self._mean_noise)
            )
        # pairs: constants of replacement, guarantee for the query's neighbours (covariance proof page)
        return together([part.under(neighbours=self.neighbours) for part in parts])

    def _matrix_claims(self) -> Claims:
        part = self.price.part(self.shares["matrix"])
        if self.method == "separate":
            return separate_claims(self._public_matrix, **part, value_share=self.value_share, noise=self.noise)
        if self.method == "ies":
            return sampling_claims(self._public_matrix, epsilon=part["epsilon"])
        return second_moment_claims(self._public_matrix, **part, noise=self.noise)

    @property
    def _mean_noise(self) -> Literal["laplace"] | None:
        return "laplace" if self.noise == "laplace" else None

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns."""
        return self.coding.numbers

    @cached_property
    def request(self) -> Mapping[str, Any]:
        """The public description for ledger and report, in strings."""
        price = {"rho": self.price.rho, "epsilon": self.price.epsilon}
        return {
            "kind": "covariance",
            "columns": list(self.labels),
            "radius": decimal_text(self.coding.radius),
            "method": self.method,
            "noise": "bingham" if self.method == "ies" else self.law,
            "center": self.center or [number_text(centre) for centre in self.coding.centres],
            "rows": "private" if self.rows is None else str(self.rows),
            "project": str(self.project).lower(),
            "limit_trace": str(self.limit_trace).lower(),
            "shares": {name: decimal_text(share) for name, share in self.shares.items()},
            "predictions": [each.digest for each in self.predictions],
            **{name: decimal_text(total) for name, total in price.items() if total is not None},
        }

    def divisor(self, rows: float) -> float:
        """Return what sums are divided by: the number of rows, but no less than one deviation of its noise.

        A noisy count below its own noise says that there are few rows; to divide by it would publish the noise of the
        matrix many times over.
        """
        return max(rows, 1.0) if self.rows is not None else max(rows, self._count_deviation, 1.0)

    def noise_scale(self, rows: float) -> float:
        """Return the standard deviation of the noise on the diagonal of the matrix of so many rows."""
        part = self.price.part(self.shares["matrix"])
        return second_moment_scale(self._public_matrix, **part, noise=self.noise) / max(rows, 1.0)

    def run(self, table: Table, source: Source) -> Answer:
        """Read the rows once, add noise, and shrink."""
        moments, matrix_moments = self._collect(table, source)
        rows = self._rows(moments, source)
        mean = self._mean(moments, rows, source)
        part = self.price.part(self.shares["matrix"])
        if self.method in ("separate", "ies"):
            return self._by_eigenvectors(matrix_moments, rows=rows, mean=mean, source=source)
        released = noisy_second_moment(matrix_moments, **part, noise=self.noise, source=source)
        del moments, matrix_moments
        return self.answer(released, rows=rows, mean=mean)

    def _by_eigenvectors(self, moments: Moments, *, rows: float, mean: Floats | None, source: Source) -> Answer:
        """Release by one of the methods that look at the exact difference to one prediction."""
        size, divisor = len(self.labels), self.divisor(rows)
        middle = np.zeros((size, size)) if mean is None else np.outer(mean, mean)
        candidates = [each.matrix + middle for each in self.predictions] or [middle]
        place = self._chosen(moments, candidates, rows=divisor, source=source) if self.choice is not None else 0
        guess = candidates[place] if place < len(candidates) else middle
        part = self.price.part(self.shares["matrix"])
        if self.method == "ies":
            matrix = sample_eigenvectors(
                moments, rows=divisor, prediction=guess, epsilon=part["epsilon"], source=source
            )
            noisy, scale = None, None
        else:
            found = separate(
                moments,
                rows=divisor,
                prediction=guess,
                **part,
                value_share=self.value_share,
                noise=self.noise,
                source=source,
            )
            matrix, noisy, scale = found.matrix, found.noisy.value / divisor - middle, found.noisy.noise_scale / divisor
        matrix = self._projected(symmetric(matrix - middle))
        value = CovarianceValue(
            matrix=matrix, noisy=noisy, noise_scale=scale, noise=self.request["noise"], rows=max(rows, 0.0)
        )
        if mean is not None:
            value["mean"] = self._placed(mean)
        if self.choice is not None:
            value["chosen"] = place if place < len(self.predictions) else None
        return Answer(value=value, labels=self.labels)

    def _chosen(self, moments: Moments, candidates: list[Floats], *, rows: float, source: Source) -> int:
        """Return the place of the privately chosen prediction; one beyond the last for none of them."""
        part = self.price.part(self.shares["choice"])
        if len(candidates) == 1 and not candidates[0].any():
            return 0
        nothing = np.zeros_like(candidates[0])
        if len(candidates) == 1:
            used = use_prediction(
                moments, rows=rows, prediction=candidates[0], **part, choice=self.choice, source=source
            )
            return 0 if used else 1
        return choose_prediction(
            moments, rows=rows, predictions=[*candidates, nothing], **part, choice=self.choice, source=source
        )

    def _collect(self, table: Table, source: Source) -> tuple[Moments, Moments]:
        if self.center != "pairs":
            moments = collect(table, self.statistics)
            return moments, moments
        pairs, count = pair_moments(table, self.coding, self.matrix_statistics, source)
        nothing = self.statistics.empty()
        return self.statistics.finish(MomentState(count, nothing.total, nothing.second)), pairs

    def _rows(self, moments: Moments, source: Source) -> float:
        if self.rows is not None:
            return float(self.rows)
        return noisy_count(moments, **self.price.part(self.shares["count"]), source=source).value

    def _mean(self, moments: Moments, rows: float, source: Source) -> Floats | None:
        if "mean" not in self.shares:
            return None
        part = self.price.part(self.shares["mean"])
        total = noisy_vector_sum(moments, **part, noise=self._mean_noise, source=source)
        mean = total.value / self.divisor(rows)
        low, high = self._reach
        mean = np.clip(mean, low, high)
        length, radius = float(np.linalg.norm(mean)), float(self.coding.radius)
        return np.asarray(mean * (radius / length) if length > radius else mean)

    @cached_property
    def _reach(self) -> tuple[Floats, Floats]:
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
        low, high = self._reach
        if (np.minimum(-low, high) == float(self.coding.radius)).all():
            return None
        if self.center is None:
            return np.asarray(np.maximum(-low, high) ** 2)
        # Popoviciu: a quarter of the squared range. Of n/2 pairs, each (x - x')² can be the squared range: a half of it
        return np.asarray((high - low) ** 2 / (4 if self.center == "mean" else 2))

    def answer(self, released: NoisyMatrix, *, rows: float, mean: Floats | None) -> Answer:
        """Turn noisy numbers into the answer: all post-processing. The memory of `released` is used up."""
        divisor = self.divisor(rows)
        noisy = released.value
        noisy /= divisor
        if mean is not None:
            noisy -= np.outer(mean, mean)
        scale = released.noise_scale / divisor
        size = len(noisy)
        kept = Packed.of(noisy)  # with the whole there would be four matrices at once
        found = self._shrunk(noisy, effective_scale(scale, released.shape, size), rows)
        matrix = noisy if found is None else found.matrix
        if self._is_possible(matrix):
            error = self._error(0.0 if found is None else found.moved, rows)
        else:
            matrix = self._projected(matrix)
            error = self._error(float(np.abs(eigenvalues(kept.subtracted_from(matrix))).max()), rows)
        value = CovarianceValue(
            matrix=matrix, noisy=kept.whole(), noise_scale=scale, noise=released.shape, rows=max(rows, 0.0)
        )
        if mean is not None:
            value["mean"] = self._placed(mean)
        if found is not None:
            value["shrinkage"] = {
                "prediction": found.candidate,
                "identity": found.shift,
                "threshold": None if np.isinf(found.threshold) else found.threshold,
                "factor": found.factor,
                "estimated_error": None if np.isnan(found.risk) else sqrt(max(found.risk, 0.0)),
            }
        return Answer(value=value, labels=self.labels, error=error)

    @property
    def _limits(self) -> dict[str, Any]:
        """What a matrix of such rows can have at most."""
        if not self.limit_trace:
            return {}
        return {"largest_trace": float(self.coding.radius) ** 2, "largest_diagonal": self.largest_diagonal}

    def _is_possible(self, matrix: Floats) -> bool:
        return not (self.project or self.limit_trace) or is_possible(matrix, **self._limits)

    def _projected(self, matrix: Floats) -> Floats:
        if not (self.project or self.limit_trace):
            return matrix
        return nearest_covariance(matrix, **self._limits, overwrite=True)

    def _placed(self, mean: Floats) -> Floats:
        return np.asarray(mean + np.array([float(centre) for centre in self.coding.centres]))

    def _shrunk(self, noisy: Floats, scale: float, rows: float) -> Denoised | None:
        if self.method != "denoise":
            return None
        matrices = [each.matrix for each in self.predictions]
        if matrices and self.rows is None and rows < _ENOUGH * self._count_deviation:
            return Denoised(
                matrix=matrices[0].copy(),
                candidate=0,
                shift=False,
                threshold=np.inf,
                factor=1.0,
                risk=np.nan,
                moved=float(np.abs(eigenvalues(noisy - matrices[0])).max()),
            )
        return denoise(noisy, noise_scale=scale, predictions=matrices, shape=self.law, overwrite=True)

    @cached_property
    def _count_deviation(self) -> float:
        return count_deviation(self._public, **self.price.part(self.shares["count"]))

    def noise_tail(self, rows: float) -> Tail:
        """Bound the operator norm of what noise does to the unshrunk matrix of (noisily) so many rows."""
        divisor, size = self.divisor(rows), len(self.labels)
        tails = [matrix_tail(self.law, size=size, noise_scale=self.noise_scale(divisor))]
        known = 0.0
        square = float(self.coding.radius) ** 2
        if "count" in self.shares:
            count = count_tail(deviation=self._count_deviation, gaussian=self.price.rho is not None)
            weight = (3 if self.center == "mean" else 1) * square / divisor  # it divides the mean too
            tails.append(count.times(weight))
            known = (divisor - rows) * weight  # |n - D| <= |n - n̂| + D - n̂
        if "mean" in self.shares:
            part = self.price.part(self.shares["mean"])
            law = vector_noise(self._public, rho=part.get("rho"), epsilon=part.get("epsilon"), noise=self._mean_noise)
            deviation = vector_sum_deviation(self._public, **part, noise=self._mean_noise)
            length = vector_tail(law, size=size, deviation=deviation).times(2 * float(self.coding.radius) / divisor)
            tails.append(length)  # ‖ââᵀ − aaᵀ‖ <= 2r‖â − a‖
        tail = added(tails)
        return Tail(tail.fixed + known, tail.per_log)

    def _error(self, moved: float, rows: float) -> TailBound:
        """Bound the error in every direction: how far the matrix was moved, which is known, and the noise."""
        tail, largest = self.noise_tail(rows), float(self.coding.radius) ** 2
        tail = Tail(moved + tail.fixed, tail.per_log)
        if self.limit_trace and tail.fixed >= largest:
            tail = Tail(largest, 0.0)  # both matrices are positive semidefinite with a trace of at most radius²
        return TailBound(
            unit="in operator norm",
            assumption=f"no row is longer than the radius {decimal_text(self.coding.radius)}",
            fixed=(tail.fixed,),
            per_log=(tail.per_log,),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedCovariance(SurePrepared):
    """A planned covariance."""

    plan: CovariancePlan

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
        return self.plan.run(table, source)


def symmetric(matrix: Floats) -> Floats:
    """Return the mean of a matrix and its transpose: what rounding has left."""
    return np.asarray((matrix + matrix.T) / 2)


def effective_scale(noise_scale: float, law: MatrixNoise, size: int) -> float:
    """Return the diagonal deviation of GOE noise with the same Frobenius error."""
    return noise_scale * sqrt(2 * size / (size + 1)) if law == "laplace" else noise_scale
