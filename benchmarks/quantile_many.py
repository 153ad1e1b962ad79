"""Many quantiles against rivals in one run: largest rank gap, error bounds, and what bounds cost.

Rivals: a 16-ary histogram of 4096 leaves made consistent by least squares, on correct bounds, log-spaced where the data
is; OpenDP's tree of counts on the same leaves; and the tree of selections (`form="tree"`). Gaps are tie-aware, the
largest over the levels i/(m+1), averaged over trials.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.stats import beta

import sidelight as sl
from benchmarks.measuring import print_figures, sized
from benchmarks.peers.environments import PeersError, prepare, run, save_data
from benchmarks.rounded_laws import likely_error
from sidelight.quantiles.tree import even_levels

#: Trials of a ratio of two bounds.
BOUNDS_TRIALS = sized(100, 1)
LEVELS = sized((9, 49, 99, 199, 999), (9, 49, 99, 199))
EPSILONS = ("1", "0.1")
TRIALS = sized({10_000: 48, 100_000: 20}, {10_000: 1, 100_000: 1})
#: OpenDP takes a second a trial at 100,000 rows.
PEER_TRIALS = sized({10_000: 30, 100_000: 12}, {10_000: 1, 100_000: 1})
#: Times as many trials of ages: most errors are 0, and a few of many ranks decide their mean.
MORE_OF_AGES = sized(3, 1)
#: Trials of nine levels of ages: they take little, and all errors are about a rank.
NINE_OF_AGES = sized({10_000: 2500, 100_000: 400}, {10_000: 2, 100_000: 2})
LEAVES, BRANCHING = 4096, 16
#: The tree takes a second for 999 levels and is never the best rival of 199 and more: two to three times the histogram.
MOST_OF_TREE = 99

#: Name of the target, figure, and limit; each figure is the worst of its cells.
LIMITS: tuple[tuple[str, str, Literal["<=", ">="], float], ...] = (
    ("many-smooth-49-99-vs-best-rival", "smooth_49_99_vs_best_rival", "<=", 0.7),
    ("many-smooth-199-999-epsilon-1-vs-best-rival", "smooth_199_999_eps1_vs_best_rival", "<=", 0.9),
    ("many-smooth-199-999-epsilon-0.1-vs-best-rival", "smooth_199_999_eps01_vs_best_rival", "<=", 0.7),
    ("many-bimodal-vs-best-rival", "bimodal_vs_best_rival", "<=", 1.15),
    ("many-ages-9-vs-best-rival", "ages_9_vs_best_rival", "<=", 1.0),
    ("many-ages-49-99-vs-best-rival", "ages_49_99_vs_best_rival", "<=", 1.1),
    ("many-ages-199-999-vs-best-rival", "ages_199_999_vs_best_rival", "<=", 0.85),
    ("many-pareto-no-bounds-vs-best-rival", "pareto_no_bounds_vs_best_rival", "<=", 0.85),
    ("nine-vs-tree-less-a-standard-error", "nine_vs_tree_less_error", "<=", 1.0),
    ("many-no-bounds-99-vs-tree", "no_bounds_99_vs_tree", "<=", 0.6),
    ("bounds-1e9-vs-none", "bounds_1e9_vs_none", "<=", 1.15),
    ("pareto-bounds-1e6-vs-none", "pareto_1e6_vs_none", "<=", 1.2),
    ("lognormal-bounds-1e9-4e6-rows-vs-none", "lognormal_1e9_4e6_rows_vs_none", "<=", 1.2),
    ("many-error-bound-coverage-of-all", "coverage", ">=", 0.95),
    ("many-error-bound-coverage-least-upper-limit", "least_coverage_limit", ">=", 0.95),
    ("many-error-bound-vs-error-median", "largest_median_bound_vs_error", "<=", 4.0),
)

Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Kind:
    """One distribution: how it is drawn, what may be declared, and the edges of bins that fit it."""

    draw: Draw
    bounds: tuple[float, float]
    edges: np.ndarray
    granularity: int | None = None

    def declared(self) -> dict[str, Any]:
        """Return bounds and granularity as arguments of a query."""
        more = {} if self.granularity is None else {"granularity": self.granularity}
        return {"bounds": self.bounds, **more}


def _bimodal(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.where(rng.random(rows) < 0.5, -5.0, 5.0) + rng.standard_normal(rows)


def _ages(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.asarray(np.clip(np.rint(rng.gamma(6, 6.4, rows)), 0, 120))


KINDS = {
    "normal": Kind(lambda rng, rows: rng.standard_normal(rows), (-10, 10), np.linspace(-10, 10, LEAVES + 1)),
    "lognormal": Kind(lambda rng, rows: rng.lognormal(10.5, 0.8, rows), (0, 1e9), np.geomspace(1e2, 1e7, LEAVES + 1)),
    "bimodal": Kind(_bimodal, (-20, 20), np.linspace(-20, 20, LEAVES + 1)),
    "ages": Kind(_ages, (0, 120), np.linspace(-0.5, 120.5, LEAVES + 1), granularity=1),
    "pareto": Kind(lambda rng, rows: 1 + rng.pareto(1.1, rows), (0, 1e6), np.geomspace(0.999, 1e6, LEAVES + 1)),
}


@dataclass
class Cell:
    """The largest gaps of all trials by method, and the error bounds of ours."""

    gaps: dict[str, list[float]]
    covered: list[bool]
    bound_ratios: list[float]

    def mean(self, method: str) -> float:
        """Return the mean largest gap of a method."""
        return float(np.mean(self.gaps[method]))

    def error(self, method: str) -> float:
        """Return its standard error."""
        return float(np.std(self.gaps[method], ddof=1) / len(self.gaps[method]) ** 0.5)

    @property
    def median_ratio(self) -> float:
        """The median of bound over error of the releases that were off by more than a rank; 0 if hardly any were."""
        return float(np.median(self.bound_ratios)) if len(self.bound_ratios) >= 5 else 0.0

    @property
    def coverage_limit(self) -> float:
        """The largest coverage that so few trials do not refute at 95 %: one miss in twelve says little."""
        held = sum(self.covered)
        return 1.0 if held == len(self.covered) else float(beta.ppf(0.95, held + 1, len(self.covered) - held))

    def versus(self, ours: str, *others: str) -> float:
        """Return our mean over that of the best other, on the same data sets; less than a rank counts as one."""
        known = [self.gaps[other] for other in others if other in self.gaps]
        return max(max(float(np.mean(self.gaps[ours][: len(each)])), 1.0) / max(np.mean(each), 1.0) for each in known)


def gaps_of(ordered: np.ndarray, outputs: Any, count: int) -> np.ndarray:
    """Return max(0, #{x < o} - q n, q n - #{x <= o}) of each level."""
    wanted = np.arange(1, count + 1) / (count + 1) * ordered.size
    below, up_to = (np.searchsorted(ordered, outputs, side) for side in ("left", "right"))
    return np.asarray(np.maximum(0.0, np.maximum(below - wanted, wanted - up_to)))


def histogram_ranks(values: np.ndarray, edges: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Return noisy ranks at the edges: counts of three layers of 16-ary cells, each with a third of the budget."""
    clipped = np.clip(values, edges[0], edges[-1])
    leaves = np.histogram(clipped, edges)[0].astype(np.float64)
    layers = [leaves]
    while layers[-1].size > BRANCHING:
        layers.append(layers[-1].reshape(-1, BRANCHING).sum(axis=1))
    variance = 2 * (len(layers) / epsilon) ** 2
    noisy = [layer + rng.laplace(scale=len(layers) / epsilon, size=layer.size) for layer in layers]
    best, spread = [noisy[0]], [variance]
    for layer in noisy[1:]:  # up: a cell's own count and the sum of its children
        own = spread[-1] * BRANCHING / (spread[-1] * BRANCHING + variance)
        best.append(own * layer + (1 - own) * best[-1].reshape(-1, BRANCHING).sum(axis=1))
        spread.append(own * variance)
    top = best[-1]
    for below in best[-2::-1]:  # down: children share what is missing
        parts = below.reshape(-1, BRANCHING)
        top = (parts + (top - parts.sum(axis=1))[:, None] / BRANCHING).ravel()
    sums = np.cumsum(top)
    rising, falling = np.maximum.accumulate(sums), np.minimum.accumulate(sums[::-1])[::-1]
    total = max(float(sums[-1]), 1.0)
    return np.concatenate([[0.0], np.clip((rising + falling) / 2, 0, total)])


def histogram_quantiles(ranks: np.ndarray, kind: Kind, count: int) -> np.ndarray:
    """Read quantiles off noisy ranks: inside a bin in a straight line, to the nearest of whole numbers."""
    wanted = np.arange(1, count + 1) / (count + 1) * ranks[-1]
    found = np.interp(wanted, ranks, kind.edges)
    return np.asarray(found if kind.granularity is None else np.rint(found))


def opendp_outputs(data: list[np.ndarray], kind: Kind, epsilon: str) -> dict[int, list[np.ndarray]]:
    """Run OpenDP's tree on the arrays, in its own environment: one release each, read at the levels of all numbers."""
    every = sorted({Fraction(place, count + 1) for count in LEVELS for place in range(1, count + 1)})
    with tempfile.TemporaryDirectory() as folder:
        save_data(Path(folder), [{"x": np.clip(values, kind.edges[0], kind.edges[-1])} for values in data])
        told = {"epsilon": float(epsilon), "edges": kind.edges.tolist(), "levels": [float(level) for level in every]}
        found = run("opendp", "quantiles", data=Path(folder), trials=len(data), seconds=600, **told)
    if found.failure is not None:
        raise PeersError(f"OpenDP: {found.failure}")
    places = {level: place for place, level in enumerate(every)}
    chosen = {count: [places[Fraction(i, count + 1)] for i in range(1, count + 1)] for count in LEVELS}
    return {count: [answer[which] for answer in found.answers] for count, which in chosen.items()}


def measure_kind(name: str, rows: int, epsilon: str, *, opendp: bool) -> dict[int, Cell]:
    """Run everything on the same data sets."""
    kind, rng = KINDS[name], np.random.default_rng([rows, len(name)])
    cells = {count: Cell({}, [], []) for count in LEVELS}
    more = MORE_OF_AGES if name == "ages" else 1
    data = [kind.draw(rng, rows) for _ in range(more * TRIALS[rows])]
    nine_only = (kind.draw(rng, rows) for _ in range(NINE_OF_AGES[rows] - len(data) if name == "ages" else 0))
    for trial, values in enumerate(chain(data, nine_only)):
        ordered = np.sort(values)
        ranks = histogram_ranks(values, kind.edges, float(epsilon), rng)
        for count, cell in cells.items():
            if trial >= len(data) and count != 9:
                continue
            levels = even_levels(count)

            def add(method: str, outputs: Any, *, cell: Cell = cell, count: int = count, ordered: Any = ordered) -> Any:
                gaps = gaps_of(ordered, outputs, count)
                cell.gaps.setdefault(method, []).append(float(gaps.max()))
                return gaps

            add("histogram", histogram_quantiles(ranks, kind, count))
            release = sl.Quantiles(levels, epsilon=epsilon, **kind.declared()).release(values)
            gaps, bounds = add("ours", release.value), likely_error(release)
            cell.covered.append(bool((gaps <= bounds).all()))
            if gaps.max() > 1.0:  # an error of less than a rank has no ratio
                cell.bound_ratios.append(float(bounds.max() / gaps.max()))
            if count <= MOST_OF_TREE:
                tree = sl.Quantiles(levels, epsilon=epsilon, form="tree", **kind.declared())
                add("tree", tree.release(values).value)
            if trial >= len(data):
                continue
            undeclared = {} if kind.granularity is None else {"granularity": kind.granularity}
            if count in (9, 99) or name == "pareto":
                add("ours, no bounds", sl.Quantiles(levels, epsilon=epsilon, **undeclared).release(values).value)
            if count in (9, 99):
                query = sl.Quantiles(levels, epsilon=epsilon, form="tree", **undeclared)
                add("tree, no bounds", query.release(values).value)
    if opendp:
        few = data[: more * PEER_TRIALS[rows]]
        for count, outputs in opendp_outputs(few, kind, epsilon).items():
            found = [
                float(gaps_of(np.sort(values), np.rint(each) if kind.granularity else each, count).max())
                for values, each in zip(few, outputs, strict=True)
            ]
            cells[count].gaps["opendp"] = found
    return cells


@lru_cache(maxsize=1)
def table(*, quick: bool = False) -> dict[tuple[int, str, str, int], Cell]:
    """Return every cell: rows, epsilon, distribution, number of levels."""
    opendp = True
    try:
        prepare("opendp")
    except PeersError as error:
        opendp = False
        print(f"OpenDP was not measured: {error}", file=sys.stderr)
    sizes = (10_000,) if quick else tuple(TRIALS)
    settings = [(rows, epsilon, name) for rows in sizes for epsilon in EPSILONS for name in KINDS]
    found = {}
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        asked = [pool.submit(measure_kind, name, rows, epsilon, opendp=opendp) for rows, epsilon, name in settings]
        for (rows, epsilon, name), kind in zip(settings, asked, strict=True):
            for count, cell in kind.result().items():
                print(cell_line(rows, epsilon, name, count, cell), file=sys.stderr, flush=True)
                found[rows, epsilon, name, count] = cell
    return found


def bounds_ratio(name: str, rows: int, *, bounds: tuple[float, float], count: int, trials: int) -> float:
    """Return the mean largest gap with bounds over that without, at epsilon 1."""
    rng, levels = np.random.default_rng(9), even_levels(count)
    with_bounds = sl.Quantiles(levels, epsilon=1, bounds=(bounds[0], bounds[1]))
    without = sl.Quantiles(levels, epsilon=1)
    gaps: list[list[float]] = [[], []]
    for _ in range(trials):
        values = KINDS[name].draw(rng, rows)
        ordered = np.sort(values)
        for query, place in ((with_bounds, 0), (without, 1)):
            gaps[place].append(float(gaps_of(ordered, query.release(values).value, count).max()))
    return float(np.mean(gaps[0]) / np.mean(gaps[1]))


def measure() -> dict[str, float]:
    """Return the figures of the issue by name: each the worst of its cells."""
    cells = table()
    rivals = ("histogram", "opendp", "tree")

    def worst(names: str, counts: tuple[int, ...], epsilons: tuple[str, ...] = EPSILONS, ours: str = "ours") -> float:
        chosen = [
            cell.versus(ours, *rivals)
            for (_, epsilon, name, count), cell in cells.items()
            if name in names.split() and count in counts and epsilon in epsilons
        ]
        return max(chosen)

    today = [cell for (_, _, _, count), cell in cells.items() if count == 9]
    free = [cell for (_, _, _, count), cell in cells.items() if count == 99]
    pareto = [cells[10_000, epsilon, "pareto", count] for epsilon in EPSILONS for count in (49, 199)]
    return {
        "smooth_49_99_vs_best_rival": worst("normal lognormal", (49, 99)),
        "smooth_199_999_eps1_vs_best_rival": worst("normal lognormal", (199, 999), ("1",)),
        "smooth_199_999_eps01_vs_best_rival": worst("normal lognormal", (199, 999), ("0.1",)),
        "bimodal_vs_best_rival": worst("bimodal", LEVELS),
        "ages_9_vs_best_rival": worst("ages", (9,)),
        "ages_49_99_vs_best_rival": worst("ages", (49, 99)),
        "ages_199_999_vs_best_rival": worst("ages", (199, 999)),
        "pareto_no_bounds_vs_best_rival": max(cell.versus("ours, no bounds", *rivals) for cell in pareto),
        "nine_vs_tree_less_error": max(_beyond_error(cell, way) for cell in today for way in ("", ", no bounds")),
        "no_bounds_99_vs_tree": max(cell.versus("ours, no bounds", "tree, no bounds") for cell in free),
        "bounds_1e9_vs_none": max(
            bounds_ratio("normal", 10_000, bounds=(-1e9, 1e9), count=count, trials=BOUNDS_TRIALS)
            for count in (9, 49, 199)
        ),
        "pareto_1e6_vs_none": bounds_ratio("pareto", 10_000, bounds=(0, 1e6), count=9, trials=BOUNDS_TRIALS),
        "lognormal_1e9_4e6_rows_vs_none": bounds_ratio(
            "lognormal", sized(4_000_000, 10_000), bounds=(0, 1e9), count=9, trials=sized(8, 1)
        ),
        "least_coverage": min(float(np.mean(cell.covered)) for cell in cells.values()),
        "least_coverage_limit": min(cell.coverage_limit for cell in cells.values()),
        "coverage": float(np.mean([np.mean(cell.covered) for cell in cells.values()])),
        "largest_median_bound_vs_error": max(cell.median_ratio for cell in cells.values()),
    }


def _beyond_error(cell: Cell, way: str) -> float:
    """Return our mean over the tree's, less the standard error of that ratio."""
    ours, tree = (max(cell.mean(method + way), 1.0) for method in ("ours", "tree"))
    relative = np.hypot(cell.error("ours" + way) / ours, cell.error("tree" + way) / tree)
    return float(ours / tree * (1 - relative))


def cell_line(rows: int, epsilon: str, name: str, count: int, cell: Cell) -> str:
    """Return what was measured in a cell as a line."""
    gaps = "  ".join(f"{method} {cell.mean(method):.1f} ± {cell.error(method):.1f}" for method in cell.gaps)
    bound = f"covered {np.mean(cell.covered):.2f}, bound/error {cell.median_ratio:.1f}"
    return f"n = {rows:,}, epsilon {epsilon}, {name}, {count} levels: {gaps}; {bound}"


def main() -> None:
    """Print every cell as it is measured, then the figures."""
    table()
    print_figures(measure())


if __name__ == "__main__":
    main()
