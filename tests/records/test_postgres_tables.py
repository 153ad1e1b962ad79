"""A table of PostgreSQL gives the release of the same rows in memory; no cell fails one, and no address is shown."""

from __future__ import annotations

import gc
import hashlib
import math
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.audit_engines import Tally, compare_source, condition, in_postgres, rows_of
from benchmarks.temporary_postgres import NoServerError, empty_database, temporary_server

import sidelight as sl
from plain_statistics import row_count
from sidelight.errors import SchemaError, SourceError
from sidelight.records.rows import Wanted
from sidelight.regression.model_query import ModelQuery
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
    gc.collect()  # a table that was read keeps others from dropping it
    with driver.connect(address) as connection, connection.cursor() as cursor:

        def run(*statements: str) -> None:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

        run("SET lock_timeout TO '20s'", "DROP SCHEMA IF EXISTS tried CASCADE", "CREATE SCHEMA tried")
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


def test_long_texts_are_equal_where_they_were_and_short(
    address: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of more than 1 GiB would fail a release: texts beyond a limit are sent as their beginning and a digest."""
    monkeypatch.setattr("sidelight.records.engines.postgres._LONGEST_TEXT", 40)
    same, other, wide = "a" * 100, "a" * 99 + "b", "é" * 30
    texts = ["a", "a" * 40, same, same, other, wide, wide + "e", "a" * 41, None, "", " a", "1" * 41, " " + "a" * 40]
    # a text that stands for another is too long to stay
    texts.append("a" * 40 + hashlib.sha256(same.encode()).hexdigest())
    rows = {"c": texts, "who": texts, "n": [None if each is None else "7" + each for each in texts]}
    run("CREATE TABLE tried.long (c text, who varchar, n char(300), name name, u uuid)")
    with driver.connect(address) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("long", pa.table(rows), mode="append", db_schema_name="tried")
        connection.commit()
    labels = ["a", "a" * 40]
    schema = [sl.Category("c", labels), sl.PersonId("who", max_rows=1), sl.Label("n")]
    long, plain = sl.Table(address, table="tried.long", schema=schema), sl.Table(rows, schema=schema)
    sent, cells = (
        [
            batch.texts[name].tolist()
            for batch in table.rows.batches(Wanted(texts=("c", "who", "n")))
            for name in ("c", "who", "n")
        ]
        for table in (long, plain)
    )
    for one, two in zip(sent, cells, strict=True):
        assert [one.index(each) for each in one] == [two.index(each) for each in two]  # equal where they were
        assert max(len((each or "").encode()) for each in one) <= 4 * 40 + 64
        assert all(each == was for each, was in zip(one, two, strict=True) if was is None or len(was.encode()) <= 40)
    for query in (sl.Count(epsilon=1), sl.Count(by="c", epsilon=1)):
        assert str(seeded_release(query, long, seed=2).value) == str(seeded_release(query, plain, seed=2).value)


def test_a_row_of_all_columns_stays_below_what_the_server_sends() -> None:
    """PostgreSQL has at most 1600 columns; octet_length of a text needs none of its bytes."""
    from sidelight.records.engines import postgres
    from sidelight.records.rows import ColumnType

    for columns in (1, 2, 128, 129, 1600):
        longest = min(postgres._LONGEST_TEXT, postgres._LONGEST_ROW // columns)
        assert columns * (4 * longest + 64 + 4) < 2**30 - 2**20
    for native in ("text", "character varying", "character"):
        cell = postgres._cell('"x"', ColumnType("text", native), 99)
        assert cell == (
            'CASE WHEN pg_catalog.octet_length("x"::pg_catalog.text) OPERATOR(pg_catalog.<=) 99 THEN '
            '"x"::pg_catalog.text ELSE pg_catalog.textcat(pg_catalog.substr("x"::pg_catalog.text, 1, 99), '
            "pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(\"x\"::pg_catalog.text, 'UTF8')), 'hex')) END"
        )


@pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
def test_models_of_a_server_are_those_of_rows_in_memory(address: str, run: Any, *, persons: bool) -> None:
    """Lines and curves read their rows in several passes, of persons with several rows no more than are declared."""
    rng = np.random.default_rng(2)
    rows = pa.table(
        {
            "n": pa.array(
                [None if place % 9 == 0 else float(each) for place, each in enumerate(rng.normal(0, 60, 300))]
            ),
            "x": rng.uniform(-1, 11, 300),
            "c": [["a", "b", None, "z"][at] for at in rng.integers(0, 4, 300)],
            "who": [None if place % 50 == 1 else place % 90 for place in range(300)],
        }
    )
    run("CREATE TABLE tried.people (n float8, x float8, c text, who int8)")
    with driver.connect(address) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("people", rows, mode="append", db_schema_name="tried")
        connection.commit()
    schema = [*SCHEMA[:3], *([sl.PersonId("who", max_rows=2)] if persons else [])]
    for model, target, features in (
        (sl.LinearRegression(epsilon=2, delta="1e-6"), "x", ["n", "c"]),
        (sl.AdditiveRegressor(epsilon=2, delta="1e-6"), "x", ["n", "c"]),
        (sl.AdditiveClassifier(epsilon=2, delta="1e-6", classes=["a", "b"]), "c", ["n", "x"]),
    ):
        query = ModelQuery(model=model, target=target, features=features)
        expected, found = (
            seeded_release(query, table, seed=2).value
            for table in (sl.Table(rows, schema=schema), sl.Table(address, table="tried.people", schema=schema))
        )
        assert str(found) == str(expected)
        if isinstance(expected, dict):
            for name, value in expected.items():
                np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_every_pass_reads_one_snapshot(address: str, run: Any) -> None:
    run("CREATE TABLE tried.people (x float8)", "INSERT INTO tried.people SELECT 1 FROM generate_series(1, 100)")
    schema = [sl.Number("x", lower=0, upper=10)]
    table = sl.Table(address, table="tried.people", schema=schema)
    run("INSERT INTO tried.people VALUES (1)")  # making a table reads no row
    assert row_count(table).value == 101
    run("INSERT INTO tried.people VALUES (1)", "DELETE FROM tried.people WHERE x = 2")
    assert row_count(table).value == 101
    assert row_count(sl.Table(address, table="tried.people", schema=schema)).value == 102


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("in_a_pass", [False, True])
def test_a_forked_child_ends_no_snapshot(address: str, run: Any, *, in_a_pass: bool) -> None:
    """A child drops its copy of a table and ends with all that Python does then: its parent reads the same rows."""
    run("CREATE TABLE tried.people (x float8)", "INSERT INTO tried.people SELECT 1 FROM generate_series(1, 100000)")
    story = f"""if True:
        import gc, os, sys
        import sidelight as sl
        from plain_statistics import row_count
        table = sl.Table({address!r}, table="tried.people", schema=[sl.Number("x", lower=0, upper=10)])
        before = row_count(table).value
        running = iter(table.rows._reader()) if {in_a_pass} else None
        first = 0 if running is None else len(next(running))
        child = os.fork()
        if child == 0:
            code = int(row_count(table).value != before)
            del table, running
            gc.collect()
            sys.exit(code)
        assert os.waitpid(child, 0)[1] == 0
        if running is not None:
            assert first + sum(map(len, running)) == before
        print(before, row_count(table).value)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", story], capture_output=True, text=True, timeout=120, env=environment)
    assert done.stdout.split() == ["100000", "100000"], done.stderr[-2000:]


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


X = [sl.Number("x", lower=0, upper=10)]


def asked(address: str, **settings: object) -> str:
    """Return the address with settings of the session, as a role or a database may have them."""
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return f"{address}{'&' if '?' in address else '?'}options={quote(options)}"


def in_database(address: str, name: str) -> str:
    parts = urlsplit(address)
    return urlunsplit(parts._replace(path=f"/{name}"))


@pytest.mark.parametrize(("encoding", "cell"), [("SQL_ASCII", "\\xff"), ("WIN1252", "\\x81"), ("LATIN1", "\\xe9")])
def test_texts_of_other_encodings_are_refused_before_a_charge(address: str, encoding: str, cell: str) -> None:
    name = f"sidelight_{uuid.uuid4().hex}"
    with driver.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        try:
            there = in_database(address, name)
            with driver.connect(there, autocommit=True) as other, other.cursor() as at:
                at.execute("CREATE TABLE people (x float8, u uuid, c text)")
                at.execute(f"INSERT INTO people VALUES (1, NULL, E'{cell}')")
            with pytest.raises(SourceError, match=rf"is in {encoding}, and one cell of 'c' .* declare no texts"):
                sl.Table(there, table="people", schema=[*X, SCHEMA[2]])
            table = sl.Table(there, table="people", schema=[*X, sl.Category("u", ["a"])])
            assert row_count(table).value == 1
            del table
            gc.collect()
        finally:
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_no_limit_on_time_fails_a_release(address: str, run: Any) -> None:
    run("CREATE VIEW tried.slow AS SELECT 1::float8 AS x FROM pg_sleep(0.3)")
    limited = asked(address, statement_timeout=100, idle_in_transaction_session_timeout=100)
    table = sl.Table(limited, table="tried.slow", schema=X)
    assert row_count(table).value == 1
    time.sleep(0.3)  # while the snapshot is held
    assert row_count(table).value == 1


def test_nothing_runs_and_nothing_is_quoted_while_a_table_is_made(address: str, run: Any) -> None:
    """The planner calls an immutable function, whatever LIMIT says: a statement is only described."""
    run(
        "CREATE TABLE tried.secret (c text)",
        "INSERT INTO tried.secret VALUES ('cell98765')",
        "CREATE FUNCTION tried.read() RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS "
        "$$ BEGIN RETURN (SELECT c::float8 FROM tried.secret); END $$",
        "CREATE VIEW tried.planned AS SELECT tried.read() AS x",
    )
    table = sl.Table(address, table="tried.planned", schema=X)
    with pytest.raises(SourceError, match="PostgreSQL server could not be reached again, or failed") as caught:
        row_count(table)
    assert "98765" not in str(caught.value)


def test_rights_that_are_missing_are_said_in_our_words(address: str, run: Any) -> None:
    role = f"r{uuid.uuid4().hex}"
    run(
        "CREATE TABLE tried.people (x float8, y float8)",
        f"CREATE ROLE {role}",
        f"GRANT USAGE ON SCHEMA tried TO {role}",
    )
    as_role = asked(address, role=role)
    try:
        with pytest.raises(SourceError, match=r"may not read 'x' of 'tried.people'; .*GRANT SELECT") as caught:
            sl.Table(as_role, table="tried.people", schema=X)
        assert caught.value.__cause__ is caught.value.__context__ is None
        run(f"GRANT SELECT (x) ON tried.people TO {role}")
        assert row_count(sl.Table(as_role, table="tried.people", schema=X)).value == 0
        gc.collect()
    finally:
        run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_what_the_server_says_is_withheld_while_a_table_is_made(
    address: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sidelight.records.engines import postgres

    run("CREATE TABLE tried.people (x float8)")
    wrong = "SELECT 'cell98765'::float8"
    for name, given in (("_LISTED", wrong), ("_COLUMNS", wrong), ("_PATIENCE", "cell98765")):
        with monkeypatch.context() as patched:
            patched.setattr(postgres, name, given)
            with pytest.raises(SourceError, match="refused to describe the table") as caught:
                sl.Table(address, table="tried.people", schema=X)
        assert "98765" not in str(caught.value)
        assert caught.value.__cause__ is caught.value.__context__ is None


def test_nobody_empties_a_table_that_was_read(address: str, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failure of the next pass when a TRUNCATE, which no snapshot hides, is waiting."""
    monkeypatch.setattr("sidelight.records.engines.postgres._PATIENCE", "300ms")
    run(
        "CREATE TABLE tried.people (x float8)",
        "INSERT INTO tried.people SELECT 1 FROM generate_series(1, 100)",
        "CREATE VIEW tried.seen AS SELECT x FROM tried.people",
    )
    table = sl.Table(address, table="tried.seen", schema=X)
    assert row_count(table).value == 100

    def empty(patience: str) -> None:
        with (
            suppress(Exception),
            driver.connect(asked(address, lock_timeout=patience), autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("TRUNCATE tried.people")

    empty("100ms")
    assert row_count(table).value == 100
    waiting = threading.Thread(target=empty, args=("20s",))
    waiting.start()
    time.sleep(0.2)
    with pytest.raises(SourceError, match="waits to change or empty the table"):
        row_count(table)
    del table
    gc.collect()
    waiting.join()
    assert row_count(sl.Table(address, table="tried.people", schema=X)).value == 0


def test_a_view_that_gives_nothing_the_second_time_fails_nothing(address: str, run: Any) -> None:
    """Sequences stand outside snapshots, as the clock does."""
    run(
        "CREATE SEQUENCE tried.ticks",
        "CREATE VIEW tried.once AS SELECT 1::float8 AS x WHERE (SELECT last_value FROM tried.ticks) < 2",
    )
    table = sl.Table(address, table="tried.once", schema=X)
    assert row_count(table).value == 1
    run("SELECT setval('tried.ticks', 2)")
    assert row_count(table).value == 0


def test_a_name_that_two_tables_have_is_refused(address: str, run: Any) -> None:
    run('DROP TABLE IF EXISTS public."tried.big"', 'CREATE TABLE public."tried.big" (x float8)')
    try:
        assert sl.Table(address, table="tried.big", schema=X).engine == "postgres"
        run("CREATE TABLE tried.big (x float8)")
        with pytest.raises(SourceError, match=r"two tables .* answer to 'tried.big'"):
            sl.Table(address, table="tried.big", schema=X)
        assert sl.Table(address, table="public.tried.big", schema=X).engine == "postgres"
    finally:
        run('DROP TABLE public."tried.big"')


def test_the_search_path_changes_no_meaning(address: str, run: Any) -> None:
    run(
        "CREATE FUNCTION tried.abs(numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 0::numeric'",
        "CREATE FUNCTION tried.never(numeric, numeric) RETURNS bool LANGUAGE sql AS 'SELECT true'",
        "CREATE OPERATOR tried.>= (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = tried.never)",
        "CREATE TYPE tried.date AS ENUM ('a')",
        "CREATE TABLE tried.people (x numeric, d pg_catalog.date, e tried.date)",
        "INSERT INTO tried.people VALUES (3.5, '2020-01-03', 'a')",
    )
    there = asked(address, search_path="tried,pg_catalog")
    table = sl.Table(there, table="people", schema=[*X, SCHEMA[3], sl.Category("e", ["a"])])
    (batch,) = table.rows.batches(Wanted(numbers=("x", "d"), texts=("e",)))
    assert (batch.numbers["x"].tolist(), batch.numbers["d"].tolist()) == ([3.5], [2.0])


def test_foreign_tables_are_not_read(address: str, run: Any) -> None:
    run(
        "CREATE EXTENSION IF NOT EXISTS file_fdw",
        "CREATE SERVER IF NOT EXISTS tried_files FOREIGN DATA WRAPPER file_fdw",
        "CREATE FOREIGN TABLE tried.far (x float8) SERVER tried_files OPTIONS (filename '/nowhere')",
    )
    with pytest.raises(SourceError, match=r"no table 'tried\.far'"):
        sl.Table(address, table="tried.far", schema=X)


def test_an_address_is_shown_nowhere(tmp_path: Path) -> None:
    from sidelight.plans.plan import read_plan

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
    assert "98765" not in repr(plan) + plan.name + str(plan.one.path) + plan.scope
    with pytest.raises(SourceError, match="cannot be reached"):
        plan.one.open()


def test_a_plan_reads_a_table(address: str, run: Any, tmp_path: Path) -> None:
    from sidelight.plans.plan import read_plan

    run("CREATE TABLE tried.people (x float8)", "INSERT INTO tried.people SELECT 1 FROM generate_series(1, 100)")
    (tmp_path / "p.toml").write_text(
        f'[source]\npath = "{address}"\ntable = "tried.people"\n[[column]]\nname = "x"\nlower = 0\nupper = 10\n'
        '[budget]\nepsilon = 1\n[[query]]\nkind = "quantiles"\ncolumn = "x"\nlevels = [0.5]\nepsilon = 1\n'
    )
    plan = read_plan(tmp_path / "p.toml")
    found = seeded_release(plan.queries[0].query, plan.one.open(), seed=3)
    same = seeded_release(plan.queries[0].query, sl.Table({"x": [1.0] * 100}, schema=plan.schema), seed=3)
    assert found.value.tolist() == same.value.tolist()


def test_collations_of_the_server_compare_nothing(address: str) -> None:
    """By this collation "ann" is "ANN" and "änn" on the server; here they are three persons."""
    rows = rows_of(40, seed=2)
    with empty_database(address) as database:
        given, tally = in_postgres(database, rows), Tally()
        with driver.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(DISTINCT id) FROM t")
            if cursor.fetchone()[0] == len({row["id"] for row in rows}):
                pytest.skip("this server has no such collation")
        compare_source(tally, "PostgreSQL", given, rows, [condition(random.Random(3)) for _ in range(4)])
        gc.collect()  # tables hold connections
    assert tally.differing == 0
