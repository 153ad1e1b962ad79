"""Where private steps start: a preconditioner from public rows, and how many steps it takes from there.

Everything here is a function of public rows, public numbers and the released number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Literal

import numpy as np

from sidelight.errors import RangeError
from sidelight.gaussians.constants import Constants
from sidelight.gaussians.public_bounds import bracket
from sidelight.gaussians.public_rows import Floats, PublicPoints
from sidelight.gaussians.spending import Spending

StartName = Literal["ball", "precond", "ranges"]
#: More steps than this never help: each has too small a share.
MOST_STEPS = 10
#: A step must shrink what is left of the condition number at least by this.
_SHRINKS = 0.8
_SMALLEST_RADIUS = 1e-30


@dataclass(frozen=True, eq=False)
class Start:
    """A first preconditioner with A Σ Aᵀ ⪯ I, the length its rows are clipped to, and the condition number it leaves.

    `clip` is None where it is that of all later steps.
    """

    name: StartName
    matrix: Floats
    condition: float
    clip: float | None = None


@dataclass(frozen=True, eq=False)
class Course:
    """A start and a number of steps; `weak` where no number of steps is certified for its condition number."""

    start: Start
    steps: int
    weak: bool


def starts(points: PublicPoints, constants: Constants, *, condition: float, scale: float | None) -> tuple[Start, ...]:
    """Return the starts that these public rows allow: a ball from two rows on, their own shape from d + 1 rows on.

    Raises:
        RangeError: a single row (or copies of one) and no `scale`; too few rows for the proven constants.
    """
    size, distinct = points.width, points.distinct
    found = []
    whitening = points.whitening()
    if whitening is not None:
        known = bracket(size, distinct, constants.chance)
        # about the public centre the second moment is Σ + δδᵀ ⪯ (1 + o²)Σ; 2 covers it in practice
        spread = 1 + known.offset if constants.version == "proven" else 2.0
        found.append(Start("precond", whitening / sqrt(spread * known.upper), spread * known.upper / known.lower))
    if constants.version == "proven":
        if not found:
            raise RangeError(
                f"the proven constants want {size + 1} public rows that span all {size} columns, got {distinct} "
                "different ones; constants='practical' works from two rows on"
            )
        return tuple(found)
    trace = points.trace
    if trace > 0:
        radius = sqrt(trace * (1 + 1 / distinct)) * (1.5 + 2 / sqrt(distinct - 1))
    elif scale is not None:
        radius = 2 * scale
    else:
        raise RangeError(
            "one public row (or copies of one) has no scale; pass scale=..., an upper guess of the root of the summed "
            "variances of all columns, or a second public row"
        )
    if not radius > _SMALLEST_RADIUS:
        raise RangeError("the public rows differ by less than 1e-30; change the unit of the columns")
    # columns of very different units contradict a small condition number, and public rows show them
    found.append(Start("ball", np.eye(size) / radius, min(max(condition, points.ratio), 1e20) * size, clip=1.0))
    return tuple(found)


def shrinkage(spending: Spending, share: Fraction, steps: int, rows: float, constants: Constants) -> float:
    """Return x = η + ν of a step when so many share the budget: what it multiplies the condition number by."""
    size = spending.size
    scale = spending.second_scale(share / steps, constants.covariance_clip(size, rows)) / rows
    return constants.sampling_error(size, rows) + constants.noise_error(size, scale)


def certified_steps(
    condition: float, spending: Spending, share: Fraction, rows: float, constants: Constants
) -> int | None:
    """Return the smallest number of steps with K x^t <= 1 and x < 0.8; None if ten are too few."""
    for steps in range(1, MOST_STEPS + 1):
        left = shrinkage(spending, share, steps, rows, constants)
        if left < _SHRINKS and condition * left**steps <= 1:
            return steps
    return None


def course(
    candidates: Sequence[Start], spending: Spending, share: Fraction, rows: float, constants: Constants
) -> Course:
    """Choose the start that takes the fewest steps; if none is certified, the best known one, flagged as weak."""
    counts = [certified_steps(each.condition, spending, share, rows, constants) for each in candidates]
    certified = [
        (count, each.condition, place)
        for place, (count, each) in enumerate(zip(counts, candidates, strict=True))
        if count
    ]
    if certified:
        count, _, place = min(certified)
        return Course(candidates[place], count, weak=False)
    return Course(min(candidates, key=lambda each: each.condition), 2, weak=True)
