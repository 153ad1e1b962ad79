"""Summaries of one number: count, mean, spread and quartiles together."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import beta

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.session import release_once
from sidelight.testing import SeededEntropy

PRICES = [{"epsilon": 2}, {"rho": "0.2"}, {"mu": 1}]


def seeded(query, table, seed=0):
    return release_once(query, table, entropy=SeededEntropy(seed))


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("number", [{}, {"lower": 0}, {"lower": 0, "upper": 100}, {"granularity": 1}])
def test_a_summary_is_near_the_truth(price, number):
    x = np.round(np.random.default_rng(1).normal(50, 10, 10_000))
    g = np.where(x > 52, "high", "low")
    table = sl.Table({"x": x, "g": g}, schema=[sl.Number("x", **number), sl.Category("g", ["low", "high"], other=None)])
    value = seeded(sl.Summary("x", **price), table).value
    assert value.count == pytest.approx(10_000, abs=100)
    assert value.mean == pytest.approx(x.mean(), abs=0.5)
    assert value.sd == pytest.approx(x.std(), abs=1.5)
    for name, level in (("q25", 0.25), ("q50", 0.5), ("q75", 0.75)):
        assert getattr(value, name) == pytest.approx(np.quantile(x, level), abs=1.5)
    by = seeded(sl.Summary("x", by="g", **price), table).value
    for place, label in enumerate(("low", "high")):
        rows = x[g == label]
        assert by["q50"][place] == pytest.approx(np.median(rows), abs=2)
        assert by["mean"][place] == pytest.approx(rows.mean(), abs=1)
        assert by["q25"][place] <= by["q50"][place] <= by["q75"][place]
    assert abs(by.notes["all_q50"] - 50) < 3
    assert ("clip_radius" in by.notes) == (len(number) < 2)


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("by", [(), "g"])
@pytest.mark.parametrize("number", [{}, {"lower": 0, "upper": 100}])
def test_shares_add_up_to_the_price(persons, by, number):
    who = [sl.PersonId("who", max_rows=4)] if persons else []
    schema = sl.Schema([sl.Number("x", **number), sl.Category("g", ["a", "b"], other=None), *who])
    limits = {"max_groups": 2} if schema.person else {}
    assert sl.Summary("x", by=by, epsilon="0.6", **limits).prepare(schema).claims.pure().epsilon == Fraction(6, 10)
    rho = sl.Summary("x", by=by, rho="0.03", **limits).prepare(schema)
    assert Fraction(299, 10_000) < rho.claims.zcdp().rho <= Fraction(3, 100)
    mu = sl.Summary("x", by=by, mu="0.4", **limits).prepare(schema)
    assert Fraction(399, 1000) < mu.claims.gdp().mu <= Fraction(4, 10)
    total = 4 if persons else 1
    for prepared in (rho, mu):
        parts = prepared.plan.clipping.parts
        trees = [prepared.plan.clipping.tree, *([prepared.group_tree] if by else [])]
        assert len(parts) == len(trees) + (not number)
        for tree, (depths, claims) in zip(trees, parts, strict=False):
            assert claims.unit == schema.unit
            assert len(tree.path_budgets[0]) == depths
            # what K rows of a person may move the outcomes of one depth by
            assert all(node * total <= claims.pure().epsilon for node in tree.path_budgets[0])


def test_every_engine_releases_the_same_bits(tmp_path):
    rng = np.random.default_rng(8)
    data = {"x": rng.normal(50, 10, 500), "g": rng.choice(["a", "b", "c"], 500).astype(str)}
    pd.DataFrame(data).to_parquet(tmp_path / "rows.parquet")
    schema = [sl.Number("x"), sl.Category("g", ["a", "b", "c"], other=None)]
    sources = [data, pd.DataFrame(data), pl.DataFrame(data), tmp_path / "rows.parquet"]
    found = [seeded(sl.Summary("x", by="g", epsilon=1), sl.Table(source, schema=schema), 6).value for source in sources]
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("rows", [[], [math.nan], [3.0], [1e308] * 9, [math.inf, -math.inf]])
@pytest.mark.parametrize("number", [{}, {"lower": -5, "upper": 5}, {"granularity": 1}])
def test_nothing_about_rows_raises(price, rows, number):
    data = {"x": np.array(rows, float), "g": np.array(["a"] * len(rows), str)}
    table = sl.Table(data, schema=[sl.Number("x", **number), sl.Category("g", ["a", "b"], other=None)])
    for by in ((), "g"):
        value = seeded(sl.Summary("x", by=by, **price), table).value
        for name in value.columns:
            assert np.isfinite(value[name]).all(), name


def test_an_attack_cannot_refute_the_claim_and_refutes_an_eighth_of_the_noise():
    """Groups of 20 and of 21 rows, many of them: many runs on neighbours."""
    names = [f"g{place}" for place in range(1000)]

    def counts(rows, epsilon):
        table = sl.Table(
            {"x": np.ones(1000 * rows), "g": np.repeat(names, rows)},
            schema=[sl.Number("x", lower=0, upper=1, granularity=1), sl.Category("g", names, other=None)],
        )
        return seeded(sl.Summary("x", by="g", epsilon=epsilon), table, rows).value["count_unbiased"]

    def exceeded(epsilon):
        more, less = int((counts(21, epsilon) > 20.5).sum()), int((counts(20, epsilon) > 20.5).sum())
        return math.log(beta.ppf(5e-8, more, 1001 - more) / beta.ppf(1 - 5e-8, less + 1, 1000 - less))

    assert exceeded(1) <= 1
    assert exceeded(8) > 1


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        (lambda: sl.Summary("x", epsilon=1, clip=(0, 1)), RangeError, "clip"),
        (lambda: sl.Summary("x", epsilon=1, clip="declared"), SchemaError, "both bounds"),
        (lambda: sl.Summary("x", epsilon=1, prediction=3), RangeError, "prediction of the values"),
        (lambda: sl.Summary("x", epsilon=1, centre="predicted"), TypeError, "no longer .* quartiles"),
        (lambda: sl.Summary(2, epsilon=1), SchemaError, "name of a column"),
    ],
)
def test_mistakes_are_found_before_any_charge(query, error, words):
    with pytest.raises(error, match=words):
        query().prepare(sl.Schema([sl.Number("x")]))


@pytest.mark.parametrize("query", [sl.Variance, sl.StandardDeviation, sl.Mean])
def test_a_confidence_next_to_one_is_refused_before_the_charge(query: Any) -> None:
    with pytest.raises(RangeError, match="at most 1 - 1e-12"):
        query("x", epsilon=1, confidence=np.nextafter(1.0, 0.0))


@pytest.mark.parametrize("ends", [(0, 1e300), (1e300, 2e300), (-1e160, 0), (1e160, None), (None, -1e160)])
@pytest.mark.parametrize("of", [sl.Summary, sl.Mean, sl.Variance])
def test_bounds_that_no_interval_reaches_are_refused_before_the_charge(ends: tuple[Any, Any], of: Any) -> None:
    """A summary counted all such rows as 2**500, with an interval that excluded their mean, or failed after it paid."""
    number = sl.Number("x", lower=ends[0], upper=ends[1])
    for clip in ("auto", "private"):
        with pytest.raises(RangeError, match=r"bounds beyond 2\*\*500"):
            of("x", epsilon=1, clip=clip).prepare(sl.Schema([number]))


def test_an_interval_within_the_farthest_bounds_holds_the_mean() -> None:
    x = np.linspace(0, 1e149, 2000)
    table = sl.Table({"x": x}, schema=[sl.Number("x", lower=0, upper=1e149)])
    value = seeded(sl.Summary("x", epsilon=5), table).value
    assert value.low < x.mean() < value.high
