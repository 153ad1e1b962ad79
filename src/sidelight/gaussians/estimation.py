"""The estimate as a course of questions: it asks for the moments of rows under a map, and pays for each with noise.

Written as generators, which know nothing of where rows are: one table answers one generator (`estimate`), and the cells
of a partition answer many in the same passes (`cells`). A generator yields a `RowMap` and receives its `Moments`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.aggregates.mapped_vector import RowMap
from sidelight.aggregates.moments import Moments
from sidelight.gaussians.constants import Constants
from sidelight.gaussians.public_rows import Floats, PublicPoints
from sidelight.gaussians.spending import Spending
from sidelight.gaussians.starts import Course, Start, course
from sidelight.gaussians.steps import mapped_back, preconditioned, recentred, whitened_covariance
from sidelight.noise import Source

#: Shares of the budget: number of rows, coarse covariance, mean, last covariance.
COUNT, COARSE, MEAN, FINAL = Fraction(3, 100), Fraction(27, 100), Fraction(22, 100), Fraction(48, 100)
#: The mean's budget in its two steps.
MEAN_STEPS = (Fraction(1, 4), Fraction(3, 4))


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianEstimate:
    """A released mean and covariance and the public account of how they came about.

    `rows` is the noisy (or public) number of rows; `start`, `steps` and `weak` say which start was used, with how many
    coarse steps, and whether the estimate is certified for the assumed condition number; `noise` has the standard
    deviations of the count, of the mean in whitened coordinates, and of the whitened covariance's diagonal.
    """

    mean: Floats
    covariance: Floats
    rows: float
    start: str
    steps: int
    weak: bool
    noise: Mapping[str, float]

    def account(self) -> dict[str, Any]:
        """Return what is public beside mean and covariance."""
        return {
            "rows": self.rows,
            "start": self.start,
            "steps": self.steps,
            "weak": self.weak,
            "noise": dict(self.noise),
        }


Asking = Generator[RowMap, Moments, GaussianEstimate]


def gaussian_steps(
    points: PublicPoints, candidates: Sequence[Start], spending: Spending, source: Source, constants: Constants
) -> Asking:
    """Estimate mean and covariance about the public centre; at least one start.

    Guarantee: the price of `spending`, for any rows, any public rows and any constants: the maps are functions of
    public numbers and of what was released before (Gaussians proof page, Theorem 1).
    """
    size, center = points.width, points.center
    final = FINAL if spending.rows is None else FINAL + COUNT  # a public number of rows costs nothing
    first = candidates[0]
    # One start: its moments are counted and used in the same pass. Two: which one to use depends on the count.
    moments = yield row_map(first.matrix, center, _clip(first, size, constants))
    rows = spending.count(moments, COUNT, source)
    chosen = course(candidates, spending, COARSE, rows, constants)
    matrix = chosen.start.matrix
    clip = chosen.start.clip or constants.covariance_clip(size, rows)
    for step in range(chosen.steps):
        share = COARSE / chosen.steps
        if step > 0 or len(candidates) > 1 or constants.version == "proven":
            moments = yield row_map(matrix, center, clip)
        noisy = spending.second(moments, share, source)
        matrix = preconditioned(
            matrix,
            noisy.value / rows,
            rows=rows,
            noise_scale=spending.second_scale(share, clip) / rows,
            constants=constants,
            relative=step == 0 and chosen.start.name == "ball",
        )
        clip = constants.covariance_clip(size, rows)
    offset, deviation = yield from mean_steps(
        matrix, center, radius=1.0, share=MEAN, rows=rows, spending=spending, source=source, constants=constants
    )
    mean = center + np.linalg.solve(matrix, offset)
    return (
        yield from last_step(
            recentred(matrix, offset),
            mean,
            share=final,
            rows=rows,
            course=chosen,
            deviation=deviation,
            spending=spending,
            source=source,
            constants=constants,
        )
    )


def mean_steps(
    matrix: Floats,
    center: Floats,
    *,
    radius: float,
    share: Fraction,
    rows: float,
    spending: Spending,
    source: Source,
    constants: Constants,
    parts: Sequence[Fraction] = MEAN_STEPS,
) -> Generator[RowMap, Moments, tuple[Floats, float]]:
    """Move from the centre to the mean in coordinates A(x - c), where it is within `radius`; return the offset.

    The second value is the standard deviation of the last step's noise on each coordinate.
    """
    size = len(center)
    offset, deviation = np.zeros(size), 0.0
    for part in parts:
        clip = constants.mean_clip(size, radius, rows)
        here = center + np.linalg.solve(matrix, offset)
        moments = yield row_map(matrix, here, clip)
        # the map subtracts the centre that floats can hold: what it was in these coordinates
        offset = offset + spending.total(moments, share * part, source).value / rows
        deviation = spending.total_deviation(share * part, clip) / rows
        radius = constants.mean_radius(size, deviation, rows)
    return offset, deviation


def last_step(
    matrix: Floats,
    mean: Floats,
    *,
    share: Fraction,
    rows: float,
    course: Course,
    deviation: float,
    spending: Spending,
    source: Source,
    constants: Constants,
) -> Asking:
    """Release the covariance about the mean, in whitened coordinates, and put everything together."""
    clip = constants.final_clip(len(mean), rows)
    moments = yield row_map(matrix, mean, clip)
    noisy = spending.second(moments, share, source)
    scale = spending.second_scale(share, clip)
    whitened = whitened_covariance(noisy, rows=rows, noise_scale=scale)
    return GaussianEstimate(
        mean=mean,
        covariance=mapped_back(matrix, whitened),
        rows=rows,
        start=course.start.name,
        steps=course.steps,
        weak=course.weak,
        noise={
            "count": spending.count_deviation(COUNT),
            "mean": deviation,
            "covariance": scale / rows,
        },
    )


def row_map(matrix: Floats, center: Floats, clip: float) -> RowMap:
    """Return the map x ↦ clip(A(x - c), clip)."""
    return RowMap.of(len(center), centre=center, matrix=matrix, radius=clip)


def _clip(start: Start, size: int, constants: Constants) -> float:
    """Return the first length to clip to; where it depends on the number of rows, that of one row, for the count."""
    return start.clip or constants.covariance_clip(size, 1.0)
