"""How often the error that a model by descent states (`release_.error` at 95 %) held, on generated sets.

Sets of four shapes (`linear_predictions.SHAPES`), other seeds than chose its factors. Of a number the error is counted
from least squares on all right rows (private, public and test rows: about the best linear model), in the root mean
square over test rows; of classes in their probabilities, from logistic regression on the same rows. Without a map the
error is stated against the same steps without noise: counted from the mean of the other fits of the same rows. Public
rows are of the same law, or have coefficients that are off by two deviations of the target: then the assumption of the
stated error is wrong.

Then sets in which noise hides a direction: two columns whose difference is the target, and powers of one column;
classes that a column separates, whose slopes have no end; and classes of unequal weights, counted from logistic
regression with the same weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.linear_predictions import SHAPES, Generated, generated_set
from benchmarks.measuring import print_figures, sized

DELTA = "1e-6"
FIRST_SEED = 19_400_000
SETS = sized(3, 1)
#: Rows, columns and epsilon.
CELLS = sized(((800, 8, 0.3), (3000, 20, 0.3), (3000, 20, 1.0), (6000, 8, 1.0)), ((200, 3, 1.0),))
#: Fits of one set.
FITS = sized(8, 2)
#: What a fit is called: whether it is of classes, its public rows, its coordinates.
CASES: dict[str, tuple[bool, str | None, str]] = {
    "a number": (False, None, "auto"),
    "a number, public rows": (False, "alike", "auto"),
    "a number, wrong public rows": (False, "wrong", "auto"),
    "a number, without a map": (False, None, "none"),
    "two classes": (True, None, "auto"),
    "two classes, public rows": (True, "alike", "auto"),
    "two classes, without a map": (True, None, "none"),
}


#: Sets in which noise hides a direction: intervals of up to so many minutes, or powers; their rows and fits.
HIDDEN = {"difference, up to 60 minutes": 60, "difference, up to 20 minutes": 20, "powers": 0}
HIDDEN_ROWS, HIDDEN_FITS = sized((2000, 20_000, 200_000), (500,)), sized(10, 1)
#: Classes between these limits of an even column on -1..1; their rows and epsilon, and fits.
SEPARATED: dict[str, list[float]] = {"above 0.3": [0.3], "above 0.8": [0.8], "above 0.98": [0.98], "three": [-0.3, 0.4]}
SEPARATED_CELLS, SEPARATED_FITS = sized(((3000, 1.0), (20_000, 4.0), (200_000, 4.0)), ((500, 1.0),)), sized(10, 1)
#: Weights of classes, and their rows, epsilon and fits.
WEIGHTED: dict[str, tuple[int, ...]] = {"six, 1:30": (1, 1, 1, 1, 1, 30), "three, 1:100": (1, 1, 100)}
WEIGHTED_CELLS, WEIGHTED_FITS = sized(((8000, 3.0), (60_000, 10.0)), ((500, 1.0),)), sized(8, 1)


@dataclass(frozen=True)
class Held:
    """Errors of fits over what was stated of them; at most 1 is held."""

    ratios: np.ndarray

    @property
    def share(self) -> float:
        """How often it held."""
        return float(np.mean(self.ratios <= 1))


def ratios(case: str, shape: str, seed: int, cell: tuple[int, int, float]) -> list[float]:
    """Fit one set some times; return how far predictions are off, over what each release says of it."""
    import sidelight as sl

    classes, public, geometry = CASES[case]
    n, d, epsilon = cell
    off = 2.0 if public == "wrong" else 0.0
    data = generated_set(shape, seed, rows=n, columns=d, public=max(20, n // 9), off=off)
    middle = float(np.median(data.targets))
    targets, known = (y > middle if classes else y for y in (data.targets, data.public[1]))
    settings: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "data_norm": 1, "rows": n}
    settings["solver"] = sl.DescentSettings(geometry=geometry)
    settings |= {"classes": [0, 1]} if classes else {"target_range": data.target_range}
    if public is not None:
        settings["prediction"] = sl.PublicData(np.column_stack([data.public[0], known]).astype(float), "generated")
    kind = sl.LogisticRegression if classes else sl.LinearRegression
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that noise is large
        models = [kind(**settings).fit(data.rows, targets) for _ in range(FITS)]
    told = np.array([_told(model, data.test[0]) for model in models])
    best = _best(data, off=off, above=middle if classes else None)
    truth = (told.sum(axis=0) - told) / (FITS - 1) if geometry == "none" else best
    far = (100 if classes else 1) * np.sqrt(np.mean((told - truth) ** 2, axis=1))
    return [each / float(model.release_.error.at(0.95)[0]) for each, model in zip(far, models, strict=True)]


def _told(model: Any, rows: np.ndarray) -> np.ndarray:
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(rows)[:, 1])
    return np.asarray(rows @ np.ravel(model.coef_) + float(np.ravel(model.intercept_)[0]))


def _best(data: Generated, *, off: float, above: float | None) -> np.ndarray:
    """Return the predictions of a fit without privacy to all rows whose targets are right.

    Args:
        data: The set; numbers are cut to the range as a fit does.
        off: How wrong the public rows are: they count at 0 alone.
        above: Of classes, above which number a target is of the second one.
    """
    parts = [(data.rows, data.targets), data.test] + ([] if off else [data.public])
    rows, targets = (np.concatenate(each) for each in zip(*parts, strict=True))
    if above is not None:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=1e4, max_iter=1000).fit(rows, targets > above)
        return np.asarray(model.predict_proba(data.test[0])[:, 1])
    targets = np.clip(targets, *data.target_range)
    found = np.linalg.lstsq(np.column_stack([rows, np.ones(len(rows))]), targets, rcond=None)[0]
    return np.asarray(data.test[0] @ found[:-1] + found[-1])


def held(case: str, shape: str, *, sets: int = SETS) -> Held:
    """Return what came of the fits of one case and shape."""
    seeds = [(FIRST_SEED + 100 * place + each, cell) for place, cell in enumerate(CELLS) for each in range(sets)]
    return Held(np.array([each for seed, cell in seeds for each in ratios(case, shape, seed, cell)]))


def hidden(law: str, rows: int, seed: int) -> tuple[float, float]:
    """Return how far predictions of one fit are from least squares, and what was stated; in half ranges."""
    import sidelight as sl

    rng = np.random.default_rng([FIRST_SEED, seed, rows])
    if law == "powers":
        x = rng.uniform(0, 1, rows)
        columns, y = np.column_stack([x, x**2, x**3]), np.sin(6 * x) + 0.2 * rng.normal(size=rows)
        y = np.clip(y / 1.6, -1, 1)
    else:  # minutes of a day: start and end, and how long it lasted
        longest = HIDDEN[law]
        start, lasted = rng.uniform(300, 1320, rows), rng.uniform(5, longest, rows)
        columns, y = np.column_stack([start, start + lasted]) / 1440, 2 * lasted / longest - 1
    x = (2 * columns - 1) / np.sqrt(columns.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sl.LinearRegression(epsilon=1, delta=DELTA, data_norm=1, target_range=(-1, 1)).fit(x, y)
    whole = np.column_stack([x, np.ones(rows)])
    best = whole @ np.linalg.lstsq(whole, y, rcond=None)[0]
    return float(np.sqrt(np.mean((model.predict(x) - best) ** 2))), float(model.release_.error.at(0.95)[0])


def separated(law: str, rows: int, epsilon: float, seed: int) -> tuple[float, float]:
    """Return how far probabilities of one fit are from the best, and what was stated; in percentage points."""
    x = np.random.default_rng([FIRST_SEED, seed, rows]).uniform(-1, 1, (rows, 1))
    return _of_classes(x, np.digitize(x[:, 0], SEPARATED[law]), epsilon, [1] * (len(SEPARATED[law]) + 1))


def weighted(law: str, rows: int, epsilon: float, seed: int) -> tuple[float, float]:
    """Return the same for classes of unequal weights."""
    rng = np.random.default_rng([FIRST_SEED, seed, rows])
    x = rng.normal(size=(rows, 3))
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    slopes = 4 * np.random.default_rng(FIRST_SEED).normal(size=(3, len(WEIGHTED[law])))
    y = (x @ (slopes - slopes.mean(axis=1, keepdims=True)) + rng.gumbel(size=(rows, len(WEIGHTED[law])))).argmax(axis=1)
    return _of_classes(x, y, epsilon, WEIGHTED[law])


def _of_classes(x: np.ndarray, y: np.ndarray, epsilon: float, weights: Sequence[int]) -> tuple[float, float]:
    from sklearn.linear_model import LogisticRegression

    import sidelight as sl

    counted = None if len(set(weights)) == 1 else dict(enumerate(weights))
    settings: dict[str, Any] = {"delta": DELTA, "data_norm": 1, "classes": range(len(weights)), "class_weight": counted}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sl.LogisticRegression(epsilon=epsilon, **settings).fit(x, y)
    best = LogisticRegression(C=1e4, max_iter=1000, class_weight=counted).fit(x, y).predict_proba(x)
    off = np.sqrt(np.mean((model.predict_proba(x) - best) ** 2, axis=0)).max()
    return 100 * float(off), float(model.release_.error.at(0.95)[0])


def measure_separated() -> dict[str, float]:
    """Return how often it held for classes that a column separates, and print the table."""
    return {"separated": _held("separated classes", separated, SEPARATED, SEPARATED_CELLS, SEPARATED_FITS)}


def measure_weighted() -> dict[str, float]:
    """Return how often it held for classes of unequal weights, and print the table."""
    return {"weighted": _held("weighted classes", weighted, WEIGHTED, WEIGHTED_CELLS, WEIGHTED_FITS)}


def _held(name: str, fit: Any, laws: Iterable[str], cells: Sequence[tuple[int, float]], fits: int) -> float:
    print(f"{name}, {fits} fits each: median error and statement in points, and how often it held")
    held = []
    for law in laws:
        for rows, epsilon in cells:
            found = np.array([fit(law, rows, epsilon, seed) for seed in range(fits)])
            off, said, share = *np.median(found, axis=0), np.mean(found[:, 0] <= found[:, 1])
            print(f"{law:16s}{rows:8d}{epsilon:6g}{off:8.1f}{said:8.1f}{share:6.2f}", flush=True)
            held.append(share)
    return float(np.mean(held))


def measure() -> dict[str, float]:
    """Return how often it held, in all shapes together, and print the table."""
    figures = {}
    print(f"{'held, share of fits at 95 %':32s}" + "".join(f"{shape:>8s}" for shape in SHAPES) + "  error/stated")
    for case in CASES:
        every = [held(case, shape) for shape in SHAPES]
        found = np.concatenate([each.ratios for each in every])
        shown = "".join(f"{each.share:8.2f}" for each in every)
        print(f"{case:32s}{shown}{np.median(found):14.2f}", flush=True)
        figures[case.replace(",", "").replace(" ", "_")] = float(np.mean(found <= 1))
    print(f"{SETS * len(CELLS) * FITS} fits of {SETS * len(CELLS)} sets each")
    return figures


def main() -> None:
    """Print every figure."""
    print_figures(measure() | measure_separated() | measure_weighted())
    print("hidden directions, 10 fits each: median error and statement in half ranges, and how often it held")
    for law in HIDDEN:
        for rows in HIDDEN_ROWS:
            found = np.array([hidden(law, rows, seed) for seed in range(HIDDEN_FITS)])
            share = np.mean(found[:, 0] <= found[:, 1])
            print(f"{law:34s}{rows:8d}{np.median(found[:, 0]):8.3f}{np.median(found[:, 1]):8.3f}{share:6.2f}")


if __name__ == "__main__":
    main()
