"""Many quantiles on laws on which no constant was chosen: largest gaps against the tree's, and bounds that miss."""

from __future__ import annotations

import sys

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized
from benchmarks.quantile_many import Draw, gaps_of
from benchmarks.rounded_laws import likely_error
from sidelight.quantiles.tree import even_levels

LEVELS = 99
SETTINGS = sized(((3000, "0.3"), (10_000, "1"), (10_000, "0.1")), ((3000, "1"),))
TRIALS = sized(60, 1)


def _far_exponentials(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.where(rng.random(rows) < 0.6, 3 * rng.exponential(size=rows), -200 - rng.exponential(size=rows))


def _four_modes(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.asarray(rng.choice([0.0, 7.0, 30.0, 100.0], rows, p=[0.4, 0.3, 0.2, 0.1]) + rng.standard_normal(rows))


def _two_intervals(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.where(rng.random(rows) < 0.35, rng.random(rows), 5 + 2 * rng.random(rows))


def _clusters(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.asarray(rng.integers(0, 25, rows) + 0.35 * rng.random(rows))


LAWS: dict[str, Draw] = {
    "two exponentials, 60 and 40 %, far apart": _far_exponentials,
    "four modes of 40, 30, 20 and 10 %": _four_modes,
    "Beta(0.3, 0.7)": lambda rng, rows: rng.beta(0.3, 0.7, rows),
    "Gamma(0.5)": lambda rng, rows: rng.gamma(0.5, 1.0, rows),
    "two intervals": _two_intervals,
    "Student, 2 degrees": lambda rng, rows: rng.standard_t(2, rows),
    "Weibull(0.6)": lambda rng, rows: rng.weibull(0.6, rows),
    "triangle": lambda rng, rows: rng.triangular(0.0, 0.0, 1.0, rows),
    "25 clusters": _clusters,
}


def line_of(name: str, trials: int) -> tuple[str, int]:
    """Return one line of the table, and how many bounds missed that assume nothing.

    For each setting the mean largest gap, that of the tree, misses of likely errors, and the median of the largest
    bound that assumes nothing, which is the one that is stated.
    """
    cells, broken = [], 0
    for rows, epsilon in SETTINGS:
        rng, found, missed, free = np.random.default_rng([rows, len(name)]), [], 0, []
        for _ in range(trials):
            values = np.sort(LAWS[name](rng, rows))
            release = sl.Quantiles(even_levels(LEVELS), epsilon=epsilon).release(values)
            gaps = gaps_of(values, release.value, LEVELS)
            tree = sl.Quantiles(even_levels(LEVELS), epsilon=epsilon, form="tree").release(values)
            found.append((gaps.max(), gaps_of(values, tree.value, LEVELS).max()))
            missed += bool((gaps > likely_error(release) + 1e-9).any())
            whatever = release.error_bound(0.95)
            broken += bool((gaps > whatever + 1e-9).any())
            free.append(whatever.max())
        ours, theirs = np.mean(found, axis=0)
        cells.append(f"{ours:.0f} / {theirs:.0f} / {missed} / {np.median(free):.0f}")
    return f"| {name} | {' | '.join(cells)} |", broken


def main(trials: int = TRIALS) -> None:
    """Print the table of the quantiles proof page, section 5.4."""
    broken = 0
    for name in LAWS:
        line, more = line_of(name, trials)
        broken += more
        print(line, flush=True)
    print(f"bounds that assume nothing and missed: {broken} of {len(LAWS) * len(SETTINGS) * trials}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS)
