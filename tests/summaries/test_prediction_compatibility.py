"""Prediction compatibility of earlier releases; warnings for gaps, misspelt groups and unused limits."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

import sidelight as sl
from sidelight.errors import RangeError, SchemaError, SidelightWarning
from sidelight.group_table import GroupTable
from sidelight.session.query import prepare_query

SCHEMA = sl.Schema(
    [
        sl.Category("job", ["cook", "nurse", "clerk", "pilot"], other=None),
        sl.Category("sex", ["F", "M"], other=None),
        sl.Number("age", lower=0, upper=100, granularity=1),
        sl.Number("income", lower=0, upper=1000, granularity=1),
    ]
)
PEOPLE = {
    "job": ["cook", "nurse", "clerk", "pilot"] * 100,
    "sex": ["F", "M"] * 200,
    "age": list(range(20, 60)) * 10,
    "income": list(range(100, 500)),
}


def released(query: Any) -> sl.Release:
    outcome = query.release(sl.Table(PEOPLE, schema=SCHEMA))
    assert isinstance(outcome, sl.Release)
    return outcome


EARLIER = {
    "mean age": lambda: released(sl.Mean("age", by="job", epsilon=1)),
    "mean age by sex": lambda: released(sl.Mean("age", by=["job", "sex"], epsilon=1)),
    "count": lambda: released(sl.Count(by="job", epsilon=1)),
    "sum": lambda: released(sl.Sum("age", by="job", epsilon=1)),
    "share": lambda: released(sl.Proportion(sl.col("age") >= 40, by="job", epsilon=1)),
}


@pytest.mark.parametrize(
    ("earlier", "query"),
    [
        ("mean age", lambda given: sl.Mean("income", by="job", epsilon=1, prediction=given)),
        ("mean age", lambda given: sl.Count(by="job", epsilon=1, prediction=given)),
        ("mean age", lambda given: sl.Sum("age", by="job", epsilon=1, prediction=given)),
        ("mean age by sex", lambda given: sl.Mean("age", by="job", epsilon=1, prediction=given)),
        ("mean age", lambda given: sl.Mean("age", by=["job", "sex"], epsilon=1, prediction=given)),
        ("count", lambda given: sl.Mean("age", by="job", epsilon=1, prediction=given)),
        ("sum", lambda given: sl.Sum("income", by="job", epsilon=1, prediction=given)),
        ("share", lambda given: sl.Proportion(sl.col("age") >= 50, by="job", epsilon=1, prediction=given)),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_release_of_another_thing_is_refused(earlier, query, wrapped):
    given = EARLIER[earlier]()
    given = sl.Predicted(given, doubt=0.1) if wrapped else given
    with pytest.raises(RangeError, match=r"another statistic|no key column|twice|no column"):
        prepare_query(query(given), SCHEMA)


def test_a_compatible_release_predicts_at_any_price_and_condition():
    """The order of by, the price and the condition may differ; also counts predict a ranking."""
    mean = EARLIER["mean age"]()
    # predictions from releases that no ledger names are fine; only what they are about is asked
    prepare_query(sl.Mean("age", by="job", where=sl.col("sex") == "F", mu=1, prediction=mean), SCHEMA)
    both = EARLIER["mean age by sex"]()
    prepare_query(sl.Mean("age", by=["sex", "job"], epsilon=1, prediction=both), SCHEMA)
    prepare_query(sl.TopK("job", k=2, epsilon=1, prediction=EARLIER["count"]()), SCHEMA)


def test_who_means_it_passes_the_table():
    table = EARLIER["mean age"]().value
    prepare_query(sl.Mean("income", by="job", epsilon=1, prediction=table), SCHEMA)


def test_persons_are_not_rows():
    schema = sl.Schema([sl.PersonId("who", max_rows=2), *SCHEMA.columns])
    table = sl.Table(PEOPLE | {"who": [n // 2 for n in range(400)]}, schema=schema)
    persons = sl.Count(by="job", max_groups=1, epsilon=1).release(table)
    with pytest.raises(RangeError, match="of persons by job, and this query asks count of rows by job"):
        prepare_query(sl.Count(by="job", of="rows", max_groups=1, epsilon=1, prediction=persons), schema)


@pytest.mark.parametrize("gap", [math.nan, None])
def test_a_gap_in_a_frame_is_refused_as_in_a_mapping(gap):
    frame = pd.DataFrame({"job": ["cook", "nurse"], "mean": pd.Series([30.0, gap], dtype="float64")})
    for given in (frame, {"job": ["cook", "nurse"], "mean": [30.0, gap]}, {"cook": 30.0, "nurse": math.nan}):
        with pytest.raises(RangeError, match="prediction of 'nurse' is not a finite number"):
            prepare_query(sl.Mean("age", by="job", epsilon=1, prediction=given), SCHEMA)


def test_a_misspelt_group_is_reported_with_the_nearest():
    given = {"cook": 30.0, "nurze": 40.0, "clerk": 30.0, "pilot": 40.0}
    with pytest.warns(SidelightWarning, match="'nurze' for one; did you mean 'nurse'"):
        prepare_query(sl.Mean("age", by="job", epsilon=1, prediction=given), SCHEMA)
    with pytest.raises(RangeError, match=r"none of the 4 groups.*did you mean 'cook'"):
        prepare_query(sl.Mean("age", by="job", epsilon=1, prediction={"Cook": 30.0}), SCHEMA)


@pytest.mark.parametrize("limit", ["max_groups", "max_rows_per_group"])
@pytest.mark.parametrize(
    "query",
    [
        lambda **limit: sl.Mean("age", by="job", epsilon=1, **limit),
        lambda **limit: sl.Sum("age", epsilon=1, **limit),
        lambda **limit: sl.Count(by="job", of="rows", epsilon=1, **limit),
        lambda **limit: sl.TopK("job", k=2, route="peeling", of="rows", epsilon=1, **limit),
        lambda **limit: sl.CountDistinct("job", by="sex", epsilon=1, **limit),
        lambda **limit: sl.Summary("age", by="job", epsilon=1, **limit),
    ],
)
def test_limits_of_persons_are_refused_where_there_are_none(query, limit):
    with pytest.raises(SchemaError, match=f"{limit} limits what one person adds.*leave {limit} out"):
        prepare_query(query(**{limit: 2}), SCHEMA)


def test_counts_are_printed_whole():
    table = GroupTable(keys=["job"], groups=[("cook",)], columns={"mean": [41.256], "count": [99.734]})
    assert repr(table).splitlines()[1].split() == ["cook", "41.256", "100"]
    assert table.row("cook")["count"] == 99.734
