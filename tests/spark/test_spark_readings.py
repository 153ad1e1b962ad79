"""Spark's workers read texts as declared: the integers of all other engines."""

from __future__ import annotations

from typing import Any

import pytest

import sidelight as sl
from plain_statistics import clipped_sum
from sidelight.aggregates import cell_counts
from sidelight.errors import SourceError

pytestmark = pytest.mark.spark
ROWS = [
    (
        ("1.234,5", "12,25", "k.A.", None)[at % 4],
        ("m", "M ", "f", "x")[at % 4 - at % 3],
        f"{1 + at % 28}.2.2024",
        at % 9,
    )
    for at in range(60)
]
SCHEMA = [
    sl.Number("cost", lower=0, upper=5000, decimal=",", thousands=".", missing_texts=["k.A."]),
    sl.Category("sex", ["F", "M"], casefold=True, strip=True),
    sl.Date("day", start="2020-01-01", end="2025-12-31", formats=["%d.%m.%Y"]),
]


@pytest.mark.parametrize("persons", [False, True])
def test_workers_read_texts_as_declared(spark: Any, persons: bool) -> None:
    frame = spark.createDataFrame(ROWS, "cost string, sex string, day string, who long").repartition(3)
    plain = {name: [row[at] for row in ROWS] for at, name in enumerate(("cost", "sex", "day", "who"))}
    schema = [*SCHEMA, *([sl.PersonId("who", max_rows=2)] if persons else [])]
    away, here = sl.Table(frame, schema=schema), sl.Table(plain, schema=schema)
    for name in ("cost", "day"):
        assert clipped_sum(away, name, step="1/4").value == clipped_sum(here, name, step="1/4").value
    assert cell_counts(away, ["sex"]).value.tolist() == cell_counts(here, ["sex"]).value.tolist()


def test_a_reading_of_ids_is_refused(spark: Any) -> None:
    frame = spark.createDataFrame(ROWS, "cost string, sex string, day string, who long")
    with pytest.raises(SourceError, match="one spelling"):
        sl.Table(frame, schema=[*SCHEMA, sl.PersonId("who", max_rows=2, missing_texts=["0"])])
