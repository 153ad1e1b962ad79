"""Small sets and many classes: digits, digits 0-4 against 5-9, and breast_cancer, with the default and the old solver.

Eight random splits whose seeds chose nothing, a fifth to test; delta 1e-6; rows scaled each by itself to norm 1. The
mean of some fits of each split, each with fresh noise: less chance in the mean, the same expectation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks import linear_sets
from benchmarks.linear_models import FIRST_SEED
from benchmarks.linear_sets import Labelled
from benchmarks.measuring import sized

DELTA = "1e-6"
SPLITS = sized(8, 2)
#: Fits of a split: ten classes are less noisy than two.
DRAWS = {"digits": 2, "digits 0-4, 5-9": 4, "breast_cancer": 6}
SETS: tuple[Callable[[], Labelled], ...] = (
    linear_sets.digits,
    linear_sets.low_or_high_digits,
    linear_sets.breast_cancer,
)
#: What the targets ask for: set and epsilon.
MEASURED = (("digits", 1.0), ("digits", 8.0), ("digits 0-4, 5-9", 1.0), ("breast_cancer", 1.0))


def accuracies(data: Labelled, epsilon: float, *, solver: str = "descent", splits: int = SPLITS) -> np.ndarray:
    """Return the mean test accuracy of each split."""
    import sidelight as sl

    classes = np.unique(data.labels).tolist()
    model = sl.LogisticRegression(epsilon=epsilon, delta=DELTA, data_norm=1, classes=classes, solver=solver)
    found = []
    for split in range(splits):
        (x, y), (x_test, y_test) = data.split(FIRST_SEED + split)
        found.append(np.mean([model.fit(x, y).score(x_test, y_test) for _ in range(DRAWS[data.name])]))
    return np.array(found)


def figure_name(name: str, epsilon: float) -> str:
    """Return the name of a figure: digits_epsilon_1."""
    return f"{name.replace(' ', '_').replace(',', '').replace('-', '_')}_epsilon_{epsilon:g}"


def measure() -> dict[str, float]:
    """Return the figures of the targets, and their standard errors."""
    sets = {data.name: data for data in (make() for make in SETS)}
    figures = {}
    for name, epsilon in MEASURED:
        found = accuracies(sets[name], epsilon)
        figures[figure_name(name, epsilon)] = float(found.mean())
        figures[f"{figure_name(name, epsilon)}_standard_error"] = float(found.std(ddof=1) / np.sqrt(len(found)))
    return figures


def text(epsilons: Sequence[float] = (0.1, 1.0, 8.0)) -> str:
    """Return the table: both solvers and scikit-learn without privacy."""
    from sklearn.linear_model import LogisticRegression

    lines = [f"test accuracy in percent, delta {DELTA}, {SPLITS} splits: descent / objective perturbation"]
    lines.append(
        f"{'':20s}" + "".join(f"{f'epsilon {epsilon:g}':>18s}" for epsilon in epsilons) + f"{'not private':>14s}"
    )
    for make in SETS:
        data = make()
        cells = []
        for epsilon in epsilons:
            both = [100 * accuracies(data, epsilon, solver=solver).mean() for solver in ("descent", "objective")]
            cells.append(f"{both[0]:.1f} / {both[1]:.1f}")
        plain = []
        for split in range(SPLITS):
            (x, y), (x_test, y_test) = data.split(FIRST_SEED + split)
            plain.append(LogisticRegression(C=100, max_iter=2000).fit(x, y).score(x_test, y_test))
        lines.append(f"{data.name:20s}" + "".join(f"{cell:>18s}" for cell in cells) + f"{100 * np.mean(plain):14.1f}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(text())
