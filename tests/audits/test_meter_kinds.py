"""The audit of the meter knows which query of the registry a released model is of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.audit_meter import kinds_of

import sidelight as sl
from sidelight.registry import ENTRIES

COLUMNS = [sl.Number(name, lower=-1, upper=1) for name in ("a", "b")]
ROWS = np.random.default_rng(1).uniform(-1, 1, (400, 2))


@pytest.mark.parametrize(
    ("kind", "model", "target"),
    [
        (
            "additive_regression",
            sl.AdditiveRegressor(columns=COLUMNS, epsilon=1, delta=1e-6, target_range=(-1, 1)),
            ROWS[:, 0],
        ),
        (
            "additive_classifier",
            sl.AdditiveClassifier(columns=COLUMNS, epsilon=1, delta=1e-6, classes=[0, 1]),
            (ROWS[:, 0] > 0).astype(int),
        ),
        (
            "linear_regression",
            sl.LinearRegression(epsilon=1, delta=1e-6, data_norm=2, target_range=(-1, 1)),
            ROWS[:, 0],
        ),
    ],
)
def test_models_are_counted_as_what_the_registry_calls_them(kind: str, model: Any, target: Any) -> None:
    assert kind in {each.kind for each in ENTRIES}
    release = model.fit(ROWS, target).release_
    assert release.spending
    assert kind in kinds_of(release.query)
