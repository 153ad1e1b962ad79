"""Predictions of tables by group: every form that a user may pass is read into the same numbers, with its origin."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sidelight as sl
from sidelight.errors import RangeError, SidelightWarning
from sidelight.group_table import GroupTable
from sidelight.predictions.origin import guess, public
from sidelight.predictions.public_data import PublicData
from sidelight.summaries.predicted import Predicted, read_prediction

COLUMNS = {"job": ["cook", "nurse"], "count": [12, 30]}
GROUPS = [("cook",), ("nurse",), ("clerk",)]
NAMES = ("unbiased", "count")


@pytest.mark.parametrize(
    "given",
    [
        {"cook": 12, "nurse": 30},
        {("cook",): 12, ("nurse",): 30.0},
        COLUMNS,
        pd.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS),
        pl.LazyFrame(COLUMNS),
        pa.table(COLUMNS),
        pd.DataFrame({"job": ["cook", "nurse"], "persons": [12, 30]}),
        GroupTable(keys=["job"], groups=[("cook",), ("nurse",)], columns={"count": [12, 30]}),
        PublicData(COLUMNS, "register"),
        Predicted(COLUMNS, doubt=0.1),
    ],
    ids=lambda given: type(given).__name__,
)
def test_all_forms_give_the_same_numbers(given: Any) -> None:
    table = read_prediction(given, keys=["job"], names=NAMES)
    assert table is not None
    assert table.on(GROUPS).values.tolist()[:2] == [12.0, 30.0]
    assert math.isnan(table.on(GROUPS).values[2])
    assert table.origin == (public("register") if isinstance(given, PublicData) else table.origin)


def test_nothing_stays_nothing_and_origins_are_kept() -> None:
    assert read_prediction(None, keys=["job"], names=NAMES) is None
    told = read_prediction(Predicted({"cook": 1}, origin="register of 2025"), keys=["job"], names=NAMES)
    assert told is not None
    assert told.origin == public("register of 2025")
    assert told.description["origin"] == {"kind": "public", "description": "register of 2025"}
    bare = read_prediction({"cook": 1}, keys=["job"], names=NAMES)
    assert bare is not None
    assert bare.origin == guess()


def test_a_table_brings_its_unbiased_numbers_and_their_noise() -> None:
    columns = {"count": [3, 9], "unbiased": [-2.0, math.nan], "noise_sd": [4.0, 5.0]}
    table = GroupTable(keys=["job"], groups=[("cook",), ("nurse",)], columns=columns)
    read = read_prediction(table, keys=["job"], names=NAMES)
    assert read is not None
    assert read.on(GROUPS[:2]).values.tolist() == [-2.0, 9.0]  # the count where the unbiased number is missing
    assert read.on(GROUPS[:2]).sds.tolist() == [4.0, 5.0]
    stated = read_prediction(Predicted(table, sd=7), keys=["job"], names=NAMES)
    assert stated is not None
    assert stated.on(GROUPS).sds.tolist()[:2] == [7.0, 7.0]


def test_totals_of_a_rolled_up_table_are_no_groups() -> None:
    table = GroupTable(
        keys=["job", "sex"], groups=[("cook", "F"), ("cook", "all"), ("all", "all")], columns={"n": [1, 2, 3]}
    )
    read = read_prediction(table, keys=["job", "sex"], names=["n"])
    assert read is not None
    assert list(read.entries) == [("cook", "F")]


def test_several_keys_and_labels_that_are_numbers() -> None:
    read = read_prediction({(1, True): 5}, keys=["year", "new"], names=NAMES)
    assert read is not None
    assert read.on([("1", "true")]).values.tolist() == [5.0]
    alone = read_prediction(41, keys=[], names=NAMES)
    assert alone is not None
    assert alone.on([()]).values.tolist() == [41.0]


@pytest.mark.parametrize(
    ("given", "keys", "said"),
    [
        ({"cook": 1}, ["job", "sex"], "tuples of 2 labels"),
        ({"work": ["cook"], "count": [1]}, ["job"], "holds numbers|no key column"),
        (pd.DataFrame({"work": ["cook"], "count": [1]}), ["job"], "no key column 'job'"),
        (pd.DataFrame({"job": ["cook"], "a": [1], "b": [2]}), ["job"], "no column 'unbiased' or 'count'; it has a, b"),
        (pd.DataFrame({"job": ["cook", "cook"], "count": [1, 2]}), ["job"], "twice"),
        ({"cook": math.inf}, ["job"], "not a finite number"),
        ({"cook": "many"}, ["job"], "holds numbers"),
        ({}, ["job"], "has no groups"),
        (object(), ["job"], "got object"),
        (sl.Table({"x": [1.0]}, schema=[sl.Number("x")]), ["job"], "private source"),
    ],
)
def test_what_cannot_be_a_prediction_is_refused(given: Any, keys: list[str], said: str) -> None:
    with pytest.raises(RangeError, match=said):
        read_prediction(given, keys=keys, names=NAMES)


@pytest.mark.parametrize(
    "wrong", [{"doubt": 0}, {"sd": -1}, {"doubt": True}, {"doubt": 0.1, "sd": 1}, {"sd": math.nan}]
)
def test_a_doubt_is_one_positive_number(wrong: dict[str, Any]) -> None:
    with pytest.raises(RangeError, match=r"number above 0|once"):
        Predicted({"cook": 1}, **wrong)


def test_keys_that_do_not_match_are_refused_and_extra_rows_told_of() -> None:
    read = read_prediction({"cook": 1, "pilot": 2}, keys=["job"], names=NAMES)
    assert read is not None
    with pytest.warns(SidelightWarning, match="'pilot' for one"):
        read.check(GROUPS)
    with pytest.raises(RangeError, match="none of the 1 groups"):
        read.check([("nurse",)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read.check([("cook",), ("pilot",), ("nurse",)])  # a group without a prediction is fine


def test_the_description_is_json_of_strings_and_depends_on_the_numbers() -> None:
    one, two = (read_prediction({"cook": n}, keys=["job"], names=NAMES) for n in (1, 2))
    assert one is not None
    assert two is not None
    assert one.description["sha256"] != two.description["sha256"]
    shares = read_prediction(Predicted({"cook": 1.0}, shares=True, doubt=0.5), keys=["job"], names=NAMES)
    assert shares is not None
    assert shares.description["doubt"] == "0.5"
    assert shares.description["shares"] == "yes"
    assert shares.on([("cook",)]).shares
    assert np.isnan(shares.on([("cook",)]).sds).all()


def test_a_group_may_be_called_as_its_column_is() -> None:
    told = read_prediction({"job": 12, "cook": 30}, keys=["job"], names=["count"])
    assert told is not None
    assert told.on([("job",), ("cook",)]).values.tolist() == [12.0, 30.0]
