"""Additive models and DP-EBM (InterpretML, its defaults), and our linear models: the same splits, ranges and budget.

    python -m benchmarks.additive_models

A ratio is that of two mean errors over the same splits: log loss, or squared error. DP-EBM runs in an environment of
its own (`make bench-peers`). Its promise is a weaker one (docs/explanation/additive-models.md).
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

import sidelight as sl
from benchmarks import additive_sets
from benchmarks.additive_sets import CLASSES, NUMBERS, Columned
from benchmarks.measuring import print_figures, sized
from benchmarks.peers import environments

EPSILONS = (0.1, 1.0, 8.0)
DELTA = "1e-5"
SPLITS = sized(5, 1)
#: Of sets that are quickly fitted, where the peer's errors at the least epsilon differ by more than a half.
MORE_SPLITS, QUICK_ROWS = sized(12, 1), 10_000


def ours(data: Columned, epsilon: float, seed: int, *, linear: bool = False) -> float:
    """Return the error of one fit of ours, additive or linear."""
    train, test = data.split(seed)
    price = {"epsilon": str(epsilon), "delta": DELTA, "random_state": seed + 1}
    kinds = (sl.LinearRegression, sl.LogisticRegression) if linear else (sl.AdditiveRegressor, sl.AdditiveClassifier)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kinds[data.target_range is None](**price).fit_table(data.table(train), target="y")
        rows = data.frame(test)
        found = model.predict(rows) if data.target_range is not None else model.predict_proba(rows)[:, 1]
    return data.error(found, test)


def of_peer(data: Columned, epsilon: float, seeds: Sequence[int]) -> list[float]:
    """Return the errors of DP-EBM; none where it is not here."""
    with tempfile.TemporaryDirectory() as place:
        splits = [data.split(seed) for seed in seeds]
        environments.save_data(
            Path(place),
            [
                {"rows": data.rows[train], "target": data.target[train], "test_rows": data.rows[test]}
                for train, test in splits
            ],
        )
        found = environments.run(
            "interpret",
            "additive",
            data=Path(place),
            trials=len(splits),
            seconds=600,
            epsilon=epsilon,
            delta=float(DELTA),
            bounds=data.bounds,
            target_range=data.target_range,
        )
    return [data.error(answer, test) for answer, (_, test) in zip(found.answers, splits, strict=False)]


@cache
def cells(name: str) -> dict[float, tuple[float, float, float]]:
    """Return the mean errors of a set at each epsilon: ours, linear, DP-EBM (NaN where it is not here)."""
    data = additive_sets.read(name)
    found = {}
    for epsilon in EPSILONS:
        seeds = range(MORE_SPLITS if len(data.target) < QUICK_ROWS and epsilon == min(EPSILONS) else SPLITS)
        mine = [ours(data, epsilon, seed) for seed in seeds]
        lines = [ours(data, epsilon, seed, linear=True) for seed in seeds]
        theirs = of_peer(data, epsilon, seeds)
        peer = float(np.mean(theirs)) if len(theirs) == len(seeds) else float("nan")
        found[epsilon] = (float(np.mean(mine)), float(np.mean(lines)), peer)
    return found


def _measured(names: Sequence[str]) -> dict[str, float]:
    figures, beside_peer, beside_lines = {}, [], []
    for name in names:
        for epsilon, (mine, lines, peer) in cells(name).items():
            figures[f"{name}_{epsilon:g}"] = mine / peer
            figures[f"{name}_{epsilon:g}_error"] = mine
            figures[f"{name}_{epsilon:g}_over_linear"] = mine / lines
            beside_peer.append(mine / peer)
            beside_lines.append(mine / lines)
    figures["largest_over_ebm"] = float(np.max(beside_peer))
    figures["share_near_linear"] = float(np.mean(np.array(beside_lines) <= 1.05))
    return figures


def measure_numbers() -> dict[str, float]:
    """Return the ratios of numeric targets."""
    return _measured(NUMBERS)


def measure_classes() -> dict[str, float]:
    """Return the ratios of classes."""
    return _measured(CLASSES)


def main() -> None:
    """Print both."""
    print_figures(measure_numbers())
    print_figures(measure_classes())


if __name__ == "__main__":
    main()
