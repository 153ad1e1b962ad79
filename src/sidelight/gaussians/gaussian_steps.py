"""Mean and covariance from public rows, as a course of questions, each of which is paid for with noise.

Written as generators, which know nothing of where rows are: one table answers one generator (`answered`), the cells of
a partition answer many in the same passes (`estimate_cells`). A generator yields a `Question` and is sent `Moments`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.gaussians.exact_map import rounded
from sidelight.gaussians.point_cloud import Floats, PointCloud
from sidelight.gaussians.questions import Asking, about_rows, how_many
from sidelight.gaussians.spending import Spending
from sidelight.gaussians.step_arithmetic import (
    Constants,
    Course,
    Start,
    course,
    mapped_back,
    preconditioned,
    recentred,
    whitened_covariance,
)
from sidelight.noise import Source

#: Shares of the budget: number of rows, coarse covariance, mean, last covariance.
COUNT, COARSE, MEAN, FINAL = Fraction(3, 100), Fraction(27, 100), Fraction(22, 100), Fraction(48, 100)
#: The mean's budget in its two steps.
MEAN_STEPS = (Fraction(1, 4), Fraction(3, 4))
#: Beyond, the shortest directions of a first ball need more digits than the grid of `exact_map` has.
_GRID_CONDITION = 1e8


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


def gaussian_steps(
    points: PointCloud,
    candidates: Sequence[Start],
    spending: Spending,
    source: Source,
    constants: Constants,
    *,
    sample_rows: int | None = None,
) -> Asking[GaussianEstimate]:
    """Estimate mean and covariance about the public centre; at least one start.

    With `sample_rows`, coarse steps and the first step of the mean look at a random sample of about that many rows or
    more, and one pass over all rows gives the rest; with fewer rows than twice that, and without it, all steps look at
    all rows.

    Guarantee: the price of `spending`, for any rows, any public rows and any constants: the maps are functions of
    public numbers and of what was released before (Gaussians proof page, Theorem 1).
    """
    size, centre = points.width, points.centre
    final = FINAL if spending.rows is None else FINAL + COUNT  # a public number of rows costs nothing
    rows = spending.count((yield how_many(size)), COUNT, source)
    rate, chosen = _sampling(candidates, spending, rows, constants, sample_rows)
    some = max(rate * rows, 1.0)
    settle = rounded if chosen.start.condition <= _GRID_CONDITION else _unchanged
    matrix = settle(chosen.start.matrix)
    clip = chosen.start.clip or constants.covariance_clip(size, some)
    for step in range(chosen.steps):
        share = COARSE / chosen.steps
        moments = yield about_rows(matrix, centre, clip, rate=rate)
        noisy = spending.second(moments, share, source)
        matrix = settle(
            preconditioned(
                matrix,
                noisy / some,
                rows=some,
                noise_scale=spending.second_scale(share, clip) / some,
                constants=constants,
                relative=step == 0 and chosen.start.name == "ball",
            )
        )
        clip = constants.covariance_clip(size, some)
    parts = MEAN_STEPS if rate == 1 else MEAN_STEPS[:1]
    offset, deviation = yield from mean_steps(
        matrix,
        centre,
        radius=1.0,
        share=MEAN,
        rows=some,
        spending=spending,
        source=source,
        constants=constants,
        parts=parts,
        rate=rate,
    )
    mean = centre + np.linalg.solve(matrix, offset)
    matrix = settle(recentred(matrix, offset))
    return (
        yield from last_step(
            matrix,
            mean,
            share=final,
            mean_share=None if rate == 1 else MEAN * MEAN_STEPS[1],
            rows=rows,
            course=chosen,
            deviation=deviation,
            spending=spending,
            source=source,
            constants=constants,
        )
    )


def _sampling(
    candidates: Sequence[Start], spending: Spending, rows: float, constants: Constants, sample_rows: int | None
) -> tuple[float, Course]:
    """Choose the rate of the sample, a power of two, and the course on it; all rows where a sample is not enough."""
    rate = 1.0
    while sample_rows is not None and rate * rows >= 2 * sample_rows:
        rate /= 2
    chosen = course(candidates, spending, COARSE, max(rate * rows, 1.0), constants)
    while chosen.weak and rate < 1:
        rate *= 2
        chosen = course(candidates, spending, COARSE, rate * rows, constants)
    return rate, chosen


def _unchanged(matrix: Floats) -> Floats:
    """A map that needs more digits than a grid has."""
    return matrix


def mean_steps(
    matrix: Floats,
    centre: Floats,
    *,
    radius: float,
    share: Fraction,
    rows: float,
    spending: Spending,
    source: Source,
    constants: Constants,
    parts: Sequence[Fraction] = MEAN_STEPS,
    rate: float = 1.0,
) -> Asking[tuple[Floats, float]]:
    """Move from the centre to the mean in coordinates A(x - c), where it is within `radius`; return the offset.

    The second value is the standard deviation of the last step's noise on each coordinate.
    """
    size = len(centre)
    offset, deviation = np.zeros(size), 0.0
    for part in parts:
        clip = constants.mean_clip(size, radius, rows)
        here = centre + np.linalg.solve(matrix, offset)
        moments = yield about_rows(matrix, here, clip, rate=rate, second=False)
        offset = offset + spending.total(moments, share * part, source) / rows
        deviation = spending.total_deviation(share * part, clip) / rows
        radius = constants.mean_radius(size, deviation, rows)
    return offset, deviation


def last_step(
    matrix: Floats,
    mean: Floats,
    *,
    share: Fraction,
    mean_share: Fraction | None,
    rows: float,
    course: Course,
    deviation: float,
    spending: Spending,
    source: Source,
    constants: Constants,
) -> Asking[GaussianEstimate]:
    """Release the covariance about the mean, in whitened coordinates, and put everything together.

    With a `mean_share` the mean is that of a sample, and the same pass moves it to that of all rows.
    """
    clip = constants.final_clip(len(mean), rows)
    moments = yield about_rows(matrix, mean, clip)
    noisy = spending.second(moments, share, source)
    scale = spending.second_scale(share, clip)
    offset = np.zeros(len(mean))
    if mean_share is not None:
        offset = spending.total(moments, mean_share, source) / rows
        deviation = spending.total_deviation(mean_share, clip) / rows
        mean = mean + np.linalg.solve(matrix, offset)
    whitened = whitened_covariance(noisy, offset, rows=rows, noise_scale=scale, law=spending.matrix_law)
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
