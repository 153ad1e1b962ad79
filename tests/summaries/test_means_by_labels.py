"""Statistics by undeclared labels: labels are found first, then measured in, for one (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import sidelight as sl
from sidelight.aggregates.contributions import UnitCap
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.values import value_of
from sidelight.audit import audit
from sidelight.errors import RangeError, SchemaError
from sidelight.group_table import GroupTable
from sidelight.guarantees import ApproxDP
from sidelight.mechanisms.budget import Budget, together
from sidelight.mechanisms.gaussian_threshold import GaussianThreshold
from sidelight.mechanisms.truncated_laplace import TruncatedLaplace
from sidelight.noise import Source
from sidelight.session.query import prepare_query
from sidelight.summaries import label_selection
from sidelight.summaries.mean import PreparedMean
from sidelight.summaries.measurement import Measurement, parts_together
from sidelight.summaries.noise_choice import laplace_variance
from sidelight.testing import SeededEntropy, seeded_release

PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
FIRM = sl.Label("firm")
PAY = sl.Number("pay", lower=0, upper=100)
SEX = sl.Category("sex", ["F", "M"], other=None)
SCHEMA = [FIRM, PAY, SEX, sl.Number("free", granularity=1)]
PERSONS = [sl.PersonId("id", max_rows=12), *SCHEMA]
KINDS: dict[str, Callable[..., Any]] = {
    "mean": lambda **more: sl.Mean("pay", by="firm", **more),
    "mean without bounds": lambda **more: sl.Mean("free", by="firm", **more),
    "sum": lambda **more: sl.Sum("pay", by="firm", **more),
    "sum of totals": lambda **more: sl.Sum("free", by="firm", **more),
    "variance": lambda **more: sl.Variance("pay", by="firm", **more),
    "sd": lambda **more: sl.StandardDeviation("free", by="firm", **more),
    "proportion": lambda **more: sl.Proportion(sl.col("pay") >= 40, by="firm", **more),
    "summary": lambda **more: sl.Summary("pay", by="firm", **more),
    "summary without bounds": lambda **more: sl.Summary("free", by="firm", **more),
    "mean clipped by group": lambda **more: sl.Mean("free", by="firm", clip="by_group", **more),
}


def rows(**sizes: int) -> dict[str, list[Any]]:
    """Return the stated number of rows per firm, with pay around 20 n."""
    firm = [name for name, size in sizes.items() for _ in range(size)]
    pay = [20.0 * place + step % 5 for place, size in enumerate(sizes.values(), 1) for step in range(size)]
    return {"firm": firm, "pay": pay, "free": pay, "sex": ["F" if n % 2 else "M" for n in range(len(firm))]}


def table_of(query: Any, data: Any, schema: Any = SCHEMA, seed: int = 1) -> GroupTable:
    outcome = seeded_release(query, sl.Table(data, schema=list(schema)), seed=seed)
    assert isinstance(outcome, sl.Release)
    assert sl.Release.from_json(outcome.to_json()) == outcome
    value = outcome.value
    assert isinstance(value, GroupTable)
    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [1, 2, 3, 10])
def test_finding_and_measuring_cost_the_price_together(kind: str, groups: int) -> None:
    """A third finds labels, and what measures is within the rest: two thirds of epsilon, or `after_mu`."""
    prepared = prepare_query(KINDS[kind](max_groups=groups, **PRICE), sl.Schema(PERSONS))
    (claim,) = list(prepared.claims)
    assert isinstance(claim, ApproxDP)
    assert claim.epsilon <= 1
    assert claim.delta <= Fraction("1e-6")
    plan: Measurement = prepared.plan  # type: ignore[attr-defined]
    assert plan.labels is not None
    law, rest = plan.labels.selection.law, together(parts_together([plan]))
    if groups <= 2:
        assert isinstance(law, TruncatedLaplace)
        pure = rest.pure()
        assert pure is not None
        assert groups * law.label_epsilon + pure.epsilon <= 1
    else:
        assert isinstance(law, GaussianThreshold)
        gdp = rest.gdp()
        assert gdp is not None
        assert gdp.mu <= law.after_mu
        assert gdp.mu > law.after_mu * Fraction(99, 100)


@pytest.mark.parametrize("kind", KINDS)
def test_large_groups_are_found_and_measured(kind: str) -> None:
    data = rows(zeta=3000, acme=2000, tiny=1)
    table = table_of(KINDS[kind](**PRICE), data)
    assert table["firm"] == ["acme", "zeta"]
    assert not table["known"].any()
    assert table.notes["shown_from"] > 15
    assert table.row("acme")["known"] is np.False_ or not table.row("acme")["known"]
    if kind.startswith("summary"):
        assert np.abs(table["q50"] - (42, 22)).max() < 2
        assert (np.diff([table["q25"], table["q50"], table["q75"]], axis=0) >= 0).all()
        assert np.abs(table["count_unbiased"] - (2000, 3000)).max() < 100
        assert 20 < table.notes["all_q50"] < 45
        assert np.abs(table["mean"] - (42, 22)).max() < 6
        return
    truth = {"mean": (42, 22), "sum": (84_000, 66_000), "variance": (2, 2), "sd": (2**0.5, 2**0.5),
             "proportion": (1, 0)}[table.columns[0]]  # fmt: skip
    scale = {"mean": 1, "sum": 3000, "variance": 20, "sd": 4, "proportion": 0.05}[table.columns[0]]
    assert np.abs(table[table.columns[0]] - truth).max() < 3 * scale


@pytest.mark.parametrize("price", [{"epsilon": 1}, {"rho": "0.5"}, {"mu": 1}])
def test_known_labels_need_no_delta_and_stand_first(price: dict[str, Any]) -> None:
    data = rows(zeta=900, acme=600, other=500)
    query = sl.Mean("pay", by="firm", known=["nobody", "acme", "zeta"], **price)
    table = table_of(query, data)
    assert table["firm"] == ["nobody", "acme", "zeta"]
    assert table["known"].all()
    assert np.abs(table["mean_plain"][1:] - [42, 22]).max() < 3
    assert "shown_from" not in table.notes
    assert prepare_query(query, sl.Schema(SCHEMA)).claims.pure() is not None or "epsilon" not in price
    both = table_of(sl.Mean("pay", by="firm", known=["nobody", "acme"], **PRICE), data)
    assert both["firm"] == ["nobody", "acme", "other", "zeta"]
    assert both["known"].tolist() == [True, True, False, False]


def test_declared_columns_stand_beside_labels_in_the_order_of_by() -> None:
    data = rows(acme=2000)
    for by in (["firm", "sex"], ["sex", "firm"]):
        table = table_of(sl.Mean("pay", by=by, known=["zeta"], where=sl.col("pay") > 0, **PRICE), data)
        assert table.keys_of_groups == tuple(by)
        assert {tuple(sorted(group)) for group in table.groups} == {
            ("F", "zeta"), ("M", "zeta"), ("F", "acme"), ("M", "acme"),
        }  # fmt: skip
        here = [place for place, group in enumerate(table.groups) if "acme" in group]
        assert np.abs(table["mean_plain"][here] - 22).max() < 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [rows(), rows(a=1, b=2)], ids=["no rows", "small groups"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_nothing_to_show_is_a_table_without_rows(
    kind: str, data: Any, noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_selection, "FIRST_GAUSSIAN", 3 if noise == "laplace" else 1)
    columns = {"firm": np.array(data["firm"], object), "sex": np.array(data["sex"], object)}
    columns |= {name: np.array(data[name], float) for name in ("pay", "free")}
    table = table_of(KINDS[kind](**PRICE), columns)
    assert table.rows == 0
    assert "low" in table.columns


def test_predictions_move_groups_that_were_found() -> None:
    data = rows(a=40, b=40, c=40, d=40)
    told = {"a": 22.0, "b": 42.0, "c": 62.0, "d": 82.0, "never seen": 3.0}
    drawn = table_of(sl.Mean("pay", by="firm", prediction=told, **PRICE), data)
    assert drawn.rows == 4
    assert np.abs(drawn["mean"] - list(told.values())[:4]).max() < np.abs(drawn["mean_plain"] - 50).max()
    few = table_of(sl.Mean("pay", by="firm", prediction=told, **PRICE), rows(a=40))
    assert few["mean"] == pytest.approx(few["mean_plain"])  # one group: the error of the prediction cannot be estimated


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (lambda: sl.Mean("pay", by="firm", epsilon=1), "epsilon with delta; or name"),
        (lambda: sl.Sum("pay", by="firm", rho=1), "not rho or mu"),
        (lambda: sl.Mean("pay", by="sex", known=["F"], **PRICE), "declared ones"),
        (lambda: sl.Mean("pay", known=["F"], **PRICE), "declared ones"),
        (lambda: sl.Variance("pay", by="firm", known="acme", **PRICE), "list of labels"),
        (lambda: sl.Mean("pay", by="firm", known=["a"], epsilon=1, prediction={"b": 3}), "none of the 1 groups"),
        (lambda: sl.Summary("pay", by="firm", epsilon=1), "needs epsilon with delta"),
        (lambda: sl.Summary("pay", by="sex", known=["F"], **PRICE), "undeclared"),
    ],
)
def test_mistakes_are_found_before_anything_is_charged(query: Any, said: str) -> None:
    with pytest.raises((RangeError, SchemaError), match=said):
        prepare_query(query(), sl.Schema(SCHEMA))


def test_the_counts_of_found_groups_are_unbiased_and_have_the_noise_of_two_thirds() -> None:
    """1500 labels that are surely shown: the second part's counts, whose noise had no say in who is shown."""
    names = [f"f{n:04}" for n in range(1500)]
    firm = np.repeat(names, 120)  # at a third of epsilon 1 labels of 2κ + 1 = 87 rows are shown surely
    data = {"firm": firm, "pay": np.tile(np.linspace(10, 70, 120), 1500), "free": np.zeros(len(firm)),
            "sex": np.repeat("F", len(firm))}  # fmt: skip
    table = table_of(sl.Mean("pay", by="firm", **PRICE), data, seed=7)
    assert table.rows == 1500
    noise = table["count_unbiased"] - 120
    assert abs(noise.mean()) < 5 * noise.std() / math.sqrt(1500)

    def rejected(scale: float) -> bool:
        variance = 2 * laplace_variance(Fraction(scale).limit_denominator(10**6) * 2**20) / 2.0**40
        return abs((np.mean(noise**2) / variance - 1) / math.sqrt(3.5 / noise.size)) > 5  # kurtosis 4.5

    assert not rejected(1.5)
    assert rejected(1.5 * 0.7)
    assert rejected(1.5 * 1.3)
    inside = int(((table["low"] <= 40) & (table["high"] >= 40)).sum())
    assert binomtest(inside, 1500, 0.95).pvalue > 1e-6


