"""What a clock says about the noise of one number: time against size, and the best attack on value and time together.

    python -m benchmarks.sampler_timing

No claim speaks of time (noise proof page, section 9): this measures how much that leaves open, on this machine, for a
clock that sits inside the process. Somebody who sees a whole release by a network sees less.
"""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
from scipy.stats import spearmanr

from benchmarks.measuring import sized
from sidelight.aggregates import Bounded
from sidelight.audit import audit
from sidelight.guarantees import Neighbours, Row
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.testing import SeededEntropy

DRAWS = sized(8000, 40)
_TIME_BINS = 4


def timed(law: str, value: int, draws: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy counts of a value, and the nanoseconds that each took."""
    budget = Budget.of(epsilon=1) if law == "laplace" else Budget.of(mu=1)
    noise = budget.on(Bounded(value, Fraction(1), "l1" if law == "laplace" else "l2", Neighbours.ADD_REMOVE, Row()))
    released, took = np.zeros(draws), np.zeros(draws)
    with Source(SeededEntropy(f"timing {name}")) as source:
        noise.release(source)  # tables
        for number in range(draws):
            start = time.perf_counter_ns()
            found = noise.release(source)
            took[number] = time.perf_counter_ns() - start
            released[number] = float(found)
    return released, took


def attacked(law: str, *, draws: int = DRAWS) -> dict[str, float]:
    """Return the correlation of ranks of time and size, and what value, and value with time, refute at delta 0."""
    samples = {value: timed(law, value, 2 * draws, f"{law} {value}") for value in (0, 1)}
    released, took = samples[0]
    edges = np.quantile(np.concatenate([each[1] for each in samples.values()]), np.arange(1, _TIME_BINS) / _TIME_BINS)
    places = {0: 0, 1: 0}

    def drawn(value: int, *, clock: bool) -> object:
        def some(count: int) -> list[object]:
            part = slice(places[value], places[value] + count)
            places[value] += count
            values, slow = samples[value][0][part], np.searchsorted(edges, samples[value][1][part])
            return [(v, s) if clock else v for v, s in zip(values.tolist(), slow.tolist(), strict=True)]

        return some

    found = {
        name: audit(drawn(0, clock=clock), drawn(1, clock=clock), draws=draws, failure=0.05).epsilon().value  # type: ignore[arg-type]
        for name, clock in (("value", False), ("value and time", True))
    }
    rank = spearmanr(np.abs(released), took).statistic
    return {"rank correlation": float(rank), **found, "median microseconds": float(np.median(took)) / 1000}


def measure() -> dict[str, dict[str, float]]:
    """Return the numbers of both laws."""
    return {law: attacked(law) for law in ("laplace", "gaussian")}


if __name__ == "__main__":
    print(measure())
