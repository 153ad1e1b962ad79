"""Quality of a private classifier's probabilities, and the cost of rarely relevant columns.

Generated sets: normal rows; categories, one-hot; categories with two columns that are 0 in most rows and decisive in
the others; and clusters with nonlinear log odds. The log loss on new rows of the default, of the same noisy steps
without shrinkage of log odds (`shrinkage="none"`), of these with the best shrinkage for the tested rows (not known in
practice), and of objective perturbation; and the accuracy against no privacy. Seeds chose nothing. Delta 1e-6.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from benchmarks.measuring import print_figures, sized

DELTA = "1e-6"
FIRST_SEED = 18_900_000
SETS = sized(2, 1)
SHAPES = ("normal", "categories", "rare columns", "clusters")
#: Rows, columns and epsilon.
CELLS = sized(
    (
        (1000, 8, 0.3),
        (1000, 8, 1.0),
        (4000, 20, 0.3),
        (4000, 20, 1.0),
        (4000, 20, 8.0),
        (10_000, 60, 1.0),
    ),
    ((200, 3, 1.0),),
)
TESTED = sized(5000, 200)
#: Shares that log odds are drawn back by.
_SHARES = 2.0 ** np.arange(-5, 1.01, 0.125)


def generated_classes(shape: str, seed: int, *, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of norm at most 1 and labels 0 and 1."""
    rng = np.random.default_rng([seed, SHAPES.index(shape)])
    if shape == "normal":
        z = rng.standard_normal((rows, columns))
        slopes = rng.standard_normal(columns)
        x = z * np.arange(1, columns + 1) ** -0.5 / 2.5
        return _bounded(x), _labels(rng, 2.5 * z @ slopes / np.linalg.norm(slopes) + 0.7 * rng.standard_normal())
    if shape == "clusters":
        inside = min(columns, 12)
        centres, spread = 1.1 * rng.standard_normal((8, inside)), rng.standard_normal((inside, columns))
        places = rng.integers(0, 8, rows)
        x = (centres[places] + rng.standard_normal((rows, inside))) @ spread / np.sqrt(columns)
        x += 0.15 * rng.standard_normal(x.shape)
        wrong = rng.random(rows) < 0.03
        return _unit(x), np.where(wrong, places < 4, places >= 4).astype(int)
    numbers = rng.beta(2, 3, (rows, 2))
    odds = -1.2 + (numbers - 0.4) @ rng.normal(0, 2.5, 2)
    parts = [numbers]
    if shape == "rare columns":
        rare = np.where(rng.random((rows, 2)) < 0.06, rng.beta(1, 12, (rows, 2)) + 0.02, 0.0)
        odds += 4 * np.minimum(rare / 0.05, 2) @ np.array([1, rng.choice([-1, 1])])
        parts.append(rare)
    left = columns - sum(part.shape[1] for part in parts)
    while left > 0:
        size = left if left < 4 else int(rng.integers(2, max(3, min(left - 1, columns // 4 + 1))))
        places = rng.choice(size, rows, p=rng.dirichlet(np.full(size, 0.7)))
        odds += rng.normal(0, 0.9, size)[places]
        parts.append((places[:, None] == np.arange(size)).astype(float))
        left -= size
    return _unit(np.hstack(parts)), _labels(rng, odds)


def _labels(rng: np.random.Generator, odds: np.ndarray) -> np.ndarray:
    return (rng.random(len(odds)) < 1 / (1 + np.exp(-odds))).astype(int)


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def _bounded(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1))


def log_loss(odds: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean of minus the logarithm of the probability of what came."""
    return float(np.mean(np.logaddexp(0, np.where(labels == 1, -odds, odds))))


@dataclass(frozen=True)
class Losses:
    """Log losses of one set, and accuracies."""

    drawn: float
    raw: float
    best: float
    objective: float
    accuracy: float
    plain: float


def losses(shape: str, seed: int, cell: tuple[int, int, float]) -> Losses:
    """Fit one set in every way."""
    from sklearn.linear_model import LogisticRegression

    import sidelight as sl

    n, d, epsilon = cell
    x, y = generated_classes(shape, seed, rows=n + TESTED, columns=d)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that noise is large, and that rows are fitted again
        for name, more in {"drawn": {}, "raw": {"shrinkage": "none"}, "objective": {"solver": "objective"}}.items():
            model = sl.LogisticRegression(epsilon=epsilon, delta=DELTA, data_norm=1, classes=[0, 1], **more)
            model.fit(x[:n], y[:n])
            found[name] = x[n:] @ model.coef_[0] + model.intercept_[0]
    plain = LogisticRegression(C=100, solver="newton-cholesky").fit(x[:n], y[:n])
    return Losses(
        drawn=log_loss(found["drawn"], y[n:]),
        raw=log_loss(found["raw"], y[n:]),
        best=min(log_loss(share * found["raw"], y[n:]) for share in _SHARES),
        objective=log_loss(found["objective"], y[n:]),
        accuracy=float(np.mean((found["drawn"] > 0) == y[n:])),
        plain=float(plain.score(x[n:], y[n:])),
    )


def measure() -> dict[str, float]:
    """Return the means over all sets of each shape, and print them."""
    figures: dict[str, float] = {}
    print(f"{'log loss':16s}{'drawn back':>12s}{'left alone':>12s}{'best share':>12s}{'objective':>12s}", end="")
    print(f"{'accuracy':>12s}{'not private':>12s}")
    for shape in SHAPES:
        seeds = [(FIRST_SEED + 100 * place + each, cell) for place, cell in enumerate(CELLS) for each in range(SETS)]
        every = [losses(shape, seed, cell) for seed, cell in seeds]
        means = {name: float(np.mean([getattr(each, name) for each in every])) for name in Losses.__annotations__}
        print(f"{shape:16s}" + "".join(f"{value:12.3f}" for value in means.values()), flush=True)
        figures |= {f"{shape.replace(' ', '_')}_{name}": value for name, value in means.items()}
    figures["excess_drawn"], figures["excess_raw"] = (
        float(
            np.mean(
                [
                    figures[f"{shape.replace(' ', '_')}_{name}"] - figures[f"{shape.replace(' ', '_')}_best"]
                    for shape in SHAPES
                ]
            )
        )
        for name in ("drawn", "raw")
    )
    return figures


def main() -> None:
    """Print every figure."""
    print_figures(measure())


if __name__ == "__main__":
    main()
