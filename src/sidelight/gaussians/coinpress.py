"""Estimates that know less: CoinPress from declared ranges (the baseline), and public rows of another population.

The covariance comes first, from differences of pairs, because the centre may be far; then the mean, in coordinates
where the rows are white.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sidelight.gaussians.gaussian_steps import COUNT, MEAN, GaussianEstimate, mean_steps
from sidelight.gaussians.point_cloud import Floats
from sidelight.gaussians.questions import Asking, about_pairs, how_many
from sidelight.gaussians.spending import Spending
from sidelight.gaussians.step_arithmetic import (
    MOST_STEPS,
    Constants,
    Course,
    Start,
    course,
    mapped_back,
    preconditioned,
    symmetric,
    whitened_covariance,
)
from sidelight.noise import Source

#: Coarse steps share this, the last has the rest.
COARSE_PART = Fraction(1, 4)
_FLOOR = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranges:
    """What is known before: A₀ with A₀ Σ A₀ᵀ ⪯ I, the condition number that leaves, a centre, and how far the mean is.

    `mean_bound` is in whitened coordinates if `white`, else in the user's units. `plain` leaves the last covariance as
    CoinPress gives it, without shrinkage.
    """

    start: Start
    centre: Floats
    mean_bound: float
    white: bool
    plain: bool


def coinpress_steps(
    known: Ranges, steps: int | None, spending: Spending, pairs: Spending, source: Source, constants: Constants
) -> Asking[GaussianEstimate]:
    """Estimate covariance from pairs, then the mean on whitened rows.

    Guarantee: the price of `spending` (Gaussians proof page, Theorems 1 and 5). `pairs` is the same price with the
    constants for replacing a vector.

    Args:
        known: The ranges.
        steps: All covariance steps, and all steps of the mean; chosen by public formula if None.
        spending, pairs: What rows and what pairs cost.
        source: Where noise comes from.
        constants: Those of the steps.
    """
    size = spending.size
    moments = yield how_many(size)
    rows = spending.count(moments, COUNT, source)
    half = max(rows / 2, 1.0)
    budget = 1 - MEAN - (COUNT if spending.rows is None else 0)
    chosen = _course(known, steps, pairs, budget * COARSE_PART, half, constants)
    matrix = known.start.matrix
    clip = constants.covariance_clip(size, half)
    for _ in range(chosen.steps):
        share = budget * COARSE_PART / chosen.steps
        moments = yield about_pairs(matrix, clip)
        with source.over(pairs=True):
            noisy = pairs.second(moments, share, source)
        scale = pairs.second_scale(share, clip) / half
        matrix = preconditioned(matrix, noisy / half, rows=half, noise_scale=scale, constants=constants)
    last = budget * (1 - COARSE_PART) if chosen.steps else budget
    clip = constants.final_clip(size, half)
    moments = yield about_pairs(matrix, clip)
    with source.over(pairs=True):
        noisy = pairs.second(moments, last, source)
    scale = pairs.second_scale(last, clip)
    if known.plain:
        values, vectors = np.linalg.eigh(symmetric(noisy / half))
        whitened = (vectors * np.maximum(values, _FLOOR)) @ vectors.T
    else:
        whitened = whitened_covariance(noisy, np.zeros(size), rows=half, noise_scale=scale, law=pairs.matrix_law)
    covariance = mapped_back(matrix, whitened)
    white = whitening(matrix, whitened)
    radius = known.mean_bound if known.white else known.mean_bound * float(np.linalg.norm(white, 2))
    parts = mean_parts(radius, steps, spending, MEAN, rows, constants)
    offset, deviation = yield from mean_steps(
        white,
        known.centre,
        radius=radius,
        share=MEAN,
        rows=rows,
        spending=spending,
        source=source,
        constants=constants,
        parts=parts,
    )
    return GaussianEstimate(
        mean=known.centre + np.linalg.solve(white, offset),
        covariance=covariance,
        rows=rows,
        start=known.start.name,
        steps=chosen.steps + 1,
        weak=chosen.weak,
        noise={"count": spending.count_deviation(COUNT), "mean": deviation, "covariance": scale / half},
    )


def whitening(matrix: Floats, whitened: Floats) -> Floats:
    """Return Z^{-1/2} A: white coordinates for the covariance A⁻¹ Z A⁻ᵀ."""
    values, vectors = np.linalg.eigh(symmetric(whitened))
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T @ matrix)


def mean_parts(
    radius: float, steps: int | None, spending: Spending, share: Fraction, rows: float, constants: Constants
) -> tuple[Fraction, ...]:
    """Return how the mean's budget is divided: as asked, or so that the last step's noise is least, by formula."""
    if steps is not None:
        return _divided(steps)
    return min(
        (_divided(count) for count in range(1, MOST_STEPS + 1)),
        key=lambda parts: _last(parts, radius, spending, share, rows, constants),
    )


def _last(
    parts: tuple[Fraction, ...], radius: float, spending: Spending, share: Fraction, rows: float, constants: Constants
) -> float:
    """Return the noise that the last step will have on each coordinate."""
    deviation = 0.0
    for part in parts:
        deviation = spending.total_deviation(share * part, constants.mean_clip(spending.size, radius, rows)) / rows
        radius = constants.mean_radius(spending.size, deviation, rows)
    return deviation


def _divided(steps: int) -> tuple[Fraction, ...]:
    if steps == 1:
        return (Fraction(1),)
    return (*([COARSE_PART / (steps - 1)] * (steps - 1)), 1 - COARSE_PART)


def _course(
    known: Ranges, steps: int | None, pairs: Spending, share: Fraction, half: float, constants: Constants
) -> Course:
    """Return the coarse steps: one less than asked for, or as many as are certified."""
    found = course([known.start], pairs, share, half, constants)
    return found if steps is None else Course(known.start, steps - 1, weak=found.weak)
