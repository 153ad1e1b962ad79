"""A public tenth as prediction of additive models: how much a right one gives, and what a flipped one costs.

    python -m benchmarks.additive_predictions

A tenth of the training rows is public and takes no part in the private fit. Errors are log losses, or squared errors as
a share of the variance.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks import additive_sets
from benchmarks.additive_sets import Columned
from benchmarks.measuring import print_figures, sized

SETS = ("flchain", "bike")
EPSILONS = (0.1, 0.5, 1.0)
SPLITS = sized(6, 1)


def _fit(data: Columned, private: np.ndarray, test: np.ndarray, epsilon: float, seed: int, **more: Any) -> float:
    kind = sl.AdditiveClassifier if data.target_range is None else sl.AdditiveRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(epsilon=str(epsilon), delta="1e-5", random_state=seed + 1, **more)
        model.fit_table(data.table(private), target="y")
    rows = data.frame(test)
    return data.error(model.predict(rows) if data.target_range else model.predict_proba(rows)[:, 1], test)


def _public(data: Columned, places: np.ndarray, *, flipped: bool) -> sl.PublicData:
    y = data.target[places]
    low, high = data.target_range or (0.0, 1.0)
    y = low + high - y if flipped else y
    return sl.PublicData(
        {**data.frame(places), "y": y.astype(int).astype(str) if data.target_range is None else y}, "p"
    )


def errors(name: str, epsilon: float) -> dict[str, np.ndarray]:
    """Return the errors of all splits: no prediction and no lines, the default, with the tenth, flipped, alone."""
    data = additive_sets.read(name)
    found: dict[str, list[float]] = {}
    for seed in range(SPLITS):
        train, test = data.split(seed)
        public, private = np.split(train, [len(train) // 10])
        runs: dict[str, dict[str, Any]] = {
            "none": {"lines": "none"},
            "default": {},
            "tenth": {"prediction": _public(data, public, flipped=False)},
            "flipped": {"prediction": _public(data, public, flipped=True)},
        }
        for run, more in runs.items():
            found.setdefault(run, []).append(_fit(data, private, test, epsilon, seed, **more))
        # the tenth alone: a fit of no private row keeps to what the prediction says
        alone = _fit(data, private[:0], test, 0.001, seed, prediction=_public(data, public, flipped=False), odds=10**6)
        found.setdefault("alone", []).append(alone)
    return {run: np.array(each) for run, each in found.items()}


def measure() -> dict[str, float]:
    """Return the largest excess of the tenth over the better of alone and none, and of a flipped one over none."""
    figures: dict[str, float] = {}
    tenth, flipped, beside_default = [], [], []
    for name in SETS:
        for epsilon in EPSILONS:
            found = errors(name, epsilon)
            means = {run: float(each.mean()) for run, each in found.items()}
            figures |= {f"{name}_{epsilon:g}_{run}": value for run, value in means.items()}
            tenth.append(means["tenth"] - min(means["alone"], means["none"]))
            flipped.append(means["flipped"] - means["none"])
            beside_default.append(means["flipped"] / means["default"])
    figures["tenth_excess"] = max(tenth)
    figures["flipped_excess"] = max(flipped)
    figures["flipped_over_default"] = max(beside_default)
    return figures


def main() -> None:
    """Print the figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()
