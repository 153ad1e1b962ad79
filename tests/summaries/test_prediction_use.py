"""The shrinkage weight of a predicted table, stated in the release, and the resulting error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.release import Release, outcome_from_json
from sidelight.testing import seeded_release

NAMES = [f"district {number:02d}" for number in range(12)]
SIZES = np.array([620, 90, 410, 230, 150, 700, 310, 80, 520, 260, 340, 190])
TYPICAL = 50 + 3 * np.sin(np.arange(12.0))


@pytest.fixture(scope="module")
def people() -> sl.Table:
    where = np.repeat(np.arange(12), SIZES)
    ages = np.clip(TYPICAL[where] + 10 * np.sin(1.7 * np.arange(len(where))), 0, 100)
    columns = {"district": np.array(NAMES)[where], "age": ages}
    schema = [sl.Category("district", NAMES, other=None), sl.Number("age", lower=0, upper=100)]
    return sl.Table(columns, schema=schema, name="people")


def releases(people: sl.Table, query: Any, draws: int = 30) -> list[Release]:
    return [seeded_release(query, people, seed=f"use {draw}") for draw in range(draws)]


@pytest.mark.parametrize(("off", "least", "most"), [(0.03, 0.4, 1.0), (0.5, 0.0, 0.5), (3.0, 0.0, 0.15)])
def test_of_counts_it_is_near_the_error(people: sl.Table, off: float, least: float, most: float) -> None:
    known = dict(zip(NAMES, SIZES * np.exp(off * np.cos(2.3 * np.arange(12))), strict=True))
    found = releases(people, sl.Count(by="district", epsilon="0.02", prediction=known))
    used = [each.prediction_use for each in found]
    assert least <= np.mean([each.share for each in used]) <= most
    true = np.sqrt(np.mean([np.mean((each.value["count"] - SIZES) ** 2) for each in found]))
    said = np.sqrt(np.mean([each.likely_sd**2 for each in used]))
    assert 0.75 < said / true < 1.35
    assert all(each.likely_sd <= each.noise_sd for each in used)


def test_of_means_it_is_near_the_error(people: sl.Table) -> None:
    known = dict(zip(NAMES, TYPICAL, strict=True))
    found = releases(people, sl.Mean("age", by="district", epsilon="0.2", prediction=known))
    true = np.sqrt(np.mean([np.mean((each.value["mean"] - TYPICAL) ** 2) for each in found]))
    said = np.sqrt(np.mean([each.prediction_use.likely_sd**2 for each in found]))
    alone = np.sqrt(np.mean([each.prediction_use.noise_sd**2 for each in found]))
    assert true < alone / 2  # the prediction is good, and that is to be seen
    assert true / 2 < said < 0.8 * alone


def test_it_is_printed_and_stored_nowhere(people: sl.Table) -> None:
    known = dict(zip(NAMES, SIZES.tolist(), strict=True))
    (release,) = releases(people, sl.Count(by="district", epsilon="0.02", prediction=known), 1)
    assert "shrinkage weight" in str(release)
    assert "shrinkage weight" in release._repr_html_()
    assert release.to_dict()["believed"] == release.prediction_use.share
    again = outcome_from_json(release.to_json())
    assert again.prediction_use == release.prediction_use
    (alone,) = releases(people, sl.Count(by="district", epsilon="0.02"), 1)
    assert alone.prediction_use is None
    assert "shrinkage" not in str(alone)


def test_a_series_and_a_named_column_are_tables() -> None:
    sizes = pd.Series([300, 200], index=["north", "south"])
    frame = pd.DataFrame({"district": ["north", "south"], "y2024": [310, 190], "y2025": [300, 200]})
    schema = [sl.Category("district", ["north", "south"], other=None)]
    table = sl.Table({"district": ["north"] * 250 + ["south"] * 250}, schema=schema)
    texts = [
        str(seeded_release(sl.Count(by="district", epsilon=1, prediction=each), table, seed="s").value)
        for each in (sizes, sl.Predicted(frame, column="y2025"), {"north": 300, "south": 200})
    ]
    assert texts[0] == texts[1] == texts[2]
    with pytest.raises(RangeError, match="column="):
        sl.Count(by="district", epsilon=1, prediction=frame).release(table)
    with pytest.raises(RangeError, match="no column 'y2023'"):
        sl.Count(by="district", epsilon=1, prediction=sl.Predicted(frame, column="y2023")).release(table)
    with pytest.raises(RangeError, match="is for a frame"):
        sl.Count(by="district", epsilon=1, prediction=sl.Predicted(sizes, column="y2023")).release(table)
