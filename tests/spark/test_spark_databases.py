"""Databases of Spark frames: the rows of plain lists, and refusals before a charge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.tables import Places, made, rows_of, shop

import sidelight as sl
from sidelight.errors import SchemaError, SourceError
from sidelight.records.rows import Wanted

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("whole", [False, True])
def test_views_and_pairs_have_the_rows_of_plain_lists(spark: Any, whole: bool) -> None:
    orders, lines = made(np.random.default_rng(7), whole=whole)
    places = Places(Path(), spark=spark)
    expected = rows_of(shop(places, "lists", orders, lines))
    database = shop(places, "spark", orders, lines)
    assert rows_of(database) == expected
    session = sl.Session(database, budget=sl.PureDP(1))
    assert session.release(sl.Count(of="rows", epsilon=1), of="lines").guarantee.unit == database.unit


def test_rows_leave_spark_for_views_alone(spark: Any) -> None:
    orders, lines = made(np.random.default_rng(7), whole=True)
    database = shop(Places(Path(), spark=spark), "spark", orders, lines)
    with pytest.raises(SourceError, match="hands no rows over"):
        database["orders"].rows.batches(Wanted(numbers=("day",)))


def test_frames_that_may_change_are_refused_before_a_charge(spark: Any) -> None:
    from pyspark.sql import functions

    frame = spark.createDataFrame([(1, 1, 2)], ["who", "id", "day"]).withColumn("day", functions.rand() * 9)
    day = sl.Number("day", lower=0, upper=9, granularity=1)
    table = sl.Table(frame, schema=[sl.PersonId("who", max_rows=2), sl.Key("id"), day])
    session = sl.Session(sl.Database({"orders": table}, name="shop"), budget=sl.PureDP(1))
    before = str(session.remaining)
    with pytest.raises(SourceError, match="Nothing was charged"):
        session.release(sl.Count(of="rows", epsilon=1), of="orders")
    assert str(session.remaining) == before


def test_readings_of_texts_are_not_made_here(spark: Any) -> None:
    frame = spark.createDataFrame([(1, "a")], ["who", "ward"])
    schema = [sl.PersonId("who", max_rows=2), sl.Category("ward", ["a"], casefold=True)]
    with pytest.raises(SchemaError, match="only adds rows up"):
        sl.Database({"visit": sl.Table(frame, schema=schema)}, name="clinic")
