"""RW-Meta against RW-FTPL on the drifting example: a bump of gain that wanders around 24 actions."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.baselines.experts import simulate_meta, simulate_rotating_gains

SENSITIVITY = math.sqrt(2) / 8


def gains(mu: float, *, seeds: int = 20, runs: int = 5, rounds: int = 148, floor: float = 2.0) -> tuple[float, ...]:
    """Return the mean total gain of RW-Meta, RW-FTPL, the best learner and the best fixed action."""
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        true = simulate_rotating_gains(actions=24, rounds=rounds, rng=rng)
        scale = 0.0 if math.isinf(mu) else SENSITIVITY / mu
        meta = simulate_meta(true, noise_scale=scale, runs=runs, rng=rng, floor=floor)
        best = meta.learner_gains.mean(axis=0).max()
        found.append((meta.gain.mean(), meta.ftpl_gain.mean(), best, true.sum(axis=0).max()))
    return tuple(float(each) for each in np.mean(found, axis=0))


def measure() -> dict[str, float]:
    """Return how much more RW-Meta gains than RW-FTPL."""
    at_one, at_quarter = gains(1.0), gains(0.25)
    return {"drift_meta_vs_ftpl": at_one[0] / at_one[1], "drift_meta_vs_ftpl_quarter": at_quarter[0] / at_quarter[1]}


if __name__ == "__main__":
    for mu in (math.inf, 1.0, 0.5, 0.25):
        print(f"mu {mu}: " + "  ".join(f"{each:.1f}" for each in gains(mu)))
