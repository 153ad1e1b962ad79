"""Ratios of medians with their spread: how much larger one list of errors is than another, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES, CONFIDENCE = 2000, 0.95
#: With fewer trials than this on either side no winner is named.
LEAST_TRIALS = 10


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians, the interval in which it lies with 95 % confidence, and the smaller number of trials."""

    value: float
    lower: float
    upper: float
    trials: int

    @property
    def verdict(self) -> str:
        """Who is better, as far as the interval says; smaller errors are."""
        if self.trials < LEAST_TRIALS:
            return "too few trials"
        if self.lower > 1:
            return "behind"
        return "ahead" if self.upper < 1 else "level"


def ratio_of_medians(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Return the ratio of the medians with its bootstrap interval, both lists drawn again by themselves.

    >>> ratio_of_medians([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])
    Ratio(value=0.5, lower=0.5, upper=0.5, trials=3)
    """
    rng = np.random.default_rng(20)
    first, second = (np.asarray(each, dtype=np.float64) for each in (ours, theirs))
    medians = [np.median(rng.choice(each, (RESAMPLES, len(each))), axis=1) for each in (first, second)]
    tail = (1 - CONFIDENCE) / 2
    value = float(_divided(np.median(first), np.median(second)))
    lower, upper = np.quantile(_divided(*medians), [tail, 1 - tail], method="nearest")
    return Ratio(value, float(lower), float(upper), min(len(first), len(second)))


def _divided(ours: Any, theirs: Any) -> Any:
    """Return a ratio; two errors of 0, and two answers that never came, are alike."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(ours == theirs, 1.0, np.divide(ours, theirs))
