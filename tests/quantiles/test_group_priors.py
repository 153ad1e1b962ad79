"""Quantiles by group with priors of each group's own, from an earlier release, or borrowed from all rows."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.group_table import GroupTable
from sidelight.quantiles.by_group import PreparedCellPriors
from sidelight.session.query import prepare_query
from sidelight.testing import seeded_release

GROUPS = [f"g{n}" for n in range(40)]
SCHEMA = [sl.Number("x", granularity=1), sl.Category("g", GROUPS, other=None)]
LEVELS = [0.25, 0.5, 0.75]
CENTRES = 40_000 * np.exp(0.2 * np.random.default_rng(2).standard_normal(len(GROUPS)))


def rows(per_group: int = 100) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "x": np.round(np.repeat(CENTRES, per_group) * rng.lognormal(0, 0.3, len(GROUPS) * per_group)),
        "g": np.repeat(GROUPS, per_group),
    }


def rank_error(query: Any, data: dict[str, Any], seeds: int = 3) -> float:
    """Return how many ranks the medians of groups are off, on average."""
    found = []
    for seed in range(seeds):
        value = seeded_release(query, sl.Table(data, schema=SCHEMA), seed=seed).value
        assert isinstance(value, GroupTable)
        for label, median in zip(GROUPS, value["q50"], strict=True):
            x = data["x"][data["g"] == label]
            found.append(abs(float(np.mean(x < median)) - 0.5) * len(x))
    return float(np.mean(found))


def test_small_groups_are_better_with_priors_of_their_own_or_borrowed_ones() -> None:
    """100 rows a group at epsilon 0.1: with nothing known the medians are lost."""
    data, asked = rows(), {"column": "x", "by": "g", "epsilon": "0.2"}
    bare = rank_error(sl.Quantiles(LEVELS, **asked), data)
    borrowed = rank_error(sl.Quantiles(LEVELS, prediction="total", **asked), data)
    told = {label: sl.priors.hedge(sl.priors.Cauchy(float(centre), 3000.0), with_=sl.priors.ScaleFree(), weight=0.1)
            for label, centre in zip(GROUPS, CENTRES, strict=True)}  # fmt: skip
    own = rank_error(sl.Quantiles(LEVELS, prediction=told, **asked), data)
    assert borrowed < 0.7 * bare
    assert own < 0.5 * bare


def test_the_total_stands_in_the_notes_and_all_costs_the_price() -> None:
    for schema in (SCHEMA, [*SCHEMA, sl.PersonId("who", max_rows=6)]):
        limits = {} if schema is SCHEMA else {"max_groups": 2, "max_rows_per_group": 2}
        for where in (None, "x > 5"):
            query = sl.Quantiles([0.5], column="x", by="g", epsilon=1, prediction="total", where=where, **limits)
            prepared = prepare_query(query, sl.Schema(schema))
            assert isinstance(prepared, PreparedCellPriors)
            pure = prepared.claims.pure()
            assert pure is not None
            assert pure.epsilon == Fraction(1)
            assert prepared.claims.unit == sl.Schema(schema).unit
            assert prepared.request["borrow"] == "total"
    value = seeded_release(sl.Quantiles([0.5], column="x", by="g", epsilon=1, prediction="total"),
                           sl.Table(rows(), schema=SCHEMA), seed=1).value  # fmt: skip
    assert abs(value.notes["all_q50"] - 40_000) < 4000


def test_groups_without_a_prediction_are_released_as_usual() -> None:
    table = sl.Table(rows(20), schema=SCHEMA)
    asked = {"column": "x", "by": "g", "epsilon": 1}
    plain = seeded_release(sl.Quantiles(LEVELS, **asked), table, seed=4)
    one = seeded_release(sl.Quantiles(LEVELS, prediction={"g39": sl.priors.Cauchy(4e4, 1e4)}, **asked), table, seed=4)
    assert (plain.value["q50"][:39] == one.value["q50"][:39]).all()
    assert one.prediction is not None
    assert "1 groups" in one.prediction["description"]
    assert plain.guarantee == one.guarantee


def test_an_earlier_release_predicts_its_groups() -> None:
    data, asked = rows(), {"column": "x", "by": "g"}
    earlier = sl.Quantiles(LEVELS, epsilon=20, **asked).release(sl.Table(data, schema=SCHEMA))
    bare = rank_error(sl.Quantiles(LEVELS, epsilon="0.2", **asked), data, 2)
    again = sl.Quantiles(LEVELS, epsilon="0.2", prediction=earlier, **asked)
    assert rank_error(again, data, 2) < 0.6 * bare
    seeded = seeded_release(sl.Quantiles(LEVELS, epsilon=20, **asked), sl.Table(data, schema=SCHEMA), seed=1)
    prepared = prepare_query(sl.Quantiles(LEVELS, epsilon=1, prediction=seeded, **asked), sl.Schema(SCHEMA))
    assert prepared.prediction is not None
    assert "entropy" in prepared.prediction
    medians = sl.Quantiles([0.5], epsilon=20, **asked).release(sl.Table(data, schema=SCHEMA))
    prepare_query(sl.Quantiles([0.5], epsilon=1, prediction=medians, **asked), sl.Schema(SCHEMA))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"by": (), "prediction": "total"}, "give by="),
        ({"by": (), "prediction": {"g1": sl.priors.Cauchy(0, 1)}}, "give by="),
        ({"prediction": "mean"}, "is 'total', or"),
        ({"prediction": {"h1": sl.priors.Cauchy(0, 1)}}, "none of the 40 groups"),
        ({"prediction": {"g1": 3}}, "must be a prior"),
        ({"prediction": {"g1": [sl.priors.Cauchy(0, 1)] * 2}}, "each of the 3 levels"),
        ({"prediction": GroupTable(keys=["h"], groups=[("g1",)], columns={"q50": [1]})}, "is by h"),
        ({"prediction": GroupTable(keys=["g"], groups=[("g1",)], columns={"q50": [1]})}, "no column 'q25'"),
    ],
)
def test_mistakes_are_found_before_anything_is_charged(more: dict[str, Any], said: str) -> None:
    with pytest.raises(RangeError, match=said):
        prepare_query(sl.Quantiles(LEVELS, column="x", epsilon=1, **{"by": "g", **more}), sl.Schema(SCHEMA))


@pytest.mark.parametrize("values", [[], [np.nan], [1e308, -1e308] * 5, [5e-324]])
def test_nothing_about_rows_raises(values: list[float]) -> None:
    schema = [sl.Number("x"), sl.Category("g", ["a"], other=None)]
    table = sl.Table({"x": np.array(values, float), "g": np.array(["a"] * len(values), object)}, schema=schema)
    for seed in range(3):
        seeded_release(sl.Quantiles([0.5], column="x", by="g", epsilon=1, prediction="total"), table, seed=seed)


def test_groups_borrow_in_rho_and_in_every_form() -> None:
    """The total and the groups share the price in rho, too; many levels take the forms with each group's own priors."""
    schema = [*SCHEMA[:1], sl.Category("g", ["a", "b"], other=None)]
    data = {"x": np.arange(20_000) % 997, "g": np.repeat(["a", "b"], 10_000)}
    for price, levels in (({"rho": "0.1"}, [0.5]), ({"epsilon": 1}, 19), ({"epsilon": 1, "delta": "1e-6"}, 9)):
        asked = levels if isinstance(levels, list) else [Fraction(n, levels + 1) for n in range(1, levels + 1)]
        query = sl.Quantiles(asked, column="x", by="g", prediction="total", **price)
        release = seeded_release(query, sl.Table(data, schema=schema), seed=5)
        assert abs(float(release.value["q50"][0]) - 498) < 40
        claims = query.prepare(sl.Table(data, schema=schema).schema).claims
        if "rho" in price:
            assert claims.zcdp().rho <= Fraction("0.1")
        else:
            assert claims.approx_at("1e-6").epsilon <= 1
        told = {"a": sl.priors.hedge(sl.priors.Cauchy(500.0, 300.0), with_=sl.priors.ScaleFree(), weight=0.1)}
        of_groups = seeded_release(
            sl.Quantiles(asked, column="x", by="g", prediction=told, **price), sl.Table(data, schema=schema), seed=5
        )
        assert abs(float(of_groups.value["q50"][0]) - 498) < 40
    with pytest.raises(RangeError, match="one prediction for all groups"):
        sl.Quantiles([0.5], column="x", by="g", epsilon=1, form="predicted", prediction=told)


def test_rows_in_several_groups_cost_their_squares_in_rho() -> None:
    """Two rows in each of three groups are 12 times one row's rho, not 36."""
    schema = sl.Table({"x": [1], "g": ["g1"], "who": [1]}, schema=[*SCHEMA, sl.PersonId("who", max_rows=6)]).schema
    query = sl.Quantiles([0.5], column="x", by="g", rho=1, max_groups=3, max_rows_per_group=2)
    prepared = query.prepare(schema)
    assert prepared.tree.claims.zcdp().rho * 12 <= Fraction(9, 10)
    assert prepared.tree.claims.zcdp().rho * 12 > Fraction(9, 10) * Fraction(99, 100)
    assert Fraction(99, 100) < prepared.claims.zcdp().rho <= 1
    assert prepared.claims.unit.max_rows == 6
