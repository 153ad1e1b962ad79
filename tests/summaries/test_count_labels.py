"""Counts by undeclared labels: who is shown, with which law, and an attack that a planted bug fails."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import chisquare

import sidelight as sl
from sidelight.aggregates.contributions import UnitCap
from sidelight.audit import audit
from sidelight.errors import RangeError, SchemaError
from sidelight.group_table import GroupTable
from sidelight.guarantees import ApproxDP
from sidelight.mechanisms.truncated_laplace import TruncatedLaplace, truncated_laplace
from sidelight.noise import Source
from sidelight.session.query import prepare_query
from sidelight.summaries.label_tables import PreparedLabels
from sidelight.testing import SeededEntropy, seeded_release

PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
EMPLOYER = sl.Label("employer", casefold=True)
SEX = sl.Category("sex", ["F", "M"], other=None)


def rows(**sizes: int) -> dict[str, list[Any]]:
    """Return the stated number of rows per label, spelled in different ways."""
    employer = [(f" {name} " if n % 2 else name.upper()) for name, size in sizes.items() for n in range(size)]
    return {"employer": employer, "sex": ["F" if n % 2 else "M" for n in range(len(employer))]}


def table_of(query: Any, data: Any, schema: Any = (EMPLOYER, SEX), seed: int = 1) -> GroupTable:
    outcome = seeded_release(query, sl.Table(data, schema=list(schema)), seed=seed)
    assert isinstance(outcome, sl.Release)
    assert sl.Release.from_json(outcome.to_json()) == outcome
    value = outcome.value
    assert isinstance(value, GroupTable)
    return value


def test_large_labels_are_found_and_small_ones_are_not() -> None:
    table = table_of(sl.Count(by="employer", **PRICE), rows(zeta=200, acme=60, tiny=1))
    assert table["employer"] == ["acme", "zeta"]  # by label, whatever the order of rows
    assert not table["known"].any()
    assert np.isnan(table["unbiased"]).all()
    assert (np.abs(table["count"] - [60, 200]) <= 14).all()  # surely: truncated at 14
    assert ((table["low"] <= [60, 200]) & (table["high"] >= [60, 200])).all()
    assert table.notes["shown_from"] == 15


def test_known_labels_always_appear_first_in_their_order() -> None:
    known = ["Zeta", "none such", "acme "]
    table = table_of(sl.Count(by="employer", known=known, **PRICE), rows(acme=60, other=90))
    assert table["employer"] == ["zeta", "none such", "acme", "other"]
    assert table["known"].tolist() == [True, True, True, False]
    assert np.isfinite(table["unbiased"]).tolist() == [True, True, True, False]
    pure = table_of(sl.Count(by="employer", known=known, epsilon=1), rows(acme=60, other=90))
    assert pure["employer"] == ["zeta", "none such", "acme"]
    assert str(prepare_query(sl.Count(by="employer", known=known, epsilon=1), sl.Schema([EMPLOYER])).claims) == (
        "PureDP(ε = 1)"
    )


def test_an_earlier_release_names_known_labels_and_predicts_them() -> None:
    first = seeded_release(
        sl.Count(by="employer", **PRICE), sl.Table(rows(acme=60, zeta=90), schema=[EMPLOYER, SEX]), seed=1
    )
    again = table_of(sl.Count(by="employer", rho="0.01", known=first, prediction=first), rows(acme=60, zeta=90))
    assert again["employer"] == ["acme", "zeta"]


def test_declared_columns_stand_beside_labels_in_the_order_of_by() -> None:
    for by in (["employer", "sex"], ["sex", "employer"]):
        table = table_of(sl.Count(by=by, known=["zeta"], **PRICE), rows(acme=100))
        assert table.keys_of_groups == tuple(by)
        found = {tuple(sorted(group)) for group in table.groups}
        assert found == {("F", "zeta"), ("M", "zeta"), ("F", "acme"), ("M", "acme")}
        assert table["known"].tolist() == [True, True, False, False]


@pytest.mark.parametrize("groups", [1, 2, 3, 10])
def test_the_law_depends_on_the_groups_of_a_person(groups: int) -> None:
    schema = sl.Schema([sl.PersonId("id", max_rows=12), EMPLOYER])
    prepared = prepare_query(sl.Count(by="employer", max_groups=groups, **PRICE), schema)
    assert isinstance(prepared, PreparedLabels)
    assert isinstance(prepared.plan.law, TruncatedLaplace) is (groups <= 2)
    assert prepared.plan.least == {1: 15, 2: 28, 3: 38, 10: 71}[groups]
    (claim,) = list(prepared.claims)
    assert isinstance(claim, ApproxDP)  # never GDP or zCDP: which labels show is not Gaussian
    assert claim.epsilon <= 1
    assert float(claim.delta) <= 1e-6


@pytest.mark.parametrize("groups", [3, 5, 7])
@pytest.mark.parametrize("known", [None, ["acme", "nobody"]])
def test_roots_that_are_rounded_up_are_within_the_claim(groups: int, known: list[str] | None) -> None:
    """The sensitivity of counts of known labels is a root: the meter must grant what it was rounded up by."""
    data = {"id": [f"p{n // 4}" for n in range(400)], "employer": ["acme", "zeta"] * 200}
    query = sl.Count(by="employer", max_groups=groups, known=known, **PRICE)
    table = table_of(query, data, [sl.PersonId("id", max_rows=12), EMPLOYER])
    assert "zeta" in table["employer"]


def test_rows_are_counted_after_labels_were_found_by_persons() -> None:
    data = {"id": [f"p{n // 4}" for n in range(1200)], "employer": ["acme"] * 1200}
    schema = [sl.PersonId("id", max_rows=4), EMPLOYER]
    for groups in (1, 4):
        query = sl.Count(by="employer", of="rows", max_groups=groups, **PRICE)
        table = table_of(query, data, schema)
        assert abs(table["unbiased"][0] - 1200) < 12 * table["noise_sd"][0]
        assert table["unbiased"].dtype == np.int64
        prepared = prepare_query(query, sl.Schema(schema))
        assert isinstance(prepared, PreparedLabels)
        assert prepared.plan.separate
        assert float(next(iter(prepared.claims)).epsilon) <= 1  # type: ignore[union-attr]
    known = table_of(sl.Count(by="employer", of="rows", max_groups=1, known=["acme"], epsilon=8), data, schema)
    assert abs(known["unbiased"][0] - 1200) < 12 * known["noise_sd"][0]


@pytest.mark.parametrize("data", [rows(), rows(a=1, b=2), {"employer": [None, "  "] * 40, "sex": ["F"] * 80}])
def test_nothing_to_show_is_a_table_without_rows(data: dict[str, Any]) -> None:
    frame = pd.DataFrame(
        {"employer": pd.Series(data["employer"], dtype=object), "sex": pd.Series(data["sex"], dtype=object)}
    )
    table = table_of(sl.Count(by="employer", **PRICE), frame)
    assert table.rows == 0
    assert table["count"].dtype == np.int64
    assert table["unbiased"].dtype == np.float64


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (lambda: sl.Count(by="employer", epsilon=1), "epsilon with delta; or name"),
        (lambda: sl.Count(by="employer", rho=1), "not rho or mu"),
        (lambda: sl.Count(by="employer", known="acme", **PRICE), "list of labels"),
        (lambda: sl.Count(by="employer", known=["  "], **PRICE), "not empty"),
        (lambda: sl.Count(by="sex", known=["F"], **PRICE), "declared ones"),
        (lambda: sl.Count(by="employer", prediction={"acme": 3}, **PRICE), "known labels only"),
        (lambda: sl.Count(by="employer", prediction={"acme": 3}, known=["zeta"], **PRICE), "none of the 1 groups"),
        (lambda: sl.Histogram("employer", bins=3, **PRICE), "both bounds"),
    ],
)
def test_mistakes_are_found_before_anything_is_charged(query: Any, said: str) -> None:
    with pytest.raises((RangeError, SchemaError), match=said):
        prepare_query(query(), sl.Schema([EMPLOYER, SEX]))


COLUMN = ["acme", "zeta", "acme"]


@pytest.mark.parametrize(
    "column",
    [np.array(COLUMN), pd.Series(COLUMN), pd.Series(COLUMN, dtype="category"), pl.Series(COLUMN), pa.array(COLUMN),
     pa.chunked_array([COLUMN]), pd.DataFrame({"employer": COLUMN}), sl.Table({"employer": COLUMN, "sex": ["F"] * 3},
                                                                              schema=[EMPLOYER, SEX])],
    ids=lambda each: type(each).__name__,
)  # fmt: skip
def test_a_column_of_rows_is_no_list_of_known_labels(column: Any) -> None:
    """Out of the private table it would publish every label for nothing; said to be public it is taken."""
    query = sl.Count(by="employer", known=column, epsilon=1)
    with pytest.raises(RangeError, match="public"):
        prepare_query(query, sl.Schema([EMPLOYER, SEX]))


def test_public_columns_are_known_labels_and_lists_of_rows_are_warned_of() -> None:
    schema = sl.Schema([EMPLOYER, SEX])
    for column in (np.array(COLUMN), pd.Series(COLUMN)):
        known = sl.PublicData(column, "register of firms")
        prepared = prepare_query(sl.Count(by="employer", known=known, epsilon=1), schema)
        assert prepared.selection.known == (("acme",), ("zeta",))  # type: ignore[attr-defined]
    with pytest.warns(sl.errors.SidelightWarning, match="more than once"):
        prepare_query(sl.Count(by="employer", known=COLUMN, epsilon=1), schema)


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.3, False)])
def test_what_is_published_has_the_law_of_the_theorem(factor: float, right: bool) -> None:
    """3000 labels of 16 rows each: published or not, and with which count; a scale 30 % off is detected."""
    labels = 3000
    employer = [f"e{n}" for n in range(labels) for _ in range(16)]
    table = table_of(sl.Count(by="employer", **PRICE), {"employer": employer, "sex": ["F"] * len(employer)}, seed=9)
    law = truncated_laplace(epsilon=1 / factor, delta="1e-6")
    least, most = 15, 20
    tails = law.tail(np.arange(least, most + 2) - 16.0)
    expected = np.array([1 - tails[0], *(tails[:-1] - tails[1:]), tails[-1]]) * labels
    seen = np.array([labels - table.rows, *(np.count_nonzero(table["count"] == k) for k in range(least, most + 1)),
                     np.count_nonzero(table["count"] > most)])  # fmt: skip
    assert bool(chisquare(seen, expected).pvalue > 1e-6) is right


def test_intervals_of_new_labels_cover_given_that_they_are_shown() -> None:
    employer = [f"e{n}" for n in range(2000) for _ in range(16)]
    table = table_of(sl.Count(by="employer", **PRICE), {"employer": employer, "sex": ["F"] * len(employer)}, seed=4)
    covered = np.mean((table["low"] <= 16) & (table["high"] >= 16))
    assert covered >= 0.95 - 5 * math.sqrt(0.05 * 0.95 / table.rows)


ROWS = 29


def attack(prepared: PreparedLabels) -> bool:
    """Return whether a person who alone has a label, in 29 rows, refutes the claim by the label's appearance."""
    others = {"id": ["x"], "employer": ["big"]}
    target = {"id": ["x", *(["target"] * ROWS)], "employer": ["big", *(["only mine"] * ROWS)]}
    schema = prepared.selection.persons.schema

    def sampler(data: dict[str, list[str]], seed: int) -> Callable[[int], list[bool]]:
        table, source = sl.Table(data, schema=list(schema.columns)), Source(SeededEntropy(seed))
        return lambda count: [prepared.run(table, source).value.rows > 0 for _ in range(count)]

    found = audit(sampler(target, 1), sampler(others, 2), draws=200)
    return any(found.refutes(claim) for claim in prepared.claims)


def test_one_person_with_many_rows_does_not_publish_a_label() -> None:
    schema = sl.Schema([sl.PersonId("id", max_rows=ROWS), EMPLOYER])
    prepared = prepare_query(sl.Count(by="employer", max_groups=1, epsilon=1, delta="1e-3"), schema)
    assert isinstance(prepared, PreparedLabels)
    assert not attack(prepared)
    # the planted bug: the threshold is on rows, so one person publishes a label alone
    selection = prepared.selection
    loose = replace(selection.persons, cap=UnitCap(rows=ROWS, group_codes=1, groups=1, per_group=ROWS))
    assert attack(replace(prepared, selection=replace(selection, persons=loose)))
