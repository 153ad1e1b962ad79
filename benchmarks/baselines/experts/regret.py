"""What a simulated run gained and lost, from true gains, and the intervals of a table of such runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError


@dataclass(frozen=True, kw_only=True)
class Account:
    """What a simulated run gained, and what it might have gained. True gains: for simulation only."""

    gain: float
    best_action_gain: float
    best_each_round: float
    switches: int

    @property
    def static_regret(self) -> float:
        """The best fixed action's gain minus the run's; negative where following the drift paid."""
        return self.best_action_gain - self.gain

    def regret_against(self, learner_gains: ArrayLike) -> float:
        """The best learner's gain minus the run's."""
        return float(np.max(learner_gains)) - self.gain


def account(gains: ArrayLike, actions: ArrayLike) -> Account:
    """Account for a run that played `actions` (T indices) on true `gains` (T x n)."""
    true = np.asarray(gains, dtype=np.float64)
    played: NDArray[np.int64] = np.asarray(actions, dtype=np.int64)
    if true.ndim != 2 or played.shape != true.shape[:1]:
        raise RangeError(f"gains must be T x n with T actions, got shapes {true.shape} and {played.shape}")
    return Account(
        gain=float(true[np.arange(len(true)), played].sum()),
        best_action_gain=float(true.sum(axis=0).max()),
        best_each_round=float(true.max(axis=1).sum()),
        switches=int((np.diff(played) != 0).sum()),
    )


def half_width(values: ArrayLike, *, cells: int = 1, level: float = 0.05) -> float:
    """Return z sd/√runs for one of `cells` cells of a table, so that all of them hold together (Bonferroni)."""
    from scipy.special import ndtri

    runs = np.asarray(values, dtype=np.float64)
    return -float(ndtri(level / 2 / cells)) * float(runs.std(ddof=1)) / math.sqrt(runs.size)
