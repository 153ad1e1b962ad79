"""What side information is worth: error of nine deciles with nothing, bounds, a guess and public data, as a picture.

Data: 1000 generated ages (rounded Gamma). Public data: 5000 ages of a similar population, half a year older.
The error is the largest of the nine rank errors, averaged over 200 seeded releases. Run
`python -m benchmarks.gain_picture` to print the table of the README and to write docs/images/gain.svg.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized, written
from sidelight.quantiles import fit_public, nonprivate_gap
from sidelight.testing import seeded_release

LEVELS = [i / 10 for i in range(1, 10)]
EPSILONS = ["0.1", "1"]
TRIALS = sized(200, 2)
PICTURE = written(Path(__file__).parent.parent / "docs" / "images" / "gain.svg")


def ages(count: int, *, older: float = 0.0) -> np.ndarray:
    """Generate ages, so that errors may be shown."""
    return np.rint(older + np.random.default_rng(2026 + count).gamma(6, 6.4, count))


def errors() -> dict[str, dict[str, float]]:
    """Return mean maximum rank error by knowledge and epsilon."""
    people = ages(1000)
    older = sl.PublicData(ages(5000, older=0.5), "a similar population, half a year older")
    knowledge: dict[str, dict[str, object]] = {
        "nothing at all": {},
        "bounds 0 to 120": {"bounds": (0, 120)},
        "a guess: about 40, give or take 10": {"prediction": sl.priors.Cauchy(40, 10)},
        "a public sample": {"prediction": fit_public(older, levels=LEVELS, size=1000, granularity=1)},
    }
    return {name: {eps: _error(people, eps, known) for eps in EPSILONS} for name, known in knowledge.items()}


def _error(people: np.ndarray, epsilon: str, known: dict[str, object]) -> float:
    query = sl.Quantiles(LEVELS, epsilon=epsilon, granularity=1, **known)  # type: ignore[arg-type]
    releases = (seeded_release(query, people, seed=seed) for seed in range(TRIALS))
    return float(np.mean([nonprivate_gap(people, LEVELS, release.value).max() for release in releases]))


def draw(table: dict[str, dict[str, float]]) -> None:
    """Write the picture."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.family": "sans-serif", "svg.hashsalt": "sidelight", "svg.fonttype": "none"})
    figure, axes = plt.subplots(1, 2, figsize=(9, 2.6), sharey=True, layout="constrained")
    colours = ["#9aa5b1", "#7b8794", "#3e7cb1", "#1f6f50"]
    for axis, epsilon in zip(axes, EPSILONS, strict=True):
        values = [row[epsilon] for row in table.values()]
        bars = axis.barh(list(table), values, color=colours)
        axis.bar_label(bars, fmt="%.0f" if max(values) > 30 else "%.1f", padding=3)
        axis.set_title(f"ε = {epsilon}", loc="left", fontsize=11)
        axis.set_xlim(0, max(values) * 1.15)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
        axis.set_xticks([])
    axes[0].invert_yaxis()  # shared by both
    figure.supxlabel("people between the released decile and the true one (of 1000; the worst of nine)", fontsize=10)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, facecolor="white", metadata={"Date": None})


def main() -> None:
    """Print the table and draw the picture."""
    table = errors()
    print(f"{'known beforehand':38s} " + " ".join(f"ε = {epsilon:6s}" for epsilon in EPSILONS))
    for name, row in table.items():
        print(f"{name:38s} " + " ".join(f"{row[epsilon]:10.1f}" for epsilon in EPSILONS))
    draw(table)


if __name__ == "__main__":
    main()
