"""Why curves of additive models have no bands: how often two candidates hold the true curve, on generated laws.

    python -m benchmarks.additive_bands

"posterior" is the deviation of the steps' coefficients, as the release stores it for later fits. "simulated" fits anew
rows of the released model and takes the root mean square of what the fits are off; it knows the law of the columns,
which no release knows so well. Shown are the least share over the laws of rows at which 1.96 of them hold the true
curve, and by how much they would have to be multiplied to hold it at 95 %, on the kindest law and on the worst.
`noise_over_posterior` is the deviation of fits of the same rows with other noise, over that of the posterior.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import print_figures, sized

FIRST_SEED = 37_900_000
#: Correlation of all columns with each other, or of the columns of each pair.
LAWS = sized((("all", 0.0), ("all", 0.6), ("all", 0.9), ("pairs", 0.97)), (("all", 0.6),))
EPSILONS = sized((0.1, 1.0), (1.0,))
ROWS, COLUMNS, TEST = sized(4000, 200), 4, sized(1500, 100)
AGAIN = sized(8, 2)
SHAPES = (
    lambda u: np.sin(6 * u),
    lambda u: 4 * np.abs(u - 0.45),
    lambda u: 3 * u,
    lambda u: 2 / (1 + np.exp(20 * (0.6 - u))),
)


class CorrelatedCurves:
    """A law of columns in [0, 1] with different shapes, and numbers in [-3, 3]."""

    def __init__(self, seed: int, how: str, correlation: float) -> None:
        self._law = np.random.default_rng(seed)
        self._how, self._correlation = how, correlation
        self._order, self._weights = self._law.permutation(COLUMNS), self._law.normal(size=COLUMNS)
        self._noise = float(self._law.uniform(0.3, 1))
        parts = self._shaped(self.columns(20_000))
        self._centre, self._factor = parts.mean(axis=0), 0.7 / max(float(parts.sum(axis=1).std()), 0.1)

    def columns(self, count: int) -> np.ndarray:
        """Return rows."""
        groups = 1 if self._how == "all" else COLUMNS // 2
        shared = np.repeat(self._law.normal(size=(count, groups)), COLUMNS // groups, axis=1)
        own = self._law.normal(size=(count, COLUMNS))
        z = np.sqrt(self._correlation) * shared + np.sqrt(1 - self._correlation) * own
        return np.asarray(np.clip(0.5 + z / 6, 0, 1))

    def _shaped(self, rows: np.ndarray) -> np.ndarray:
        each = [SHAPES[shape](rows[:, at]) for at, shape in enumerate(self._order)]
        return np.stack(each, axis=1) * self._weights

    def curves(self, rows: np.ndarray) -> np.ndarray:
        """Return what each column truly adds, of mean 0."""
        return np.asarray((self._shaped(rows) - self._centre) * self._factor)

    def targets(self, level: np.ndarray) -> np.ndarray:
        """Return numbers about a level."""
        return np.asarray(np.clip(level + self._law.normal(0, self._noise, len(level)), -3, 3))


def fitted(rows: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> Any:
    """Return a model of rows."""
    columns = [sl.Number(f"x{at}", lower=0, upper=1) for at in range(COLUMNS)]
    model = sl.AdditiveRegressor(
        epsilon=epsilon, delta="1e-5", columns=columns, target_range=(-3, 3), random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows, y)


def posterior(model: Any, rows: np.ndarray) -> np.ndarray:
    """Return the posterior deviation of each column's curve at rows."""
    value, found = model.release_.value, []
    variances, z, start, at = np.asarray(value["variances"])[1:], np.asarray(value["z"]), 0, 0
    for place, (cells, width) in enumerate(zip(value["cells"], value["widths"], strict=True)):
        of_cells = np.sqrt(z[at : at + cells * width].reshape(cells, width) ** 2 @ variances[start : start + width])
        start, at = start + width, at + cells * width
        codes = np.asarray(value["cell_of"])[1025 * place : 1025 * place + 1024]
        found.append(of_cells[codes[np.minimum((rows[:, place] * 1024).astype(int), 1023)]] * 3)
    return np.stack(found, axis=1)


def ratios(seed: int, how: str, correlation: float, epsilon: float) -> dict[str, np.ndarray]:
    """Return errors of curves at rows over each candidate, and noise over the posterior's deviations."""
    law = CorrelatedCurves(seed, how, correlation)
    test, rows = law.columns(TEST), law.columns(ROWS)
    y = law.targets(law.curves(rows).sum(axis=1))
    model = fitted(rows, y, epsilon, seed)
    found, reckoned = model.contributions(test), np.maximum(posterior(model, test), 1e-9)
    errors = np.abs(found - law.curves(test))
    simulated, other = np.zeros_like(errors), []
    for again in range(1, AGAIN + 1):
        drawn = law.columns(ROWS)
        one = fitted(drawn, law.targets(model.decision_function(drawn)), epsilon, seed + 100 * again)
        simulated += (one.contributions(test) - found) ** 2 / AGAIN
        other.append(fitted(rows, y, epsilon, seed + 100 * again + 1).contributions(test))
    return {
        "posterior": errors / reckoned,
        "simulated": errors / np.maximum(np.sqrt(simulated), 1e-9),
        "noise": np.std(other, axis=0) / reckoned,
    }


def measure() -> dict[str, float]:
    """Return the least shares that were held, the factors that would be needed, and noise over posterior."""
    cells = [
        ratios(FIRST_SEED + place, how, correlation, epsilon)
        for place, (how, correlation) in enumerate(LAWS)
        for epsilon in EPSILONS
    ]
    figures: dict[str, float] = {}
    for name in ("posterior", "simulated"):
        needed = [float(np.quantile(each[name], 0.95)) for each in cells]
        figures |= {
            f"{name}_least_held": min(float(np.mean(each[name] <= 1.96)) for each in cells),
            f"{name}_most_held": max(float(np.mean(each[name] <= 1.96)) for each in cells),
            f"{name}_least_factor": min(needed),
            f"{name}_most_factor": max(needed),
        }
    over = [float(np.sqrt(np.mean(each["noise"] ** 2))) for each in cells]
    return figures | {"noise_over_posterior_least": min(over), "noise_over_posterior_most": max(over)}


def main() -> None:
    """Print the figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()
