"""Means of several columns for one price: one count under Gaussian noise, a pair each if pure."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import sidelight as sl
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.values import value_of
from sidelight.audit import audit
from sidelight.errors import RangeError, SchemaError
from sidelight.group_table import GroupTable
from sidelight.mechanisms.budget import Budget, together
from sidelight.noise import Source, rounded_gaussian
from sidelight.session.query import prepare_query
from sidelight.summaries.mean import PreparedMeans
from sidelight.summaries.measurement import mu_of, parts_together, whole_budget
from sidelight.summaries.noise_choice import count_and_sums
from sidelight.testing import SeededEntropy, seeded_release

PRICES: list[dict[str, Any]] = [{"epsilon": 2}, {"rho": "0.5"}, {"mu": 1}, {"epsilon": 1, "delta": "1e-6"}]
GROUPS = [f"g{n}" for n in range(400)]
SCHEMA = [
    sl.Number("age", lower=0, upper=100, granularity=1),
    sl.Number("pay", lower=0, upper=1000),
    sl.Number("free"),
    sl.Category("g", GROUPS, other=None),
    sl.Label("firm"),
    sl.Number("age_low", lower=0, upper=100),
    sl.Category("low", ["yes"]),
]


def people(per_group: int = 60) -> sl.Table:
    size = len(GROUPS) * per_group
    age, pay = np.resize(np.arange(20, 80), size), np.resize(np.linspace(0, 300, per_group), size)
    columns = {"age": age, "pay": pay, "free": pay + 1000.0, "g": np.repeat(GROUPS, per_group)}
    return sl.Table(
        {**columns, "firm": np.resize(["a", "b"], size), "age_low": age, "low": np.resize(["yes"], size)}, schema=SCHEMA
    )


def table_of(query: Any, table: sl.Table, seed: int = 1) -> GroupTable:
    outcome = seeded_release(query, table, seed=seed)
    assert isinstance(outcome, sl.Release)
    assert sl.Release.from_json(outcome.to_json()) == outcome
    assert isinstance(outcome.value, GroupTable)
    return outcome.value


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("columns", [["age", "pay"], ["age", "free"], ["age", "pay", "free"]])
def test_all_parts_cost_the_price(price: dict[str, Any], columns: list[str]) -> None:
    prepared = prepare_query(sl.Mean(columns, by="g", **price), sl.Schema(SCHEMA))
    assert isinstance(prepared, PreparedMeans)
    spent = together(parts_together(prepared.plans))
    whole = Budget.of(**price)
    if whole_budget(prepared.plans).is_pure:
        pure = spent.pure()
        assert pure is not None
        assert pure.epsilon <= Fraction(price["epsilon"])
        assert pure.epsilon > Fraction(99, 100) * Fraction(price["epsilon"])
    else:
        zcdp = spent.zcdp()
        assert zcdp is not None
        assert whole.rho is not None
        assert Fraction(9, 10) * whole.rho < zcdp.rho <= whole.rho


def test_one_row_moves_count_and_discs_within_the_price() -> None:
    """Brute force: what adding any row adds, over the scales, is at most mu in L2; of pairs at most epsilon in L1."""
    schema = sl.Schema([sl.Number("a", lower=0, upper=1), sl.Number("b", lower=-5, upper=5, granularity=1)])
    groups = sl.Mean(["a", "b"], mu=1).groups(schema)
    values = [value_of(schema, "a"), value_of(schema, "b")]
    empty: dict[str, list[float]] = {"a": [], "b": []}
    scales = [count_and_sums(mu=1, l2_squared=1, levels=value.square_levels, columns=2) for value in values]
    worst_l2 = worst_l1 = 0.0
    for a in np.linspace(0, 1, 9):
        for b in range(-5, 6):
            one, none = (sl.Table(rows, schema=list(schema.columns)) for rows in ({"a": [a], "b": [float(b)]}, empty))
            moved: dict[str, list[Any]] = {}
            for kind in ("disc", "pair"):
                with_, without = (group_statistics(each, groups, values, kind=kind).values for each in (one, none))  # type: ignore[arg-type]
                pairs = zip(with_, without, strict=True)
                moved[kind] = [np.asarray(x.value) - np.asarray(y.value) for x, y in pairs]
            square = 1 / float(scales[0].count_scale) ** 2
            square += sum(float((disc.astype(float) ** 2).sum()) / float(each.sum_scale) ** 2
                          for disc, each in zip(moved["disc"], scales, strict=True))  # fmt: skip
            worst_l2 = max(worst_l2, math.sqrt(square))
            # a budget of 1/2 for each pair: scale 2 M
            l1 = sum(float(np.abs(pair.astype(float)).sum()) / (2 * value.levels)
                     for pair, value in zip(moved["pair"], values, strict=True))  # fmt: skip
            worst_l1 = max(worst_l1, l1)
    assert 0.999 < worst_l2 <= 1 + 1e-12
    assert worst_l1 == pytest.approx(1)


@pytest.mark.parametrize("price", PRICES)
def test_intervals_hold_each_mean_and_noise_is_as_stated(price: dict[str, Any]) -> None:
    table = table_of(sl.Mean(["age", "pay"], by="g", **price), people())
    for name, truth in (("age", 49.5), ("pay", 150.0)):
        inside = int(((table[f"mean_{name}_low"] <= truth) & (table[f"mean_{name}_high"] >= truth)).sum())
        assert binomtest(inside, len(GROUPS), 0.95).pvalue > 1e-6
        z = (table[f"mean_{name}_plain"] - truth) / table[f"mean_{name}_noise_sd"]
        assert np.mean(z**2) == pytest.approx(1, abs=0.45)
        drawn, plain = (np.mean((table[f"mean_{name}{end}"] - truth) ** 2) for end in ("", "_plain"))
        assert drawn < plain
    assert abs(np.mean(table["count_unbiased"]) - 60) < 1
    assert table["supported"].dtype == bool


def test_together_is_better_than_one_by_one() -> None:
    """Off centre the shared count helps: (√d + τ)² against d(1 + τ)² at the best splits."""
    together_, apart = (
        table_of(query, people())
        for query in (sl.Mean(["age", "pay"], by="g", mu=1), sl.Mean("pay", by="g", mu=Fraction(707, 1000)))
    )
    assert np.median(together_["mean_pay_noise_sd"]) < 0.95 * np.median(apart["noise_sd"])
    counts = [np.std(table["count_unbiased"]) for table in (together_, apart)]
    assert counts[0] < 0.9 * counts[1]


def test_rows_without_one_of_the_numbers_are_left_out() -> None:
    data = {"age": [30.0, None, 50.0, 40.0] * 500, "pay": [100.0, 100.0, None, 300.0] * 500}
    table = sl.Table(data, schema=SCHEMA[:2])
    value = table_of(sl.Mean(["age", "pay"], epsilon=20), table)
    assert value.mean_age == pytest.approx(35, abs=2)
    assert value.mean_pay == pytest.approx(200, abs=10)
    assert value.count == pytest.approx(1000, abs=20)


def test_predictions_are_by_column_or_a_table_with_all_of_them() -> None:
    told = {name: dict.fromkeys(GROUPS, truth) for name, truth in (("age", 49.5), ("pay", 150.0))}
    query = sl.Mean(["age", "pay"], by="g", mu="0.2", prediction=told)
    good = table_of(query, people())
    frame = {"g": GROUPS, "mean_age": [49.5] * 400, "mean_pay": [150.0] * 400}
    assert (table_of(sl.Mean(["age", "pay"], by="g", mu="0.2", prediction=frame), people())["mean_pay"]
            == good["mean_pay"]).all()  # fmt: skip
    bare = table_of(sl.Mean(["age", "pay"], by="g", mu="0.2"), people())
    assert (bare["mean_pay_plain"] == good["mean_pay_plain"]).all()
    earlier = sl.Mean(["age", "pay"], by="g", epsilon=20).release(people())
    again = sl.Mean(["age", "pay"], by="g", epsilon=20, prediction=earlier).release(people())
    assert again.prediction is not None
    assert set(again.prediction["columns"]) == {"age", "pay"}
    asked = [prepare_query(each, sl.Schema(SCHEMA)).request for each in (query, sl.Mean(["age", "pay"], by="g", mu=1))]
    assert asked[0] != asked[1]
    values = sl.Mean(["age", "free"], epsilon=1, prediction={"free": sl.priors.Cauchy(1150, 100)})
    assert abs(table_of(values, people()).mean_free - 1150) < 50


def test_undeclared_labels_have_several_means_too() -> None:
    table = table_of(sl.Mean(["age", "pay"], by="firm", epsilon=1, delta="1e-6"), people(10))
    assert table["firm"] == ["a", "b"]
    assert not table["known"].any()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (lambda: sl.Mean([], epsilon=1), "name of a column"),
        (lambda: sl.Mean(["age", 3], epsilon=1), "name of a column"),
        (lambda: sl.Mean(["age", "age"], epsilon=1), "twice"),
        (lambda: sl.Mean(["age", "age_low"], epsilon=1), "and a column of 'age'"),
        (lambda: sl.Mean("age", by="low", epsilon=1), "collide: 'low'"),
        (lambda: sl.Count(by="low", epsilon=1), "collide: 'low'"),
        (lambda: sl.Count(epsilon=1, rollup="no"), "True or False"),
        (lambda: sl.Mean(["age", "pay"], epsilon=1, clip=(0, 1)), "one interval"),
        (lambda: sl.Mean(["age", "pay"], epsilon=1, prediction=sl.priors.Cauchy(0, 1)), "one prior"),
        (lambda: sl.Mean(["age", "pay"], by="g", epsilon=1, prediction={"g": ["g0"], "mean_age": [1]}), "mean_pay"),
        (lambda: sl.Proportion(["age", "pay"], epsilon=1), "name of a column"),
        (lambda: sl.Sum(["age", "pay"], epsilon=1), "name of a column"),
    ],
)
def test_mistakes_are_found_before_any_charge(query: Any, said: str) -> None:
    with pytest.raises((RangeError, SchemaError), match=said):
        prepare_query(query(), sl.Schema(SCHEMA))


def test_each_number_on_its_own_is_one_column_of_several() -> None:
    """One column in a list has the noise bits of the column alone."""
    for price in PRICES:
        one, listed = (table_of(sl.Mean(of, by="g", **price), people()) for of in ("age", ["age"]))
        assert (one["mean_plain"] == listed["mean_age_plain"]).all()


@pytest.mark.planted("several columns that each pay as if alone", of=("Mean", "Summary"))
@pytest.mark.parametrize("columns", [1, 4])
def test_an_attack_on_all_columns_at_once_is_caught_where_each_pays_as_if_alone(columns: int) -> None:
    """One row at the upper end of every column; readings with the scale of one column are refuted if there are four."""
    names = [f"x{n}" for n in range(4)]
    schema = sl.Schema([sl.Number(name, lower=0, upper=1) for name in names])
    prepared = prepare_query(sl.Mean(names, mu=1), schema)
    assert isinstance(prepared, PreparedMeans)
    values = [value_of(schema, name) for name in names]
    scales = [count_and_sums(mu=1, l2_squared=1, levels=each.square_levels, columns=columns) for each in values]
    if columns == 4:  # what is released
        assert mu_of(whole_budget(prepared.plans)) == 1
    groups = prepared.plans[0].groups

    def sampler(rows: int, seed: int) -> Any:
        table = sl.Table({name: np.ones(rows) for name in names}, schema=list(schema.columns))
        found = group_statistics(table, groups, values, kind="disc", norm="l2").values
        sums = [float(np.asarray(each.value).reshape(2)[0]) for each in found]
        source = Source(SeededEntropy(seed))

        def draws(count: int) -> list[float]:
            total = np.zeros(count)
            for each, exact in zip(scales, sums, strict=True):
                noise = rounded_gaussian(count, [each.sum_scale], source, which=np.zeros(count, int))
                total += (exact + noise.astype(float)) / float(each.sum_scale)
            return list(total)

        return draws

    found = audit(sampler(6, 1), sampler(5, 2), draws=6000)
    assert found.refutes(sl.GDP(1)) == (columns == 1)


@pytest.mark.planted("several groupings that each have the whole price", of=("Mean", "Count"))
@pytest.mark.parametrize("share", [4, 1])
def test_an_attack_on_all_pairs_at_once_is_caught_where_each_has_the_whole_price(share: int) -> None:
    """Pure: one row at the upper end of four columns moves four pairs; each may cost a quarter of the price."""
    names = [f"x{n}" for n in range(4)]
    schema = sl.Schema([sl.Number(name, lower=0, upper=1) for name in names])
    prepared = prepare_query(sl.Mean(names, epsilon=1), schema)
    assert isinstance(prepared, PreparedMeans)
    assert [plan.budget.amount for plan in prepared.plans] == [Fraction(1, 4)] * 4
    values = [value_of(schema, name) for name in names]
    groups, budget = prepared.plans[0].groups, Budget("epsilon", Fraction(1, share))

    def sampler(rows: int, seed: int) -> Any:
        table = sl.Table({name: np.ones(rows) for name in names}, schema=list(schema.columns))
        found = group_statistics(table, groups, values, kind="pair", norm="l1").values
        source = Source(SeededEntropy(seed))

        def draws(count: int) -> list[float]:
            total = np.zeros(count)
            for value, exact in zip(values, found, strict=True):
                upper = np.full(count, int(np.asarray(exact.value).reshape(2)[0]), object)
                noisy = np.asarray(budget.on(replace(exact, value=upper)).release(source)).astype(float) / value.levels
                total += np.abs(noisy - 5) - np.abs(noisy - 6)  # what tells five rows from six best
            return list(total.round(3))

        return draws

    assert audit(sampler(6, 1), sampler(5, 2), draws=4000).refutes(sl.PureDP(1)) == (share == 1)
