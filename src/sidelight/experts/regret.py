"""Regret: what theory promises, and what a deployment may say without knowing true gains."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sidelight.experts.player import Floats

#: To be printed with `meta_bound`.
META_CAVEAT = (
    "a guide, not a theorem, for learners that look at the reports: the proof treats the accumulated noise as "
    "independent of their later actions"
)


def ftpl_bound(*, actions: int, rounds: int, noise_scale: float, gain_range: float = 1.0) -> float:
    """Bound the expected regret of RW-FTPL: (η + 2c²/η) √(2 T ln n); least, 4c √(T ln n), at η = √2 c.

    >>> round(ftpl_bound(actions=24, rounds=148, noise_scale=0.5), 4)
    138.019
    """
    c = gain_range
    return (noise_scale + 2 * c * c / noise_scale) * math.sqrt(2 * rounds * math.log(actions))


def adabatch_bound(
    *, actions: int, rounds: int, noise_scale: float, tolerance: float = 0.01, gain_range: float = 1.0
) -> float:
    """Bound the expected regret of RW-AdaBatch: that of RW-FTPL plus 2 a c √(T ln n)."""
    plain = ftpl_bound(actions=actions, rounds=rounds, noise_scale=noise_scale, gain_range=gain_range)
    return plain + 2 * tolerance * gain_range * math.sqrt(rounds * math.log(actions))


def meta_bound(
    *, learners: int, rounds: int, largest_eigenvalue: float, floor: float = 2.0, gain_range: float = 1.0
) -> float:
    """Bound the expected regret of RW-Meta against its best learner; see `META_CAVEAT`.

    [max(√c, √(λ_max(S_T)/T)) + 2g²/√c] √(2 T ln m), g the range of the gains.

    >>> round(meta_bound(learners=13, rounds=148, largest_eigenvalue=0.0), 4)
    77.9346
    """
    noise = max(math.sqrt(floor), math.sqrt(largest_eigenvalue / rounds))
    return (noise + 2 * gain_range**2 / math.sqrt(floor)) * math.sqrt(2 * rounds * math.log(learners))


@dataclass(frozen=True, kw_only=True)
class NoisyAccount:
    """What a deployment knows of its gain from noisy reports alone.

    `gain` is unbiased with standard error `standard_error`. The best fixed action's gain is overestimated by the
    largest noisy sum; `best_action_at_least` is a lower confidence bound, at level 1 - p for all actions together.
    """

    gain: float
    standard_error: float
    best_action_at_least: float


def noisy_account(
    sums: ArrayLike, *, played_gain: float, rounds: int, noise_scale: float, failure: float = 0.025
) -> NoisyAccount:
    """Account for a deployment: `sums` are G with their initial draw, `played_gain` the sum of played entries."""
    from scipy.special import ndtri

    totals: Floats = np.asarray(sums, dtype=np.float64)
    z = -float(ndtri(failure / totals.size))
    return NoisyAccount(
        gain=played_gain,
        standard_error=noise_scale * math.sqrt(rounds),
        best_action_at_least=float(totals.max()) - z * noise_scale * math.sqrt(rounds + 1),
    )
