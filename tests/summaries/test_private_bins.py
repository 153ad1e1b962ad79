"""Histograms whose bins are found: edges near quantiles, counts between them, and one price for both."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.mechanisms.budget import Budget
from sidelight.session.query import prepare_query
from sidelight.summaries.private_bins import PreparedPrivateBins
from sidelight.testing import seeded_release

SCHEMA = [sl.Number("x"), sl.Number("age", granularity=1), sl.Category("g", ["a", "b"], other=None), sl.Label("firm")]
PRICES: list[dict[str, Any]] = [{"epsilon": 1}, {"rho": "0.1"}, {"mu": "0.7"}, {"epsilon": 1, "delta": "1e-6"}]


def table(size: int = 8000) -> sl.Table:
    rng = np.random.default_rng(2)
    columns = {"x": rng.lognormal(10, 1, size), "age": rng.integers(18, 90, size), "g": np.resize(["a", "b"], size)}
    return sl.Table({**columns, "firm": np.resize(["z"], size)}, schema=SCHEMA)


@pytest.mark.parametrize("price", PRICES)
def test_bins_hold_about_as_many_each_and_counts_are_right(price: dict[str, Any]) -> None:
    data = table()
    value = seeded_release(sl.Histogram("x", **price), data, seed=1).value
    assert value.rows == 10
    assert np.abs(value["count"] - 800).max() < 300
    assert abs(value["unbiased"].sum() - 8000) < 12 * value["noise_sd"][0] * 10**0.5
    assert len(seeded_release(sl.Histogram("x", bins=("private", 4), **price), data, seed=1).value["x"]) == 4


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("person", [False, True])
def test_edges_and_counts_cost_the_price_together(price: dict[str, Any], person: bool) -> None:
    schema = sl.Schema([*SCHEMA, sl.PersonId("who", max_rows=4)] if person else SCHEMA)
    query = sl.Histogram("x", by="g", max_groups=2 if person else None, of="rows", **price)
    prepared = prepare_query(query, schema)
    assert isinstance(prepared, PreparedPrivateBins)
    assert prepared.claims.unit == schema.unit
    pure, zcdp = prepared.claims.pure(), prepared.claims.zcdp()
    if "epsilon" in price and pure is not None:
        assert Fraction(99, 100) < pure.epsilon <= 1
    else:
        whole = Budget.of(**price).rho
        assert zcdp is not None
        assert whole is not None
        assert Fraction(9, 10) * whole < zcdp.rho <= whole * (1 + Fraction(1, 10**9))
    # all rows of a person lie in one tree: they share its slope
    assert prepared.tree.row_epsilon * (4 if person else 1) == prepared.tree.epsilon


def test_equal_edges_are_one_and_nothing_about_rows_raises() -> None:
    for values in ([], [5] * 300, [None] * 20, [7]):
        data = sl.Table({"age": np.array(values, float)}, schema=[SCHEMA[1]])
        for seed in range(3):
            value = seeded_release(sl.Histogram("age", epsilon=1), data, seed=seed).value
            assert 2 <= value.rows <= 10
    floats = sl.Table({"x": np.array([1e308, -1e308, np.nan, np.inf] * 9)}, schema=[SCHEMA[0]])
    assert seeded_release(sl.Histogram("x", epsilon=1), floats, seed=1).value.rows <= 10


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (lambda: sl.Histogram("x", bins="secret", epsilon=1), "'private'"),
        (lambda: sl.Histogram("x", bins=("private", 1), epsilon=1), "2 to 1000"),
        (lambda: sl.Histogram("x", bins=("private", "two"), epsilon=1), "whole number"),
        (lambda: sl.Histogram("x", epsilon=1, prediction={"a": 3}), "bins that are known"),
        (lambda: sl.Histogram("x", by="firm", epsilon=1, delta="1e-6"), "nobody declared"),
        (lambda: sl.Histogram("g", epsilon=1), "g"),
        (lambda: sl.Histogram("x", by=sl.col("age").cut(range(100_000)), bins=("private", 1000), epsilon=1), "at most"),
        (lambda: sl.Histogram("x", rho="1e-40"), "raise epsilon"),
        (lambda: sl.Histogram("x", rho="1e-24"), "too small to find bins"),
    ],
)
def test_mistakes_are_found_before_anything_is_charged(query: Any, said: str) -> None:
    with pytest.raises((RangeError, SchemaError), match=said):
        prepare_query(query(), sl.Schema(SCHEMA))
