"""How good the forecast of a model's score is: forecast and score of the fit on new rows, on generated sets.

Sets of four shapes (`linear_predictions.SHAPES`) for a number, and of two classes: above or below the median of the
public rows. Rows, columns, epsilon and the share of public rows vary; no seed here chose anything of the forecast.
Shown is the forecast root mean squared error over the realised one (for classes: of the shares of wrong
labels), so that 1 is right; and how often the realised score lies within the forecast's range: 8 in 10 are meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.linear_predictions import SHAPES, generated_set
from benchmarks.measuring import sized

DELTA = "1e-6"
FIRST_SEED = 18_500_000
SETS = sized(2, 1)
#: Rows, columns, epsilon, and how many private rows there are to a public one.
CELLS = sized(
    (
        (800, 8, 0.1, 9),
        (800, 8, 1.0, 9),
        (3000, 20, 0.3, 9),
        (3000, 20, 1.0, 60),
        (6000, 40, 0.3, 9),
    ),
    ((200, 3, 1.0, 3),),
)
TEST = sized(3000, 200)
HOW = ("public rows", "declared shape")


@dataclass(frozen=True)
class Outcome:
    """One forecast and what came of it: errors, and whether the score was in the range."""

    forecast: float
    realised: float
    within: bool

    @property
    def ratio(self) -> float:
        """The forecast error over the realised one."""
        return self.forecast / self.realised


def outcome(model: Any, rows: np.ndarray, targets: np.ndarray, test: tuple[np.ndarray, np.ndarray]) -> Outcome:
    """Forecast, then fit once and test."""
    found = model.forecast(features=rows.shape[1], rows=len(rows))
    model.fit(rows, targets)
    if found.measure == "accuracy":
        score = float(model.score(*test))
        realised = 1 - score
    else:
        errors = model.predict(test[0]) - test[1]
        realised, score = float(np.sqrt(np.mean(errors**2))), 1 - float(np.mean(errors**2) / test[1].var())
    return Outcome(found.error, realised, found.low <= score <= found.high)


def outcomes(sets: int = SETS) -> dict[str, list[Outcome]]:
    """Return the outcomes with public rows and without, for a number and for classes."""
    import sidelight as sl

    found: dict[str, list[Outcome]] = {f"{what}, {how}": [] for what in ("number", "classes") for how in HOW}
    for place, (n, d, epsilon, share) in enumerate(CELLS):
        m = max(20, n // share)
        for shape in SHAPES:
            for seed in range(sets):
                data = generated_set(shape, FIRST_SEED + 100 * place + seed, rows=n, columns=d, public=m, tested=TEST)
                middle = float(np.median(data.public[1]))
                settings: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "data_norm": 1}
                for what in ("number", "classes"):
                    public, private, tested = (
                        y if what == "number" else (y > middle).astype(int)
                        for y in (data.public[1], data.targets, data.test[1])
                    )
                    prediction = sl.PublicData(np.column_stack([data.public[0], public]), "generated")
                    for how, given in zip(HOW, (prediction, None), strict=True):
                        model = (
                            sl.LinearRegression(**settings, target_range=data.target_range, prediction=given)
                            if what == "number"
                            else sl.LogisticRegression(**settings, classes=[0, 1], prediction=given)
                        )
                        found[f"{what}, {how}"].append(outcome(model, data.rows, private, (data.test[0], tested)))
    return found


def figures(found: dict[str, list[Outcome]]) -> dict[str, float]:
    """Return the median ratio, the middle 80 % of ratios, and how often the range held."""
    figures: dict[str, float] = {}
    for name, every in found.items():
        ratios, key = np.array([each.ratio for each in every]), name.replace(", ", "_").replace(" ", "_")
        figures[f"{key}_median"] = float(np.median(ratios))
        figures[f"{key}_low"], figures[f"{key}_high"] = (float(each) for each in np.quantile(ratios, [0.1, 0.9]))
        figures[f"{key}_within"] = float(np.mean([each.within for each in every]))
    return figures


def measure() -> dict[str, float]:
    """Return the figures of the targets."""
    found = figures(outcomes())
    found["public_rows_off"] = max(abs(np.log(found[f"{what}_public_rows_median"])) for what in ("number", "classes"))
    return found


def main() -> None:
    """Print the table."""
    found = outcomes()
    told = figures(found)
    print(f"{'error forecast / realised':28s}{'fits':>6s}{'median':>9s}{'10 %':>9s}{'90 %':>9s}{'in range':>10s}")
    for name, every in found.items():
        key = name.replace(", ", "_").replace(" ", "_")
        cells = "".join(f"{told[f'{key}_{part}']:9.3f}" for part in ("median", "low", "high"))
        print(f"{name:28s}{len(every):6d}{cells}{told[f'{key}_within']:10.2f}")


if __name__ == "__main__":
    main()
