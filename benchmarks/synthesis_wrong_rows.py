"""What public rows of another population cost a synthetic table, by epsilon times the number of rows.

    python -m benchmarks.synthesis_wrong_rows

The error with such rows over that without a prediction: mean total variation of all pairs, over releases of three laws.
"""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import print_figures, sized
from sidelight.testing import seeded_release

SIZES = {"a": 8, "b": 3, "c": 5, "d": 4}
SCHEMA = [sl.Category(name, [f"{name}{code}" for code in range(size)], other=None) for name, size in SIZES.items()]
RUNS, PRODUCTS = sized((30, (50, 200, 500, 1000, 5000)), (1, (200,)))
ROWS = 2000


def _codes(law: str, rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    if law == "unrelated":
        return {name: np.minimum(rng.geometric(0.4, rows) - 1, size - 1) for name, size in SIZES.items()}
    hidden = rng.integers(0, 4, rows)
    if law == "a hidden class":
        noisy = np.where(rng.random(rows) < 0.85, hidden % 3, rng.integers(0, 3, rows))
        rare = np.where(rng.random(rows) < 0.9, 0, rng.integers(0, 5, rows))
        return {"a": np.minimum(rng.geometric(0.4, rows) - 1, 7), "b": noisy, "c": rare, "d": hidden}
    return {
        name: np.where(rng.random(rows) < 0.8, hidden % size, rng.integers(0, size, rows))
        for name, size in SIZES.items()
    }


def _cells(codes: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: [f"{name}{code}" for code in each] for name, each in codes.items()}


def _error(law: str, epsilon: str, *, wrong: bool) -> float:
    codes = _codes(law, np.random.default_rng(1), ROWS)
    turned = {name: SIZES[name] - 1 - each for name, each in _codes(law, np.random.default_rng(2), ROWS).items()}
    prediction = sl.PublicData(_cells(turned), "another population") if wrong else None
    query = sl.SyntheticTable(sl.marginals(2), epsilon=epsilon, prediction=prediction)
    table, off = sl.Table(_cells(codes), schema=SCHEMA), []
    for run in range(RUNS):
        mass = sl.Synthetic(seeded_release(query, table, seed=f"{law} {run}")).mass
        for pair in combinations(SIZES, 2):
            true = np.zeros([SIZES[name] for name in pair])
            np.add.at(true, tuple(codes[name] for name in pair), 1 / ROWS)
            off.append(np.abs(mass.marginal(pair) - true).sum() / 2)
    return float(np.mean(off))


def measure() -> dict[str, float]:
    """Return the error with wrong public rows over that without any, by epsilon times rows: mean and largest law."""
    figures = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for product in PRODUCTS:
            epsilon = str(product / ROWS)
            laws = ("unrelated", "a hidden class", "alike columns")
            found = [_error(law, epsilon, wrong=True) / _error(law, epsilon, wrong=False) for law in laws]
            figures[f"mean_{product}"], figures[f"largest_{product}"] = float(np.mean(found)), max(found)
    return figures


def main() -> None:
    """Print all figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()
