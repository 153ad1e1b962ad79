"""What a table of a hierarchy says before it is charged: what a pure price buys, and how small exact totals are."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.session.query import prepare_query
from sidelight.summaries.noise_choice import laplace_variance
from sidelight.testing import seeded_release

LEAVES = [f"{a}{b}{c:02}" for a in "ns" for b in "uvwxyz" for c in range(25)]
GEO = sl.Hierarchy("leaf", {"state": 1, "county": 2})
SCHEMA = sl.Schema(
    [sl.Category("leaf", LEAVES), sl.Category("sex", ["f", "m"]), sl.Number("age", lower=0, upper=100, granularity=1)]
)
LEVELS = ["all", "state", "county", "leaf"]


def advice(query: Any) -> tuple[str, ...]:
    return prepare_query(query, SCHEMA).advice


def stated(sentence: str) -> list[list[float]]:
    """Return the standard deviations by level that a sentence states: as asked, finest level alone, with a delta."""
    parts = re.findall(r"(?:cell: |; )([\d.,e+ ]+?) (?:at this|if all|with delta)", sentence)
    return [[float(each.replace(",", "")) for each in part.split(", ")] for part in parts]


@pytest.mark.parametrize("by", [[replace(GEO, caps={"county": 13})], [replace(GEO, caps={"county": 13}), "sex"]])
def test_a_pure_price_is_compared_with_what_tables_have(by: list[Any]) -> None:
    """The stated numbers are those of the tables at both prices; the third is the finest level with all of epsilon."""
    (sentence,) = advice(sl.Count(by=by, epsilon=1))
    now, alone, with_delta = stated(sentence)
    rows = sl.Table({"leaf": LEAVES, "sex": ["f"] * len(LEAVES), "age": [3] * len(LEAVES)}, schema=SCHEMA)
    others = ["sex"] if len(by) > 1 else []
    for price, found in (({}, now), ({"delta": "1e-6"}, with_delta)):
        table: Any = seeded_release(sl.Count(by=by, epsilon=1, **price), rows, seed="advice").value
        sds = [float(np.sqrt((table.level(name, *others)["noise_sd"] ** 2).mean())) for name in LEVELS]
        assert found == pytest.approx(sds, rel=0.01)
    if not others:
        whole = laplace_variance(1)  # 1.84; of real noise 2
        assert alone == pytest.approx([math.sqrt(whole * many) for many in (301, 301 / 3, 301 / 13, 1)], rel=0.01)
    assert alone[-1] < now[-1]
    assert now[0] < alone[0]


def test_a_delta_is_recommended_where_it_is_better() -> None:
    """Rows of one person: the norm of Laplace noise grows with their number, that of Gaussian noise with its root."""
    (sentence,) = advice(sl.Count(by=GEO, epsilon="0.5"))
    assert ", all of which goes to the finest level; " in sentence
    assert sentence.endswith("A delta would not help here.")
    schema = sl.Schema([sl.PersonId("who", max_rows=400), *SCHEMA.columns])
    many = prepare_query(sl.Count(by=GEO, epsilon="0.5", of="rows", max_rows_per_group=1, max_groups=300), schema)
    assert many.advice[0].endswith("Recommended: the delta.")


@pytest.mark.parametrize("price", [{"rho": "0.1"}, {"mu": "0.3"}, {"epsilon": 1, "delta": "1e-6"}])
def test_other_prices_have_nothing_to_say(price: dict[str, Any]) -> None:
    assert advice(sl.Count(by=GEO, **price)) == ()
    assert advice(sl.Count(by="sex", epsilon=1)) == ()


def test_sums_and_means_say_it_in_their_unit() -> None:
    (of_sum,), (of_mean,) = (advice(query("age", by=GEO, epsilon=1)) for query in (sl.Sum, sl.Mean))
    (of_count,) = advice(sl.Count(by=GEO, epsilon=1))
    fine = 100 * math.sqrt(laplace_variance(100) / 100**2 / laplace_variance(1))  # steps of a hundredth of the scale
    assert stated(of_sum)[0] == pytest.approx([fine * each for each in stated(of_count)[0]], rel=0.02)
    assert stated(of_mean)[0] == pytest.approx(stated(of_sum)[0], rel=0.02)
    assert "the sums that a mean is made of" in of_mean


def test_small_exact_totals_are_counted_by_the_prediction() -> None:
    law = replace(GEO, invariants=sl.Invariant("county", reason="Counties Act"))
    none = advice(sl.Count(by=law, rho="0.1"))
    assert none == (
        "Published exactly, as they are in the rows: 13 totals of level county. No prediction says how many of them "
        "are small.",
    )
    told = {leaf: 0.3 if leaf[:2] in ("nu", "nv") else 4.0 for leaf in LEAVES} | {"other": 9.9}
    (sentence,) = advice(sl.Count(by=law, rho="0.1", prediction=told))
    assert "By the prediction 3 of them are below 10:" in sentence  # 7.5, 7.5 and 9.9; the others have 100
    assert "It does not cover" not in sentence
    del told["other"], told["nu00"]
    (sentence,) = advice(sl.Count(by=law, rho="0.1", prediction=told))
    assert "By the prediction 1 of them are below 10:" in sentence
    assert sentence.endswith("It does not cover 2 of them.")
    shares = sl.Predicted(told, shares=True, origin="a survey")
    assert "of shares and says nothing" in advice(sl.Count(by=law, rho="0.1", prediction=shares))[0]
    both = advice(sl.Count(by=[law, "sex"], epsilon=1))
    assert len(both) == 2
