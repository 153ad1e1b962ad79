"""The amplification figure of the experts paper: what observers of RW-AdaBatch's actions learn about one report.

Must show: the later the report, the better it is hidden; the computed bound lies above what simulated batch sizes give.
"""

from __future__ import annotations

import numpy as np

from benchmarks.baselines.experts import simulate_adabatch
from benchmarks.experts_amplification import rule
from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.figures.picture import BLUE, GREEN, INK, OCHRE, STYLES
from benchmarks.measuring import sized
from sidelight.guarantees.curves import gaussian_floats
from sidelight.published.amplification import Amplified, amplified, gaussian_trade_off

TIMES = sized((100, 1_000, 10_000), (5, 10, 20))
BASELINE = "the report itself (μ = 1)"
EPSILONS = np.linspace(0, 4, 41)
ALPHAS = np.linspace(0.005, 0.995, 100)
THRESHOLDS = np.linspace(-12, 12, sized(4001, 41))

STYLES[BASELINE] = (INK, ":", False)
for _time, _colour in zip(TIMES, (OCHRE, BLUE, GREEN), strict=True):
    STYLES[f"t = {_time:,}, computed"] = (_colour, "-", True)
    STYLES[f"t = {_time:,}, simulated"] = (_colour, "-.", False)


def measure(size: Size) -> list[Panel]:
    """Return trade-off curves and (ε, δ) curves."""
    runs = simulate_adabatch(rule(), rounds=max(TIMES), runs=size.trials, rng=np.random.default_rng(8), times=TIMES)
    guarantees: dict[str, Amplified] = {}
    for place, time in enumerate(TIMES):
        guarantees[f"t = {time:,}, computed"] = amplified(rule(), mu=1.0, time=time)
        sizes, counts = np.unique(runs.sizes[:, place], return_counts=True)
        guarantees[f"t = {time:,}, simulated"] = Amplified(
            mu=1.0, sizes=sizes.astype(float), weights=counts / size.trials
        )
    trade_offs = {BASELINE: Curve(gaussian_trade_off(1.0, ALPHAS))}
    deltas = {BASELINE: Curve(gaussian_floats(1.0, EPSILONS))}
    for name, guarantee in guarantees.items():
        alpha, beta = guarantee.trade_off(THRESHOLDS)
        trade_offs[name] = Curve(np.interp(ALPHAS, alpha[::-1], beta[::-1]))
        deltas[name] = Curve(guarantee.delta(EPSILONS))
    words = f"n = 25, η = 5, a = 0.01; {size.trials} simulated runs without gains"
    return [
        Panel(
            "Trade-off",
            words,
            "false positives",
            ALPHAS,
            trade_offs,
            y_label="false negatives",
            log_y=False,
            from_zero=True,
            rows=range(0, 100, 20),
        ),
        Panel("Privacy profile", words, "ε", EPSILONS, deltas, y_label="δ", rows=range(0, 41, 10)),
    ]


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    del size
    profile = panels[1]
    gains = [profile.at(BASELINE, 4.0) / profile.at(f"t = {time:,}, computed", 4.0) for time in TIMES]
    found = [
        Trend(
            "later reports are hidden better (δ at ε = 4)",
            ", ".join(f"{gain:.2f}" for gain in gains),
            1 <= gains[0] < gains[1] < gains[2],
        )
    ]
    for time in TIMES:
        ours, drawn = (profile.at(f"t = {time:,}, {how}", 1.0) for how in ("computed", "simulated"))
        found.append(
            Trend(
                f"t = {time:,}: the computed δ(1) bounds the simulated one",
                f"{ours:.3g} against {drawn:.3g}",
                ours >= 0.9 * drawn,
            )
        )
    return found


FIGURE = Figure(
    number="E1",
    title="RW-AdaBatch: how well a batch hides a report from observers",
    note="Solid: computed. Dash-dotted: from simulated batch sizes. Dotted: the report itself, which the server sees.",
    remark="For observers of the actions only, and gains fixed in advance.",
    measure=measure,
    trends=trends,
    quick=Size(trials=200),
    paper=Size(trials=1000, full=True),
    name="experts_amplification",
)

if __name__ == "__main__":
    FIGURE.main()
