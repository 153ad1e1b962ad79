"""Mean and covariance from public rows, as adaptive plans of measurement requests, each paid for with noise.

A plan is a generator that yields a `MeasurementRequest` and is sent `Moments`: one table answers one plan (`run_plan`),
the cells of a partition answer many in the same passes (`estimate_cells`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.gaussians.exact_map import rounded
from sidelight.gaussians.mean_error import COUNT, LastStep
from sidelight.gaussians.point_cloud import Floats, PointCloud
from sidelight.gaussians.row_reader import MeasurementPlan, request_count, request_pairs, request_rows
from sidelight.gaussians.step_arithmetic import (
    MOST_STEPS,
    BudgetSplit,
    Constants,
    Preconditioner,
    StepSchedule,
    choose_schedule,
    mapped_back,
    preconditioned,
    recentred,
    symmetric,
    whitened_covariance,
)
from sidelight.mechanisms.additive import Law
from sidelight.noise import Source

#: Shares of the budget after that of the number of rows: coarse covariance, mean, last covariance.
COARSE, MEAN, FINAL = Fraction(27, 100), Fraction(22, 100), Fraction(48, 100)
#: The mean's budget in its two steps.
MEAN_STEPS = (Fraction(1, 4), Fraction(3, 4))
#: Beyond, the shortest directions of a first ball need more digits than the grid of `exact_map` has.
_GRID_CONDITION = 1e8
#: No step of the mean goes further, in standard deviations.
FARTHEST = 2.0**80


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianEstimate:
    """A released mean and covariance and the public account of how they came about.

    `rows` is the noisy (or public) number of rows; `start`, `steps` and `weak` say which start was used, with how many
    coarse steps, and whether the estimate is certified for the assumed condition number; `noise` has the standard
    deviations of the count, of the mean in whitened coordinates, and of the whitened covariance's diagonal; `last` is
    what the error of the mean follows from.
    """

    mean: Floats
    covariance: Floats
    rows: float
    start: str
    steps: int
    weak: bool
    noise: Mapping[str, float]
    last: LastStep

    def account(self) -> dict[str, Any]:
        """Return the public numbers that go with mean and covariance."""
        return {
            "rows": self.rows,
            "start": self.start,
            "steps": self.steps,
            "weak": self.weak,
            "noise": dict(self.noise),
        }


def gaussian_steps(
    points: PointCloud,
    candidates: Sequence[Preconditioner],
    split: BudgetSplit,
    source: Source,
    constants: Constants,
    *,
    sample_rows: int | None = None,
) -> MeasurementPlan[GaussianEstimate]:
    """Estimate mean and covariance about the public centre; at least one start.

    With `sample_rows`, coarse steps and the first step of the mean look at a random sample of about that many rows or
    more, and one pass over all rows gives the rest; with fewer rows than twice that, and without it, all steps look at
    all rows.

    Guarantee: the price of `split`, for any rows, any public rows and any constants: the maps are functions of
    public numbers and of what was released before (Gaussians proof page, Theorem 1).
    """
    size, centre = points.width, points.centre
    final = FINAL if split.rows is None else FINAL + COUNT  # a public number of rows costs nothing
    rows = split.count((yield request_count(size)), COUNT, source)
    rate, chosen = _sampling(candidates, split, rows, constants, sample_rows)
    some = max(rate * rows, 1.0)
    settle = rounded if chosen.start.condition <= _GRID_CONDITION else _unchanged
    matrix = settle(chosen.start.matrix)
    clip = chosen.start.clip or constants.covariance_clip(size, some)
    for step in range(chosen.steps):
        share = COARSE / chosen.steps
        moments = yield request_rows(matrix, centre, clip, rate=rate)
        noisy = split.second(moments, share, source)
        matrix = settle(
            preconditioned(
                matrix,
                noisy / some,
                rows=some,
                noise_scale=split.second_scale(share, clip) / some,
                constants=constants,
                relative=step == 0 and chosen.start.name == "ball",
            )
        )
        clip = constants.covariance_clip(size, some)
    parts = MEAN_STEPS if rate == 1 else MEAN_STEPS[:1]
    offset, last = yield from mean_steps(
        matrix, centre, split, source, constants, radius=1.0, share=MEAN, rows=some, parts=parts, rate=rate
    )
    mean = centre + np.linalg.solve(matrix, offset)
    matrix = settle(recentred(matrix, offset))
    clip = constants.final_clip(size, rows)
    moments = yield request_rows(matrix, mean, clip)
    noisy = split.second(moments, final, source)
    scale = split.second_scale(final, clip)
    offset = np.zeros(size)
    if rate < 1:  # the mean is that of a sample, and the same pass moves it to that of all rows
        share = MEAN * MEAN_STEPS[1]
        offset = split.total(moments, share, source) / rows
        last = LastStep(matrix=matrix, moved=offset, clip=clip, share=share, rows=rows)
        mean = mean + np.linalg.solve(matrix, offset)
    whitened = whitened_covariance(noisy, offset, rows=rows, noise_scale=scale, law=split.matrix_law)
    covariance = mapped_back(matrix, whitened)
    return GaussianEstimate(
        mean=mean,
        covariance=covariance,
        rows=rows,
        start=chosen.start.name,
        steps=chosen.steps,
        weak=chosen.weak,
        noise={"count": split.count_deviation(COUNT), "mean": last.deviation(split), "covariance": scale / rows},
        last=last.of_estimate(covariance, scale / rows),
    )


def _sampling(
    candidates: Sequence[Preconditioner], split: BudgetSplit, rows: float, constants: Constants, sample_rows: int | None
) -> tuple[float, StepSchedule]:
    """Choose the rate of the sample, a power of two, and the schedule on it; all rows where a sample is not enough."""
    rate = 1.0
    while sample_rows is not None and rate * rows >= 2 * sample_rows:
        rate /= 2
    chosen = choose_schedule(candidates, split, COARSE, max(rate * rows, 1.0), constants)
    while chosen.weak and rate < 1:
        rate *= 2
        chosen = choose_schedule(candidates, split, COARSE, rate * rows, constants)
    return rate, chosen


def _unchanged(matrix: Floats) -> Floats:
    """A map that needs more digits than a grid has."""
    return matrix


def mean_steps(
    matrix: Floats,
    centre: Floats,
    split: BudgetSplit,
    source: Source,
    constants: Constants,
    *,
    radius: float,
    share: Fraction,
    rows: float,
    parts: Sequence[Fraction],
    rate: float = 1.0,
) -> MeasurementPlan[tuple[Floats, LastStep]]:
    """Move from the centre to the mean in coordinates A(x - c), where it is within `radius`; return the offset.

    The second value is the last step, which the error of the mean follows from.
    """
    size = len(centre)
    offset = np.zeros(size)
    for part in parts:
        # noise of a hopeless price makes every radius larger than the one before: both stop where maps can hold them
        clip = min(constants.mean_clip(size, radius, rows), FARTHEST)
        here = centre + np.linalg.solve(matrix, offset)
        moments = yield request_rows(matrix, here, clip, rate=rate, second=False)
        moved = split.total(moments, share * part, source) / rows
        last = LastStep(matrix=matrix, moved=moved, clip=clip, share=share * part, rows=rows)
        offset = np.clip(offset + moved, -FARTHEST, FARTHEST)
        radius = constants.mean_radius(size, last.deviation(split), rows)
    return offset, last


# Where less is known (public rows of another population, or declared ranges), the covariance comes first, from
# differences of pairs, because the centre may be far; then the mean, in coordinates where the rows are white.

#: Coarse steps share this, the last has the rest.
COARSE_PART = Fraction(1, 4)


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownRanges:
    """What is known before: A₀ with A₀ Σ A₀ᵀ ⪯ I, the condition number that leaves, a centre, and how far the mean is.

    `mean_bound` is in whitened coordinates if `white`, else in the user's units.
    """

    start: Preconditioner
    centre: Floats
    mean_bound: float
    white: bool = True

    def whitened(self, noisy: Floats, *, rows: float, noise_scale: float, law: Law) -> Floats:
        """Return the covariance of whitened differences, shrunk and floored."""
        return whitened_covariance(noisy, np.zeros(len(noisy)), rows=rows, noise_scale=noise_scale, law=law)


def pair_steps(
    known: KnownRanges, steps: int | None, split: BudgetSplit, pairs: BudgetSplit, source: Source, constants: Constants
) -> MeasurementPlan[GaussianEstimate]:
    """Estimate covariance from pairs, then the mean on whitened rows.

    Guarantee: the price of `split` (Gaussians proof page, Theorems 1 and 5). `pairs` is the same price with the
    constants for replacing a vector; `steps` are all covariance steps, and all steps of the mean, chosen by public
    formula if None.
    """
    size = split.size
    moments = yield request_count(size)
    rows = split.count(moments, COUNT, source)
    half = max(rows / 2, 1.0)
    budget = 1 - MEAN - (COUNT if split.rows is None else 0)
    chosen = _schedule(known, steps, pairs, budget * COARSE_PART, half, constants)
    matrix = known.start.matrix
    clip = constants.covariance_clip(size, half)
    for _ in range(chosen.steps):
        share = budget * COARSE_PART / chosen.steps
        moments = yield request_pairs(matrix, clip)
        with source.over(pairs=True):
            noisy = pairs.second(moments, share, source)
        scale = pairs.second_scale(share, clip) / half
        matrix = preconditioned(matrix, noisy / half, rows=half, noise_scale=scale, constants=constants)
    rest = budget * (1 - COARSE_PART) if chosen.steps else budget
    clip = constants.final_clip(size, half)
    moments = yield request_pairs(matrix, clip)
    with source.over(pairs=True):
        noisy = pairs.second(moments, rest, source)
    scale = pairs.second_scale(rest, clip)
    whitened = known.whitened(noisy, rows=half, noise_scale=scale, law=pairs.matrix_law)
    covariance = mapped_back(matrix, whitened)
    white = whitening(matrix, whitened)
    radius = known.mean_bound if known.white else known.mean_bound * float(np.linalg.norm(white, 2))
    parts = mean_parts(radius, steps, split, MEAN, rows, constants)
    offset, last = yield from mean_steps(
        white, known.centre, split, source, constants, radius=radius, share=MEAN, rows=rows, parts=parts
    )
    return GaussianEstimate(
        mean=known.centre + np.linalg.solve(white, offset),
        covariance=covariance,
        rows=rows,
        start=known.start.name,
        steps=chosen.steps + 1,
        weak=chosen.weak,
        noise={"count": split.count_deviation(COUNT), "mean": last.deviation(split), "covariance": scale / half},
        last=last.of_estimate(covariance, scale / half),
    )


def whitening(matrix: Floats, whitened: Floats) -> Floats:
    """Return Z^{-1/2} A: white coordinates for the covariance A⁻¹ Z A⁻ᵀ."""
    values, vectors = np.linalg.eigh(symmetric(whitened))
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T @ matrix)


def mean_parts(
    radius: float, steps: int | None, split: BudgetSplit, share: Fraction, rows: float, constants: Constants
) -> tuple[Fraction, ...]:
    """Return how the mean's budget is divided: as asked, or so that the last step's noise is least, by formula."""
    if steps is not None:
        return _divided(steps)
    return min(
        (_divided(count) for count in range(1, MOST_STEPS + 1)),
        key=lambda parts: _last(parts, radius, split, share, rows, constants),
    )


def _last(
    parts: tuple[Fraction, ...], radius: float, split: BudgetSplit, share: Fraction, rows: float, constants: Constants
) -> float:
    """Return the noise that the last step will have on each coordinate."""
    deviation = 0.0
    for part in parts:
        deviation = split.total_deviation(share * part, constants.mean_clip(split.size, radius, rows)) / rows
        radius = constants.mean_radius(split.size, deviation, rows)
    return deviation


def _divided(steps: int) -> tuple[Fraction, ...]:
    if steps == 1:
        return (Fraction(1),)
    return (*([COARSE_PART / (steps - 1)] * (steps - 1)), 1 - COARSE_PART)


def _schedule(
    known: KnownRanges, steps: int | None, pairs: BudgetSplit, share: Fraction, half: float, constants: Constants
) -> StepSchedule:
    """Return the coarse steps: one less than asked for, or as many as are certified."""
    found = choose_schedule([known.start], pairs, share, half, constants)
    return found if steps is None else StepSchedule(known.start, steps - 1, weak=found.weak)
