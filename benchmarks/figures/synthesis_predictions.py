"""Error of a synthetic table against epsilon and against how many public rows predict it, with MWEM as printed.

Adult where it is there, a generated table of the same sizes where it is not. The error is the mean over all pairs of
columns of the total-variation distance to the private table. Must show: public rows help where epsilon is small, a
wrong public table costs next to nothing at any epsilon, and the algorithm as printed is several times worse.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import sidelight as sl
from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.figures.picture import BLUE, GREEN, INK, OCHRE, RED, STYLES
from benchmarks.measuring import sized
from benchmarks.real_data import find
from benchmarks.synthesis import printed_error
from benchmarks.synthesis_data import Case, adult

QUICK, PAPER = sized(("0.1", "0.3", "1", "3"), ("0.1", "1")), ("0.05", "0.1", "0.3", "1", "3", "10")
QUICK_ROWS, PAPER_ROWS = sized((100, 1000), (20,)), (30, 100, 300, 1000)  # and all of them
SMALL = "0.1"  # one of both: the epsilon of the panel of public rows
ALONE, PUBLIC, WRONG = "no prediction", "public part", "wrong public table"
ITSELF, PRINTED = "the public part itself", "MWEM as printed"

STYLES[ALONE] = (BLUE, "-", False)
STYLES[PUBLIC] = (GREEN, "-", True)
STYLES[WRONG] = (OCHRE, "-", False)
STYLES[ITSELF] = (INK, ":", False)
STYLES[PRINTED] = (RED, "--", False)


def error(case: Case, epsilon: str, rows: np.ndarray | None = None) -> float:
    """Release once, through the pipeline, and compare."""
    prediction = None if rows is None else sl.PublicData(case.frame(rows), "public rows of the figure")
    return case.error_of(sl.SyntheticTable(epsilon=epsilon, prediction=prediction).release(case.table))


def measure(size: Size) -> list[Panel]:
    """Return one panel over epsilon and one over the number of public rows."""
    case = adult()
    order = np.random.default_rng(0).permutation(len(case.public))
    public, wrong = case.public[order], case.wrong[order]

    def curve(once: Callable[[str], float]) -> Curve:
        return Curve.of(np.array([[once(epsilon) for _ in range(size.trials)] for epsilon in epsilons]))

    name = "STAND-IN: generated" if find("adult_discretised") is None else "Adult"
    words = f"{name}, {len(case.private)} rows, {len(case.sizes)} columns, {np.prod(case.sizes)} cells"
    epsilons, counts = (PAPER, PAPER_ROWS) if size.full else (QUICK, QUICK_ROWS)
    over_epsilon = {
        ALONE: curve(lambda epsilon: error(case, epsilon)),
        PUBLIC: curve(lambda epsilon: error(case, epsilon, public)),
        WRONG: curve(lambda epsilon: error(case, epsilon, wrong)),
        ITSELF: Curve(np.full(len(epsilons), case.error(case.public))),
        PRINTED: curve(lambda epsilon: printed_error(case, epsilon=epsilon, runs=1)),
    }
    small = epsilons.index(SMALL)
    rows = (*counts, len(public))

    def over(given: np.ndarray, shared: Curve) -> Curve:
        part = [[error(case, SMALL, given[:count]) for _ in range(size.trials)] for count in counts]
        return Curve(np.append(np.mean(part, axis=1), shared.mean[small]))

    over_rows = {
        ALONE: Curve(np.full(len(rows), over_epsilon[ALONE].mean[small])),
        PUBLIC: over(public, over_epsilon[PUBLIC]),
        WRONG: over(wrong, over_epsilon[WRONG]),
        ITSELF: Curve(np.array([case.error(public[:count]) for count in rows])),
    }
    label = "mean total-variation error"
    axis = np.array([float(epsilon) for epsilon in epsilons])
    return [
        Panel("Against the price", words, "ε", axis, over_epsilon, y_label=label, log_x=True),
        Panel(
            f"Against the public rows, ε = {SMALL}",
            words,
            "public rows",
            np.array(rows, np.float64),
            over_rows,
            y_label=label,
            log_x=True,
        ),
    ]


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    del size
    price, rows = panels
    least, most = float(price.x[0]), float(price.x[-1])
    alone, public = price.at(ALONE, least), price.at(PUBLIC, least)
    worst = float(np.max(price.curves[WRONG].mean / price.curves[ALONE].mean))
    printed = price.at(PRINTED, 1) / price.at(ALONE, 1)
    falls = price.at(ALONE, least) / price.at(ALONE, most)
    many = float(rows.curves[PUBLIC].mean[-1] / rows.curves[ALONE].mean[-1])
    return [
        Trend(f"ε = {least:g}: the public part helps", f"{public:.3f} against {alone:.3f}", public <= 0.85 * alone),
        Trend("a wrong table costs at most a quarter more", f"{worst:.2f} times at worst", worst <= 1.25),
        Trend("MWEM as printed is at least 5 times worse at ε = 1", f"{printed:.1f} times", printed >= 5),
        Trend("the error falls with the price", f"{falls:.0f} times from {least:g} to {most:g}", falls >= 5),
        Trend(f"ε = {SMALL}: all public rows help", f"{many:.2f} of the error without", many <= 0.8),
    ]


FIGURE = Figure(
    number="S1",
    title="Synthetic tables: what a prediction gives, and what a wrong one costs",
    note="All pairs of columns, asked for and compared. Adding or removing a row; MWEM: replacing one, 20 rounds.",
    remark="The dotted line is the error of the public rows themselves, without any release.",
    measure=measure,
    trends=trends,
    quick=Size(trials=3),
    paper=Size(trials=10, full=True),
    name="synthesis_predictions",
)

if __name__ == "__main__":
    FIGURE.main()
