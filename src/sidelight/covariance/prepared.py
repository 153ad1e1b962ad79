"""A covariance query that is ready to run: one pass over the rows, noise, and what is made of the noisy matrix."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Self

import numpy as np

from sidelight.aggregates.collect import collect
from sidelight.aggregates.moments import Moments, MomentState
from sidelight.covariance.eigenvector_methods import sample_eigenvectors, separate
from sidelight.covariance.pairs import pair_moments
from sidelight.covariance.plan import CovariancePlan
from sidelight.covariance.predicted import described
from sidelight.covariance.private_choice import choose_prediction, use_prediction
from sidelight.covariance.projection import is_possible, nearest_covariance
from sidelight.mechanisms.denoise import Denoised, Floats, denoise, eigenvalues
from sidelight.mechanisms.noisy_moments import effective_scale
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.session import Answer
from sidelight.session.query import SurePrepared

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


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedCovariance(SurePrepared):
    """A planned covariance."""

    plan: CovariancePlan

    @property
    def adds_up(self) -> bool:
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
        mean = self._mean(moments, rows, source)
        if self.plan.method in ("separate", "ies"):
            with source.over(pairs=self.plan.centre == "pairs"):
                return self._by_eigenvectors(matrix_moments, rows=rows, mean=mean, source=source)
        with source.over(pairs=self.plan.centre == "pairs"):
            noisy = self.plan.matrix_noise(matrix_moments).release(source)
        del moments, matrix_moments
        return self.answer(noisy, rows=rows, mean=mean)

    def _by_eigenvectors(self, moments: Moments, *, rows: float, mean: Floats | None, source: Source) -> Answer:
        """Release by one of the methods that look at the exact difference to one prediction."""
        size, divisor = len(self.labels), self.plan.divisor(rows)
        middle = np.zeros((size, size)) if mean is None else np.outer(mean, mean)
        candidates = [each.matrix + middle for each in self.plan.predictions] or [middle]
        place = self._chosen(moments, candidates, rows=divisor, source=source) if self.plan.choice is not None else 0
        guess = candidates[place] if place < len(candidates) else middle
        shared: dict[str, Any] = {"budget": self.plan.parts["matrix"], "rows": divisor, "prediction": guess}
        if self.plan.method == "ies":
            matrix = sample_eigenvectors(moments, **shared, source=source)
            noisy, scale = None, None
        else:
            found = separate(moments, **shared, value_share=self.plan.value_share, law=self.plan.noise, source=source)
            matrix, noisy = found.matrix, found.noisy / divisor - middle
            scale = found.noise_scale / divisor
        matrix = self._projected(symmetric(matrix - middle))
        value = CovarianceValue(
            matrix=matrix, noisy=noisy, noise_scale=scale, noise=self.request["noise"], rows=max(rows, 0.0)
        )
        if mean is not None:
            value["mean"] = self._placed(mean)
        if self.plan.choice is not None:
            value["chosen"] = place if place < len(self.plan.predictions) else None
        return Answer(value=value, labels=self.labels)

    def _chosen(self, moments: Moments, candidates: list[Floats], *, rows: float, source: Source) -> int:
        """Return the place of the privately chosen prediction; one beyond the last for none of them."""
        how: dict[str, Any] = {
            "budget": self.plan.parts["choice"],
            "choice": self.plan.choice,
            "rows": rows,
            "source": source,
        }
        if len(candidates) == 1 and not candidates[0].any():
            return 0
        nothing = np.zeros_like(candidates[0])
        if len(candidates) == 1:
            return 0 if use_prediction(moments, prediction=candidates[0], **how) else 1
        return choose_prediction(moments, predictions=[*candidates, nothing], **how)

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

    def _mean(self, moments: Moments, rows: float, source: Source) -> Floats | None:
        if "mean" not in self.plan.shares:
            return None
        mean = self.plan.mean_noise(moments).release(source) / self.plan.divisor(rows)
        low, high = self.plan.reach
        mean = np.clip(mean, low, high)
        length, radius = float(np.linalg.norm(mean)), float(self.plan.coding.radius)
        return np.asarray(mean * (radius / length) if length > radius else mean)

    def answer(self, noisy: Floats, *, rows: float, mean: Floats | None) -> Answer:
        """Turn noisy numbers into the answer: all post-processing. The memory of the noisy matrix is used up."""
        divisor = self.plan.divisor(rows)
        noisy /= divisor
        if mean is not None:
            noisy -= np.outer(mean, mean)
        scale, law = self.plan.public_noise.deviation / divisor, self.plan.public_noise.law
        kept = Packed.of(noisy)  # with the whole there would be four matrices at once
        found = self._shrunk(noisy, effective_scale(scale, law, len(noisy)), rows)
        matrix = noisy if found is None else found.matrix
        if self._is_possible(matrix):
            error = self.plan.error_bound(0.0 if found is None else found.moved, rows)
        else:
            matrix = self._projected(matrix)
            error = self.plan.error_bound(float(np.abs(eigenvalues(kept.subtracted_from(matrix))).max()), rows)
        value = CovarianceValue(matrix=matrix, noisy=kept.whole(), noise_scale=scale, noise=law, rows=max(rows, 0.0))
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
                moved=float(np.abs(eigenvalues(noisy - matrices[0])).max()),
            )
        law = self.plan.public_noise.law
        return denoise(noisy, noise_scale=scale, predictions=matrices, law=law, overwrite=True)

    def _is_possible(self, matrix: Floats) -> bool:
        return not (self.plan.project or self.plan.limit_trace) or is_possible(matrix, **self.plan.limits)

    def _projected(self, matrix: Floats) -> Floats:
        if not (self.plan.project or self.plan.limit_trace):
            return matrix
        return nearest_covariance(matrix, **self.plan.limits, overwrite=True)

    def _placed(self, mean: Floats) -> Floats:
        return np.asarray(mean + np.array([float(centre) for centre in self.plan.coding.centres]))


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


def symmetric(matrix: Floats) -> Floats:
    """Return the mean of a matrix and its transpose: what rounding has left."""
    return np.asarray((matrix + matrix.T) / 2)
