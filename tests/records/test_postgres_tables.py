"""A table of PostgreSQL gives the release of the same rows in memory; no cell fails one, and no address is shown."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.temporary_postgres import NoServerError, temporary_server

import sidelight as sl
from sidelight.aggregates import row_count
from sidelight.errors import SchemaError, SourceError
from sidelight.records.rows import Wanted
from sidelight.testing import EngineTable, engine_conformance, seeded_release

pytestmark = pytest.mark.postgres
driver = pytest.importorskip(
    "adbc_driver_postgresql.dbapi", reason="ADBC is not installed: pip install 'sidelight[postgres-tables]'"
)
_TYPES = {"float": "float8", "integer": "int8", "boolean": "bool", "text": "text"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    given = os.environ.get("SIDELIGHT_TEST_POSTGRES")
    if given:
        yield given
        return
    try:
        with temporary_server() as server:
            yield server.address
            gc.collect()  # a table holds a connection as long as it lives
    except NoServerError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


@pytest.fixture
def run(address: str) -> Iterator[Any]:
    with driver.connect(address) as connection, connection.cursor() as cursor:

        def run(*statements: str) -> None:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

        run("DROP SCHEMA IF EXISTS tried CASCADE", "CREATE SCHEMA tried")
        yield run


def test_the_integers_and_releases_of_plain_lists(address: str, run: Any) -> None:
    kinds = {"float": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(), "text": pa.string()}
    made = iter(range(10**6))

    def open_table(table: EngineTable) -> Any:
        name = f"t{next(made)}"
        columns = ", ".join(f'"{column}" {_TYPES[kind]}' for column, kind in table.kinds.items())
        run(f'CREATE TABLE tried."{name}" ({columns})')
        data = pa.table({column: pa.array(table.columns[column], kinds[kind]) for column, kind in table.kinds.items()})
        with driver.connect(address) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(name, data, mode="append", db_schema_name="tried")
            connection.commit()
        return sl.Table(address, table=f"tried.{name}", schema=table.schema)

    assert engine_conformance(open_table, rows=30, partitions=(1,), quick=True) > 20


SCHEMA = [
    sl.Number("n", lower=-100, upper=100),
    sl.Number("x", lower=0, upper=10),
    sl.Category("c", ["a", "b"]),
    sl.Date("d", start="2020-01-01", end="2025-12-31"),
    sl.Date("t", start="2020-01-01", end="2025-12-31"),
    sl.Date("z", start="2020-01-01", end="2025-12-31"),
]


def test_what_no_float_and_no_calendar_holds(address: str, run: Any) -> None:
    """Decimals of any size, NaN, infinities, the ends of time; each cell by itself, and none fails."""
    run(
        "CREATE TYPE tried.letter AS ENUM ('a', 'b')",
        'CREATE TABLE tried."Odd ""one""" (n numeric, x float4, c tried.letter, d date, t timestamp, z timestamptz)',
        'INSERT INTO tried."Odd ""one""" VALUES (\'NaN\', \'NaN\', NULL, NULL, NULL, NULL), '
        "(1e400, 'Infinity', 'a', 'infinity', 'infinity', 'infinity'), "
        "(-1e400, '-Infinity', 'b', '-infinity', '-infinity', '-infinity'), "
        "(1e-400, 1.5, 'a', '5874897-01-01', '294276-12-31', '294276-12-31 00:00+00'), "
        "(12.34, 2.5, 'b', '2024-01-31', '2024-01-31 23:00', '2024-01-31 23:00-02')",
    )
    table = sl.Table(address, table='tried.Odd "one"', schema=SCHEMA)
    assert table.engine == "postgres"
    assert table.name == 'tried.Odd "one"'
    last = date(2025, 12, 31).toordinal() - date(2020, 1, 1).toordinal()
    start = date(2024, 1, 31).toordinal() - date(2020, 1, 1).toordinal()
    wanted = {"n": [math.nan, 100, -100, 0, 12.34], "x": [math.nan, 10, 0, 1.5, 2.5], "c": [None, "a", "b", "a", "b"]}
    wanted |= {name: [None, last, 0, last, start + (name == "z")] for name in "dtz"}
    (batch,) = table.rows.batches(Wanted(numbers=("n", "x", "d", "t", "z")))
    for name, cells in wanted.items():
        if name != "c":
            low, high = (-100, 100) if name == "n" else (0, 10) if name == "x" else (0, last)
            np.testing.assert_array_equal(np.clip(batch.numbers[name], low, high), np.array(cells, float))
    plain = sl.Table({"c": wanted["c"]}, schema=[SCHEMA[2]])
    counted = [seeded_release(sl.Count(by="c", epsilon=1), each, seed=2).value for each in (table, plain)]
    assert str(counted[0]) == str(counted[1])