def test_statistics_of_some_groups_are_those_of_the_whole_and_zero_where_nobody_is() -> None:
    table = sl.Table(rows(a=3, b=5), schema=SCHEMA)
    plan = prepare_query(sl.Mean("pay", by="firm", **PRICE), sl.Schema(SCHEMA)).plan  # type: ignore[attr-defined]
    whole = group_statistics(table, plan.groups)
    some = whole.only([("b",), ("nobody",)])
    assert np.asarray(some.counts.value).tolist() == [5, 0]
    assert some.counts.sensitivity == whole.counts.sensitivity
    assert whole.only([]).counts.value.shape == (0,)  # type: ignore[union-attr]


ROWS = 60


def attack(prepared: PreparedMean) -> bool:
    """Return whether a person who alone has a label, in 60 rows, refutes the claim by the label's appearance."""
    others: dict[str, list[Any]] = {"id": ["x"], "firm": ["big"], "pay": [50.0]}
    target = {"id": ["x", *(["t"] * ROWS)], "firm": ["big", *(["mine"] * ROWS)], "pay": [50.0, *([90.0] * ROWS)]}
    schema, labels = prepared.plan.groups.schema, prepared.plan.labels
    assert labels is not None
    selection = labels.selection

    def sampler(data: dict[str, list[Any]], seed: int) -> Callable[[int], list[bool]]:
        table, source = sl.Table(data, schema=list(schema.columns)), Source(SeededEntropy(seed))
        exact = selection.exact(table, selection.persons)
        return lambda count: [bool(selection.new(exact, source)) for _ in range(count)]

    found = audit(sampler(target, 1), sampler(others, 2), draws=1000)
    return any(found.refutes(claim) for claim in prepared.claims)


