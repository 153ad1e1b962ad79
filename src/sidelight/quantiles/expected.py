"""The error that a release of quantiles states about itself: a bound in ranks under one public assumption."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sidelight.grid import Grid
from sidelight.predictions import CompiledPrior, Prior, ScaleFree, Uniform
from sidelight.quantiles.bounds import Adaptation, gap_bounds_tree, gap_coefficients
from sidelight.quantiles.tree import QuantileTree, Score
from sidelight.release import TailBound

#: The assumed relative distance between the two records around a quantile when every scale is alike.
RELATIVE_STEP = 2.0**-20
#: The prior's outermost share on either side that the quantile is assumed not to lie in.
OUTER = 200


def expected_gap(
    tree: QuantileTree,
    priors: Sequence[Prior],
    compiled: Sequence[CompiledPrior],
    grid: Grid,
    *,
    adaptation: Adaptation,
    score: Score,
) -> TailBound:
    """Bound the error of all levels at once, in ranks, at any confidence.

    Accuracy: `gap_bounds_tree` with psi from the assumption that the text of the result states; the bound is
    E_i = fixed_i + per_log_i * log(1/failure probability) because every node shares L = log(sum 1/psi) + log(1/beta).
    """
    masses = [_assumed_mass(prior, each, grid) for prior, each in zip(priors, compiled, strict=True)]
    per_log = gap_coefficients(tree, adaptation=adaptation, score=score)
    at_half = gap_bounds_tree(tree, beta=0.5, psi=masses, adaptation=adaptation, score=score)
    fixed = tuple(bound - slope * math.log(2) for bound, slope in zip(at_half, per_log, strict=True))
    return TailBound(unit="ranks", assumption=_assumption(priors, grid), fixed=fixed, per_log=per_log)


def _assumed_mass(prior: Prior, compiled: CompiledPrior, grid: Grid) -> float:
    if isinstance(prior, ScaleFree):
        return RELATIVE_STEP / prior.cells(grid)
    step = 1 if grid.snap == "nearest" else 1 << grid.dither_bits  # ties are spread over the fine indices of a step
    ends = (compiled.inverse(compiled.total // OUTER), compiled.inverse(compiled.total - 1 - compiled.total // OUTER))
    lowest = min(_mass_of_step(compiled, end, step) for end in ends)
    return max(lowest / compiled.total, 2.0**-200)


def _mass_of_step(compiled: CompiledPrior, index: int, step: int) -> int:
    start = max(compiled.first, min(index - index % step, compiled.last + 1 - step))
    return compiled.cumulative(start + step) - compiled.cumulative(start)


def _assumption(priors: Sequence[Prior], grid: Grid) -> str:
    spread = " (ties spread over their step)" if grid.snap == "nearest" else ""
    if isinstance(priors[0], ScaleFree):
        return f"the two records around each quantile differ by at least one part in a million{spread}"
    apart = (
        "at most about a million records share one value"
        if grid.snap == "nearest"
        else f"the two records around each quantile are at least {float(grid.resolution):.3g} apart"
    )
    if all(isinstance(prior, Uniform) for prior in priors):
        return apart
    return f"{apart} and no quantile lies in the outer half percents of the prediction"
