"""Which names groups may have: those that the table that comes out does not use itself, and no others are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.group_table import GroupTable
from sidelight.session.query import prepare_query
from sidelight.summaries.grouped import TABLE_COLUMNS
from sidelight.testing import seeded_release

LABELS = ["a", "b", "c", "d"]
FOUND: dict[str, Any] = {"epsilon": 6, "delta": "1e-3"}
#: Ways to ask each kind that together have all columns of it. The first argument is the column of the groups.
QUERIES: dict[str, list[Callable[[str], Any]]] = {
    "count": [lambda by: sl.Count(by=by, epsilon=1), lambda by: sl.Count(by=[by, "firm"], **FOUND)],
    "histogram": [lambda by: sl.Histogram("x", by=by, bins=3, epsilon=1)],
    "count_distinct": [lambda by: sl.CountDistinct("firm", by=by, epsilon=1)],
    "top_k": [lambda by: sl.TopK(by, k=2, epsilon=1), lambda by: sl.TopK(by, k=2, epsilon=1, route="peeling")],
    "sum": [lambda by: sl.Sum("x", by=by, epsilon=1), lambda by: sl.Sum("x", by=[by, "firm"], **FOUND)],
    "mean": [lambda by: sl.Mean("x", by=by, rho=1), lambda by: sl.Mean("x", by=[by, "firm"], **FOUND)],
    "proportion": [
        lambda by: sl.Proportion("x > 3", by=by, rho=1), lambda by: sl.Proportion("x > 3", by=[by, "firm"], **FOUND)
    ],
    "variance": [lambda by: sl.Variance("x", by=by, rho=1), lambda by: sl.Variance("x", by=[by, "firm"], **FOUND)],
    "standard_deviation": [
        lambda by: sl.StandardDeviation("x", by=by, rho=1),
        lambda by: sl.StandardDeviation("x", by=[by, "firm"], **FOUND),
    ],
    "summary": [lambda by: sl.Summary("x", by=by, rho=1), lambda by: sl.Summary("x", by=[by, "firm"], **FOUND)],
}  # fmt: skip
#: Kinds whose parameters add columns of their own.
MORE: dict[str, Callable[[str], Any]] = {
    "several means": lambda by: sl.Mean(["x", "y"], by=by, rho=1, clip="by_group"),
    "sum by group": lambda by: sl.Sum("x", by=by, epsilon=1, clip="by_group"),
    "quantiles": lambda by: sl.Quantiles([0.25, 0.999], column="x", by=by, epsilon=1),
}


def table_by(query: Callable[[str], Any], name: str) -> GroupTable:
    data = {name: LABELS * 100, "x": np.arange(400) % 50, "y": np.arange(400) % 7, "firm": ["u", "v"] * 200}
    columns = [sl.Category(name, LABELS, other=None), sl.Number("x", lower=0, upper=50, granularity=1),
               sl.Number("y", lower=0, upper=9, granularity=1), sl.Label("firm")]  # fmt: skip
    value = seeded_release(query(name), sl.Table(data, schema=columns), seed=1).value
    assert isinstance(value, GroupTable)
    return value


def refused(query: Callable[[str], Any], name: str) -> bool:
    columns = [sl.Category(name, LABELS, other=None), sl.Number("x", lower=0, upper=50, granularity=1),
               sl.Number("y", lower=0, upper=9, granularity=1), sl.Label("firm")]  # fmt: skip
    try:
        prepare_query(query(name), sl.Schema(columns))
    except RangeError as error:
        return "names collide" in str(error)
    return False


def test_every_kind_of_table_is_here() -> None:
    assert QUERIES.keys() == TABLE_COLUMNS.keys()


@pytest.mark.parametrize("kind", QUERIES)
def test_names_are_refused_that_a_table_of_the_kind_has_and_no_others(kind: str) -> None:
    """The listed columns of each kind against its tables: an unlisted new column fails."""
    found = {column for query in QUERIES[kind] for column in table_by(query, "job").columns}
    assert found | ({"known"} & set(TABLE_COLUMNS[kind])) == set(TABLE_COLUMNS[kind])
    everywhere = {column for columns in TABLE_COLUMNS.values() for column in columns}
    first = QUERIES[kind][0]
    sorted_too = {"unbiased"} if kind == "top_k" else set()  # a column of the counts that are sorted
    assert {name for name in everywhere if refused(first, name)} == set(TABLE_COLUMNS[kind]) | sorted_too


@pytest.mark.parametrize("kind", MORE)
def test_columns_of_parameters_are_refused_as_well(kind: str) -> None:
    names = table_by(MORE[kind], "job").columns
    assert all(refused(MORE[kind], name) for name in names)
    assert not any(refused(MORE[kind], name) for name in ("job", "variance", "rank"))


def test_a_harmless_name_is_a_name() -> None:
    value = table_by(lambda by: sl.Count(by=by, epsilon=1), "sd")
    assert value.to_pandas()["sd"].tolist() == LABELS
    with pytest.raises(RangeError, match="collide: 'count'"):
        prepare_query(
            sl.Histogram("count", bins=3, epsilon=1), sl.Schema([sl.Number("count", lower=0, upper=9, granularity=1)])
        )
