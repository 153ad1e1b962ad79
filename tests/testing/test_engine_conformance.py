"""The conformance kit on every engine there is, quick here and long in the audits; and it finds engines with a bug."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from sidelight.errors import ConformanceError
from sidelight.testing import EngineTable, engine_conformance

TYPES = {"float": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(), "text": pa.string()}
PANDAS = {"float": "Float64", "integer": "Int64", "boolean": "boolean", "text": "string"}
GRADE = ds.partitioning(pa.schema([("grade", pa.string())]), flavor="hive")
_NUMBER = itertools.count()


def arrow(table: EngineTable, part: Any = None) -> pa.Table:
    cells = table.columns if part is None else part
    return pa.table({name: pa.array(cells[name], TYPES[kind]) for name, kind in table.kinds.items()})


def chunks(table: EngineTable) -> pa.Table:
    return pa.concat_tables([arrow(table, part) for part in table.parts])


def new_folder(folder: Path) -> Path:
    place = folder / str(next(_NUMBER))
    place.mkdir()
    return place


def files(table: EngineTable, folder: Path) -> Path:
    place = new_folder(folder)
    for number, part in enumerate(table.parts):
        pq.write_table(arrow(table, part), place / f"{number:04}.parquet", row_group_size=16)
    return place


def texts(table: EngineTable, folder: Path) -> Path:
    def cell(value: Any) -> str:
        if value is None:
            return ""
        return (
            str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)
        )

    place = new_folder(folder)
    for number, part in enumerate(table.parts):
        with open(place / f"{number:04}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table.kinds)
            writer.writerows([cell(each) for each in row] for row in zip(*part.values(), strict=True))
    return place


def hive(table: EngineTable, folder: Path) -> Path:
    """The grade is in the names of folders."""
    place = new_folder(folder)
    for number, part in enumerate(table.parts):
        for grade in {*part["grade"]} or {None}:
            kept = [at for at, each in enumerate(part["grade"]) if each == grade]
            rows = arrow(table, part).take(pa.array(kept, pa.int64())).drop_columns(["grade"])
            within = place / f"grade={'__HIVE_DEFAULT_PARTITION__' if grade is None else grade}"
            within.mkdir(exist_ok=True)
            pq.write_table(rows, within / f"{number}.parquet")
    return place


def database(table: EngineTable, folder: Path) -> Path:
    rows = chunks(table)
    path = new_folder(folder) / "t.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT * FROM rows")
    del rows
    return path


class Stream:
    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def arrays(table: EngineTable) -> dict[str, Any]:
    """Typed arrays where a type of NumPy holds all cells."""
    cells = table.columns
    floats = [name for name, kind in table.kinds.items() if kind == "float"]
    return cells | {name: np.array([math.nan if x is None else x for x in cells[name]], np.float64) for name in floats}


ENGINES: dict[str, Callable[[EngineTable, Path], Any]] = {
    "numpy": lambda table, folder: arrays(table),
    "pandas": lambda table, folder: pd.DataFrame(
        {name: pd.array(cells, PANDAS[table.kinds[name]]) for name, cells in table.columns.items()}
    ),
    "pandas_arrow": lambda table, folder: chunks(table).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda table, folder: pl.from_arrow(chunks(table)),
    "polars_lazy": lambda table, folder: pl.from_arrow(chunks(table)).lazy(),
    "polars_parquet": lambda table, folder: pl.scan_parquet(files(table, folder) / "*.parquet"),
    "arrow": lambda table, folder: chunks(table),
    "arrow_dataset": lambda table, folder: ds.dataset(files(table, folder)),
    "arrow_hive": lambda table, folder: ds.dataset(hive(table, folder), partitioning=GRADE),
    "arrow_stream": lambda table, folder: Stream(chunks(table)),
    "duckdb": lambda table, folder: duckdb.connect().from_arrow(chunks(table)),
    "duckdb_file": lambda table, folder: duckdb.connect(database(table, folder), read_only=True).table("t"),
    "csv": texts,
    "parquet": lambda table, folder: str(files(table, folder) / "*.parquet"),
    "folder": files,
    "hive": hive,
}


@pytest.mark.parametrize("name", ENGINES)
def test_quickly(name: str, tmp_path: Path) -> None:
    quick = name not in ("numpy", "polars")
    assert engine_conformance(lambda table: ENGINES[name](table, tmp_path), rows=60, partitions=(3,), quick=quick) >= (
        27 if quick else 80
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_at_length(name: str, tmp_path: Path) -> None:
    found = engine_conformance(lambda table: ENGINES[name](table, tmp_path), rows=600, partitions=(1, 7, 200), seeds=2)
    assert found > 350  # 374 where rows are read in one way only, as NumPy's are


def changed(table: EngineTable, **columns: Callable[[Any], Any]) -> dict[str, list[Any]]:
    cells = table.columns
    return cells | {name: [change(cell) for cell in cells[name]] for name, change in columns.items()}


def lost(table: EngineTable, parts: Any) -> dict[str, list[Any]]:
    return {name: [cell for part in parts for cell in part[name]] for name in table.kinds}


BUGS: dict[str, Callable[[EngineTable], Any]] = {
    "NaN is 0": lambda table: changed(table, x=lambda x: 0.0 if x is not None and math.isnan(x) else x),
    "infinities are missing": lambda table: changed(table, x=lambda x: None if x in (math.inf, -math.inf) else x),
    "subnormal numbers are 0, negative ones are not": lambda table: changed(
        table, x=lambda x: -1.0 if x == 5e-324 else x
    ),
    "whole numbers are floats": lambda table: changed(table, number=lambda n: None if n is None else int(float(n))),
    "labels are stripped": lambda table: changed(table, label=lambda t: None if t is None else t.strip()),
    "labels are normalised": lambda table: changed(table, label=lambda t: "é" if t == "e\u0301" else t),
    "ids are numbers": lambda table: changed(table, who=lambda t: t.lstrip("0") if t else t),
    "a partition is lost": lambda table: lost(table, table.parts[:-1]),
    "a retried partition counts twice": lambda table: lost(
        table, [*table.parts, *(table.parts[place] for place in table.retried)]
    ),
    "a label of a line break ends the row": lambda table: changed(table, label=lambda t: t.split("\n")[0] if t else t),
}


@pytest.mark.planted("an engine that counts differently")
@pytest.mark.parametrize("name", BUGS)
def test_an_engine_with_a_bug_is_found(name: str) -> None:
    with pytest.raises(ConformanceError, match="plain lists"):
        engine_conformance(BUGS[name], rows=150, partitions=(7,), seeds=2)
