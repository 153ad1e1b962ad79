"""Figure 2: one release of nine deciles of 100 people, with public data of the same population, as epsilon grows.

Must show: the public quantiles themselves are best for small epsilon and worse than PubFit above epsilon 1; PubFit is
close to them for small epsilon; all methods that use the private data meet at epsilon 10.
"""

from __future__ import annotations

import numpy as np

import sidelight as sl
from benchmarks.baselines.public_quantiles import public_cauchy, public_quantiles
from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.figures.releases import Records
from benchmarks.learning import DECILES, ROWS, Column, columns
from benchmarks.measuring import sized
from sidelight.predictions import Prior
from sidelight.quantiles import fit_public, nonprivate_gap, quantile_tree

#: Guesses of location and scale (the paper's).
GUESS = {"age": (40, 5), "hours": (40, 2)}
PRIVATE = ("Uniform", "public Cauchy", "PubFit", "PubFit robust", "PubFit, our hedge")


def predictions(
    sample: sl.PublicData, *, location: float, scale: float, step: float, bounds: list[Prior]
) -> dict[str, list[Prior]]:
    """Return the priors of each method. "Not robust" still has a millionth of a wide uniform, as the authors have."""
    fit = {"levels": DECILES, "size": ROWS, "granularity": step}
    wide = sl.priors.Uniform(-1e6, 1e6)
    return {
        "Uniform": bounds,
        "public Cauchy": list(public_cauchy(sample, levels=DECILES, scale=scale)),
        "PubFit": fit_public(sample, **fit, hedge_weight=1e-6, fallback=wide),  # type: ignore[arg-type]
        "PubFit robust": fit_public(sample, **fit, hedge_weight=0.1, fallback=sl.priors.HalfCauchy(location)),  # type: ignore[arg-type]
        "PubFit, our hedge": fit_public(sample, **fit),  # type: ignore[arg-type]
    }


def measure(size: Size) -> list[Panel]:
    """Return a panel for ages and one for hours."""
    epsilons = sized(np.logspace(-3, 1, 9), np.array([0.1, 1.0]))
    return [_panel(column, epsilons, size.trials) for column in columns()]


def _panel(column: Column, epsilons: np.ndarray, trials: int) -> Panel:
    rng = np.random.default_rng(102)
    draws = [Records.of(rng.choice(column.private, ROWS, replace=False), step=1, seed=(2, t)) for t in range(trials)]
    sample = sl.PublicData(column.public, f"{column.name}, public file")
    location, scale = GUESS[column.name]
    bounds: list[Prior] = [sl.priors.Uniform(column.lower, column.upper)] * len(DECILES)
    ways = predictions(sample, location=location, scale=scale, step=1, bounds=bounds)
    flat = public_quantiles(sample, levels=DECILES)
    known = np.array([nonprivate_gap(draw.codes, DECILES, flat).mean() for draw in draws])
    errors = {name: np.empty((len(epsilons), trials)) for name in ways}
    for i, epsilon in enumerate(epsilons.tolist()):
        tree = quantile_tree(DECILES, epsilon=f"{epsilon:.9f}")
        for name, priors in ways.items():
            errors[name][i] = [draw.release(tree, priors)[1].mean() for draw in draws]
    curves = {"public quantiles": Curve.of(np.tile(known, (len(epsilons), 1)))}
    curves |= {name: Curve.of(each) for name, each in errors.items()}
    data = (
        "STAND-IN: generated" if column.generated else "Adult: public = training file, private = 100 of the test file"
    )
    return Panel(f"Adult {column.name}", data, "ε", epsilons, curves, log_x=True)


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    found = []
    for panel in panels:
        flat = panel.at("public quantiles", 0.01)
        best = min(panel.at(name, 0.01) for name in PRIVATE)
        fit = panel.at("PubFit", 0.01)
        found += [
            Trend(
                f"{panel.title}, ε = 0.01: the public quantiles are best",
                f"{flat:.2f} against {best:.2f}",
                flat <= best,
            ),
            Trend(
                f"{panel.title}, ε = 0.01: PubFit is close to them: it closes five sixths of the way from Uniform",
                f"{fit:.2f} between {flat:.2f} and {panel.at('Uniform', 0.01):.1f}",
                panel.at("Uniform", 0.01) - fit > 5 / 6 * (panel.at("Uniform", 0.01) - flat),
            ),
        ]
        fit, last = panel.at("PubFit", 10), [panel.at(name, 10) for name in PRIVATE]
        found += [
            Trend(
                f"{panel.title}, ε = 10: PubFit is better than the public quantiles",
                f"{fit:.2f} against {flat:.2f}",
                fit < flat,
            ),
            Trend(
                f"{panel.title}, ε = 10: the methods that use the private data meet (within half a rank)",
                f"{min(last):.2f} to {max(last):.2f}",
                max(last) - min(last) < 0.5,
            ),
        ]
    return found


FIGURE = Figure(
    number=2,
    title="Public data of the same population",
    note="Nine deciles of 100 records. Mean over data sets of the average gap; the band is one standard error.",
    measure=measure,
    trends=trends,
    quick=Size(trials=40),
    paper=Size(trials=40),
)

if __name__ == "__main__":
    FIGURE.main()
