"""Stated standard errors of synthetic tables against the errors made: in cells with rows, and in all cells.

    python -m benchmarks.synthesis_errors

Of eight laws the first five were known when the rule √(noise² + (fit - noisy)²) was chosen, the last three were not.
A cell is "full" where it has more rows than four deviations of its noise. For each law, price and way of asking: which
share of counts is further off than 1.96 stated errors; printed are the means over all of them, and the largest.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import print_figures, sized
from sidelight.synthesis.domain import cell_deviation
from sidelight.testing import seeded_release

Codes = dict[str, np.ndarray]
RUNS, LAWS_USED = sized((12, 8), (1, 1))
PRICES: tuple[dict[str, Any], ...] = ({"epsilon": "0.2"}, {"epsilon": 1}, {"epsilon": 1, "delta": "1e-6"})
#: How a table is asked for: engine, whether public rows of another population are given, factor of a public rows=.
WAYS = (
    ("marginals", False, None),
    ("loglinear", False, None),
    ("marginals", True, None),
    ("loglinear", True, None),
    ("support", True, None),
    ("marginals", False, 2),
)


def _skew(size: int, power: float) -> np.ndarray:
    shares = 1 / np.arange(1, size + 1) ** power
    return shares / shares.sum()


def _alike(rows: int, size: int, shares: np.ndarray | None) -> Callable[[np.random.Generator], tuple[Codes, list[int]]]:
    return lambda rng: ({name: rng.choice(size, rows, p=shares) for name in "ab"}, [size, size])


def _census(rng: np.random.Generator) -> tuple[Codes, list[int]]:
    sizes, z = [25, 20, 9, 12, 2, 5], rng.normal(size=5000)
    codes = {}
    for name, size in zip("abcdef", sizes, strict=True):
        mixed = 0.7 * rng.random(5000) + 0.3 / (1 + np.exp(-z))
        codes[name] = np.searchsorted(np.cumsum(_skew(size, 1.3)), np.minimum(mixed, 0.999999)).clip(0, size - 1)
    return codes, sizes


def _diagonal(rng: np.random.Generator) -> tuple[Codes, list[int]]:
    a = rng.choice(30, 5000, p=_skew(30, 1))
    return {"a": a, "b": np.where(rng.random(5000) < 0.9, a, rng.integers(0, 30, 5000))}, [30, 30]


def _corner(rng: np.random.Generator) -> tuple[Codes, list[int]]:
    rare = rng.choice(3, 4000, p=[0.9, 0.09, 0.01])
    return {"a": rng.integers(0, 20, 4000), "b": rng.integers(0, 5, 4000), "c": rare}, [40, 10, 3]


LAWS: Mapping[str, Callable[[np.random.Generator], tuple[Codes, list[int]]]] = {
    "four labels of 60": _alike(20_000, 60, np.repeat([0.25, 0.0], [4, 56])),
    "skewed, 60 labels": _alike(20_000, 60, _skew(60, 2)),
    "skewed, 20 labels": _alike(2000, 20, _skew(20, 2)),
    "six columns": _census,
    "even, 12 labels": _alike(3000, 12, None),
    "diagonal (held out)": _diagonal,
    "one cell (held out)": _alike(3000, 25, np.repeat([1.0, 0.0], [1, 24])),
    "a corner of three columns (held out)": _corner,
}


def _table(codes: Codes, sizes: list[int]) -> tuple[sl.Table, dict[str, Any]]:
    labels = {name: [f"{name}{code}" for code in range(size)] for name, size in zip(codes, sizes, strict=True)}
    cells = {name: np.array(labels[name])[codes[name]] for name in codes}
    return sl.Table(cells, schema=[sl.Category(name, each, other=None) for name, each in labels.items()]), cells


def _shares(law: str, price: Any, way: tuple[Any, bool, int | None]) -> Iterator[tuple[str, float, float]]:
    """Yield for each kind of counts which share of them is beyond 1.96 of the noise, and of the stated errors."""
    engine, public, factor = way
    codes, sizes = LAWS[law](np.random.default_rng(5))
    table, _ = _table(codes, sizes)
    # of another population: labels in the opposite order
    turned = {name: (size - 1 - code)[:2000] for (name, code), size in zip(codes.items(), sizes, strict=True)}
    prediction = sl.PublicData(_table(turned, sizes)[1], "another population") if public else None
    rows = None if factor is None else factor * len(codes["a"])
    query = sl.SyntheticTable(sl.marginals(2), engine=engine, prediction=prediction, rows=rows, **price)
    for run in range(RUNS):
        made = sl.Synthetic(seeded_release(query, table, seed=f"{law} {run}"))
        noises = [each.noise for each in made.measurements if each.fine]
        for columns in (each for ways in (1, 2) for each in combinations(codes, ways)):
            answer: Any = made.answer(columns)
            if answer.errors is None:
                continue
            true = np.zeros(answer.counts.shape)
            np.add.at(true, tuple(codes[name] for name in columns), 1)
            deviation = cell_deviation(columns, made.domain, noises)
            off = np.abs(answer.counts - true)
            kinds = {"full": true > 4 * deviation, "occupied": true > 0, "empty": true == 0}
            for kind, chosen in kinds.items():
                if chosen.any():
                    noise, stated = off[chosen] > 1.96 * deviation, off[chosen] > 1.96 * answer.errors[chosen]
                    yield f"{kind}_{len(columns)}", float(noise.mean()), float(stated.mean())


def measure() -> dict[str, float]:
    """Return the mean and largest share beyond 1.96 stated errors by kind of counts, and beyond 1.96 of the noise."""
    means: dict[str, list[float]] = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for law in list(LAWS)[:LAWS_USED]:
            for price in PRICES:
                for way in WAYS:
                    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
                    for kind, noise, stated in _shares(law, price, way):
                        found[kind].append((noise, stated))
                    for kind, each in found.items():
                        of_noise, of_stated = np.mean(each, axis=0)
                        means[f"{kind}_by_noise"].append(float(of_noise))
                        means[kind].append(float(of_stated))
                        if "held" in law:
                            means[f"{kind}_held_out"].append(float(of_stated))
    figures = {f"mean_{name}": float(np.mean(each)) for name, each in means.items()}
    return figures | {f"largest_{name}": max(each) for name, each in means.items()}


def main() -> None:
    """Print all figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()
