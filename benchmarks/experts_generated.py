"""RW-Meta against RW-FTPL on generated gains: six generators, clients of equal and of unequal size, mu = 1 and 0.25.

`python -m benchmarks.experts_generated` prints every ratio: the total gain of RW-Meta with its default learners over
that of RW-FTPL on the same reports. Every client adds noise by its own size, sqrt(2) / (b mu); equal clients have 12
beds each, unequal ones a lognormal number of at least 5. The learners' models and RW-Meta's floor were chosen on these
generators with other seeds, and on the first half of New York.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from benchmarks import hospital_data
from benchmarks.baselines.experts import simulate_meta, simulate_rotating_gains
from benchmarks.measuring import sized

Sizes = Literal["equal", "unequal"]
Floats = np.ndarray
#: RW-Meta's default floor for gains in [0, 1].
FLOOR = 0.5
SEEDS, RUNS = sized((range(100, 104), 40), (range(100, 101), 2))


def rotating(beds: Floats, rng: np.random.Generator) -> Floats:
    """A bump of gain that wanders around the clients."""
    return simulate_rotating_gains(actions=len(beds), rounds=148, rng=rng)


def waves(beds: Floats, rng: np.random.Generator) -> Floats:
    """Epidemic waves that reach clients at different times, counted in whole patients."""
    seed = int(rng.integers(10**6))
    return hospital_data.generated("waves", hospitals=len(beds), weeks=120, seed=seed, beds=beds).gains


def walks(beds: Floats, rng: np.random.Generator) -> Floats:
    """Random walks that are drawn back to a common mean."""
    x, rows = rng.normal(0, 1, len(beds)), []
    for _ in range(148):
        x = 0.96 * x + np.sqrt(1 - 0.96**2) * rng.normal(0, 1, len(beds))
        rows.append(0.15 + 0.1 * x)
    return np.clip(np.array(rows) + 0.02 * rng.standard_normal((148, len(beds))), 0, 1)


def switching(beds: Floats, rng: np.random.Generator) -> Floats:
    """One client is best for 10 to 40 rounds, then another."""
    gains, t = np.full((148, len(beds)), 0.1), 0
    while t < 148:
        length, best = int(rng.integers(10, 40)), int(rng.integers(len(beds)))
        gains[t : t + length, best] = 0.5
        t += length
    return np.clip(gains + 0.02 * rng.standard_normal(gains.shape), 0, 1)


def stationary(beds: Floats, rng: np.random.Generator) -> Floats:
    """Nothing drifts: RW-FTPL's own case."""
    means = np.clip(rng.normal(0.2, 0.08, len(beds)), 0.01, 1)
    return np.clip(means + 0.04 * rng.standard_normal((148, len(beds))), 0, 1)


def alternating(beds: Floats, rng: np.random.Generator) -> Floats:
    """Return gains that alternate every round, so that following recent rounds is always late."""
    del rng
    side = np.arange(len(beds)) % 2
    return np.array([np.where(side == t % 2, 0.6, 0.2) for t in range(148)])


GENERATORS: dict[str, tuple[Callable[[Floats, np.random.Generator], Floats], int]] = {
    "rotating": (rotating, 24),
    "waves": (waves, 60),
    "walks": (walks, 40),
    "switching": (switching, 24),
    "stationary": (stationary, 40),
    "alternating": (alternating, 10),
}
DRIFTING = ("rotating", "waves", "walks", "switching")


def beds_of(sizes: Sizes, count: int, rng: np.random.Generator) -> Floats:
    """Return the public sizes of clients."""
    return np.full(count, 12.0) if sizes == "equal" else np.maximum(5.0, rng.lognormal(4.0, 1.1, count))


def ratio(name: str, sizes: Sizes, mu: float, *, seeds: range = SEEDS, runs: int = RUNS) -> float:
    """Return the gain of RW-Meta over that of RW-FTPL on the same reports, summed over seeds and runs."""
    make, count = GENERATORS[name]
    meta, ftpl = 0.0, 0.0
    for seed in seeds:
        rng = np.random.default_rng([seed, list(GENERATORS).index(name)])
        beds = beds_of(sizes, count, rng)
        gains = make(beds, rng)
        scales = np.tile(np.sqrt(2) / (beds * mu), (len(gains), 1))
        found = simulate_meta(gains, noise_scale=scales, runs=runs, rng=rng, floor=FLOOR, learners="filters")
        meta, ftpl = meta + found.gain.sum(), ftpl + found.ftpl_gain.sum()
    return float(meta / ftpl)


def measure() -> dict[str, float]:
    """Return the least ratio of all settings, and of those that drift with clients of unequal size; both at each mu."""
    found = {}
    for mu in (1.0, 0.25):
        ratios = {}
        for name in GENERATORS:
            for sizes in ("equal", "unequal"):
                ratios[name, sizes] = ratio(name, sizes, mu)
                print(f"mu {mu:g}  {name}, {sizes} clients: {ratios[name, sizes]:.3f}", flush=True)
        suffix = "" if mu == 1 else "_quarter"
        found[f"least{suffix}"] = min(ratios.values())
        found[f"least_drifting_unequal{suffix}"] = min(ratios[name, "unequal"] for name in DRIFTING)
    return found


if __name__ == "__main__":
    print(measure())
