"""Sums by group of persons whose totals are cut together: law, attack, choice of the cut, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, laplace

import sidelight as sl
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.person_vectors import PersonVector
from sidelight.aggregates.values import total_of, vector_of
from sidelight.audit import audit
from sidelight.errors import KeyReusedError, RangeError, SchemaError
from sidelight.noise import Source
from sidelight.session import Session
from sidelight.summaries.sum import noise_of
from sidelight.testing import SeededEntropy, seeded_release

SHOPS = ["a", "b", "c", "d"]
SCHEMA = [
    sl.PersonId("who", max_rows=8),
    sl.Category("shop", SHOPS, other=None),
    sl.Number("spend", lower=0, upper=50, granularity=1),
    sl.Number("off", lower=0, upper="0.5", granularity="0.1"),
]
NET = sl.col("spend") * (1 - sl.col("off"))


def shoppers(people: int = 1000) -> dict[str, Any]:
    """Everybody buys for 10 in each shop, twice."""
    who = np.repeat([f"p{place}" for place in range(people)], 8)
    spend, off = np.full(8 * people, 10.0), np.full(8 * people, 0.1)
    return {"who": who, "shop": np.tile(SHOPS, 2 * people), "spend": spend, "off": off}


@pytest.mark.parametrize("price", [{"epsilon": 1}, {"rho": "0.5"}, {"mu": 1}, {"epsilon": 1, "delta": "1e-6"}])
def test_noise_does_not_grow_with_groups(price: dict[str, Any]) -> None:
    table = sl.Table(shoppers(), schema=SCHEMA)
    cut = seeded_release(sl.Sum("spend", by="shop", person_total=80, **price), table, seed=1).value
    each = seeded_release(sl.Sum("spend", by="shop", max_groups=4, clip=(0, 80), **price), table, seed=1).value
    laplace = "rho" not in price and "mu" not in price
    assert each["noise_sd"][0] == pytest.approx((4 if laplace else 2) * cut["noise_sd"][0], rel=1e-4)
    assert np.abs(cut["unbiased"] - 20_000).max() < 6 * cut["noise_sd"][0]
    assert "count" not in cut
    assert cut.notes["person_total"] == 80
    halved = seeded_release(sl.Sum("spend", by="shop", person_total=40, **price), table, seed=1).value
    assert halved["unbiased"].sum() == pytest.approx(40_000, abs=12 * halved["noise_sd"][0])
    assert halved["unbiased"].min() > 8000  # the order of groups is another one for each person


def test_derived_numbers_have_totals() -> None:
    table = sl.Table(shoppers(), schema=SCHEMA)
    by_shop = seeded_release(sl.Sum(NET, by="shop", person_total=80, epsilon=1), table, seed=2).value
    assert by_shop["unbiased"].sum() == pytest.approx(72_000, abs=2000)
    everywhere = seeded_release(sl.Sum(NET, person_total=80, epsilon=1), table, seed=3).value
    assert everywhere.sum == pytest.approx(72_000, abs=1000)
    assert everywhere.count == pytest.approx(1000, abs=30)
    assert everywhere.notes["clip_upper"] == 80
    limited = seeded_release(sl.Sum(NET, by="shop", max_groups=1, clip=(0, 20), epsilon=1), table, seed=3).value
    assert limited["unbiased"].sum() == pytest.approx(18_000, abs=600)
    found = seeded_release(sl.Sum(NET, epsilon=1), table, seed=4).value
    assert found.sum == pytest.approx(72_000, rel=0.05)


def test_the_cut_is_found_privately_for_the_price() -> None:
    table = sl.Table(shoppers(), schema=SCHEMA)
    for price in ({"epsilon": 1}, {"mu": 1}):
        query = sl.Sum("spend", by="shop", **price)
        prepared = query.prepare(table.schema)
        assert prepared.plan.clipping.rows_per_unit == 1  # one record a person
        assert prepared.request["person_total"] == "private"
        value = seeded_release(query, table, seed=5).value
        assert 70 < value.notes["person_total"] < 300
        assert value["sum"].sum() == pytest.approx(80_000, rel=0.06)
    assert sl.Sum("spend", by="shop", epsilon=1).prepare(table.schema).claims.pure().epsilon == 1
    stated = sl.Sum("spend", by="shop", person_total="private", epsilon=1)
    assert stated.prepare(table.schema).request["person_total"] == "private"


def test_what_has_less_noise_is_taken() -> None:
    schema = sl.Schema(SCHEMA)

    def per_group(**more: Any) -> bool:
        prepared = sl.Sum("spend", by="shop", max_groups=4, **more).prepare(schema)
        return not isinstance(prepared.plan.groups.totals, PersonVector)

    assert per_group(clip=(0, 10), person_total=41, epsilon=1)
    assert not per_group(clip=(0, 10), person_total=39, epsilon=1)
    assert per_group(clip=(0, 10), person_total=21, rho=1)
    assert not per_group(clip=(0, 10), person_total=19, rho=1)
    assert per_group(epsilon=1)  # only max_groups was given


def test_another_cut_of_one_total_is_another_request(tmp_path: Path) -> None:
    table = sl.Table(shoppers(20), schema=SCHEMA)
    session = Session(table, budget=sl.PureDP(5), ledger=tmp_path / "ledger.db")
    session.release(sl.Sum("spend", person_total=2, epsilon=1), key="total")
    with pytest.raises(KeyReusedError):
        session.release(sl.Sum("spend", person_total=200, epsilon=1), key="total")
    stated = sl.SQL("SELECT SUM(spend) FROM t", person_total=7, epsilon=1).prepare(sl.Schema(SCHEMA)).request
    assert stated["queries"][0]["person_total"] == "7"


def test_a_statement_without_a_sum_takes_no_person_total() -> None:
    with pytest.raises(RangeError, match="the statement has none"):
        sl.SQL("SELECT COUNT(*) FROM t", person_total=7, epsilon=1).prepare(sl.Schema(SCHEMA))


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.3, False)])
def test_the_law_of_the_noise(factor: float, right: bool) -> None:
    """Laplace of scale U/ε in all groups, however many; one 30 % off is rejected."""
    labels = [str(place) for place in range(3000)]
    number = sl.Number("x", lower=0, upper=9, granularity=1)
    schema = [sl.PersonId("who", max_rows=1000), sl.Category("g", labels, other=None), number]
    table = sl.Table({"who": ["p"] * 5, "g": labels[:5], "x": [9.0] * 5}, schema=schema)
    value = seeded_release(sl.Sum("x", by="g", person_total=2000, epsilon=1), table, seed=7).value
    drawn = value["unbiased"][5:]
    assert bool(kstest(drawn, laplace(scale=2000 * factor).cdf).pvalue > 1e-6) is right


@pytest.mark.planted("vector cut at U in each group", of=("Sum",))
def test_a_person_in_every_group_shows_no_more_than_is_claimed() -> None:
    """An attack that adds noisy sums; the planted bug gives each group all of U."""
    own = {"who": ["t"] * 8, "shop": SHOPS * 2, "spend": [50.0] * 8, "off": [0.0] * 8}
    others = {name: list(cells[:16]) for name, cells in shoppers(2).items()}
    more = {name: [*cells, *own[name]] for name, cells in others.items()}
    prepared = sl.Sum("spend", by="shop", person_total=60, epsilon=1).prepare(sl.Schema(SCHEMA))
    groups = prepared.plan.groups
    value, limit = vector_of(groups.schema, "spend", person_total=60)

    def exact(data: Any, *, each: bool) -> Any:
        table = sl.Table(data, schema=SCHEMA)
        found = group_statistics(table, replace(groups, totals=limit), [value], kind="whole").values[0]
        if not each:
            return found
        loose = groups_of(groups.schema, by="shop", max_groups=4, totals=True)
        total = total_of(groups.schema, "spend", lower=0, upper=60)
        return replace(found, value=group_statistics(table, loose, [total], kind="whole").values[0].value)

    def sampler(data: Any, seed: int, *, each: bool) -> Callable[[int], list[float]]:
        source, bounded = Source(SeededEntropy(seed)), exact(data, each=each)

        def draws(count: int) -> list[float]:
            often = replace(bounded, value=np.tile(np.asarray(bounded.value), (count, 1)))
            return np.asarray(noise_of(prepared.plan.budget, often).release(source)).sum(axis=1).tolist()

        return draws

    right = audit(sampler(more, 1, each=False), sampler(others, 2, each=False), draws=4000)
    assert not any(right.refutes(claim) for claim in prepared.claims)
    wrong = audit(sampler(more, 3, each=True), sampler(others, 4, each=True), draws=4000)
    assert wrong.refutes(sl.PureDP(1))


def test_the_stated_error_is_that_of_the_noise() -> None:
    prepared = sl.Sum("spend", by="shop", person_total=100, epsilon=1).prepare(sl.Schema(SCHEMA))
    assert prepared.error is not None
    assert "100 in all groups together" in prepared.error.assumption
    assert prepared.error.per_log == (100.0,)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (lambda: sl.Sum("spend", by="shop", person_total=5, max_rows_per_group=1, epsilon=1), "totals of persons"),
        (lambda: sl.Sum("spend", by="shop", person_total=0, epsilon=1), "positive"),
        (lambda: sl.Sum("spend", by="shop", person_total=5, max_groups=2, epsilon=1), "leave max_groups"),
        (lambda: sl.Sum("spend", by="shop", person_total=5, clip="declared", epsilon=1), "leave max_groups"),
        (lambda: sl.Sum("spend", by="shop", person_total=5, clip=(0, 2), epsilon=1), "max_groups="),
        (
            lambda: sl.Sum("spend", by="shop", person_total="private", clip=(0, 2), max_groups=2, epsilon=1),
            "leave clip",
        ),
        (lambda: sl.Sum("spend", by="shop", person_total=5, max_rows_per_group=2, epsilon=1), "max_rows_per_group"),
        (lambda: sl.Sum(sl.col("shop"), by="shop", person_total=5, epsilon=1), "number"),
        (lambda: sl.Sum("spend", by="shop", clip="by_group", epsilon=1), "max_groups"),
    ],
)
def test_refused_before_a_charge(query: Any, message: str) -> None:
    session = Session(sl.Table(shoppers(3), schema=SCHEMA), budget=sl.PureDP(1))
    before = str(session.remaining)
    with pytest.raises((RangeError, SchemaError), match=message):
        session.release(query())
    assert str(session.remaining) == before


def test_persons_are_needed() -> None:
    with pytest.raises(RangeError, match="PersonId"):
        sl.Sum("spend", by="shop", person_total=5, epsilon=1).prepare(sl.Schema(SCHEMA[1:]))
