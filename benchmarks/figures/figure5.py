"""Figure 5: the error of a sequence, averaged over all its steps, as epsilon grows.

Must show: learning from past releases and features (PubProx) is best, except perhaps at the largest epsilons, where all
methods meet.
"""

from __future__ import annotations

import numpy as np

from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.figures.streams import Stream, bike_trips, by_epsilon, synthetic
from benchmarks.learning import DECILES, days
from benchmarks.measuring import sized

STATIC = ("Uniform", "Cauchy", "half-Cauchy", "PubPrev robust")
LEARNED = ("PubProx robust", "PubProx, our learner")


def measure(size: Size) -> list[Panel]:
    """Return a panel for Synthetic and one for trips."""
    if size.full:
        grids = (
            np.concatenate([[-2, -1.5, -1], np.linspace(-0.75, 1, 8)]),
            np.concatenate([np.arange(-3, -0.9, 0.5), np.arange(-0.75, 0.01, 0.25)]),
        )
    else:
        grids = sized(
            (np.array([-1.0, -0.5, 0.0, 1.0]), np.array([-2.0, -1.0, 0.0])), (np.array([0.0]), np.array([0.0]))
        )
    streams = (
        synthetic(size.steps, count=9, rate=5, seed=51),
        bike_trips(days(), DECILES, steps=10**9 if size.full else size.steps, seed=52),
    )
    return [_panel(stream, 10.0**grid) for stream, grid in zip(streams, grids, strict=True)]


def _panel(stream: Stream, epsilons: np.ndarray) -> Panel:
    gaps = by_epsilon(stream, epsilons)
    curves = {name: Curve(each.mean(axis=1)) for name, each in gaps.items()}
    return Panel(
        f"{stream.name}, nine deciles", f"{stream.data}; T = {len(stream.steps):,}", "ε", epsilons, curves, log_x=True
    )


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    found = []
    for panel, epsilons in zip(panels, ((0.1, 0.316, 1.0), (0.01, 0.1)), strict=True):
        for epsilon in epsilons:
            best = min((panel.at(name, epsilon), name) for name in STATIC if name in panel.curves)
            paper, ours = (panel.at(name, epsilon) for name in LEARNED)
            found.append(
                Trend(
                    f"{panel.title}, ε = {epsilon}: learning from releases and features is best",
                    f"{ours:.1f} (ours), {paper:.1f} (paper's learner) against {best[0]:.1f} ({best[1]})",
                    min(ours, paper) <= best[0],
                )
            )
    return found


FIGURE = Figure(
    number=5,
    title="The error of a whole sequence",
    note="Average gap, averaged over all steps of one run, the burn-in included.",
    measure=measure,
    trends=trends,
    quick=Size(trials=1, steps=400),
    paper=Size(trials=1, steps=2500),
)

if __name__ == "__main__":
    FIGURE.main()
