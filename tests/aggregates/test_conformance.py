"""The same rows give the same integers on every engine and by both lowerings: the proof obligation of the design.

Rows hold what breaks engines: NaN, null, infinities, 1e300, values out of range, negative zero, halves, integers beyond
2**53, empty text, unknown labels, text that is not a number, persons with many rows, and no rows at all.
"""

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plain_statistics import clipped_sum, grid_counts, row_count
from sidelight.aggregates import cell_counts, clipped_moments, collect_ranks
from sidelight.grid import Grid
from sidelight.noise import Source
from sidelight.records import Category, Drop, Fill, Number, PersonId, Table
from sidelight.testing import SeededEntropy

NASTY = [
    1.5,
    -2.5,
    math.nan,
    None,
    math.inf,
    -math.inf,
    1e300,
    -1e300,
    -0.0,
    0.0,
    5e-324,
    0.49999999999999994,
    2.5,
    0.29,
    97.0,
    1e15,
    -7.25,
]
LABELS = ["F", "M", "", None, "X", "F", "éa", "F "]
PEOPLE = ["ann", "bob", "ann", None, "cy", "ann", "", "dé", "ann", "bob"]
BIG = [1, -3, None, 2**53 + 1, 7, 0, -(2**62), 5]


def rows(count):
    generator = np.random.default_rng(5)
    extra = [None if place % 97 == 0 else float(value) for place, value in enumerate(generator.normal(0, 60, count))]
    number = (NASTY + extra)[:count]
    return {
        "x": number,
        "y": [
            None if (place * 7) % 31 == 3 else math.nan if place % 29 == 4 else (place * 37 % 101) / 8 - 5
            for place in range(len(number))
        ],
        "big": [BIG[place % len(BIG)] for place in range(len(number))],
        "sex": [LABELS[place % len(LABELS)] for place in range(len(number))],
        "flag": [[True, None, False][place % 3] for place in range(len(number))],
        "grade": [[1, 2, None, 9][(place // 2) % 4] for place in range(len(number))],
        "who": [PEOPLE[(place * place + place // 3) % len(PEOPLE)] for place in range(len(number))],
    }


TYPES = {
    "x": pa.float64(),
    "y": pa.float64(),
    "big": pa.int64(),
    "sex": pa.string(),
    "flag": pa.bool_(),
    "grade": pa.int32(),
    "who": pa.string(),
}


def arrow(count):
    return pa.table({name: pa.array(cells, TYPES[name]) for name, cells in rows(count).items()})


def as_numpy(count, folder):
    columns = {}
    for name, cells in rows(count).items():
        if name in ("x", "y"):
            columns[name] = np.array([math.nan if cell is None else cell for cell in cells], np.float64)
        else:
            columns[name] = cells
    return columns


def as_csv(count, folder):
    """Written by hand: Arrow's writer would quote every text."""
    path = folder / "rows.csv"
    table = rows(count)

    def cell(value):
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        text = repr(value) if isinstance(value, float) else str(value)
        return '"' + text + '"' if " " in text else text

    lines = [",".join(cell(table[name][place]) for name in table) for place in range(len(table["x"]))]
    path.write_text("\n".join([",".join(table), *lines]) + "\n", encoding="utf-8")
    return str(path)


def as_parquet(count, folder):
    pq.write_table(arrow(count), folder / "rows.parquet", row_group_size=100)
    return folder / "rows.parquet"


SOURCES = {
    "numpy": as_numpy,
    "pandas": lambda count, folder: arrow(count).to_pandas(),
    "pandas_nullable": lambda count, folder: pd.DataFrame(
        {
            name: pd.array(column.to_pylist(), dtype=dtype)
            for (name, dtype), column in zip(PANDAS.items(), arrow(count).columns, strict=True)
        }
    ),
    "pandas_arrow": lambda count, folder: arrow(count).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda count, folder: pl.from_arrow(arrow(count)),
    "polars_lazy": lambda count, folder: pl.from_arrow(arrow(count)).lazy(),
    "arrow": lambda count, folder: arrow(count),
    "duckdb": lambda count, folder: duckdb.connect().from_arrow(arrow(count)),
    "csv": as_csv,
    "parquet": as_parquet,
    "duckdb_parquet": lambda count, folder: duckdb.connect().read_parquet(str(as_parquet(count, folder))),
    "polars_parquet": lambda count, folder: pl.scan_parquet(as_parquet(count, folder)),
}
PANDAS = {
    "x": "Float64",
    "y": "Float64",
    "big": "Int64",
    "sex": "string",
    "flag": "boolean",
    "grade": "Int32",
    "who": "string",
}

# pandas turns a column of integers with a null into floats, and such a column cannot be a category.
SCHEMA = [
    Number("x", lower="-50.3", upper=97, missing=Drop()),
    Number("y", missing=Fill("1.5")),
    Number("big"),
    Category("sex", ["F", "M", "éa"]),
    Category("flag", [True, False], other=None, missing=Drop()),
]
GRADE = Category("grade", [1, 2], missing=Fill(2))


def statistics(table, lowering):
    """Every statistic, as plain integers."""
    found = {
        "grid": grid_counts(
            table, "x", Grid(resolution=Fraction("0.7"), first=-80, last=150), lowering=lowering
        ).value.tolist(),
        "nearest": grid_counts(
            table, "y", Grid(resolution=Fraction(1, 4), first=-9, last=33, snap="nearest"), lowering=lowering
        ).value.tolist(),
        "odd": grid_counts(
            table, "x", Grid(resolution=Fraction(3), first=-20, last=40), lowering=lowering
        ).value.tolist(),
        "big": grid_counts(
            table, "big", Grid(resolution=Fraction(2**53, 3), first=-8, last=8), lowering=lowering
        ).value.tolist(),
        "cells": cell_counts(table, ["sex", "flag"], lowering=lowering).value.tolist(),
        "mixed": cell_counts(
            table, ["sex", "y"], grids={"y": Grid(resolution=Fraction(5), first=-2, last=3)}, lowering=lowering
        ).value.tolist(),
        "rows": row_count(table, lowering=lowering).value,
        "sum": clipped_sum(table, "x", step="0.001", lowering=lowering).value,
    }
    for levels in (1, 2**14):
        moments = clipped_moments(
            table, ["x", "y", "big"], radius="61.7", levels=levels, centres={"x": "0.1"}, lowering=lowering
        )
        found[f"moments{levels}"] = (moments.count.value, moments.total.value.tolist(), moments.second.value.tolist())
    return found


def ranks_of(table):
    """Both representations of ranks, with the dither of a fixed seed."""
    found = []
    for grid in (Grid(resolution=Fraction(1, 2**30)), Grid(resolution=Fraction(1), snap="nearest")):
        with Source(SeededEntropy("conformance")) as source:
            ranks = collect_ranks(table, "x", grid, source)
            found.append([ranks.size, *(ranks.order(k) for k in range(1, ranks.size + 1))])
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("conformance")


_REFERENCE = {}


def reference(count, person, folder):
    key = (count, person is not None)
    if key not in _REFERENCE:
        table = Table(as_numpy(count, folder), schema=[*SCHEMA, *([person] if person else [])])
        _REFERENCE[key] = (statistics(table, "batches"), ranks_of(table))
    return _REFERENCE[key]


@pytest.mark.parametrize("person", [None, PersonId("who", max_rows=3)], ids=["rows", "persons"])
@pytest.mark.parametrize("count", [0, 400])
@pytest.mark.parametrize("name", list(SOURCES))
def test_every_engine_gives_the_same_integers(name, count, person, folder):
    table = Table(SOURCES[name](count, folder), schema=[*SCHEMA, *([person] if person else [])])
    expected, expected_ranks = reference(count, person, folder)
    if person is None or table.rows.length is not None:  # elsewhere the engine caps persons in either case
        assert statistics(table, "batches") == expected
    if name != "numpy":
        assert statistics(table, "engine") == expected
    assert ranks_of(table) == expected_ranks


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "pandas"])
def test_whole_number_categories(name, folder):
    table = Table(SOURCES[name](40, folder), schema=[GRADE])
    for lowering in ("batches",) if name == "numpy" else ("batches", "engine"):
        assert cell_counts(table, ["grade"], lowering=lowering).value.tolist() == [10, 20, 10]


def test_the_reference_itself_is_right():
    """Against plain Python with exact fractions, without the person cap."""
    table = rows(400)
    grid = Grid(resolution=Fraction("0.7"), first=-80, last=150)
    counts = [0] * (grid.last - grid.first + 1)
    total = 0
    for value in table["x"]:
        if value is None or math.isnan(value):
            continue
        exact = min(
            max(
                Fraction(value) if math.isfinite(value) else Fraction(10**9 if value > 0 else -(10**9)),
                Fraction("-50.3"),
            ),
            Fraction(97),
        )
        counts[min(max(math.floor(exact / grid.resolution), grid.first), grid.last) - grid.first] += 1
        total += math.floor(exact / Fraction(1, 1000) + Fraction(1, 2))
    found = statistics(Table(as_numpy(400, None), schema=SCHEMA), "batches")
    assert found["grid"] == counts
    assert found["sum"] == total
    assert found["rows"] == 400


FROM_METADATA = ["parquet", "duckdb_parquet", "polars_parquet"]


@pytest.mark.parametrize("person", [None, PersonId("p", max_rows=2)], ids=["rows", "persons"])
@pytest.mark.parametrize("missing", [Drop(), Fill(1)], ids=["drop", "fill"])
@pytest.mark.parametrize("name", FROM_METADATA)
def test_nan_is_missing_whatever_the_metadata_of_a_file_say(name, missing, person, tmp_path):
    """The least and largest value in a Parquet file's metadata leave NaN out, and DuckDB decides `isnan` by them.

    Without infinities and nulls in the column; with them, DuckDB happens to look at the rows.
    """
    path = tmp_path / "t.parquet"
    columns = {"x": [2.0, math.nan, 3.0, math.nan], "f": pa.array([2.0, math.nan, 3.0, math.nan], pa.float32())}
    pq.write_table(pa.table({**columns, "p": ["a", "b", "c", "d"], "c": ["u"] * 4}), path)
    source = {
        "parquet": lambda: path,
        "duckdb_parquet": lambda: duckdb.connect().read_parquet(str(path)),
        "polars_parquet": lambda: pl.scan_parquet(path),
    }[name]()
    for column in ("x", "f"):
        number = Number(column, lower=0, upper=9, missing=missing)
        table = Table(source, schema=[number, Category("c", ["u"]), *([person] if person else [])])
        filled = 2 if missing == Fill(1) else 0
        assert clipped_sum(table, column, step=1).value == 5 + filled  # one of both, whichever is chosen
        for lowering in ("batches", "engine"):
            assert clipped_sum(table, column, step=1, lowering=lowering).value == 5 + filled
            grid = Grid(resolution=Fraction(1), first=0, last=9)
            assert grid_counts(table, column, grid, lowering=lowering).value.tolist() == [0, filled, 1, 1] + [0] * 6
            assert cell_counts(table, ["c", column], grids={column: grid}, lowering=lowering).value.sum() == 2 + filled
            assert clipped_moments(table, [column], radius=9, levels=9, lowering=lowering).total.value == 5 + filled
        with Source(SeededEntropy(0)) as entropy:
            for step in (Fraction(1), Fraction(1, 2**30)):
                assert collect_ranks(table, column, Grid(resolution=step, snap="nearest"), entropy).size == 2 + filled
