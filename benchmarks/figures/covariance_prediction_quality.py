"""Error of a private covariance against the quality of its prediction, for all methods, as a picture for the docs.

Simulated rows of 30 columns with spectrum 1/i. The prediction is (1 - t) of the true matrix, t of a rotated one: right
at t = 0, useless at t = 1. Median Frobenius errors of releases through the pipeline, relative to plain noise with the
same budget. Run `python -m benchmarks.figures.covariance_prediction_quality` to print the tables and
write docs/images/covariance-predictions.svg.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.covariance import clipped, spectrum, table_of
from benchmarks.figures.picture import BLUE, GREEN, GREY, INK, OCHRE, RED
from benchmarks.measuring import sized, written
from sidelight.covariance import Choice

COLUMNS, ROWS, RUNS = sized((30, 2000, 16), (3, 200, 1))
QUALITY = sized([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0], [0.0, 1.0])
PICTURE = written(Path(__file__).parent.parent.parent / "docs" / "images" / "covariance-predictions.svg")
METHODS: dict[str, tuple[dict[str, Any], str, str]] = {
    "denoise (default)": ({}, GREEN, "-"),
    "separate": ({"method": "separate"}, BLUE, "-"),
    "separate, private choice": ({"method": "separate", "choice": Choice()}, BLUE, "--"),
    "ies": ({"method": "ies"}, OCHRE, "-"),
    "gauss (no prediction)": ({"method": "gauss"}, GREY, "-"),
    "the prediction itself": ({}, INK, ":"),
}
PRICES: dict[str, dict[str, Any]] = {"zCDP, ρ = 0.1": {"rho": "0.1"}, "pure, ε = 2": {"epsilon": 2}}


def errors() -> dict[str, dict[str, list[float]]]:
    """Return median errors relative to plain noise, by price and method."""
    rng = np.random.default_rng(11)
    rotation, other = (np.linalg.qr(rng.standard_normal((COLUMNS, COLUMNS)))[0] for _ in range(2))
    rows = clipped(rng.standard_normal((ROWS, COLUMNS)) @ ((rotation * np.sqrt(spectrum(COLUMNS))) @ rotation.T))
    truth, table = rows.T @ rows / ROWS, table_of(rows)
    wrong = (other * spectrum(COLUMNS)) @ other.T

    def median(settings: dict[str, Any]) -> float:
        query = sl.Covariance(radius=1, rows=ROWS, **settings)
        return float(np.median([np.linalg.norm(query.release(table).value["matrix"] - truth) for _ in range(RUNS)]))

    found: dict[str, dict[str, list[float]]] = {}
    for title, price in PRICES.items():
        plain = median({**price, "method": "gauss", "project": False})
        found[title] = {}
        for name, (settings, _, _) in METHODS.items():
            if name == "ies" and "rho" in price:
                continue
            line = []
            for share in QUALITY:
                prediction = (1 - share) * truth + share * wrong
                if name == "the prediction itself":
                    line.append(float(np.linalg.norm(prediction - truth)) / plain)
                else:
                    line.append(median({**price, **settings, "prediction": prediction}) / plain)
            found[title][name] = line
    return found


def draw(table: dict[str, dict[str, list[float]]], path: Path = PICTURE) -> None:
    """Write the picture."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.family": "sans-serif", "svg.hashsalt": "sidelight", "svg.fonttype": "none"})
    figure, axes = plt.subplots(1, len(table), figsize=(9.5, 4.1), sharey=True, layout="constrained")
    for axis, (title, lines) in zip(axes, table.items(), strict=True):
        for name, line in lines.items():
            _, colour, dash = METHODS[name]
            strong = name.startswith("denoise")
            axis.plot(QUALITY, line, dash, color=colour, label=name, linewidth=2.6 if strong else 1.6, marker="o", ms=3)
        axis.axhline(1, color=RED, linewidth=0.8, linestyle=(0, (1, 3)))
        axis.set_title(title, loc="left", fontsize=11)
        axis.set_yscale("log")
        axis.set_ylim(0.03, 12)
        axis.set_yticks([0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10], ["0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10"])
        axis.set_xlabel("share of a wrong matrix in the prediction")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e4e7eb", linewidth=0.8)
    axes[0].set_ylabel("error, relative to plain noise")
    handles = {name: line for axis in axes for line, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white", metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Print the tables and draw the picture."""
    table = errors()
    for title, lines in table.items():
        print(f"{title:28s}" + "".join(f"{share:8g}" for share in QUALITY))
        for name, line in lines.items():
            print(f"  {name:26s}" + "".join(f"{error:8.2f}" for error in line))
    draw(table)


if __name__ == "__main__":
    main()