def test_every_pass_reads_one_snapshot(address: str, run: Any) -> None:
    run("CREATE TABLE tried.people (x float8)", "INSERT INTO tried.people SELECT 1 FROM generate_series(1, 100)")
    schema = [sl.Number("x", lower=0, upper=10)]
    table = sl.Table(address, table="tried.people", schema=schema)
    run("INSERT INTO tried.people VALUES (1)")  # making a table reads no row
    assert row_count(table).value == 101
    run("INSERT INTO tried.people VALUES (1)", "DELETE FROM tried.people WHERE x = 2")
    assert row_count(table).value == 101
    assert row_count(sl.Table(address, table="tried.people", schema=schema)).value == 102


def test_types_are_those_of_the_catalogue(address: str, run: Any) -> None:
    run("CREATE TABLE tried.t (x text, j jsonb, y int)", "INSERT INTO tried.t VALUES ('1', '{}', 1)")
    for name, words in (("x", "text"), ("j", "jsonb"), ("why", "no column 'why'")):
        with pytest.raises(SchemaError, match=words):
            sl.Table(address, table="tried.t", schema=[sl.Number(name, lower=0, upper=1)])
    with pytest.raises(SourceError, match=r"no table 'tried.tt'.*tried\.t"):
        sl.Table(address, table="tried.tt", schema=SCHEMA)


def test_a_table_that_goes_fails_the_release_and_names_no_cell(address: str, run: Any) -> None:
    run("CREATE TABLE tried.gone (x float8)", "INSERT INTO tried.gone VALUES (98765)")
    table = sl.Table(address, table="tried.gone", schema=[sl.Number("x", lower=0, upper=1)])
    session = sl.Session(table, budget=sl.PureDP(2))
    run("DROP TABLE tried.gone")
    with pytest.raises(SourceError, match="PostgreSQL server could not be reached again, or failed") as caught:
        session.release(sl.Count(epsilon=1))
    assert "98765" not in str(caught.value)
    assert str(session.spent) != str(sl.Session(table, budget=sl.PureDP(2)).spent)


def test_an_address_is_shown_nowhere(tmp_path: Path) -> None:
    from sidelight.cli.plans.plan import read_plan

    secret = "postgresql://somebody:pass98765word@127.0.0.1:1/hidden98765"
    with pytest.raises(SourceError, match="cannot be reached") as caught:
        sl.Table(secret, table="people", schema=SCHEMA)
    assert "98765" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    (tmp_path / "p.toml").write_text(
        f'[source]\npath = "{secret}"\ntable = "people"\n[[column]]\nname = "x"\n[budget]\nepsilon = 1\n'
        '[[query]]\nkind = "quantiles"\ncolumn = "x"\nlevels = [0.5]\nepsilon = 1\n'
    )
    plan = read_plan(tmp_path / "p.toml")
    assert "98765" not in repr(plan) + plan.name + str(plan.source) + plan.scope
    with pytest.raises(SourceError, match="cannot be reached"):
        plan.open_table()


def test_a_plan_reads_a_table(address: str, run: Any, tmp_path: Path) -> None:
    from sidelight.cli.plans.plan import read_plan

    run("CREATE TABLE tried.people (x float8)", "INSERT INTO tried.people SELECT 1 FROM generate_series(1, 100)")
    (tmp_path / "p.toml").write_text(
        f'[source]\npath = "{address}"\ntable = "tried.people"\n[[column]]\nname = "x"\nlower = 0\nupper = 10\n'
        '[budget]\nepsilon = 1\n[[query]]\nkind = "quantiles"\ncolumn = "x"\nlevels = [0.5]\nepsilon = 1\n'
    )
    plan = read_plan(tmp_path / "p.toml")
    found = seeded_release(plan.queries[0].query, plan.open_table(), seed=3)
    same = seeded_release(plan.queries[0].query, sl.Table({"x": [1.0] * 100}, schema=plan.schema), seed=3)
    assert found.value.tolist() == same.value.tolist()
