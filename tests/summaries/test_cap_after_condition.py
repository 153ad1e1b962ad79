"""Caps after conditions, on every source: all 3 matching rows out of 10 count."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.temporary_postgres import NoServerError, temporary_server

import sidelight as sl

#: Ten rows of one person; three of them are cheap, long and in ward "x".
CELLS: dict[str, list[Any]] = {
    "who": ["ann"] * 10,
    "cost": [9, 1, 9, 9, 2, 9, 9, 9, 3, 9],
    "days": [1, 7, 1, 1, 8, 1, 2, 1, 9, 2],
    "ward": ["y", "x", "y", "y", "x", "z", "y", "y", "x", "y"],
    "day": [f"2024-0{1 + (place in (1, 4, 8))}-{10 + place}" for place in range(10)],
}
SCHEMA = [
    sl.PersonId("who", max_rows=3),
    sl.Number("cost", lower=0, upper=9, granularity=1),
    sl.Number("days", lower=0, upper=9, granularity=1),
    sl.Category("ward", ["x", "y", "z"]),
    sl.Date("day", start="2024-01-01", end="2024-12-31"),
]
#: Each keeps the three rows.
CONDITIONS = (
    "cost <= 3",
    "cost < 4",
    "NOT cost > 3",
    "cost <> 9",
    "cost IN (1, 2, 3)",
    "cost NOT IN (9)",
    "cost BETWEEN 1 AND 3",
    "days >= 7",
    "days > cost",
    "cost + days > 7 AND cost < 9",
    "cost * 2 <= 6",
    "ward = 'x'",
    "ward IN ('x', 'other')",
    "ward <> 'y' AND ward <> 'z'",
    "NOT (ward = 'y' OR ward = 'z')",
    "ward = 'x' AND days >= 7",
    "ward = 'x' OR cost = 1",
    "cost IS NOT NULL AND ward = 'x'",
    "day >= DATE '2024-02-01'",
    "day BETWEEN DATE '2024-02-01' AND DATE '2024-02-29'",
    "CASE WHEN ward = 'x' THEN 1 ELSE 0 END = 1",
)


def _arrow() -> pa.Table:
    return pa.table(CELLS)


def _parquet(folder: Path) -> Path:
    pq.write_table(_arrow(), folder / "rows.parquet")
    return folder / "rows.parquet"


def _csv(folder: Path) -> Path:
    pd.DataFrame(CELLS).to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "lists": lambda _: CELLS,
    "pandas": lambda _: pd.DataFrame(CELLS),
    "polars": lambda _: pl.DataFrame(CELLS),
    "polars, lazily": lambda _: pl.LazyFrame(CELLS),
    "arrow": lambda _: _arrow(),
    "csv": _csv,
    "parquet": _parquet,
    "duckdb": lambda folder: duckdb.sql(f"SELECT * FROM '{_parquet(folder)}'"),
}


def counted(session: sl.Session, statement: str) -> int:
    """Return a count at a price at which noise is nothing: the scale is below a thousandth of a row."""
    return round(float(session.sql(statement, epsilon=10_000, max_groups=3, max_rows_per_group=3).value["n"][0]))


def test_three_of_ten_rows_count_in_postgres() -> None:
    driver = pytest.importorskip("adbc_driver_postgresql.dbapi")
    try:
        with temporary_server() as server, driver.connect(server.address) as connection:
            with connection.cursor() as cursor:
                cursor.execute('CREATE TABLE visit (who text, cost int, days int, ward text, "day" date)')
                for who, cost, days, ward, day in zip(*CELLS.values(), strict=True):
                    cursor.execute(f"INSERT INTO visit VALUES ('{who}', {cost}, {days}, '{ward}', '{day}')")
            connection.commit()
            check(sl.Table(server.address, schema=SCHEMA, name="visit", table="visit"))
            gc.collect()  # a table holds a connection as long as it lives
    except NoServerError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


@pytest.mark.parametrize("name", SOURCES)
def test_three_of_ten_rows_count(name: str, tmp_path: Path) -> None:
    """A cap before the condition would keep three of ten rows, and seldom the three that match."""
    check(sl.Table(SOURCES[name](tmp_path), schema=SCHEMA, name="visit"))


def check(table: sl.Table) -> None:
    session = sl.Session(table, budget=sl.PureDP(900_000))
    for condition in CONDITIONS:
        assert counted(session, f"SELECT COUNT(*) AS n FROM visit WHERE {condition}") == 3, condition
    assert counted(session, "SELECT COUNT(*) AS n FROM visit") == 3  # capped
    assert counted(session, "SELECT COUNT(*) AS n FROM visit WHERE ward = 'z'") == 1


@pytest.mark.parametrize("name", SOURCES)
def test_three_of_ten_rows_of_a_view_count(name: str, tmp_path: Path) -> None:
    """The same in a database, where a condition may be on a looked-up column."""
    visit = sl.Table(SOURCES[name](tmp_path), schema=[*SCHEMA, sl.Reference("ward", to="ward")], name="visit")
    ward = sl.Table(
        {"ward": ["x", "y", "z"], "floor": ["1", "2", "2"]},
        schema=[sl.Key("ward"), sl.Category("floor", ["1", "2"])],
        public=True,
    )
    session = sl.Session(sl.Database({"visit": visit, "ward": ward}, name="clinic"), budget=sl.PureDP(900_000))
    for condition in CONDITIONS[::5]:
        assert counted(session, f"SELECT COUNT(*) AS n FROM visit WHERE {condition}") == 3, condition
    joined = "SELECT COUNT(*) AS n FROM visit v JOIN ward w ON v.ward = w.ward WHERE w.floor = '1'"
    assert counted(session, joined) == 3


def test_rows_capped_before_the_condition_would_give_other_numbers() -> None:
    """With three rows of ten kept before the condition the numbers are others."""
    kept = {name: cells[:3] for name, cells in CELLS.items()}
    session = sl.Session(sl.Table(kept, schema=SCHEMA, name="visit"), budget=sl.PureDP(900_000))
    assert {counted(session, f"SELECT COUNT(*) AS n FROM visit WHERE {each}") for each in CONDITIONS} == {1}
