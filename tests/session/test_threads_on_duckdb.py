"""Several threads release from one DuckDB connection: each waits for the others, and none fails.

With epsilon 20, a count is off with a probability below 1e-8."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sidelight as sl
from sidelight.errors import SidelightError

ROWS = 400_000


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute(f"CREATE TABLE t AS SELECT (i % 7)::DOUBLE AS x, i % 2 AS y, i AS k FROM range({ROWS}) r(i)")
    return found


def declared(source: Any, **options: Any) -> sl.Table:
    return sl.Table(source, schema=[sl.Number("x", lower=0, upper=7, granularity=1)], name="t", **options)


def in_threads(*works: Callable[[], object]) -> None:
    """Run all at once, five times each; raise what the first raised that failed."""
    failures: list[BaseException] = []
    together = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        try:
            together.wait(30)
            for _ in range(5):
                work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads)


def counting(session: sl.Session) -> Callable[[], object]:
    def work() -> None:
        assert session.release(sl.Count(epsilon=20)).value["count"].tolist() == [ROWS]

    return work


def test_two_threads_release_from_one_table(connection: duckdb.DuckDBPyConnection) -> None:
    session = sl.Session(declared(connection, table="t"), budget=sl.PureDP(1000))
    in_threads(counting(session), counting(session))


def test_relations_of_one_connection_and_tables_made_meanwhile(connection: duckdb.DuckDBPyConnection) -> None:
    relation = connection.sql("SELECT x, y FROM t")
    sessions = [
        sl.Session(declared(source), budget=sl.PureDP(1000))
        for source in (connection.table("t"), connection.sql("SELECT x FROM t"))
    ]
    in_threads(*map(counting, sessions), lambda: declared(connection, table="t"), lambda: declared(relation))


def test_two_threads_release_from_one_file(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    path = tmp_path / "rows.duckdb"
    connection.execute(f"ATTACH '{path}' AS kept; CREATE TABLE kept.t AS FROM t; DETACH kept")
    session = sl.Session(declared(path, table="t"), budget=sl.PureDP(1000))
    in_threads(counting(session), counting(session))


def test_two_threads_release_batches_and_what_reads_texts(connection: duckdb.DuckDBPyConnection) -> None:
    texts = sl.Table(
        connection.sql("SELECT x::VARCHAR AS x FROM t"),
        schema=[sl.Number("x", lower=0, upper=7, granularity=1, decimal=".")],
        name="t",
    )
    session = sl.Session(texts, budget=sl.ApproxDP(400, 1e-6))
    together = [sl.Count(epsilon=20), sl.Sum("x", epsilon=20)]
    in_threads(counting(session), lambda: session.release_together(together, delta=1e-9))


def test_two_threads_release_from_a_database_of_one_connection(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE people AS SELECT DISTINCT k % 100 AS id FROM t")
    connection.execute("CREATE TABLE visits AS SELECT k % 100 AS id, x FROM t LIMIT 1000")
    database = sl.Database(
        {
            "people": sl.Table(connection, table="people", schema=[sl.PersonId("id", max_rows=1)]),
            "visits": sl.Table(
                connection, table="visits", schema=[sl.PersonId("id", max_rows=50), sl.Number("x", lower=0, upper=7)]
            ),
        },
        name="clinic",
    )
    session = sl.Session(database, budget=sl.PureDP(1000))

    def work() -> None:
        assert session.release(sl.Count(epsilon=20), of="visits").value["count"].tolist() == [100]  # persons

    in_threads(work, work)


def test_an_open_result_of_the_user_is_refused_before_the_charge(connection: duckdb.DuckDBPyConnection) -> None:
    session = sl.Session(declared(connection, table="t"), budget=sl.PureDP(1000))
    before = str(session.spent)
    result = connection.sql("SELECT x FROM t").to_arrow_reader(1000)
    next(result)
    try:
        connection.execute("SELECT 1")
    except duckdb.Error:  # a version in which an open result keeps others out; in others it ends here
        with pytest.raises(sl.errors.SourceError, match="fetch or close the result"):
            session.release(sl.Count(epsilon=20))
        assert str(session.spent) == before
    del result
    assert session.release(sl.Count(epsilon=20)).value["count"].tolist() == [ROWS]


def test_a_closed_connection_is_refused_before_the_charge(connection: duckdb.DuckDBPyConnection) -> None:
    session = sl.Session(declared(connection, table="t"), budget=sl.PureDP(1000))
    before = str(session.spent)
    connection.close()
    with pytest.raises(sl.errors.SourceError, match="make the table again"):
        session.release(sl.Count(epsilon=20))
    assert str(session.spent) == before


@pytest.mark.parametrize("cell", ["1", "not a number"])
def test_no_row_decides_whether_a_release_is_refused_before_its_charge(cell: str, tmp_path: Path) -> None:
    """A view that sorts reads its rows even for an empty result; whether they can be read is paid for."""
    with duckdb.connect(str(tmp_path / "people.duckdb")) as writer:
        writer.execute("CREATE TABLE texts AS SELECT ? AS x", [cell])
        writer.execute("CREATE VIEW people AS SELECT CAST(x AS INTEGER) AS x FROM texts ORDER BY 1")
    table = sl.Table(tmp_path / "people.duckdb", table="people", schema=[sl.Number("x", lower=0, upper=9)])
    table.check_records()
    session = sl.Session(table, budget=sl.PureDP(3))
    with suppress(SidelightError):
        session.release(sl.Sum("x", epsilon=1))
    assert session.remaining.epsilon == 2
