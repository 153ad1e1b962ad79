"""Texts are equal if their bytes are, and numbers are what they are, whatever a DuckDB connection is set to."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sidelight as sl
from plain_statistics import clipped_sum
from sidelight.aggregates import cell_counts
from sidelight.records import Table
from sidelight.testing import seeded_release

#: Every setting of DuckDB that changes what a statement means or how Arrow types are written, and macros that do.
SETTINGS = {
    "no setting": "",
    "nocase": "SET default_collation = 'nocase'",
    "noaccent": "SET default_collation = 'noaccent'",
    "both": "SET default_collation = 'nocase.noaccent'",
    "a language": "SET default_collation = 'de'",
    "nulls first": "SET default_null_order = 'NULLS_FIRST'",
    "descending": "SET default_order = 'DESC'",
    "integer division": "SET integer_division = true",
    "no IEEE": "SET ieee_floating_point_ops = false",
    "no order": "SET preserve_insertion_order = false",
    "another zone": "SET TimeZone = 'America/New_York'",
    "another calendar": "SET Calendar = 'japanese'",
    "lossless Arrow": "SET arrow_lossless_conversion = true",
    "large Arrow": "SET arrow_large_buffer_size = true",
    "views of Arrow": "SET arrow_output_version = '1.4'",
    "identifiers": "SET preserve_identifier_case = 'lowercase'",
    "expressions": "SET max_expression_depth = 10",
    "macros": "CREATE MACRO md5(x) AS 'a'; CREATE MACRO isnan(x) AS true; CREATE MACRO floor(x) AS 7; "
    "CREATE MACRO decode(x) AS 'low'; CREATE MACRO substr(x, y, z) AS 'a'",
}
#: Ids that some collation takes for one.
ALIKE = ("ann", "ANN", "änn", "a\u0308nn", "ann\u200b")


def connected(setting: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    try:
        for each in filter(None, setting.split("; ")):
            connection.execute(each)
    except duckdb.Error:
        pytest.skip("this DuckDB has no such setting")
    return connection


def visits(connection: duckdb.DuckDBPyConnection, rows: list[tuple[str, str]], *, declared: str = "") -> Any:
    connection.execute(f"CREATE OR REPLACE TABLE visits (id VARCHAR{declared}, place VARCHAR{declared})")
    connection.executemany("INSERT INTO visits VALUES (?, ?)", rows)
    return connection


def counts(source: Any, *, table: str | None = "visits") -> list[int]:
    schema = [sl.PersonId("id", max_rows=1), sl.Category("place", ["low", "high"])]
    return cell_counts(Table(source, table=table, schema=schema), ["place"]).value.tolist()


def worst_move(open_one: Any) -> int:
    """Return the most that counts move in L1 when one person leaves, over all persons of a table."""
    rows = [(name, place) for name, place in zip(ALIKE, ["low", "high", "low", "high", "low"], strict=True)]
    rows += [(name, "high" if place == "low" else "low") for name, place in rows]
    all_of_them = counts(*open_one(rows))
    assert sum(all_of_them) == len(ALIKE)
    moves = []
    for leaves in ALIKE:
        rest = counts(*open_one([row for row in rows if row[0] != leaves]))
        moves.append(sum(abs(a - b) for a, b in zip(all_of_them, rest, strict=True)))
    return max(moves)


@pytest.mark.parametrize("name", ["no setting", "nocase", "noaccent", "both", "a language", "macros"])
def test_a_person_who_leaves_moves_counts_by_what_is_claimed(name: str) -> None:
    """The attack: two ids that a collation takes for one share a cap, and each decides whose row counts."""

    def open_one(rows: list[tuple[str, str]]) -> tuple[Any, ...]:
        return (visits(connected(SETTINGS[name]), rows),)

    assert worst_move(open_one) == 1


@pytest.mark.parametrize("how", ["column", "view", "relation", "file"])
def test_declared_collations_compare_nothing(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = iter(range(99))

    def open_one(rows: list[tuple[str, str]]) -> tuple[Any, ...]:
        path = str(tmp_path / f"{next(files)}.duckdb") if how == "file" else ":memory:"
        connection = visits(duckdb.connect(path), rows, declared="" if how == "relation" else " COLLATE NOCASE")
        if how == "view":
            connection.execute("CREATE VIEW seen AS SELECT * FROM visits")
            monkeypatch.setitem(counts.__kwdefaults__, "table", "seen")
        if how == "relation":
            monkeypatch.setitem(counts.__kwdefaults__, "table", None)
            return (connection.sql("SELECT id COLLATE NOACCENT.NOCASE AS id, place FROM visits"),)
        if how == "file":
            connection.execute("CREATE MACRO md5(x) AS 'a'")
            connection.close()
            return (path,)
        return (connection,)

    assert worst_move(open_one) == 1


CELLS = """
    SELECT * FROM (VALUES
      ('ann', 'low', 0.1::DOUBLE, 2, 0.1::DECIMAL(3,1), true, 1::HUGEINT, '2020-01-31 23:30'::TIMESTAMP, 'x'),
      ('ANN', 'Low', 'nan', NULL, 0.3, false, -5, '2020-02-01 00:30', 'y'),
      ('Ann', 'high', 'inf', -3, NULL, NULL, NULL, NULL, 'X'),
      ('änn', 'HIGH', 0.7, 9, 99.9, true, 170141183460469231731687303715884105727, 'infinity', NULL),
      (NULL, 'high', 0.3, 4, 0.7, false, 7, '-infinity', '')
    ) AS t(id, place, x, n, price, flag, huge, day, letter)
