"""Picture and table of the page on many quantiles: largest gaps against rivals, and a distribution with its band.

10,000 generated records, epsilon 1. Run `python -m benchmarks.many_quantiles_picture` to write
docs/images/many-quantiles.svg and the table of docs/how-to/many-quantiles.md, whose cells are those of
`benchmarks.quantile_many`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized, written
from benchmarks.quantile_many import KINDS, LEVELS, Cell, gaps_of, histogram_quantiles, histogram_ranks, measure_kind
from sidelight.quantiles.tree import even_levels
from sidelight.testing import seeded_release

COUNTS = sized((3, 9, 19, 49, 99, 199, 499, 999), (3, 19))
TRIALS = sized(12, 1)
ROWS = 10_000
DOCS = Path(__file__).parent.parent / "docs"
PICTURE = written(DOCS / "images" / "many-quantiles.svg")
PAGE = written(DOCS / "how-to" / "many-quantiles.md")
WORDS = {
    "normal": "normal",
    "lognormal": "lognormal",
    "bimodal": "two modes, ten standard deviations apart",
    "ages": "ages, declared",
    "pareto": "Pareto(1.1), no bounds",
}


def gaps() -> dict[str, list[float]]:
    """Return the mean largest gap by method, one for each number of levels."""
    kind, rng = KINDS["normal"], np.random.default_rng(5)
    found: dict[str, list[list[float]]] = {name: [[] for _ in COUNTS] for name in ("ours", "histogram", "tree")}
    for trial in range(TRIALS):
        values = kind.draw(rng, ROWS)
        ordered = np.sort(values)
        ranks = histogram_ranks(values, kind.edges, 1.0, rng)
        for place, count in enumerate(COUNTS):
            outputs = {"histogram": histogram_quantiles(ranks, kind, count)}
            for name, form in (("ours", "auto"), ("tree", "tree")):
                query = sl.Quantiles(even_levels(count), epsilon=1, form=form)  # type: ignore[arg-type]
                outputs[name] = seeded_release(query, values, seed=1000 * trial + count).value
            for name, each in outputs.items():
                found[name][place].append(float(gaps_of(ordered, each, count).max()))
    return {name: [float(np.mean(each)) for each in lists] for name, lists in found.items()}


def draw(table: dict[str, list[float]]) -> None:
    """Write the picture."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.family": "sans-serif", "svg.hashsalt": "sidelight", "svg.fonttype": "none"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    shown = {"tree": ("one tree of selections", "#9aa5b1"), "histogram": ("histogram on [-10, 10]", "#b8743c")}
    for name, (words, colour) in {**shown, "ours": ("sidelight, no bounds", "#1f6f50")}.items():
        left.plot(COUNTS, table[name], "o-", color=colour, label=words, markersize=4)
    left.set_xscale("log")
    left.set_xticks(COUNTS, [str(count) for count in COUNTS])
    left.minorticks_off()
    left.set_ylim(0)
    left.set_xlabel("number of levels")
    left.set_title("largest error in ranks (10,000 records, ε = 1)", loc="left", fontsize=10)
    left.legend(frameon=False, fontsize=9)
    values = np.random.default_rng(6).lognormal(10.5, 0.8, 1000)
    known = seeded_release(sl.Distribution(epsilon=1), values, seed=6).value
    known.plot(right)
    ordered = np.sort(values)
    right.step(
        ordered[::10], np.arange(1, 1001, 10) / 1000, color="#c0392b", linewidth=0.8, label="1000 generated incomes"
    )
    right.set_xscale("log")
    right.set_title("a private distribution with its band (95 %, ε = 1)", loc="left", fontsize=10)
    right.legend(frameon=False, fontsize=9)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, facecolor="white", metadata={"Date": None})


def write_table(cells: dict[tuple[str, int], Cell]) -> None:
    """Put the table of means into the page, between its two comments."""
    lines = ["| data | levels | sidelight | histogram | tree |", "| --- | --- | --- | --- | --- |"]
    for name, words in WORDS.items():
        methods = ("ours, no bounds" if name == "pareto" else "ours", "histogram", "tree")
        means = [
            " / ".join(
                f"{cells[name, count].mean(method):.0f}" for count in LEVELS if method in cells[name, count].gaps
            )
            for method in methods
        ]
        lines.append(f"| {words} | {' / '.join(map(str, LEVELS))} | {' | '.join(means)} |")
    before, _, rest = PAGE.read_text().partition("<!-- table -->\n")
    _, end, after = rest.partition("<!-- end of table -->")
    PAGE.write_text(before + "<!-- table -->\n" + "\n".join(lines) + "\n" + end + after)


def main() -> None:
    """Print the numbers, draw the picture and write the table."""
    write_table(
        {(name, count): cell for name in KINDS for count, cell in measure_kind(name, ROWS, "1", opendp=False).items()}
    )
    table = gaps()
    for name, row in table.items():
        print(f"{name:10s} " + " ".join(f"{count}: {gap:.1f}" for count, gap in zip(COUNTS, row, strict=True)))
    draw(table)


if __name__ == "__main__":
    main()
