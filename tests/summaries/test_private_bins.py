"""Histograms whose bins are found: edges near quantiles, counts between them, and one price for both."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.collect_ranks import collect_ranks
from sidelight.audit import audit
from sidelight.errors import RangeError, SchemaError
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.quantiles.descend import descend
from sidelight.quantiles.tree import quantile_tree
from sidelight.session.query import prepare_query
from sidelight.summaries.histogram import PreparedPrivateBins
from sidelight.testing import SeededEntropy, seeded_release

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
        whole, gdp = Budget.of(**price), prepared.claims.gdp()
        assert zcdp is not None
        assert gdp is not None
        assert whole.rho is not None
        assert zcdp.rho <= whole.rho * (1 + Fraction(1, 10**9))
        spent = zcdp.rho if whole.kind == "rho" else gdp.mu**2 / 2  # edges cost less zCDP than their GDP proves
        assert Fraction(9, 10) * whole.rho < spent <= whole.rho * (1 + Fraction(1, 10**9))
    # all rows of a person lie in one tree: they share its slope
    assert prepared.tree.row_epsilon * (4 if person else 1) == prepared.tree.epsilon


def test_edges_may_be_an_array() -> None:
    found = [seeded_release(sl.Histogram("x", bins=bins, epsilon=1), table(50), seed=1).value
             for bins in ([0, 50, 100], np.array([0, 50, 100]))]  # fmt: skip
    assert found[0].to_json() == found[1].to_json()


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
        (lambda: sl.Histogram("x", by="firm", epsilon=1, delta="1e-6"), "undeclared"),
        (lambda: sl.Histogram("g", epsilon=1), "g"),
        (lambda: sl.Histogram("x", by=sl.col("age").cut(range(100_000)), bins=("private", 1000), epsilon=1), "at most"),
        (lambda: sl.Histogram("x", rho="1e-40"), "between 1e-18 and 1e18"),
    ],
)
def test_mistakes_are_found_before_anything_is_charged(query: Any, said: str) -> None:
    with pytest.raises((RangeError, SchemaError), match=said):
        prepare_query(query(), sl.Schema(SCHEMA))


@pytest.mark.parametrize("values", [sl.priors.Cauchy(50, 15), (sl.priors.Cauchy(50, 15), 4)])
def test_predicted_bins_are_quantiles_of_the_prediction_and_cost_nothing(values: Any) -> None:
    schema = [sl.Number("age", lower=0, upper=100, granularity=1)]
    query = sl.Histogram("age", bins=values, epsilon=1)
    prepared = prepare_query(query, sl.Schema(schema))
    assert not isinstance(prepared, PreparedPrivateBins)
    assert prepared.claims.pure().epsilon == 1  # type: ignore[union-attr]
    found = seeded_release(query, sl.Table({"age": np.arange(100)}, schema=schema), seed=1).value
    assert found.rows == (4 if isinstance(values, tuple) else 10)
    if found.rows == 4:
        assert found["age"][1].startswith("[39") and found["age"][2].startswith("[50")  # noqa: PT018
    edges = str(prepared.request["bins"])
    assert edges == str(prepare_query(query, sl.Schema(schema)).request["bins"])
    for wrong, said in (((sl.priors.Cauchy(50, 15), 1), "2 to"), ((sl.priors.Cauchy(50, 15), "many"), "whole number"),
                        ((sl.priors.Cauchy(50, 15), True), "whole number")):  # fmt: skip
        with pytest.raises(RangeError, match=said):
            prepare_query(sl.Histogram("age", bins=wrong, epsilon=1), sl.Schema(schema))


@pytest.mark.planted("private bins where a person pays for one row", of=("Histogram",))
def test_an_attack_on_edges_and_counts_is_caught_where_persons_pay_for_one_row() -> None:
    """All forty rows of a person lie in one tree; a tree that charges one row is refuted, ours is not."""
    schema = sl.Schema([sl.PersonId("who", max_rows=40), sl.Number("age", lower=0, upper=100, granularity=1)])
    query = sl.Histogram("age", bins=("private", 2), of="rows", max_groups=1, epsilon=4)
    prepared = prepare_query(query, schema)
    assert isinstance(prepared, PreparedPrivateBins)
    others: dict[str, list[Any]] = {"who": [f"p{n}" for n in range(30)], "age": [10.0] * 30}
    more = {"who": [*others["who"], *["t"] * 40], "age": [*others["age"], *[90.0] * 40]}

    def edge_high(tree: Any) -> bool:
        def sampler(data: dict[str, list[Any]], seed: int) -> Any:
            table, source = sl.Table(data, schema=list(schema.columns)), Source(SeededEntropy(seed))
            ranks = collect_ranks(table, "age", prepared.grid, source, groups=prepared.everybody)
            return lambda count: [
                prepared.grid.value(descend(tree, ranks, priors=prepared.prior, source=source)[0]) > 50
                for _ in range(count)
            ]

        found = audit(sampler(more, 1), sampler(others, 2), draws=1000)
        return found.refutes(sl.PureDP(Fraction(12, 10), unit=schema.unit))  # three tenths of 4

    assert not edge_high(prepared.tree)
    assert edge_high(quantile_tree([Fraction(1, 2)], epsilon=Fraction(12, 10)))
