"""How one-pass ridge regression should lift small eigenvalues: rules compared on generated rows, and on real sets.

The rule of `AdaSSP` ranks first on generated rows; the real sets were in view when it was chosen. Noise is drawn in
floats. Run: `python -m benchmarks.ridge_shrinkage`. The page docs/explanation/ridge-regression.md quotes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from benchmarks.measuring import print_figures, sized
from benchmarks.real_data import find
from sidelight.guarantees.conversions import gdp_within
from sidelight.published.adassp import ridge_from_noisy
from sidelight.regression.least_squares_codes import INTERCEPT_SHARE

#: (features, rows, whether the features are correlated)
GENERATED = [
    (5, 1000, False),
    (5, 20000, False),
    (20, 2000, False),
    (20, 50000, False),
    (10, 5000, True),
    (30, 10000, True),
]
RULES = ("uniform", "directions")
EPSILONS = ("0.1", "1")
DRAWS = sized(101, 1)
CONSTANT = float(INTERCEPT_SHARE)


def measure() -> dict[str, float]:
    """Give the ratio of median errors, directions to uniform: geometric mean and worst, on both kinds of sets."""
    ratios: dict[str, list[float]] = {"generated": [], "real": []}
    for kind, rows, target in sets(np.random.default_rng(7)):
        for epsilon in EPSILONS:
            uniform, directions = (median_error(rows, target, epsilon, rule) for rule in RULES)
            ratios[kind].append(directions / uniform)
    found = {}
    for kind, values in ratios.items():
        if values:
            found[f"{kind} mean"] = float(np.exp(np.mean(np.log(values))))
            found[f"{kind} worst"] = max(values)
    return found


def median_error(rows: np.ndarray, target: np.ndarray, epsilon: str, rule: str) -> float:
    """Give the median test error over noise draws, one split in five for the test."""
    rng = np.random.default_rng(1)
    order = rng.permutation(len(rows))
    train, test = order[len(rows) // 5 :], order[: len(rows) // 5]
    design = np.column_stack([rows, np.full(len(rows), CONSTANT)])
    gram, cross = design[train].T @ design[train], design[train].T @ target[train]
    mu, d = float(gdp_within(Fraction(epsilon), Fraction("1e-6"))), design.shape[1]
    length = 1 + CONSTANT**2  # squared, of rows of norm 1 and the constant
    gram_scale, cross_scale = length / (mu * 0.5**0.5), length**0.5 / (mu * 0.5**0.5)
    errors = []
    for _ in range(DRAWS):
        upper = np.triu(rng.normal(size=(d, d)), 1) * gram_scale / 2**0.5
        noise = upper + upper.T + np.diag(rng.normal(size=d) * gram_scale)
        noisy = cross + rng.normal(size=d) * cross_scale
        theta = ridge_from_noisy(gram + noise, noisy, noise_scale=gram_scale, shrinkage=rule)  # type: ignore[arg-type]
        errors.append(float(np.mean((design[test] @ theta - target[test]) ** 2)))
    return float(np.median(errors))


def sets(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Give features in a ball of radius 1 and targets in [-1, 1], scaled by their ranges."""
    for d, n, correlated in GENERATED:
        rows = rng.normal(size=(n, d))
        if correlated:
            rows = rows @ np.diag(1 / np.arange(1, d + 1)) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
        weights = rng.normal(size=d)
        yield "generated", *scaled(rows, rows @ weights / np.linalg.norm(weights) + 0.3 * rng.normal(size=n))
    folder = find("uci_regression")
    for path in sorted(folder.glob("*.parquet")) if folder else []:
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path)
        if table.num_rows >= 1000 and table.num_columns <= 60:
            names = [name for name in table.column_names if name.startswith("x")]
            rows = np.column_stack([np.asarray(table[name], float) for name in names])[:30000]
            yield "real", *scaled(rows, np.asarray(table["y"], float)[:30000])


def scaled(rows: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Map every column to [-1, 1] and divide by the square root of their number; the target to [-1, 1]."""

    def unit(values: np.ndarray) -> np.ndarray:
        low, high = values.min(axis=0), values.max(axis=0)
        return (values - (low + high) / 2) / np.maximum((high - low) / 2, 1e-9)

    return unit(rows) / np.sqrt(rows.shape[1]), unit(target)


if __name__ == "__main__":
    print_figures(measure())
