"""Runs of RW-AdaBatch, from one absorption to the next: the noise of a batch is one draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.baselines.experts.ftpl import checked_gains
from sidelight.errors import RangeError
from sidelight.experts.adabatch import DelayRule
from sidelight.experts.player import Floats


@dataclass(frozen=True, kw_only=True)
class SimulatedBatches:
    """What each run gained, how many batches it absorbed, and the batch size of the reports that were asked for.

    `sizes[r, i]` is the size of the batch that held the report of round `times[i]` in run r.
    """

    gain: Floats
    batches: NDArray[np.int64]
    times: tuple[int, ...]
    sizes: NDArray[np.int64]


def simulate_adabatch(
    rule: DelayRule,
    *,
    rounds: int,
    runs: int,
    rng: np.random.Generator,
    gains: ArrayLike | None = None,
    times: Sequence[int] = (),
) -> SimulatedBatches:
    """Run RW-AdaBatch `runs` times on T x n gains, all zero (the worst case for privacy) if none are given."""
    n = rule.actions
    if gains is None:
        cumulative = None
    else:
        true = checked_gains(gains)
        if true.shape != (rounds, n):
            raise RangeError(f"gains must have shape {(rounds, n)}, got {true.shape}")
        cumulative = np.concatenate([np.zeros((1, n)), np.cumsum(true, axis=0)])
    total, batches = np.zeros(runs), np.zeros(runs, dtype=np.int64)
    sizes = np.zeros((runs, len(times)), dtype=np.int64)
    active = np.arange(runs)
    sums = rule.noise_scale * rng.standard_normal((runs, n))
    now, size = np.zeros(runs, dtype=np.int64), np.ones(runs, dtype=np.int64)  # the first batch has one report
    while active.size:
        end = now + size
        if cumulative is not None:
            last = np.minimum(end, rounds)
            batch = cumulative[last] - cumulative[now]
            total[active] += batch[np.arange(active.size), np.argmax(sums, axis=1)]
            sums += batch
        for place, time in enumerate(times):
            held = (now < time) & (time <= end)
            sizes[active[held], place] = size[held]
        batches[active] += 1
        alive = end < rounds
        if not alive.all():
            active, sums, end, size = active[alive], sums[alive], end[alive], size[alive]
            if not active.size:
                break
        sums += (rule.noise_scale * np.sqrt(size))[:, None] * rng.standard_normal((active.size, n))
        top = np.partition(sums, n - 2, axis=1)[:, -2:]
        now, size = end, rule.delay(top[:, 1] - top[:, 0], end) + 1
    return SimulatedBatches(gain=total, batches=batches, times=tuple(times), sizes=sizes)
