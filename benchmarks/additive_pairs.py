"""What a pair of columns adds to an additive model: the best case, in which the right pair is known at no cost.

    python -m benchmarks.additive_pairs

The pair is declared as one more category, whose labels are the cells of a grid over both ranges. Its product explains
nothing of the target, a twentieth, a tenth or a fifth. Shown: the squared error with the pair over that without, each
the mean over a few laws. A paid choice among all pairs, or one by few public rows, can only be worse.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import print_figures, sized

FIRST_SEED = 37_800_000
ROWS, COLUMNS, TEST = sized(8000, 200), 5, sized(3000, 200)
EPSILONS = sized((0.1, 1.0, 8.0), (1.0,))
EXPLAINED = sized((0.0, 0.05, 0.1, 0.2), (0.1,))
GRIDS = sized((3, 6), (3,))
LAWS = sized(3, 1)


def generated(seed: int, count: int, explained: float) -> tuple[np.ndarray, np.ndarray]:
    """Return columns in [0, 1], and numbers explained by curves and partly by a product."""
    rng, law = np.random.default_rng(seed), np.random.default_rng([seed, 37])
    x = np.clip(0.5 + (0.5 * rng.normal(size=(count, 1)) + rng.normal(size=(count, COLUMNS))) / 6, 0, 1)
    curves = sum(law.normal() * np.sin(law.uniform(3, 8) * x[:, at]) for at in range(COLUMNS))
    product = np.sin(law.uniform(3, 6) * (x[:, 0] - 0.5)) * np.sin(law.uniform(3, 6) * (x[:, 1] - 0.5))
    parts = [(each - each.mean()) / each.std() for each in (curves, product)]
    level = np.sqrt(0.5) * parts[0] + np.sqrt(explained) * parts[1]
    return x, np.clip(0.7 * (level + np.sqrt(0.5 - explained) * rng.normal(size=count)), -3, 3)


def cells(x: np.ndarray, grid: int) -> dict[str, Any]:
    """Return rows by name, with the pair of the first two columns where there is a grid."""
    found: dict[str, Any] = {f"x{at}": x[:, at] for at in range(COLUMNS)}
    if grid:
        first, second = (np.minimum((x[:, at] * grid).astype(int), grid - 1) for at in (0, 1))
        found["pair"] = (grid * first + second).astype(str)
    return found


def error(train: Any, test: Any, grid: int, epsilon: float, seed: int) -> float:
    """Return the squared error of one fit, as a share of the variance."""
    columns: list[Any] = [sl.Number(f"x{at}", lower=0, upper=1) for at in range(COLUMNS)]
    if grid:
        columns.append(sl.Category("pair", [str(each) for each in range(grid**2)], other=None))
    model = sl.AdditiveRegressor(
        epsilon=epsilon, delta="1e-5", columns=columns, target_range=(-3, 3), random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(cells(train[0], grid), train[1])
    return float(np.mean((model.predict(cells(test[0], grid)) - test[1]) ** 2) / test[1].var())


def measure() -> dict[str, float]:
    """Return the ratios of errors by grid, epsilon and what the product explains."""
    figures: dict[str, float] = {}
    for epsilon in EPSILONS:
        for explained in EXPLAINED:
            found = []
            for law in range(LAWS):
                seed = FIRST_SEED + law
                x, y = generated(seed, ROWS + TEST, explained)
                train, test = (x[:ROWS], y[:ROWS]), (x[ROWS:], y[ROWS:])
                found.append([error(train, test, grid, epsilon, seed) for grid in (0, *GRIDS)])
            without, *others = np.mean(found, axis=0)
            for grid, each in zip(GRIDS, others, strict=True):
                figures[f"grid_{grid}_epsilon_{epsilon:g}_explained_{explained:g}"] = float(each / without)
    return figures


def main() -> None:
    """Print the figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()
