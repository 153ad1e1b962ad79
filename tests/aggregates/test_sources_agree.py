"""Every source gives the integers of plain Python: conditions, constants, collations, odd cells and decimals."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from benchmarks.audit_engines import Tally, compare_odd_cells, compare_source, condition, rows_of, sources_of

import sidelight as sl
from plain_statistics import clipped_sum
from sidelight.aggregates import cell_counts
from sidelight.errors import RangeError, SchemaError
from sidelight.records import Schema
from sidelight.testing import seeded_release
from sidelight.testing.conformance import _statistics, engine_tables

ROWS = rows_of(40, seed=2)
NAMES = ("lists", "lists of texts", "NumPy", "pandas", "Polars", "Polars lazy", "Arrow", "CSV", "Parquet")
NAMES += ("DuckDB relation", "DuckDB with settings", "DuckDB file")


@pytest.mark.parametrize("name", NAMES)
def test_a_source_agrees_with_plain_python(name: str, tmp_path: Path) -> None:
    chance, tally = random.Random(3), Tally()
    given = dict(sources_of(ROWS, tmp_path))[name]
    compare_source(tally, name, given, ROWS, [condition(chance) for _ in range(8)])
    assert tally.differing == 0
    assert tally.compared > 4


def test_odd_texts_are_numbers_by_one_rule(tmp_path: Path) -> None:
    tally = Tally()
    compare_odd_cells(tally, tmp_path)
    assert tally.differing == 0
    assert tally.compared > 150


@pytest.mark.parametrize("preferred", ["nothing", "a name", "an object"])
def test_polars_runs_in_memory_whatever_it_prefers(preferred: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars 2 streams by default, and has engines as objects, which are not kept in the environment."""
    if preferred == "an object" and not hasattr(pl, "StreamingEngine"):
        pytest.skip("this version of Polars has no engines as objects")
    engines, collect = [], pl.LazyFrame.collect

    def spy(frame: pl.LazyFrame, **options: Any) -> Any:
        engines.append(options.get("engine"))
        return collect(frame, **options)

    frame = pl.LazyFrame({"place": ["low", "high"], "n": [1.0, 2.0]})
    monkeypatch.setattr(pl.LazyFrame, "collect", spy)
    choice = {"nothing": None, "a name": "streaming"}
    with pl.Config(engine_affinity=choice[preferred] if preferred in choice else pl.StreamingEngine()):
        table = sl.Table(frame, schema=[sl.Category("place", ["low"]), sl.Number("n", lower=0, upper=4)])
        for lowering in ("batches", "engine"):
            cell_counts(table, ["place"], lowering=lowering)
            clipped_sum(table, "n", step=1, lowering=lowering)
    assert engines == ["in-memory"] * 4


PRICES = [0.1, 0.2, 0.3, 0.7] * 1000
EXPECTED = {
    "price = 0.1": 1000,
    "price <= 0.1": 1000,
    "price < 0.3": 2000,
    "price >= 0.7": 1000,
    "price IN (0.1, 0.2)": 2000,
    "price <> 0.3": 3000,
    "price > 0.2": 2000,
}


def priced(kind: str) -> sl.Table:
    """Return 4,000 prices as floats or as decimals."""
    source: Any = {"price": np.array(PRICES)}
    if kind == "decimals":
        source = {"price": [Decimal(str(price)) for price in PRICES]}
    if kind == "DECIMAL":
        source = duckdb.connect().from_df(pd.DataFrame({"price": PRICES})).project("price::DECIMAL(9, 2) AS price")
    return sl.Table(source, schema=[sl.Number("price", lower=0, upper=1)], name="t")


@pytest.mark.parametrize("kind", ["floats", "decimals", "DECIMAL"])
def test_everyday_prices_are_counted_where_they_are(kind: str) -> None:
    table = priced(kind)
    for text, count in EXPECTED.items():
        query = sl.SQL(f"SELECT COUNT(*) AS n FROM t WHERE {text}", epsilon=60)
        assert seeded_release(query, table, seed=1).value["n"][0] == count
    bins = sl.Histogram("price", bins=["0", "0.1", "0.3", "0.7", "1"], outside="drop", epsilon=60)
    assert list(seeded_release(bins, table, seed=1).value["count"]) == [0, 2000, 1000, 1000]
    assert list(seeded_release(sl.Histogram("price", bins=10, epsilon=60), table, seed=1).value["count"]) == [
        *(0, 1000, 1000, 1000, 0, 0, 0, 1000, 0, 0)
    ]


def test_private_bins_begin_where_they_say() -> None:
    release = seeded_release(sl.Histogram("price", bins=("private", 4), epsilon=60), priced("floats"), seed=1)
    label, count = list(release.value["price"])[-1], list(release.value["count"])[-1]
    edge = float(label.removesuffix(" and above"))
    assert count == sum(price >= edge for price in PRICES)


def test_edges_and_keys_that_are_one_float_are_refused() -> None:
    schema = Schema([sl.Number("x", lower=0, upper=1)])
    close = ["0.1", "0.1000000000000000000001"]
    with pytest.raises(RangeError, match="increasing"):
        sl.col("x").cut([Decimal(each) for each in close]).check(schema)
    with pytest.raises(SchemaError, match="twice"):
        sl.col("x").lookup({Decimal(each): "a" for each in close}).check(schema)


def test_the_kit_has_a_query_that_needs_no_column() -> None:
    trial = next(iter(engine_tables(rows=20, seed=0, partitions=(1,), quick=True)))
    found = dict(_statistics(sl.Table(trial.columns, schema=trial.schema), "batches"))
    assert found["sum of a constant"][0] == found["rows"] > 0
