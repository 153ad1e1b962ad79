"""Private linear regression against least squares and AdaSSP: bike sharing, and the UCI sets with 1000 rows or more.

Every method as it comes: the estimator's default, descent, whose rules were fixed on generated data; AdaSSP with the
same features and range; the older solver (log-cosh, objective perturbation) in the printed tables only. Delta 1e-5,
random splits whose seeds chose nothing. `linear_regression_sets` says where the ranges come from: never from a private
row.
"""

from __future__ import annotations

import numpy as np

from benchmarks import linear_regression_sets
from benchmarks.linear_models import DELTA, FIRST_SEED
from benchmarks.linear_regression_sets import UCI_WITH_1000_ROWS, Regression
from benchmarks.measuring import sized

BIKE_SPLITS, UCI_SPLITS = sized((10, 9), (2, 2))
EPSILONS = (0.1, 1.0)
OURS, OLD, ADASSP, LEAST_SQUARES = "descent", "log-cosh", "AdaSSP", "not private"


def determination(predicted: np.ndarray, targets: np.ndarray) -> float:
    """Return R²: 1 minus the mean squared error over the variance."""
    return 1 - float(((predicted - targets) ** 2).mean() / targets.var())


def our_score(data: Regression, seed: int, epsilon: float, *, solver: str = "descent") -> float:
    """Return the test R² of our estimator on one split."""
    import sidelight as sl

    (x, y), (x_test, y_test) = data.split(seed)
    model = sl.LinearRegression(
        epsilon=epsilon, delta=DELTA, data_norm=1, target_range=data.target_range, solver=solver
    )
    return determination(model.fit(x, y).predict(x_test), y_test)


def adassp_score(data: Regression, seed: int, epsilon: float) -> float:
    """Return the test R² of AdaSSP on one split."""
    from sidelight.noise import OSEntropy, Source
    from sidelight.published.adassp import adassp

    (x, y), (x_test, y_test) = data.split(seed)
    with Source(OSEntropy()) as source:
        fit = adassp(
            (x, y), feature_norm=1, target_bounds=data.target_range, epsilon=epsilon, delta=DELTA, source=source
        )
    return determination(fit.predict(x_test), y_test)


def plain_score(data: Regression, seed: int) -> float:
    """NOT PRIVATE: the test R² of least squares on one split."""
    from sklearn.linear_model import LinearRegression

    (x, y), (x_test, y_test) = data.split(seed)
    return determination(LinearRegression().fit(x, y).predict(x_test), y_test)


def scores(
    data: Regression, splits: int, epsilons: tuple[float, ...] = EPSILONS, *, old: bool = False
) -> dict[str, np.ndarray]:
    """Return R² of shape (epsilons, splits) of every method; of the older solver where it is asked for."""
    seeds = [FIRST_SEED + split for split in range(splits)]

    def ours(solver: str) -> np.ndarray:
        return np.array([[our_score(data, seed, epsilon, solver=solver) for seed in seeds] for epsilon in epsilons])

    return {
        OURS: ours("descent"),
        **({OLD: ours("objective")} if old else {}),
        ADASSP: np.array([[adassp_score(data, seed, epsilon) for seed in seeds] for epsilon in epsilons]),
        LEAST_SQUARES: np.tile([plain_score(data, seed) for seed in seeds], (len(epsilons), 1)),
    }


def bikes(*, old: bool = False) -> dict[str, float]:
    """Return mean R² on bike sharing at epsilon 1, and what is missing to least squares."""
    data = linear_regression_sets.bike_sharing()
    found = {name: float(values.mean()) for name, values in scores(data, BIKE_SPLITS, (1.0,), old=old).items()}
    return {
        "bike_r2_epsilon_1": found[OURS],
        **({"bike_r2_log_cosh_epsilon_1": found[OLD]} if old else {}),
        "bike_r2_adassp_epsilon_1": found[ADASSP],
        "bike_r2_not_private": found[LEAST_SQUARES],
        "bike_r2_missing_epsilon_1": found[LEAST_SQUARES] - found[OURS],
        "generated_bikes": float(data.note.startswith("STAND-IN")),
    }


def uci_table(splits: int = UCI_SPLITS, *, old: bool = False) -> dict[str, dict[str, np.ndarray]]:
    """Return, for each set, the median R² of every method at each epsilon."""
    return {
        name: {
            method: np.median(values, axis=1)
            for method, values in scores(linear_regression_sets.uci(name), splits, old=old).items()
        }
        for name in UCI_WITH_1000_ROWS
    }


def share_won(found: dict[str, dict[str, np.ndarray]], place: int) -> float:
    """Return the share of sets whose median error is at or below AdaSSP's: the same variance, so R² decides."""
    return float(np.mean([methods[OURS][place] >= methods[ADASSP][place] for methods in found.values()]))


def measure(*, old: bool = False) -> dict[str, float]:
    """Return the figures of the targets; the table of the sets is printed."""
    figures = bikes(old=old)
    found = uci_table(old=old)
    print(text(found))
    for place, epsilon in enumerate(EPSILONS):
        figures[f"uci_share_epsilon_{epsilon:g}"] = share_won(found, place)
    return figures


def text(found: dict[str, dict[str, np.ndarray]]) -> str:
    """Return the table of the sets: 1 - R², the error as a share of the target's variance."""
    private = [method for method in next(iter(found.values())) if method != LEAST_SQUARES]
    wide = 11 * len(private)
    lines = [
        f"median test error / variance of the target, delta {DELTA}, {UCI_SPLITS} splits",
        f"{'':42s}" + "".join(f"{f'epsilon {epsilon:g}':^{wide}s}" for epsilon in EPSILONS) + f"{LEAST_SQUARES:>13s}",
        f"{'':42s}" + "".join(f"{method:>11s}" for method in private) * len(EPSILONS),
    ]
    for name, methods in found.items():
        cells = "".join(f"{1 - methods[method][place]:11.4f}" for place in range(len(EPSILONS)) for method in private)
        label = f"{name} [{linear_regression_sets.uci(name).note}]"
        lines.append(f"{label:42s}{cells}{1 - methods[LEAST_SQUARES][0]:13.4f}")
    return "\n".join(lines)


def main() -> None:
    """Print every figure, the older solver next to the default."""
    for name, value in measure(old=True).items():
        print(f"{name:32s} {value:10.4g}")


if __name__ == "__main__":
    main()
