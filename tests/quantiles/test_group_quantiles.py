"""Quantiles by group: each group's tree has the whole budget but for a count."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import beta

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.mechanisms.budget import Budget
from sidelight.release import outcome_from_json
from sidelight.session import release_once
from sidelight.testing import SeededEntropy


def seeded(query, table, seed=0):
    return release_once(query, table, entropy=SeededEntropy(seed))


SCHEMA = [sl.Number("x", granularity=1), sl.Category("g", ["a", "b", "c"], other=None)]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    g = rng.choice(["a", "b"], 6000)
    return {"x": np.round(rng.normal(np.where(g == "a", 40, 60), 5)), "g": g}


def test_quantiles_by_group_are_near_the_truth(rows):
    table = sl.Table(rows, schema=SCHEMA)
    release = seeded(sl.Quantiles([0.25, 0.5, 0.975], column="x", by="g", epsilon=1), table)
    value = release.value
    assert value.columns == ("q25", "q50", "q97.5", "count", "count_unbiased", "supported")
    for place, label in enumerate("ab"):
        x = rows["x"][rows["g"] == label]
        assert value["q50"][place] == pytest.approx(np.median(x), abs=1)
        assert value["q25"][place] == pytest.approx(np.quantile(x, 0.25), abs=1)
        assert value["count"][place] == pytest.approx(len(x), abs=150)
    assert value["supported"].tolist() == [True, True, False]
    assert release.labels == ("a", "b", "c")
    assert release.guarantee.pure() == sl.PureDP(1)
    assert outcome_from_json(release.to_json()).value == value


def test_a_condition_alone_gives_one_row(rows):
    table = sl.Table(rows, schema=SCHEMA)
    for where in (sl.col("g") == "b", 'g == "b"'):
        value = seeded(sl.Quantiles(0.5, column="x", where=where, epsilon=1), table).value
        assert value.q50 == pytest.approx(60, abs=1)


def test_a_person_pays_for_the_rows_that_count():
    schema = sl.Schema([*SCHEMA, sl.PersonId("who", max_rows=10)])
    query = sl.Quantiles([0.25, 0.5, 0.75], column="x", by="g", epsilon=1, max_groups=2, max_rows_per_group=3)
    prepared = query.prepare(schema)
    assert prepared.groups.norms.total == 6
    assert prepared.claims.pure().epsilon == 1
    assert prepared.claims.unit == schema.unit
    assert sum(prepared.tree.path_budgets[0]) * 6 == Fraction(9, 10)
    assert prepared.sizes_budget == Budget("epsilon", Fraction(1, 10))
    with pytest.raises(SchemaError, match="max_groups"):
        sl.Quantiles(0.5, column="x", by="g", epsilon=1).prepare(schema)


def test_every_engine_releases_the_same_bits(rows, tmp_path):
    pd.DataFrame(rows).to_parquet(tmp_path / "rows.parquet")
    sources = [rows, pd.DataFrame(rows), pl.DataFrame(rows), tmp_path / "rows.parquet"]
    query = sl.Quantiles([0.25, 0.5], column="x", by="g", where=sl.col("x") >= 30, epsilon=1)
    found = [seeded(query, sl.Table(source, schema=SCHEMA), 6).value for source in sources]
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("values", [[], [math.nan], [1.0], [1e308] * 5, [math.inf, -math.inf]])
@pytest.mark.parametrize("number", [{}, {"granularity": 1}, {"lower": 0, "upper": 9}])
def test_nothing_about_rows_raises(values, number):
    table = sl.Table(
        {"x": np.array(values, float), "g": np.array(["a"] * len(values), str)},
        schema=[sl.Number("x", **number), SCHEMA[1]],
    )
    value = seeded(sl.Quantiles([0.25, 0.5], column="x", by="g", epsilon=1), table).value
    assert all(np.isfinite(value[name]).all() for name in value.columns)


@pytest.mark.filterwarnings("ignore::sidelight.errors.PrivacyWarning", "ignore::sidelight.errors.SidelightWarning")
def test_an_attack_cannot_refute_the_claim_and_refutes_eight_times_the_price():
    """A row at 100 more in each of many groups, which are many runs on neighbours: is the median below 50?"""
    names = [f"g{place}" for place in range(600)]

    def below(rows, epsilon):
        table = sl.Table(
            {"x": np.tile(rows, 600), "g": np.repeat(names, len(rows))},
            schema=[sl.Number("x", lower=0, upper=100), sl.Category("g", names, other=None)],
        )
        query = sl.Quantiles(0.5, column="x", by="g", epsilon=epsilon, prediction=sl.priors.Uniform(0, 100))
        return int((seeded(query, table, len(rows)).value["q50"] < 50).sum())

    def exceeded(epsilon):
        without, with_one = below([0, 50, 100], epsilon), below([0, 50, 100, 100], epsilon)
        low = beta.ppf(5e-8, without, 601 - without)
        return math.log(low / beta.ppf(1 - 5e-8, with_one + 1, 600 - with_one))

    assert exceeded(1) <= 1
    assert exceeded(8) > 1


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        (lambda: sl.Quantiles(0.5, column="x", by="z", epsilon=1), SchemaError, "z"),
        (lambda: sl.Quantiles(0.5, column="x", by="x", epsilon=1), SchemaError, "bins"),
        (lambda: sl.Quantiles(0.5, column="x", max_groups=2, epsilon=1), RangeError, "by group"),
        (lambda: sl.Quantiles(0.5, column="x", where="x", epsilon=1), SchemaError, "condition"),
        (lambda: sl.Quantiles(0.5, column="x", by="firm", epsilon=1), SchemaError, "not declared"),
    ],
)
def test_mistakes_are_found_before_any_charge(query, error, words):
    with pytest.raises(error, match=words):
        query().prepare(sl.Schema([*SCHEMA, sl.Label("firm")]))


def test_a_bare_array_has_no_groups():
    with pytest.raises(SchemaError, match="Table"):
        sl.Quantiles(0.5, by="g", epsilon=1).release([1.0, 2.0])


@pytest.mark.parametrize("other", [None, "other"])
@pytest.mark.parametrize("sizes", [(50, 50), (50, 6000)])
@pytest.mark.parametrize(("epsilon", "levels"), [("0.3", 20), ("1", 49), ("3", 99)])
def test_groups_of_every_size_are_released_with_a_delta(epsilon, levels, sizes, other):
    """A small group is selected in rho and a large one counted in epsilon: their sum is that of the claim."""
    schema = [sl.Number("x"), sl.Category("g", ["a", "b"], other=other)]
    data = {"x": np.random.default_rng(3).normal(50, 10, sum(sizes)), "g": np.repeat(["a", "b"], sizes)}
    even = [place / (levels + 1) for place in range(1, levels + 1)]
    query = sl.Quantiles(even, column="x", by="g", epsilon=epsilon, delta="1e-6")
    release = seeded(query, sl.Table(data, schema=schema))
    assert sl.ApproxDP(epsilon, "1e-6") in list(release.guarantee)


@pytest.mark.parametrize("grouped", [{"by": "g", "max_groups": 2}, {"where": "x > 20"}])
@pytest.mark.parametrize(("epsilon", "levels", "rows"), [(20, 3, 2), (8, 20, 2), (6, 60, 10), (30, 9, 7)])
def test_persons_with_a_large_epsilon_are_released(epsilon, levels, rows, grouped):
    schema = [sl.Number("x"), sl.Category("g", ["a", "b"]), sl.PersonId("who", max_rows=rows)]
    rng = np.random.default_rng(5)
    data = {"x": rng.normal(50, 10, 5000), "g": rng.choice(["a", "b"], 5000), "who": np.arange(5000) // rows}
    even = [place / (levels + 1) for place in range(1, levels + 1)]
    release = seeded(sl.Quantiles(even, column="x", epsilon=epsilon, **grouped), sl.Table(data, schema=schema))
    assert release.guarantee.pure().epsilon == epsilon
