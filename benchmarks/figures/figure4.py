"""Figure 4: error along a sequence. Left: a median whose place moves with public features. Right: trips by day.

Must show, left: after a burn-in the reference (which sees the records and is not private) is lowest, learning from
releases lies between it and the priors that never learn. The private learner (a tenth of epsilon, delta 0.2/T; the
release has the rest) needs the paper's 100,000 steps to gain anything: asserted with --full only, against Cauchy.
Right, at a tiny epsilon: hedged learners do better than those that are not. The paper adds that unhedged PubPrev is not
better than Uniform after day 1,600; the available days do not reach that far.
"""

from __future__ import annotations

import numpy as np

from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Panel, Trend
from benchmarks.figures.private_learner import with_private_learner
from benchmarks.figures.streams import BARELY, YARDSTICK, bike_trips, moving, synthetic
from benchmarks.learning import DECILES, days
from benchmarks.measuring import sized
from sidelight.quantiles import quantile_tree

EPSILON = 10**-0.5
#: Days of trips in a quick run; --full takes all.
QUICK_DAYS = sized(600, 4)


def measure(size: Size) -> list[Panel]:
    """Return both panels."""
    return [_median(size), _trips(size)]


def _median(size: Size) -> Panel:
    stream = synthetic(size.steps, count=1, rate=0, seed=41)
    tree = quantile_tree(stream.levels, epsilon=f"{EPSILON:.9f}")
    rest = quantile_tree(stream.levels, epsilon=f"{0.9 * EPSILON:.9f}")  # the learner has a tenth
    every = 10 if size.full else 1  # what does not need each release is released at every tenth step only
    gaps = {name: stream.with_static(tree, priors, every=every) for name, priors in stream.statics.items()}
    gaps["DP-FTRL robust"] = with_private_learner(
        stream, rest, epsilon=0.1 * EPSILON, delta=0.2 / size.steps, seed=41, every=every
    )
    gaps["PubProx robust"] = stream.with_learner(tree, stream.proximate(method="cocob"), every=every)
    gaps["PubProx, our learner"] = stream.with_learner(tree, stream.proximate(), every=every)
    gaps[YARDSTICK] = stream.with_yardstick(tree, stream.proximate(method="cocob"), every=every)
    window = max(1, min(1000, size.steps // 10))
    x, curves = moving(gaps, window, every=every)
    return Panel(
        "Synthetic median, ε = 0.316",
        f"{stream.data}, T = {size.steps:,}; mean over {window} steps",
        "step",
        x,
        curves,
        log_y=False,
        y_label="gap (ranks of 100)",
        rows=np.linspace(0, len(x) - 1, 9).astype(int).tolist(),
    )


def _trips(size: Size) -> Panel:
    stream = bike_trips(days(), DECILES, steps=10**9 if size.full else min(size.steps, QUICK_DAYS), seed=42)
    tree = quantile_tree(stream.levels, epsilon="0.01")
    gaps = {"Uniform": stream.with_static(tree, stream.bounds)}
    learners = {
        "PubPrev": stream.previous(**BARELY),
        "PubPrev robust": stream.previous(),
        "PubProx": stream.proximate(method="cocob", **BARELY),
        "PubProx robust": stream.proximate(method="cocob"),
        "PubProx, our learner": stream.proximate(),
    }
    gaps |= {name: stream.with_learner(tree, learner) for name, learner in learners.items()}
    x, curves = moving(gaps, 30)
    return Panel(
        "Trips by day, nine deciles, ε = 0.01",
        f"{stream.data}; mean over 30 days",
        "day",
        x,
        curves,
        log_y=False,
        from_zero=True,
        rows=np.linspace(0, len(x) - 1, 9).astype(int).tolist(),
    )


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    median, trips = panels
    last = {name: median.between(name, 0.8 * size.steps, size.steps) for name in median.curves}
    static = min(last["Uniform"], last["Cauchy"])
    proximate = [last["PubProx robust"], last["PubProx, our learner"]]
    found = [
        Trend(
            "left, last fifth: learning from releases lies between the yardstick and the priors that never learn",
            f"{last[YARDSTICK]:.2f}; {proximate[0]:.2f} (paper's learner), {proximate[1]:.2f} (ours); {static:.2f}",
            max(proximate) < static and last[YARDSTICK] < 1.1 * min(proximate),
        )
    ]
    if size.full:
        ratios = []
        for low in (0, 0.8):
            part = (low * size.steps, (low + 0.2) * size.steps)
            ratios.append(median.between("DP-FTRL robust", *part) / median.between("Cauchy", *part))
        found.append(
            Trend(
                "left: the private learner gains on the prior that never learns, slowly, and stays behind PubProx",
                f"{ratios[0]:.3f} times Cauchy's error in the first fifth, {ratios[1]:.3f} in the last",
                ratios[1] < ratios[0] and last["DP-FTRL robust"] > max(proximate),
            )
        )
    whole = {name: float(curve.mean.mean()) for name, curve in trips.curves.items()}
    for name in ("PubPrev", "PubProx"):
        hedged = whole[f"{name} robust"]
        found.append(
            Trend(
                f"right: {name} does better with a hedge",
                f"{hedged:.0f} against {whole[name]:.0f}",
                hedged < whole[name],
            )
        )
    found.append(
        Trend(
            "right: learning from releases with features does better than Uniform",
            f"{whole['PubProx robust']:.0f} and {whole['PubProx, our learner']:.0f} against {whole['Uniform']:.0f}",
            max(whole["PubProx robust"], whole["PubProx, our learner"]) < whole["Uniform"],
        )
    )
    return found


FIGURE = Figure(
    number=4,
    title="Learning along a sequence",
    note="Moving average of the average gap, one run. The dotted line sees the records: a yardstick, not a method.",
    measure=measure,
    trends=trends,
    quick=Size(trials=1, steps=8000),
    paper=Size(trials=1, steps=100_000),
)

if __name__ == "__main__":
    FIGURE.main()
