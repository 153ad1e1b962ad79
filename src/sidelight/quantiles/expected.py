"""The error that a release of quantiles states about itself: a bound in ranks under one public assumption."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sidelight.grid import Grid
from sidelight.predictions import Prior, ScaleFree
from sidelight.quantiles.bounds import Adaptation, gap_bounds_tree, gap_coefficients
from sidelight.quantiles.tree import QuantileTree, Score
from sidelight.release import TailBound

#: The share of the prior that the gap around a quantile is assumed to hold: that of one gap among so many records.
ASSUMED_RECORDS = 100_000


def expected_gap(
    tree: QuantileTree, priors: Sequence[Prior], grid: Grid, *, adaptation: Adaptation, score: Score
) -> TailBound:
    """Bound the error of all levels at once, in ranks, at any confidence.

    Accuracy: `gap_bounds_tree` with psi from the assumption that the text of the result states; the bound is
    E_i = fixed_i + per_log_i * log(1/failure probability) because every node shares L = log(sum 1/psi) + log(1/beta).
    """
    masses = [_assumed_mass(prior, grid) for prior in priors]
    per_log = gap_coefficients(tree, adaptation=adaptation, score=score)
    at_half = gap_bounds_tree(tree, beta=0.5, psi=masses, adaptation=adaptation, score=score)
    fixed = tuple(bound - slope * math.log(2) for bound, slope in zip(at_half, per_log, strict=True))
    return TailBound(unit="ranks", assumption=_assumption(priors), fixed=fixed, per_log=per_log)


def _assumed_mass(prior: Prior, grid: Grid) -> float:
    octaves = prior.cells(grid) if isinstance(prior, ScaleFree) else 1
    return 1 / (ASSUMED_RECORDS * octaves)


def _assumption(priors: Sequence[Prior]) -> str:
    if any(isinstance(prior, ScaleFree) for prior in priors):
        return f"records near each quantile lie as far apart as {ASSUMED_RECORDS:,} spread over a factor of two would"
    return f"records near each quantile lie as far apart as {ASSUMED_RECORDS:,} spread as predicted would"
