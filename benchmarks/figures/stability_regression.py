"""Figure 3.1 of the thesis: test error of private linear regression against epsilon, posterior samples and baselines.

Must show: AdaOPS below OPS-balanced and output perturbation at ε = 1 on the larger sets. Does not show, and is not
asserted: that OPS-PTR is the best everywhere. With constants that hold, neither it nor AdaOPS is.
"""

from __future__ import annotations

import numpy as np

from benchmarks import linear_regression_sets, stability_regression
from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.figures.picture import BLUE, GREEN, INK, STYLES
from benchmarks.measuring import sized
from benchmarks.stability_regression import ADAOPS, BALANCED, DESCENT, LOG_COSH, OPSPTR, OUTPUT, PRIVATE

QUICK, PAPER = sized((0.3, 1.0), (1.0,)), (0.1, 0.3, 1.0, 3.0)
SETS = sized(("keggdirected", "protein", "airfoil"), ())
LARGER = ("keggdirected", "protein", "bike_sharing")

STYLES[ADAOPS] = (GREEN, "-", True)
STYLES[OPSPTR] = (BLUE, "-.", False)
STYLES[BALANCED] = (INK, "--", False)
STYLES[OUTPUT] = (INK, ":", False)
STYLES[LOG_COSH] = (BLUE, ":", False)
STYLES[DESCENT] = (GREEN, ":", False)


def measure(size: Size) -> list[Panel]:
    """Return one panel a set: medians, because a search that ran once has a heavy tail."""
    epsilons = PAPER if size.full else QUICK
    panels = []
    for data in (linear_regression_sets.bike_sharing(), *(linear_regression_sets.uci(name) for name in SETS)):
        runs = [
            [stability_regression.one_run(data, stability_regression.FIRST_SEED + run, e) for run in range(size.trials)]
            for e in epsilons
        ]
        curves = {name: Curve(np.array([np.median([each[name] for each in row]) for row in runs])) for name in PRIVATE}
        label = f"{data.note}, {size.trials} splits"
        panels.append(
            Panel(
                data.name,
                label,
                "ε",
                np.array(epsilons),
                curves,
                y_label="median test error / variance",
                log_x=True,
                log_y=False,
            )
        )
    return panels


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    found = []
    for panel in panels:
        ours, balanced, output = (panel.at(name, 1.0) for name in (ADAOPS, BALANCED, OUTPUT))
        binding = panel.title in LARGER and not panel.data.startswith("STAND-IN")
        numbers = f"{ours:.3f}, {balanced:.3f}, {output:.3f}"
        words = f"{panel.title}, ε = 1: AdaOPS below OPS-balanced and output perturbation"
        found.append(Trend(words, numbers, ours < min(balanced, output), binding=binding))
        words = f"{panel.title}, ε = 1: OPS-balanced below output perturbation"
        found.append(Trend(words, f"{balanced:.3f}, {output:.3f}", balanced < output, binding=False))
    return found


FIGURE = Figure(
    number="3.1",
    title="Private linear regression by posterior samples",
    note="Medians over splits of 60/10/30 %, δ = 1e-6; a refusal predicts the middle of the public range.",
    remark="Bounds and scalings are public; the thesis scales by the private rows' own moments, and pays nothing.",
    measure=measure,
    trends=trends,
    quick=Size(trials=5),
    paper=Size(trials=12, full=True),
    name="stability_regression",
)

if __name__ == "__main__":
    FIGURE.main()
