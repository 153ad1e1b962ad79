"""The error that a release of quantiles states about itself: a bound in ranks under one public assumption."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sidelight.grid import CODE_LIMIT, FloatGrid, Outcomes
from sidelight.predictions import Mixture, Prior, ScaleFree
from sidelight.quantiles.bounds import Adaptation, gap_bounds_tree, gap_coefficients
from sidelight.quantiles.tree import QuantileTree, Score
from sidelight.release import TailBound

#: The share of the prior that the gap around a quantile is assumed to hold: that of one gap among so many records. It
#: is an assumption about how close records lie, and must never be their number, which is private.
ASSUMED_RECORDS = 2**24
#: What a grid of floats adds, in ranks: a record that shares a code with the released value. Under the assumption two
#: different ones never do (a code is 2**-48 of a power of two), so it is one at most.
FLOAT_SHARE = 1.0


def expected_gap(
    tree: QuantileTree,
    priors: Sequence[Prior],
    grid: Outcomes,
    *,
    adaptation: Adaptation,
    score: Score,
    size: int | None = None,
) -> TailBound:
    """Bound the error of all levels at once, in ranks, at any confidence.

    Accuracy: `gap_bounds_tree` with psi from the assumption that the text of the result states, and the grid's own
    share; the bound is E_i = fixed_i + per_log_i * log(1/failure probability) because every node shares
    L = log(sum 1/psi) + log(1/beta). `size` is a public number of records, declared or released: never the true one.
    """
    records = max(ASSUMED_RECORDS, 2 * (size or 0))
    masses = [1 / (records * _cells(prior, grid)) for prior in priors]
    per_log = gap_coefficients(tree, adaptation=adaptation, score=score)
    at_half = gap_bounds_tree(tree, beta=0.5, psi=masses, adaptation=adaptation, score=score)
    share = FLOAT_SHARE if isinstance(grid, FloatGrid) else 0.0
    fixed = tuple(bound - slope * math.log(2) + share for bound, slope in zip(at_half, per_log, strict=True))
    return TailBound(unit="ranks", assumption=_assumption(priors, grid, records), fixed=fixed, per_log=per_log)


def _cells(prior: Prior, grid: Outcomes) -> float:
    """Return how many powers of two a prior that knows nothing spreads its mass over; 1 for a prediction."""
    if isinstance(prior, ScaleFree):
        return prior.cells(grid) / prior.share_of_cells(grid)
    if isinstance(prior, Mixture) and prior.conditioned == "parts":
        return max(_cells(part, grid) / weight for part, weight in zip(prior.priors, prior.weights, strict=True))
    return 1.0


def _assumption(priors: Sequence[Prior], grid: Outcomes, records: int) -> str:
    blind = any(_cells(prior, grid) > 1 for prior in priors)
    if blind and isinstance(grid, FloatGrid):
        return (
            f"records near each quantile, below 2^41 in size, lie as far apart as {records:,} spread over a factor of "
            "two (or over a millionth around zero) would, or are whole numbers below that"
        )
    spread = "spread over a factor of two" if blind else "spread as predicted"
    cut = ""
    if not isinstance(grid, FloatGrid) and (grid.first == -CODE_LIMIT or grid.last == CODE_LIMIT):
        cut = f", below {float(CODE_LIMIT * grid.resolution):.2g} in size,"  # beyond 2**61 steps records are clamped
    text = f"records near each quantile{cut} lie as far apart as {records:,} {spread} would"
    if isinstance(grid, FloatGrid):
        return text + " and do not repeat"
    return text if grid.snap == "nearest" else text + "; values are rounded down to the step"
