"""Gaussians of rows that only workers may read: the release of every other engine, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sidelight as sl
from away_rows import AwayRows, away_table
from sidelight.errors import SourceError
from sidelight.testing import seeded_release

SCHEMA = [sl.Number("a", lower=-100, upper=300), sl.Number("b"), sl.Number("c", missing=sl.Fill(1))]
RNG = np.random.default_rng(5)
TURN = np.array([[9.0, 0, 0], [4, 2, 0], [-1, 1, 0.5]])
PUBLIC = RNG.normal(size=(12, 3)) @ TURN.T + [40, -7, 1]
NAMES = ["a", "b", "c"]
QUERIES: dict[str, Any] = {
    "fit": sl.GaussianFit(NAMES, prediction=PUBLIC, rho=1),
    "fit from two rows": sl.GaussianFit(NAMES, prediction=PUBLIC[:2], rho=1),
    "one column": sl.GaussianFit(["a"], prediction=PUBLIC[:, :1], rho=1),
    "mean": sl.GaussianMean(NAMES, prediction=PUBLIC[0], covariance=TURN @ TURN.T, rho=1),
    "mean of a range": sl.GaussianMean(NAMES, mean_bound=100, rho=1, steps=1),
    "no cells": sl.SeparatedMixture(
        NAMES, components=2, prediction=PUBLIC, rho=1, method="recursive", on_failure="single"
    ),
}


def cells(rows: int = 700) -> pa.Table:
    """Return rows with missing, infinite and very large numbers."""
    found = np.random.default_rng(6).normal(size=(rows, 3)) @ TURN.T + [40, -7, 1]
    found[::37, 0], found[1::41, 1], found[2::43, 2], found[3::97, 1] = np.nan, np.inf, np.nan, 1e300
    return pa.table({name: found[:, at] for at, name in enumerate(NAMES)} | {"who": [at % 300 for at in range(rows)]})


def shown(release: Any) -> str:
    value = getattr(release, "value", release)
    with np.printoptions(floatmode="unique", threshold=10**6):
        return str(dict(value)) if isinstance(value, dict) else repr(value)


@pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
@pytest.mark.parametrize("name", QUERIES)
def test_the_release_of_rows_in_memory(name: str, persons: bool) -> None:
    if persons and name == "no cells":
        pytest.skip("a mixture of persons wants its rows in memory")
    schema = [*SCHEMA, sl.PersonId("who", max_rows=2)] if persons else SCHEMA
    expected = shown(seeded_release(QUERIES[name], sl.Table(cells(), schema=schema), seed=2))
    for parts in (1, 7):
        table = away_table(cells(), schema, parts=parts)
        assert shown(seeded_release(QUERIES[name], table, seed=2)) == expected
        assert isinstance(table.rows, AwayRows)
        assert all(kept.dropped for kept in table.rows.kept)
        if name == "fit" and not persons:
            (kept,) = table.rows.kept
            assert kept.asked > 3  # all passes over what workers keep: the source is read once
            assert table.rows.asked == 0


def test_a_table_of_no_rows() -> None:
    none = cells().slice(0, 0)
    expected = shown(seeded_release(QUERIES["fit"], sl.Table(none, schema=SCHEMA), seed=2))
    assert shown(seeded_release(QUERIES["fit"], away_table(none, SCHEMA, parts=2), seed=2)) == expected


def test_many_rows_are_all_looked_at_for_the_same_guarantee() -> None:
    """Elsewhere coarse steps look at a sample from 65,536 rows on; here there is none, and the price is the same."""
    rows = np.random.default_rng(8).normal(size=(70_000, 3)) @ TURN.T + [40, -7, 1]
    many = pa.table({name: rows[:, at] for at, name in enumerate(NAMES)})
    here, there = (
        seeded_release(QUERIES["fit"], table, seed=3)
        for table in (sl.Table(many, schema=SCHEMA), away_table(many, SCHEMA, parts=2))
    )
    assert str(here.guarantee) == str(there.guarantee)
    for found in (here.value, there.value):
        np.testing.assert_allclose(found["mean"], [40, -7, 1], atol=0.5)
        np.testing.assert_allclose(found["covariance"], TURN @ TURN.T, atol=2)


@pytest.mark.parametrize(
    "query",
    [
        sl.GaussianFit(NAMES, mean_bound=100, variance_bound=500, rho=1),
        sl.GaussianFit(NAMES, prediction=PUBLIC, gap="0.1", rho=1),
    ],
    ids=["ranges", "gap"],
)
def test_pairs_are_refused_before_the_charge(query: Any) -> None:
    table = away_table(cells(), SCHEMA)
    session = sl.Session(table, budget=sl.ApproxDP(9, 1e-3))
    before = str(session.spent)
    with pytest.raises(SourceError, match=r"files, DuckDB and frames.*public rows.*Nothing was charged"):
        session.release(query)
    assert str(session.spent) == before
