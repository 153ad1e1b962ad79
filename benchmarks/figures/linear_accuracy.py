"""Figure 4.2 of the thesis: test accuracy against epsilon, objective perturbation and DP-SGD, honest and dishonest.

Must show: without any tuning, ours is above honest DP-SGD on the sets with few columns, most of all at small epsilon.
Not asserted: the sets with many columns, on which the thesis itself has mixed results.
"""

from __future__ import annotations

import numpy as np

from benchmarks import linear_models, linear_sets
from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.linear_models import HONEST, OURS
from benchmarks.measuring import sized

QUICK, PAPER = sized((0.1, 1.0, 8.0), (1.0,)), (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
SETS = (linear_sets.synthetic_low, linear_sets.adult, linear_sets.synthetic_high, linear_sets.four_or_nine)[
    : sized(None, 1)
]


def measure(size: Size) -> list[Panel]:
    """Return one panel a set."""
    epsilons = PAPER if size.full else QUICK
    panels = []
    for make in SETS:
        data = make()
        found = linear_models.table(data, epsilons=epsilons, splits=size.trials)
        panels.append(
            Panel(
                data.name,
                f"{data.note}, {size.trials} splits",
                "ε",
                np.array(epsilons),
                {name: Curve.of(100 * values) for name, values in found.items()},
                y_label="test accuracy (%)",
                log_x=True,
                log_y=False,
            )
        )
    return panels


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    found = []
    for panel in panels:
        for epsilon in (0.1, 1.0):
            ours, honest = (panel.at(name, epsilon) for name in (OURS, HONEST))
            found.append(
                Trend(
                    f"{panel.title}, ε = {epsilon:g}: above honest DP-SGD",
                    f"{ours:.2f} against {honest:.2f}",
                    ours > honest,
                    binding=panel.title in ("Synthetic-L", "Adult") and not panel.data.startswith("STAND-IN"),
                )
            )
    return found


FIGURE = Figure(
    number="4.2",
    title="Private logistic regression without tuning, beside DP-SGD",
    note="Mean ± one standard error, δ = 1e-5. DP-SGD picks its rate by test accuracy; honest: it pays for trying.",
    remark="The splits chose no default. `benchmarks.dp_sgd` says how DP-SGD is run and what it pays.",
    measure=measure,
    trends=trends,
    quick=Size(trials=2),
    paper=Size(trials=10, full=True),
    name="linear_accuracy",
)

if __name__ == "__main__":
    FIGURE.main()
