"""Predictions with noise of any size, for empty and full tables: no failures or warnings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.testing import seeded_release

SIZES = {"a": 3, "b": 4, "c": 2}
SCHEMA = [sl.Category(name, range(size), other=None) for name, size in SIZES.items()]


def rows(count: int, *, same: bool = False) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(count)
    return {name: np.zeros(count, int) if same else rng.integers(0, size, count) for name, size in SIZES.items()}


def predictions() -> dict[str, Any]:
    pandas = pytest.importorskip("pandas")
    earlier = seeded_release(sl.SyntheticTable(epsilon=1), sl.Table(rows(300), schema=SCHEMA), seed=0)
    vague = seeded_release(sl.SyntheticTable(epsilon="1e-9"), sl.Table(rows(0), schema=SCHEMA), seed=0)
    return {
        "rows": sl.PublicData(pandas.DataFrame(rows(50)), "generated"),
        "a row": sl.PublicData(pandas.DataFrame(rows(1)), "generated"),
        "equal rows": sl.PublicData(pandas.DataFrame(rows(500, same=True)), "generated"),
        "releases": [earlier, vague],
        "weights": np.arange(24.0).reshape(3, 4, 2),
    }


@pytest.mark.parametrize("prediction", ["rows", "a row", "equal rows", "releases", "weights"])
@pytest.mark.parametrize(
    "price", [{"epsilon": "1e-18"}, {"epsilon": "1e-6"}, {"rho": "1e-18"}, {"epsilon": "1e6"}], ids=str
)
def test_no_size_of_noise_fails(price: dict[str, str], prediction: str) -> None:
    query = sl.SyntheticTable(prediction=predictions()[prediction], **price)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count, same, seed in ((0, False, 0), (1, False, 1), (2000, False, 2), (2000, True, 3)):
            found = sl.Synthetic(seeded_release(query, sl.Table(rows(count, same=same), schema=SCHEMA), seed=seed))
            assert np.isfinite(found.answer(["a", "b"]).counts).all()  # type: ignore[union-attr]
            assert np.isfinite(found.mass.units).all()
