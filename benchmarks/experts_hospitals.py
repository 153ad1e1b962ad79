"""Which hospital will have the highest share of COVID patients next week? Gains in the layout of the paper's Table 1.

`python -m benchmarks.experts_hospitals` prints New York as reported and generated states of the paper's sizes; averages
of 100 runs with 95 % intervals, Bonferroni over the cells of a state. The Agarwal-Singh columns trust a central server.

The paper gives every hospital the noise of the smallest one. "Own noise" lets each hospital add noise by its own public
number of beds, at the same μ for a person. The paper's columns have its 13 learners and floor 2; "filters" are the
learners that `RWMeta` has by default, with its floor 1/2. They were chosen on generated data and on the first half of
New York; `measure` judges them on the second half.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from benchmarks import hospital_data
from benchmarks.baselines.experts import simulate_ftpl, simulate_meta, simulate_tree
from benchmarks.baselines.experts.regret import half_width
from benchmarks.baselines.experts.tree_baseline import TreeBaseline
from benchmarks.hospital_data import State
from benchmarks.measuring import sized

LEVELS = (np.inf, 1.0, 0.5, 0.25)
COLUMNS = ("RW-Meta", "Agarwal (Min Noise)", "Agarwal (Min Regret)", "Best Linear Model", "RW-FTPL")
#: In addition to the paper's columns: the default learners, and noise by each hospital's beds, at the same guarantee.
OWN_COLUMNS = ("Filters", "Filters, own noise", "RW-FTPL, own noise", "RW-Meta, own noise")
#: RW-Meta's default floor for gains in [0, 1].
FLOOR = 0.5
RUNS = sized(100, 2)


@dataclass(frozen=True)
class Row:
    """The gains of one privacy level, one array of runs a column, and which regression was best."""

    mu: float
    gains: dict[str, np.ndarray]
    best: str


def run(state: State, mu: float, *, runs: int, seed: int, floor: float = 2.0) -> Row:
    """Run all methods on one state at one privacy level."""
    rng = np.random.default_rng(seed)
    scales = np.zeros(len(state.gains)) if np.isinf(mu) else state.sensitivity / mu
    meta = simulate_meta(state.gains, noise_scale=scales, runs=runs, rng=rng, floor=floor)
    linear = meta.learner_gains[:, :-1]
    best = int(np.argmax(linear.mean(axis=0)))
    worst = float(state.sensitivity.max())
    trees = {
        aim: simulate_tree(
            state.gains, TreeBaseline(rounds=len(state.gains), sensitivity=worst, mu=mu, aim=aim), runs=runs, rng=rng
        ).gain
        for aim in ("min_noise", "min_regret")
    }
    ftpl = simulate_ftpl(state.gains, noise_scale=scales, runs=runs, rng=rng).gain
    own_scales = scales if np.isinf(mu) else state.own_sensitivity / mu
    own = simulate_meta(state.gains, noise_scale=own_scales, runs=runs, rng=rng, floor=floor)
    filters, own_filters = (
        simulate_meta(state.gains, noise_scale=each, runs=runs, rng=rng, floor=FLOOR, learners="filters")
        for each in (scales, own_scales)
    )
    gains = (
        *(meta.gain, trees["min_noise"], trees["min_regret"], linear[:, best], ftpl),
        *(filters.gain, own_filters.gain, own_filters.ftpl_gain, own.gain),
    )
    return Row(mu, dict(zip(COLUMNS + OWN_COLUMNS, gains, strict=True)), meta.names[best])


def table(state: State, rows: list[Row]) -> str:
    """Return the rows as Table 1 has them, with RW-FTPL added."""
    lines = [
        f"{state.name}  [{state.data}]",
        f"{'Privacy Level':<15s}" + "".join(f"{name:>22s}" for name in (*COLUMNS, *OWN_COLUMNS)),
    ]
    for row in rows:
        cells = [
            f"{gain.mean():.2f} ± {half_width(gain, cells=len(row.gains) * len(rows)):.2f}"
            for gain in row.gains.values()
        ]
        label = "μ = ∞" if np.isinf(row.mu) else f"μ = {row.mu:g}"
        lines.append(f"{label:<15s}" + "".join(f"{cell:>22s}" for cell in cells) + f"   best: {row.best}")
    fixed, oracle = state.gains.sum(axis=0).max(), state.gains.max(axis=1).sum()
    lines.append(
        f"best fixed hospital {fixed:.2f}, best each week {oracle:.2f}; Δ {state.sensitivity.min():.3f}.."
        f"{state.sensitivity.max():.3f}"
    )
    return "\n".join(lines)


def measure() -> dict[str, float]:
    """Return how much more RW-Meta gains than RW-FTPL on the second half of New York at μ = 1.

    `own_noise`: both on the same reports, with noise by each hospital's own beds. `equal_noise`: both on the same
    reports, with the noise of the smallest hospital for all, the paper's setting. `own_vs_equal`: RW-Meta with own
    noise against RW-FTPL with equal noise: other reports at the same guarantee, so no comparison of the two algorithms
    alone. `fixed_sizes` is `own_noise` with the fewest beds of all weeks, as the terms of a service have them.
    `regressions_own_noise` has the paper's 13 learners. `without_noise` is RW-Meta against RW-FTPL, no noise at all.
    """
    _, state = hospital_data.halves(hospital_data.new_york())
    print(f"{state.name}: {state.data}", flush=True)
    mean = {name: float(gain.mean()) for name, gain in run(state, 1.0, runs=RUNS, seed=10).gains.items()}
    free = {name: float(gain.mean()) for name, gain in run(state, np.inf, runs=sized(20, 2), seed=11).gains.items()}
    print("  ".join(f"{name} {value:.2f}" for name, value in mean.items()), flush=True)
    fewest = np.tile(np.sqrt(2) / state.beds.min(axis=0), (len(state.gains), 1))
    rng = np.random.default_rng(12)
    fixed = simulate_meta(state.gains, noise_scale=fewest, runs=RUNS, rng=rng, floor=FLOOR, learners="filters")
    found = {
        "own_noise": mean["Filters, own noise"] / mean["RW-FTPL, own noise"],
        "equal_noise": mean["Filters"] / mean["RW-FTPL"],
        "own_vs_equal": mean["Filters, own noise"] / mean["RW-FTPL"],
        "fixed_sizes": float(fixed.gain.mean() / fixed.ftpl_gain.mean()),
        "regressions_own_noise": mean["RW-Meta, own noise"] / mean["RW-FTPL, own noise"],
        "regressions_equal_noise": mean["RW-Meta"] / mean["RW-FTPL"],
        "without_noise": free["Filters"] / free["RW-FTPL"],
    }
    print("  ".join(f"{name} {value:.3f}" for name, value in found.items()), flush=True)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="how many runs to average")
    parser.add_argument("--floor", type=float, default=2.0, help="RW-Meta's floor constant")
    given = parser.parse_args()
    print("Average gain of learners\n")
    for state in (hospital_data.new_york(), *hospital_data.generated_states()):
        rows = [run(state, mu, runs=given.runs, seed=place, floor=given.floor) for place, mu in enumerate(LEVELS)]
        print(table(state, rows) + "\n", flush=True)


if __name__ == "__main__":
    main()
