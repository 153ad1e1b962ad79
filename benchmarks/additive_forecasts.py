"""How good forecasts of additive models are: forecast and score of the fit on new rows, on generated sets.

    python -m benchmarks.additive_forecasts

Columns are correlated or not, curves are smooth, kinked or lines; no seed here chose anything of the forecast. Shown as
in `linear_forecasts`: the forecast error over the realised one, and how often the realised score lies in the range.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.linear_forecasts import HOW, Outcome, figures
from benchmarks.measuring import print_figures, sized

FIRST_SEED = 37_500_000
#: Rows, columns, epsilon, public rows, correlation of columns.
CELLS = sized(
    ((1000, 4, 1.0, 150, 0.0), (3000, 8, 0.3, 300, 0.5), (3000, 8, 1.0, 80, 0.0), (8000, 6, 0.3, 400, 0.7)),
    ((200, 2, 1.0, 60, 0.0),),
)
SETS = sized(3, 1)
DRAWS = sized(9, 1)
TEST = sized(3000, 200)


def generated(seed: int, rows: int, columns: int, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    """Return columns in [0, 1] and numbers in [-3, 3] that are sums of curves of them."""
    rng = np.random.default_rng(seed)
    law = np.random.default_rng([seed % 1000, 37])
    shared = rng.normal(size=(rows, 1))
    z = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.normal(size=(rows, columns))
    x = np.clip(0.5 + z / 6, 0, 1)
    shapes = (
        lambda u: np.sin(law.uniform(4, 9) * u),
        lambda u: np.abs(u - law.uniform(0.3, 0.7)) * 4,
        lambda u: 3 * u,
        lambda u: 0 * u,
    )
    level = sum(law.normal() * shapes[law.integers(4)](x[:, at]) for at in range(columns))
    level = (level - np.mean(level)) / max(float(np.std(level)), 0.1) * 0.7
    return x, np.clip(level + rng.normal(0, law.uniform(0.3, 1), rows), -3, 3)


def outcomes() -> dict[str, list[Outcome]]:
    """Return the outcomes with public rows and without, for a number and for classes."""
    found: dict[str, list[Outcome]] = {f"{what}, {how}": [] for what in ("number", "classes") for how in HOW}
    for place, (n, d, epsilon, m, correlation) in enumerate(CELLS):
        for seed in range(SETS):
            x, y = generated(FIRST_SEED + 10 * place + seed, n + m + TEST, d, correlation)
            rows, public, test = np.split(np.arange(len(y)), [n, n + m])
            names = [f"x{at}" for at in range(d)]
            columns = [sl.Number(name, lower=0, upper=1) for name in names]

            def cells(places: np.ndarray, x: np.ndarray = x, names: list[str] = names) -> dict[str, Any]:
                return {name: x[places, at] for at, name in enumerate(names)}

            for what in ("number", "classes"):
                target = y if what == "number" else (y > np.median(y[public])).astype(int)
                told = sl.PublicData({**cells(public), "target": target[public]}, "generated")
                for how, given in zip(HOW, (told, None), strict=True):
                    price: dict[str, Any] = {"epsilon": epsilon, "delta": "1e-6", "columns": columns}
                    price |= {"prediction": given, "random_state": seed + 1}
                    model: Any = (
                        sl.AdditiveRegressor(**price, target_range=(-3, 3))
                        if what == "number"
                        else sl.AdditiveClassifier(**price, classes=[0, 1])
                    )
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        forecast = model.forecast(rows=n, draws=DRAWS)
                        model.fit(cells(rows), target[rows])
                    score = float(model.score(cells(test), target[test]))
                    realised = 1 - score if what == "classes" else float(np.sqrt((1 - score) * target[test].var()))
                    within = forecast.low <= score <= forecast.high
                    found[f"{what}, {how}"].append(Outcome(forecast.error, realised, within))
    return found


def measure() -> dict[str, float]:
    """Return the median ratio, the middle 80 % of ratios, and how often the range held."""
    return figures(outcomes())


def main() -> None:
    """Print the figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()
