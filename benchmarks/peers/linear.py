"""Private logistic regression with diffprivlib and with ours, on the same splits: breast_cancer and Adult.

Different promises, not only different code. diffprivlib: pure epsilon for one row *replaced* (Chaudhuri, Monteleoni and
Sarwate 2011). Ours: (epsilon, 1e-5) for one row *added or removed*. Theirs is the stronger promise, and it is the only
one that they offer; much of the difference is its price.

diffprivlib runs in the peers' own environment with four settings; a cell compares ours, untuned, with the best of the
four by test accuracy, which is a favour to it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import linear_sets
from benchmarks.linear_models import DRAWS, EPSILONS, FIRST_SEED, OLD, OURS, our_accuracy
from benchmarks.linear_sets import Labelled
from benchmarks.measuring import sized
from benchmarks.peers.environments import PeersError, run, save_data

#: The small set is noisy and quick, the large one neither.
SPLITS = sized({"breast_cancer": 40, "Adult": 4}, {"breast_cancer": 2, "Adult": 2})
#: Their default first; then what its users turn: the strength of the penalty and the intercept.
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "no intercept": {"fit_intercept": False},
    "C=0.01": {"C": 0.01},
    "C=0.01, no intercept": {"C": 0.01, "fit_intercept": False},
}


def run_peer(data: Labelled, seeds: list[int]) -> dict[str, list[float]]:
    """Return diffprivlib's test accuracies by "epsilon/settings"."""
    splits = [data.split(seed) for seed in seeds]
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        save_data(
            Path(folder),
            [{"rows": x, "target": y, "test_rows": x_test} for (x, y), (x_test, _) in splits],
        )
        for epsilon in EPSILONS:
            for name, settings in SETTINGS.items():
                told = {"epsilon": epsilon, "data_norm": 1.0, "settings": settings}
                outcome = run("diffprivlib", "logistic", data=Path(folder), trials=len(seeds), seconds=600, **told)
                if outcome.failure is not None:
                    raise PeersError(f"diffprivlib: {outcome.failure}")
                found[f"{epsilon:g}/{name}"] = [
                    float(np.mean(answer == y_test))
                    for answer, (_, (_, y_test)) in zip(outcome.answers, splits, strict=True)
                ]
    return found


def compare(data: Labelled, splits: int, *, old: bool = False) -> dict[float, dict[str, float]]:
    """Return, for each epsilon, mean accuracies in percent: ours (the older solver, too), every one of diffprivlib."""
    seeds = [FIRST_SEED + split for split in range(splits)]
    theirs = run_peer(data, seeds)
    cells: dict[float, dict[str, float]] = {}
    for epsilon in EPSILONS:
        cells[epsilon] = {}
        for name, solver in ((OURS, "descent"), *([(OLD, "objective")] if old else [])):
            draws = DRAWS if solver == "descent" else 1
            found = [our_accuracy(data, seed, epsilon, draws=draws, solver=solver) for seed in seeds]
            cells[epsilon][name] = 100 * float(np.mean(found))
        for key, values in theirs.items():
            at, _, settings = key.partition("/")
            if float(at) == epsilon:
                cells[epsilon][f"diffprivlib, {settings}"] = 100 * float(np.mean(values))
    return cells


def sets() -> list[Labelled]:
    """Return the sets to compare on."""
    return [linear_sets.breast_cancer(), linear_sets.adult()]


def measure() -> dict[str, float]:
    """Return our lead in points of accuracy in every cell, over the best setting of diffprivlib."""
    figures: dict[str, float] = {}
    leads = []
    for data in sets():
        for epsilon, cells in compare(data, SPLITS[data.name]).items():
            theirs = {name: value for name, value in cells.items() if name != OURS}
            leads.append(cells[OURS] - max(theirs.values()))
            figures[f"{data.name}_epsilon_{epsilon:g}"] = cells[OURS]
            figures[f"{data.name}_diffprivlib_epsilon_{epsilon:g}"] = max(theirs.values())
            figures[f"{data.name}_diffprivlib_default_epsilon_{epsilon:g}"] = theirs["diffprivlib, default"]
    figures["smallest_lead"] = min(leads)
    return figures


def main() -> None:
    """Print the table and the two promises."""
    print("diffprivlib: pure epsilon, one row replaced.  sidelight: (epsilon, 1e-5), one row added or removed.")
    for data in sets():
        cells = compare(data, SPLITS[data.name], old=True)
        print(f"\n{data.name}  [{data.note}], {SPLITS[data.name]} splits, test accuracy in percent")
        print(f"{'epsilon':34s}" + "".join(f"{epsilon:>10g}" for epsilon in EPSILONS))
        for name in cells[EPSILONS[0]]:
            print(f"{name:34s}" + "".join(f"{cells[epsilon][name]:>10.2f}" for epsilon in EPSILONS))


if __name__ == "__main__":
    main()