@pytest.mark.planted(
    "a label published by one person alone", of=("Mean", "Sum", "Variance", "StandardDeviation", "Summary")
)
@pytest.mark.parametrize("groups", [1, 3])
def test_one_person_with_many_rows_does_not_publish_a_label(groups: int) -> None:
    schema = sl.Schema([sl.PersonId("id", max_rows=ROWS), FIRM, PAY])
    prepared = prepare_query(sl.Mean("pay", by="firm", max_groups=groups, epsilon=1, delta="1e-3"), schema)
    assert isinstance(prepared, PreparedMean)
    assert not attack(prepared)
    # the planted bug: the threshold is on rows, so one person publishes a label alone
    labels = prepared.plan.labels
    assert labels is not None
    loose = replace(labels.selection.persons, cap=UnitCap(rows=ROWS, group_codes=1, groups=groups, per_group=ROWS))
    wrong = replace(labels, selection=replace(labels.selection, persons=loose))
    assert attack(replace(prepared, plan=replace(prepared.plan, labels=wrong)))


def test_what_is_measured_shows_no_more_than_the_price_of_both_parts() -> None:
    """One person moves the pair of a known group; with three times the price it shows."""
    schema = sl.Schema([sl.PersonId("id", max_rows=1), FIRM, PAY])
    prepared = prepare_query(sl.Mean("pay", by="firm", known=["big"], epsilon=1, delta="1e-3"), schema)
    assert isinstance(prepared, PreparedMean)
    plan = prepared.plan
    data = {"id": ["x", "y"], "firm": ["big", "big"], "pay": [0.0, 0.0]}
    more = {"id": [*data["id"], "t"], "firm": ["big"] * 3, "pay": [0.0, 0.0, 100.0]}
    value = value_of(schema, "pay")

    def refuted(budget: Budget) -> bool:
        def sampler(data: dict[str, list[Any]], seed: int) -> Callable[[int], list[int]]:
            table, source = sl.Table(data, schema=list(schema.columns)), Source(SeededEntropy(seed))
            exact = plan.statistics(table, [("big",)], [value], kind="pair", norm="l1").values[0]

            def draws(count: int) -> list[int]:
                often = replace(exact, value=np.repeat(np.asarray(exact.value), count, axis=1))
                return list(np.asarray(budget.on(often).release(source))[0].tolist())

            return draws

        found = audit(sampler(more, 1), sampler(data, 2), draws=4000)
        return any(found.refutes(claim) for claim in prepared.claims)

    assert not refuted(plan.budget)
    assert refuted(Budget("epsilon", Fraction(3)))


