"""A key is the text of its cell, whatever else its column is declared as, and whatever else a pass reads of it."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidelight as sl
from plain_statistics import made_rows
from sidelight.aggregates import cell_counts
from sidelight.records.cells import text_of
from sidelight.records.rows import Wanted
from sidelight.records.source_protocols import batches_with_keys

CELLS = {
    "number": [2**53 + 1, 2**53, 7],  # two whole numbers, one float
    "time": ["2024-01-05 10:01", "2024-01-05 10:02", "2024-01-06"],  # two times, one day
    "name": ["Ann", "ANN", "ann "],  # three texts, one label
    "value": [1.0, 2.0, 3.0],
}
KEYS = ("number", "time", "name")
SCHEMA = [
    sl.Key(*KEYS),
    sl.Number("number", lower=0, upper=2**60),
    sl.Date("time", start="2024-01-01", end="2024-12-31"),
    sl.Category("name", ["ann"], casefold=True, strip=True),
    sl.Number("value", lower=0, upper=9),
]


def _table() -> pa.Table:
    return pa.table(CELLS)


def _written(folder: Path, kind: str) -> str:
    if kind == "parquet":
        pq.write_table(_table(), folder / "rows.parquet")
    else:
        _table().to_pandas().to_csv(folder / "rows.csv", index=False)
    return str(folder / f"rows.{kind}")


SOURCES: dict[str, Any] = {
    "lists": lambda folder: CELLS,
    "numpy": lambda folder: {name: np.array(cells) for name, cells in CELLS.items()},
    "arrow": lambda folder: _table(),
    "batch": lambda folder: _table().to_batches()[0],
    "pandas": lambda folder: _table().to_pandas(),
    "pandas with arrow": lambda folder: _table().to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda folder: pl.from_arrow(_table()),
    "polars, lazy": lambda folder: pl.from_arrow(_table()).lazy(),
    "duckdb": lambda folder: duckdb.connect().from_arrow(_table()),
    "series": lambda folder: dict(_table().to_pandas().items()),
    "arrow columns": lambda folder: {name: _table()[name] for name in CELLS},
    "parquet": lambda folder: _written(folder, "parquet"),
    "csv": lambda folder: _written(folder, "csv"),
}


@pytest.mark.parametrize("source", SOURCES)
def test_keys_are_the_texts_of_their_cells(source, tmp_path):
    """With every combination of the same columns as numbers, dates and labels."""
    rows = sl.Table(SOURCES[source](tmp_path), schema=SCHEMA, public=True).rows
    wanted = sorted(zip(map(str, CELLS["number"]), CELLS["time"], CELLS["name"], strict=True))
    for size in range(4):
        for read in combinations(KEYS, size):
            numbers = tuple(name for name in read if name != "name")
            texts = tuple(name for name in read if name == "name")
            found = []
            for batch in batches_with_keys(rows, Wanted(keys=KEYS, numbers=("value", *numbers), texts=texts)):
                columns = [[str(cell) for cell in batch.keys[name].tolist()] for name in KEYS]
                found += list(zip(*columns, strict=True))
                assert all(set(batch.texts[name].tolist()) == {"ann"} for name in texts)
            assert sorted(found) == wanted, read


@pytest.mark.parametrize("frames", ["pandas", "polars", "lists"])
def test_the_rows_of_one_person_take_none_of_others(frames):
    """Times of orders are their keys, and dates: as days, one person's would meet everybody's of the same day."""
    days = [f"2024-01-{day:02d}" for day in range(1, 21)]
    others = [(f"q{place}", f"{day} 10:{place:02d}") for place, day in enumerate(days)]
    own = [("p", f"{day} 23:59") for day in days]
    made = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lists": dict}[frames]
    date = sl.Date("at", start="2024-01-01", end="2024-12-31")
    counts = []
    for orders in (others, others + own):
        persons, times = ([row[place] for row in orders] for place in (0, 1))
        head = sl.Table(
            made({"who": persons, "at": times}), schema=[sl.PersonId("who", max_rows=1), sl.Key("at"), date]
        )
        lines = sl.Table(made({"at": times}), schema=[sl.PersonVia("at", to="orders", max_rows=1), date])
        window = sl.Window("month", start="2024-01", end="2024-12", dates={"orders": "at"})
        shop = sl.Database({"orders": head, "lines": lines}, name="shop", window=window)
        counts.append(made_rows(shop.view("lines")).length)
    assert counts == [20, 40]


def _ids(spelled: list[str]) -> dict[str, Any]:
    return {"who": [Decimal(text) for text in spelled], "ward": ["a", "b"] * (len(spelled) // 2)}


@pytest.mark.parametrize("frame", [dict, pd.DataFrame])
def test_ids_that_are_decimals_are_not_rounded(frame):
    """Two ids that round to one float were one person, whose cap they shared."""
    schema = [sl.PersonId("who", max_rows=2), sl.Category("ward", ["a", "b"])]
    one = ["1790000000000000001"] * 2
    both = [*one, *["1790000000000000099"] * 2]
    counts = [cell_counts(sl.Table(frame(_ids(ids)), schema=schema), ["ward"]).value for ids in (one, both)]
    assert [int(np.sum(each)) for each in counts] == [2, 4]


def test_texts_of_decimals_and_long_floats():
    equal = [("7", "7.000"), ("1.5", "1.50"), ("1e400", "10e399"), ("0", "-0"), ("1e9999", "10e9998"), ("0.1", "0.10")]
    for one, other in equal:
        assert text_of(Decimal(one)) == text_of(Decimal(other))
    apart = [
        "1790000000000000001",
        "1790000000000000000",
        "0.1",
        "0.10000000000000000000001",
        "1e400",
        "1e401",
        "1e-400",
    ]
    apart += ["9007199254740993", "-9007199254740993", "123456789012345678901234567890.5", "1e9999", "1e-9999", "0"]
    assert len({text_of(Decimal(text)) for text in apart}) == len(apart)
    assert [text_of(Decimal(text)) for text in ("7", "1.5", "1790000000000000001")] == [
        "7",
        "1.5",
        "1790000000000000001",
    ]
    large = np.longdouble(2) ** 60
    if large + 1 != large:  # where these have more bits than a float
        assert text_of(large + 1) == str(2**60 + 1)
    assert text_of(np.longdouble(1.5)) == "1.5"
