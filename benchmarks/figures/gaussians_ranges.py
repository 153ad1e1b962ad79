"""Public rows remove the dependence on ranges: the simulation of the paper's Appendix D, with our code for both sides.

Rows N(k·1, I) of 50 columns, rho = 0.5, neighbours that replace a row, ranges R = k√50 as exact as they can be. Must
show: with one public row the error does not move with k; CoinPress in two steps gets worse with k. The published code
takes the public row's radius from the number of rows; here it is from the number of columns. 10 % trimmed means.
"""

from __future__ import annotations

import numpy as np

import sidelight as sl
from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.figures.picture import GREEN, INK, OCHRE, RED, STYLES
from benchmarks.measuring import sized

COLUMNS = sized(50, 4)
PLACES = (10, 100, 1000)
PLAIN, TWO, THREE, PUBLIC = "non-private mean", "CoinPress, 2 steps", "CoinPress, 3 steps", "one public row (ours)"
STYLES.update(
    {PLAIN: (INK, ":", False), TWO: (RED, "-", False), THREE: (OCHRE, "-", False), PUBLIC: (GREEN, "-", True)}
)


def measure(size: Size) -> list[Panel]:
    """Return one panel for each distance k."""
    counts = np.round(np.geomspace(1000, 10_000, 12 if size.full else sized(4, 1))).astype(int)
    return [
        Panel(
            f"mean k = {place} in each of {COLUMNS} columns",
            "generated, as in the paper",
            "number of private rows n",
            counts,
            _curves(place, counts, size.trials),
            y_label="Euclidean error of the mean",
            log_x=True,
        )
        for place in PLACES
    ]


def _curves(place: int, counts: np.ndarray, trials: int) -> dict[str, Curve]:
    errors: dict[str, list[list[float]]] = {name: [] for name in (PLAIN, TWO, THREE, PUBLIC)}
    for count in counts.tolist():
        found: dict[str, list[float]] = {name: [] for name in errors}
        for trial in range(trials):
            rng = np.random.default_rng((13, count, trial))
            rows, public = rng.standard_normal((count, COLUMNS)) + place, rng.standard_normal((1, COLUMNS)) + place
            shared = {"rho": "0.5", "rows": count}
            queries = {
                TWO: sl.GaussianMean(mean_bound=place * COLUMNS**0.5, steps=2, **shared),  # type: ignore[arg-type]
                THREE: sl.GaussianMean(mean_bound=place * COLUMNS**0.5, steps=3, **shared),  # type: ignore[arg-type]
                PUBLIC: sl.GaussianMean(prediction=public, steps=2, **shared),  # type: ignore[arg-type]
            }
            found[PLAIN].append(float(np.linalg.norm(rows.mean(axis=0) - place)))
            for name, query in queries.items():
                found[name].append(float(np.linalg.norm(query.release(rows).value["mean"] - place)))
        for name, each in found.items():
            errors[name].append(each)
    return {name: _trimmed(np.array(each)) for name, each in errors.items()}


def _trimmed(errors: np.ndarray) -> Curve:
    from scipy.stats import trim_mean

    return Curve(trim_mean(errors, 0.1, axis=1))


def trends(panels: list[Panel], size: Size) -> list[Trend]:
    """State what must show."""
    del size
    public = [panel.at(PUBLIC, 1000) for panel in panels]
    ranges = [panel.at(TWO, 1000) for panel in panels]
    return [
        Trend(
            "n = 1000, one public row: the same error wherever the mean is",
            ", ".join(f"{error:.3f}" for error in public),
            max(public) < 1.1 * min(public),
        ),
        Trend(
            "n = 1000, CoinPress in two steps: worse the further the mean may be",
            ", ".join(f"{error:.3f}" for error in ranges),
            ranges[1] > 1.5 * ranges[0] and ranges[2] > 4 * ranges[1],
        ),
        Trend(
            "n = 1000, k = 1000: one public row is more than ten times better than CoinPress given the true range",
            f"{public[2]:.3f} against {ranges[2]:.3f}",
            public[2] < 0.1 * ranges[2],
        ),
        Trend(
            "n = 1000: one public row costs at most 1.3 of the non-private error",
            f"{max(p.at(PUBLIC, 1000) / p.at(PLAIN, 1000) for p in panels):.2f}",
            all(p.at(PUBLIC, 1000) < 1.3 * p.at(PLAIN, 1000) for p in panels),
        ),
    ]


FIGURE = Figure(
    number="D",
    title="Public rows remove the dependence on ranges",
    note="Trimmed mean error over data sets; 50 columns, ρ = 0.5, n public. CoinPress knows the true range.",
    measure=measure,
    trends=trends,
    quick=Size(trials=12),
    paper=Size(trials=100),
    name="gaussians_ranges",
    remark="Everything is released through the door with exact noise.",
)

if __name__ == "__main__":
    FIGURE.main()