def test_sql_asks_for_means_of_labels() -> None:
    table = sl.Table(rows(acme=2000, zeta=3000), schema=SCHEMA, name="pay")
    query = sl.SQL("SELECT firm, AVG(pay) AS pay, COUNT(*) AS n FROM pay GROUP BY firm", **PRICE)
    value = seeded_release(query, table, seed=3).value
    assert isinstance(value, GroupTable)
    assert value["firm"] == ["acme", "zeta"]
    assert np.abs(value["pay"] - [22, 42]).max() < 2
    assert np.abs(value["n"] - [2000, 3000]).max() < 60


@pytest.mark.planted(
    "statistics of labels that are shown because they are there",
    of=("Mean", "Sum", "Variance", "StandardDeviation", "Summary"),
)
@pytest.mark.parametrize(
    "query",
    [
        sl.Mean("pay", by="firm", max_groups=1, epsilon=1, delta="1e-3"),
        sl.Mean("pay", by="firm", max_groups=1, epsilon=1, delta="1e-3", clip="by_group"),
        sl.Summary("pay", by="firm", max_groups=1, epsilon=1, delta="1e-3"),
    ],
    ids=["mean", "by group", "summary"],
)
def test_labels_that_are_shown_because_they_are_there_are_found_out(query: Any) -> None:
    """Planted: all labels that occur are shown, as by a scan of the data; a person alone with one is seen surely."""
    prepared: Any = prepare_query(query, sl.Schema([sl.PersonId("id", max_rows=ROWS), FIRM, PAY]))
    assert not attack(prepared)
    labels = prepared.plan.labels

    class Scan(type(labels.selection)):  # type: ignore[misc]
        def new(self, found: dict[Any, int], source: Source) -> list[tuple[Any, int]]:
            return [(group, units) for group, units in found.items() if group != ("big",)]

    scan = Scan(**{name: getattr(labels.selection, name) for name in ("persons", "law", "known", "place")})
    assert attack(replace(prepared, plan=replace(prepared.plan, labels=replace(labels, selection=scan))))
