"""Figure B.1 of the thesis: what a noisy vote loses against its margin, and what a vote costs at equal error.

Left: the loss at δ = 1e-6 falls to 0 with the margin, the pure loss does not fall: nothing is gained without a δ.
Right: margin 100, the price of report-noisy-max, of classic and of generalized propose-test-release against the error
rate, a refusal counted as an error half of the time. The thesis draws noise of at most 1/2, where errors are below
e^-200; here the noise is 5 to 50.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.figures.picture import BLUE, GREEN, INK, STYLES
from benchmarks.measuring import sized
from sidelight.mechanisms.tests_and_bounds import LaplaceTest
from sidelight.stability.mode import SafeMargins, loss_at, win_probabilities

DELTA = Fraction(1, 10**6)
MARGIN = 100
AT_DELTA, PURE = "loss at δ = 1e-6", "pure loss"
NOISY, CLASSIC, GENERAL = "report noisy max", "classic", "generalized"

STYLES[AT_DELTA] = (GREEN, "-", True)
STYLES[PURE] = (INK, ":", False)
STYLES[NOISY] = (INK, ":", False)
STYLES[CLASSIC] = (BLUE, "-.", False)
STYLES[GENERAL] = (GREEN, "-", True)


def losses(scale: int) -> Panel:
    """Return the loss of one vote against its margin."""
    margins = np.arange(0, 101)

    def loss(margin: int, delta: float) -> float:
        return loss_at(lambda t: win_probabilities(t, Fraction(scale)), margin, delta)

    curves = {
        AT_DELTA: Curve(np.array([loss(t, float(DELTA)) for t in margins.tolist()])),
        PURE: Curve(np.array([loss(t, 0.0) for t in margins.tolist()])),
    }
    words = f"discrete Laplace noise of scale {scale}"
    rows = range(0, 101, 20)
    return Panel(words, "exact", "margin", margins, curves, y_label="ε", log_y=False, from_zero=True, rows=rows)


def pass_probability(distance: int, test: LaplaceTest) -> float:
    """Return how likely a test is to pass at a distance."""
    a, need = math.exp(-float(test.epsilon)), test.threshold - min(distance, test.cap)
    return a**need / (1 + a) if need >= 1 else 1 - a ** (1 - need) / (1 + a)


def price(error: float, method: str) -> float:
    """Return the least epsilon with this error rate at the margin, by bisection or over a grid of noise."""
    if method == NOISY:
        return _least(lambda e: win_probabilities(MARGIN, 1 / Fraction(e))[1], error)
    if method == CLASSIC:
        return _least(lambda e: _refused(MARGIN - 1, e) / 2, error)
    best = math.inf
    for scale in sized((1, 2, 3, 5, 7, 10, 14, 20, 28, 40, 50), (10,)):
        wrong = win_probabilities(MARGIN, Fraction(scale))[1]
        for release in (0.0, 0.25 / scale, 0.5 / scale, 0.75 / scale, 1 / scale):
            safe = SafeMargins(scale=Fraction(scale), epsilon=Fraction(release), delta=DELTA)
            distance = safe.distance(MARGIN, cap=10**6)

            def rate(e: float, distance: int = distance, wrong: float = wrong) -> float:
                refused = _refused(distance, e)
                return refused / 2 + (1 - refused) * wrong

            best = min(best, release + _least(rate, error))
    return best


def _refused(distance: int, epsilon: float) -> float:
    return 1 - pass_probability(distance, LaplaceTest(epsilon=Fraction(epsilon), false_pass=DELTA))


def _least(rate: Callable[[float], float], error: float) -> float:
    low, high = 1e-3, 8.0
    if rate(high) > error:
        return math.inf
    for _ in range(sized(24, 2)):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if rate(middle) <= error else (middle, high)
    return high


def measure(size: Size) -> list[Panel]:
    """Return both panels of the figure, the left one for two scales."""
    errors = np.array([1e-1, 1e-2, 1e-3, 1e-4, 1e-5] if size.full else sized([1e-1, 1e-3, 1e-5], [1e-1]))
    curves = {name: Curve(np.array([price(error, name) for error in errors])) for name in (NOISY, CLASSIC, GENERAL)}
    right = Panel("Price at equal error", f"margin {MARGIN}", "error rate", errors, curves, y_label="ε", log_x=True)
    return [losses(1), losses(5), right]


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    del size
    found = [
        Trend(
            f"{panel.title}: at a δ the loss falls to 0 with the margin, the pure loss never falls",
            f"{panel.at(AT_DELTA, 100):.3g} against {panel.at(PURE, 100):.3g}",
            panel.at(AT_DELTA, 100) == 0 and panel.at(PURE, 100) >= panel.at(PURE, 0),
        )
        for panel in panels[:2]
    ]
    right = panels[2]
    noisy, classic, general = (right.at(name, 1e-5) for name in (NOISY, CLASSIC, GENERAL))
    found.append(
        Trend(
            "a pure noisy maximum is hard to beat at one vote: the tests pay ln(1/δ) for the distance",
            f"{noisy:.3f} against {classic:.3f} and {general:.3f}",
            noisy <= min(classic, general),
            binding=False,
        )
    )
    return found


FIGURE = Figure(
    number="B.1",
    title="A noisy vote, its margin and its price",
    note="Exact probabilities of integer noise; δ = 1e-6 where there is one.",
    remark="The thesis' left panel takes the pure loss to fall with the margin. It does not.",
    measure=measure,
    trends=trends,
    quick=Size(trials=1),
    paper=Size(trials=1, full=True),
    name="stability_voting",
)

if __name__ == "__main__":
    FIGURE.main()
