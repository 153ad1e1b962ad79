"""Figure 1: many quantiles with one budget, by a binary tree and by wide trees, as the number of levels grows.

Must show: at epsilon 1 the binary tree is clearly best; at epsilon 0.1 and 99 levels the wide tree with edge
adaptation is about as good or better (with the paper's rounded score); the exact score is better than all of these.
Not asserted: the paper's remark that conditional adaptation helps on tied data only; here ties are dithered away.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.figures.releases import Records
from benchmarks.learning import columns
from benchmarks.measuring import sized
from sidelight.predictions import Uniform
from sidelight.quantiles import balanced_branching, even_levels, quantile_tree

ROWS = sized(1000, 100)
BINARY, EDGE, CONDITIONAL, OURS = "binary", "K-ary, edge", "K-ary, conditional", "binary, exact score (ours)"


def measure(size: Size) -> list[Panel]:
    """Return Gaussian and age panels for both epsilons."""
    counts = np.arange(1, 100) if size.full else np.array(sized([1, 3, 9, 19, 49, 99], [1, 5]))
    rng = np.random.default_rng(101)
    age = columns()[0]
    gaussian = [Records.of(rng.standard_normal(ROWS), step=None, seed=(1, t)) for t in range(size.trials)]
    ages = [Records.of(rng.choice(age.private, ROWS, replace=False), step=1, seed=(1, t)) for t in range(size.trials)]
    adult = "STAND-IN: generated ages" if age.generated else "Adult, test file"
    cases = [
        ("Gaussian", "generated, as in the paper", gaussian, Uniform(-10, 10)),
        ("Age", adult, ages, Uniform(10, 120)),
    ]
    return [
        Panel(
            f"{title}, ε = {epsilon}",
            f"{data}, n = {ROWS}",
            "number of levels m",
            counts,
            _curves(counts, draws, prior, epsilon),
            y_label="largest gap (ranks)",
            log_x=True,
            rows=None if not size.full else [0, 2, 8, 18, 48, 98],
        )
        for title, data, draws, prior in cases
        for epsilon in ("1", "0.1")
    ]


def _curves(counts: np.ndarray, draws: list[Records], prior: Uniform, epsilon: str) -> dict[str, Curve]:
    errors: dict[str, list[list[float]]] = {name: [] for name in (BINARY, EDGE, CONDITIONAL, OURS)}
    for count in counts.tolist():
        levels = even_levels(count)
        binary = quantile_tree(levels, epsilon=epsilon)
        wide = quantile_tree(levels, epsilon=epsilon, branching=balanced_branching(count), budget_power=Fraction(3, 2))
        ways = {
            BINARY: (binary, "floor", "conditional"),
            EDGE: (wide, "floor", "edge"),
            CONDITIONAL: (wide, "floor", "conditional"),
            OURS: (binary, "exact", "conditional"),
        }
        for name, (tree, score, adaptation) in ways.items():
            gaps = [draw.release(tree, prior, score=score, adaptation=adaptation)[1].max() for draw in draws]  # type: ignore[arg-type]
            errors[name].append(gaps)
    return {name: Curve.of(np.array(each)) for name, each in errors.items()}


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    found = []
    for large, small in (panels[:2], panels[2:]):
        binary, edge, conditional = (large.at(name, 99) for name in (BINARY, EDGE, CONDITIONAL))
        found.append(
            Trend(
                f"{large.title}, 99 levels: the binary tree is clearly best",
                f"{binary:.0f} against {edge:.0f} (edge) and {conditional:.0f} (conditional)",
                binary < 0.8 * min(edge, conditional),
            )
        )
        binary, edge = (small.at(name, 99) for name in (BINARY, EDGE))
        found.append(
            Trend(
                f"{small.title}, 99 levels: the wide tree with edge adaptation is about as good or better",
                f"{edge:.0f} against {binary:.0f}",
                edge < 1.15 * binary,
            )
        )
    worst = max((p.at(OURS, m) / p.at(BINARY, m), p.title, m) for p in panels for m in (9, 99))
    found.append(
        Trend(
            "the exact score beats the paper's with the same tree",
            f"at worst {worst[0]:.2f} times its error ({worst[1]}, {worst[2]} levels)",
            worst[0] < 0.9,
        )
    )
    return found


FIGURE = Figure(
    number=1,
    title="Many levels, one budget: binary and wide trees",
    note="Mean over data sets of the largest gap. Rounded score of the paper, and our exact score. Uniform prior.",
    measure=measure,
    trends=trends,
    quick=Size(trials=40),
    paper=Size(trials=40),
)

if __name__ == "__main__":
    FIGURE.main()