"""
SCHEMA = [
    sl.PersonId("id", max_rows=2),
    sl.Category("place", ["low", "high", "Low"]),
    sl.Category("letter", ["x", "X"]),
    sl.Category("flag", ["true", "false"]),
    sl.Category("huge", ["1", "-5", "170141183460469231731687303715884105727"]),
    sl.Number("x", lower=0, upper=1),
    sl.Number("n", lower=-5, upper=5, granularity=1),
    sl.Number("price", lower=0, upper=100),
    sl.Date("day", start="2020-01-01", end="2020-12-31"),
]
CONDITIONS = [
    (sl.col("place") == "low") | sl.col("letter").isin(["X"]) | (sl.col("day") >= "2020-02-01"),
    (sl.col("x") < 0.5) & (sl.col("price") >= 0.3) & (sl.col("n") / 2 > 0),
]


def statistics(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    found: dict[str, Any] = {}
    connection.execute(f"CREATE OR REPLACE TABLE cells AS {CELLS}")
    capped, table = (Table(connection, table="cells", schema=schema) for schema in (SCHEMA, SCHEMA[1:]))
    found["persons"] = cell_counts(capped, ["place", "letter"], lowering="engine").value.tolist()
    found["numbers of persons"] = clipped_sum(capped, "x", step="0.1", lowering="engine").value
    for lowering in ("batches", "engine"):
        found[f"{lowering} labels"] = cell_counts(table, ["place", "flag", "huge"], lowering=lowering).value.tolist()
        found[f"{lowering} days"] = clipped_sum(table, "day", lowering=lowering).value
    for condition in CONDITIONS:
        found[str(condition)] = seeded_release(sl.Count(where=condition, epsilon=1), table, seed=1).value
    found["released"] = repr(seeded_release(sl.Count(by="place", max_groups=1, epsilon=1), capped, seed=1).value)
    return found


def test_no_setting_of_a_connection_changes_a_statistic() -> None:
    connection = duckdb.connect()
    for name, setting in SETTINGS.items():
        if name not in ("nocase", "noaccent", "a language"):
            for each in filter(None, setting.split("; ")):
                with suppress(duckdb.CatalogException):  # an older DuckDB lacks some
                    connection.execute(each)
    assert statistics(connection) == statistics(duckdb.connect())


def test_columns_are_found_by_their_places() -> None:
    """DuckDB's names do not tell capitals apart, and ours do."""
    relation = duckdb.connect().sql("SELECT * FROM (VALUES (1, 'low', 5), (2, 'high', 6)) AS t(x, \"a\"\"b\", y)")
    relation = relation.project('x AS "x", "a""b", y AS "X"')
    table = Table(relation, schema=[sl.Number("X", lower=0, upper=9, granularity=1), sl.Category('a"b', ["low"])])
    for lowering in ("batches", "engine"):
        assert clipped_sum(table, "X", lowering=lowering).value == 11
        assert cell_counts(table, ['a"b'], lowering=lowering).value.tolist() == [1, 1]


MOVED = {
    "a relation over a view": ("CREATE VIEW source AS SELECT * FROM t", "CREATE OR REPLACE VIEW source AS {0}"),
    "a relation over a table": ("CREATE TABLE source AS SELECT * FROM t", "CREATE OR REPLACE TABLE source AS {0}"),
}


@pytest.mark.parametrize("how", MOVED)
@pytest.mark.parametrize(
    "changed",
    [
        "SELECT b, a FROM t",
        "SELECT a, b AS c FROM t",
        "SELECT a, CAST(b AS VARCHAR) AS b FROM t",
        "SELECT a, b, 1 AS more FROM t",
    ],
)
@pytest.mark.parametrize("by_name", [False, True], ids=["relation", "table="])
def test_moved_columns_of_a_relation_are_refused(how: str, changed: str, *, by_name: bool) -> None:
    """A column that was moved, renamed or retyped after `sl.Table` was made might be read for another."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1 AS a, 2 AS b")
    before, after = MOVED[how]
    connection.execute(before)
    schema = [sl.Number("a", lower=0, upper=9), sl.Number("b", lower=0, upper=9)]
    source = {"table": "source"} if by_name else {}
    table = Table(connection if by_name else connection.sql("SELECT * FROM source"), schema=schema, **source)
    assert clipped_sum(table, "a", step=1).value == 1
    connection.execute(after.format(changed))
    for lowering in ("batches", "engine"):
        with pytest.raises(sl.errors.SourceError):
            clipped_sum(table, "a", step=1, lowering=lowering)  # type: ignore[arg-type]


def test_a_relation_whose_columns_stay_is_read_again() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1 AS a, 2 AS b")
    table = Table(connection.sql("SELECT * FROM t"), schema=[sl.Number("a", lower=0, upper=9)])
    connection.execute("INSERT INTO t VALUES (3, 4)")
    assert clipped_sum(table, "a", step=1).value == 4
