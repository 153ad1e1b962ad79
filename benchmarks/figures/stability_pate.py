"""Figure 3.2 of the thesis: the price of labels against the noise on the votes, with and without a private test.

Must show: where teachers agree, the integer distance costs less than the plain Gaussian price and less than the smooth
sensitivity of the thesis; on queries as they come it never costs more than the plain price: then it is not used.
"""

from __future__ import annotations

import numpy as np

from benchmarks import pate
from benchmarks.baselines.smooth_votes import cheapest_smooth_proposal
from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.figures.picture import BLUE, GREEN, INK, STYLES
from benchmarks.measuring import sized
from sidelight.stability.pate import cheapest_proposal, plain_epsilon

TEACHERS = sized(400, 30)
QUICK, PAPER = sized((20, 40, 60), (20, 40)), tuple(range(10, 101, 10))
PLAIN, DISTANCE, SMOOTH = "plain noise", "integer distance (ours)", "smooth sensitivity, corrected"

STYLES[PLAIN] = (INK, ":", False)
STYLES[DISTANCE] = (GREEN, "-", True)
STYLES[SMOOTH] = (BLUE, "-.", False)


def prices(votes: np.ndarray, noise: int) -> dict[str, float]:
    """Return what is charged: a test where one pays, the plain price where none does."""
    plain = plain_epsilon(len(votes), noise, delta=pate.DELTA)
    found = {PLAIN: plain}
    for name, choose in ((DISTANCE, cheapest_proposal), (SMOOTH, cheapest_smooth_proposal)):
        proposal = choose(len(votes), noise, delta=pate.DELTA, votes=votes)
        found[name] = plain if proposal is None else float(proposal.price.epsilon)
    return found


def measure(size: Size) -> list[Panel]:
    """Return one panel for the clearest queries and one for queries as they come."""
    noises = PAPER if size.full else QUICK
    votes = pate.simulated(TEACHERS)
    rng = np.random.default_rng(3)
    drawn = [votes[rng.choice(len(votes), pate.QUERIES, replace=False)] for _ in range(size.trials)]
    name = pate.digits().name
    words = f"{'STAND-IN ' if name != 'MNIST' else ''}{name}, {TEACHERS} simulated teachers, {pate.QUERIES} queries"
    panels = []
    for title, sets in (("Clear votes", [votes[pate.clear_queries(votes)]]), ("Queries as they come", drawn)):
        found = [[prices(each, noise) for each in sets] for noise in noises]
        curves = {
            method: Curve.of(np.array([[trial[method] for trial in row] for row in found]))
            for method in (PLAIN, DISTANCE, SMOOTH)
        }
        panels.append(
            Panel(title, words, "noise on each count σ", np.array(noises), curves, y_label="ε at δ = 1e-5", log_y=False)
        )
    return panels


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    del size
    clear, common = panels
    found = []
    for noise in (20, 40):
        ours, plain, smooth = (clear.at(name, noise) for name in (DISTANCE, PLAIN, SMOOTH))
        found.append(
            Trend(
                f"σ = {noise}, clear votes: at most 0.6 of the plain price, below smooth sensitivity",
                f"{ours:.2f} against {plain:.2f} and {smooth:.2f}",
                ours <= 0.6 * plain and ours < smooth,
            )
        )
    worst = max(common.curves[DISTANCE].mean / common.curves[PLAIN].mean)
    found.append(Trend("queries as they come: never above the plain price", f"{worst:.2f} of it", worst <= 1))
    return found


FIGURE = Figure(
    number="3.2",
    title="PATE: the price of 200 labels with and without a private test of the votes",
    note="Proposals are chosen from votes of simulated public teachers; they pass with probability 0.99 on such votes.",
    remark="Where no proposal pays, the plain price is charged and nothing is tested; that is known in advance.",
    measure=measure,
    trends=trends,
    quick=Size(trials=2),
    paper=Size(trials=10, full=True),
    name="stability_pate",
)

if __name__ == "__main__":
    FIGURE.main()
