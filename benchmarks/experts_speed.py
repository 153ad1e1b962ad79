"""Simulators: seconds for 1000 runs of 10,000 rounds with 25 experts."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.baselines.experts import simulate_adabatch, simulate_ftpl
from benchmarks.experts_amplification import rule
from benchmarks.measuring import sized

RUNS, ROUNDS, ACTIONS = sized((1000, 10_000, 25), (5, 50, 25))


def measure() -> dict[str, float]:
    """Return the seconds of RW-FTPL and of RW-AdaBatch, both on random gains, and of RW-AdaBatch on no gains."""
    rng = np.random.default_rng(1)
    gains = rng.random((ROUNDS, ACTIONS))
    found = {}
    start = time.perf_counter()
    simulate_ftpl(gains, noise_scale=5.0, runs=RUNS, rng=rng)
    found["ftpl_seconds"] = time.perf_counter() - start
    for name, given in (("adabatch_seconds", gains), ("adabatch_zero_gain_seconds", None)):
        start = time.perf_counter()
        simulate_adabatch(rule(), gains=given, rounds=ROUNDS, runs=RUNS, rng=rng)
        found[name] = time.perf_counter() - start
    return found


if __name__ == "__main__":
    print(measure())
