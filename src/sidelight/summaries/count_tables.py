"""From noisy counts to the table that people read: drawn towards a prediction, whole, not negative, with intervals.

Post-processing of released numbers, except `count_error`, which is public before them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.group_table import GroupTable
from sidelight.noise import Source
from sidelight.release import TailBound
from sidelight.summaries.intervals import around, gaussian_bound, laplace_bound, population_ends
from sidelight.summaries.noise_choice import Noise
from sidelight.summaries.nonnegative import readable_counts
from sidelight.summaries.predicted import Floats, Group, PredictedTable, check_single
from sidelight.summaries.shrink import best_of, shrink_counts, shrink_each

Whole = NDArray[np.int64]
#: Noise of a larger standard deviation is no count any more, and might not fit beside one.
_LARGEST_NOISE = 2.0**50


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """What is public about how noisy counts are read: a prediction, how far it may move a cell, and a confidence."""

    prediction: PredictedTable | None = None
    per_cell_cap: float | None = None
    confidence: float = 0.95
    population: bool = False

    def __post_init__(self) -> None:
        if self.per_cell_cap is not None and not (math.isfinite(self.per_cell_cap) and self.per_cell_cap > 0):
            raise RangeError(f"per_cell_cap must be a number above 0, got {self.per_cell_cap}; 1 is usual")
        if self.per_cell_cap is not None:
            check_single(self.prediction, what="per_cell_cap")

    def drawn(
        self,
        values: NDArray[Any],
        groups: Sequence[Group],
        *,
        variance: float,
        largest_eigenvalue: float | None = None,
    ) -> Floats:
        """Return noisy counts drawn towards the prediction; the same numbers without one.

        Accuracy: total squared error is not larger than without it: a theorem for Gaussian noise and a prediction that
        does not depend on it, measured for Laplace noise, for shares of the released total, and for the choice among
        several predictions, of which the one with the lowest estimated error is taken (Theorem 8). With
        `per_cell_cap` no cell's error grows by more than √(1 + cap²), whatever the noise (Theorem 9).
        """
        noisy = np.asarray(values, np.float64)
        if self.prediction is None:
            return noisy
        if self.per_cell_cap is not None:
            matched = self.prediction.on(groups).scaled_to(noisy)
            return shrink_each(noisy, matched.values, variance=variance, cap=self.per_cell_cap)
        candidates = []
        for each in (self.prediction, *self.prediction.others):
            matched = each.on(groups).scaled_to(noisy)
            drawn = shrink_counts(
                noisy,
                matched.values,
                variance=variance,
                doubt=matched.count_doubt(),
                fitted=matched.shares,
                largest_eigenvalue=largest_eigenvalue,
            )
            candidates.append(drawn)
        return (best_of(candidates, noisy) if len(candidates) > 1 else candidates[0]).values

    def columns(
        self, noisy: Whole, groups: Sequence[Group], noise: Noise, source: Source, *, name: str = "count"
    ) -> dict[str, Any]:
        """Return the columns of a table of counts with independent noise.

        Args:
            noisy: The noisy counts, one a group.
            groups: The labels of each group.
            noise: Their noise.
            source: What ties are drawn from.
            name: What the numbers that people read are called.
        """
        cells = max(1, len(groups))
        estimates = self.drawn(noisy, groups, variance=noise.variance)
        readable = readable_counts(estimates, noisy, bound=noise_bound(noise, self.confidence, cells), source=source)
        bound = noise_bound(noise, self.confidence)
        ends = population_ends(noisy, bound, confidence=self.confidence) if self.population else around(noisy, bound)
        return {
            name: readable,
            "unbiased": noisy,
            "noise_sd": np.full(len(groups), noise.sd),
            "low": np.floor(ends.low).astype(np.int64),
            "high": np.ceil(ends.high).astype(np.int64),
        }


def noise_bound(noise: Noise, confidence: float, cells: int = 1) -> int:
    """Return how far off all of these cells are at most, at this confidence: exact for the noise."""
    bound = laplace_bound if noise.kind == "laplace" else gaussian_bound
    return bound(noise.scale, confidence=confidence, cells=cells)


def count_error(noise: Noise, cells: int, *, unit: str, assumption: str) -> TailBound:
    """Return a bound on the error of all `unbiased` counts at once, for every confidence."""
    return tail_bound(noise.kind, noise.scale, cells, unit=unit, assumption=assumption)


def tail_bound(law: str, noise_scale: Any, cells: int, *, unit: str, assumption: str) -> TailBound:
    """Return a bound on whole noise in so many cells at once, for every confidence (union bound).

    Laplace: P(|Z| > t) = 2a^(t+1)/(1+a) <= (2/(1+a))·exp(-t/b). Gaussian: P(|Z| > t) <= 2·exp(-(t-½)²/2σ²), and the
    root of the logarithm lies below its tangent at 95 %.
    """
    scale = float(noise_scale)
    if law == "laplace":
        fixed, per_log = scale * math.log(2 * cells / (1 + math.exp(-1 / scale))), scale
    else:
        at = math.log(2 * cells) + math.log(20)  # √(2x) <= (x + at)/√(2 at)
        per_log = scale / math.sqrt(2 * at)
        fixed = per_log * (math.log(2 * cells) + at) + 0.5
    return TailBound(unit=unit, assumption=assumption, fixed=(fixed,), per_log=(per_log,))


def check_noise(noise: Noise) -> Noise:
    """Refuse a price that buys nothing but noise, before it is paid."""
    if noise.sd > _LARGEST_NOISE:
        raise RangeError(
            f"this price adds noise of standard deviation {noise.sd:.2g} to every count, more than any table has rows; "
            "raise epsilon, rho or mu"
        )
    noise_bound(noise, 0.5)  # arithmetic that fails for a price beyond all measure fails now
    return noise


def table_of(keys: Sequence[str], groups: Sequence[Group], columns: dict[str, Any], **notes: Any) -> GroupTable:
    """Return a table by group; what holds for all rows, and which rows count (`Groups.notes`), goes into its notes."""
    return GroupTable(keys=keys, groups=groups, columns=columns, notes=notes)


def group_labels(groups: Sequence[Group], name: str) -> tuple[str, ...]:
    """Return the names of a release's entries: its groups, or what is counted where all rows are one group."""
    return tuple(" / ".join(group) if group else name for group in groups)
