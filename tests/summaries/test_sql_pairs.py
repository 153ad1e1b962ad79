"""A JOIN of two tables with several rows of a person each: pairs, as DuckDB has them where no cap is reached."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.tpch import no_noise
from test_sql_joins import TABLES, clinic

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import PersonOf
from sidelight.records import PairedView

AGREE = [
    "SELECT COUNT(*) AS n FROM visit v JOIN visit w ON v.pid = w.pid",
    "SELECT COUNT(*) AS n FROM visit v JOIN visit w ON v.pid = w.pid WHERE v.days < w.days AND v.days > 1",
    "SELECT COUNT(*) AS n FROM visit AS v, visit AS w WHERE w.pid = v.pid AND (v.days < 3 OR w.days = 5)",
    "SELECT COUNT(*) AS n FROM visit v JOIN visit w USING (pid) WHERE w.days > 1",
    "SELECT COUNT(*) AS n FROM visit v JOIN visit w ON v.pid = w.pid AND v.ward = w.ward",
    "SELECT COUNT(*) AS n FROM drug d JOIN drug e ON d.vid = e.vid WHERE d.dose < e.dose",
    "SELECT COUNT(DISTINCT v.pid) AS n FROM visit v JOIN visit w ON v.pid = w.pid WHERE v.days <> w.days",
    "SELECT SUM(v.days * w.days) AS n FROM visit v JOIN visit w ON v.pid = w.pid",
    "SELECT COUNT(*) AS n FROM visit v JOIN visit w ON v.pid = w.pid JOIN patient p ON p.pid = w.pid WHERE p.sex = 'F'",
    "SELECT COUNT(*) AS n FROM visit v JOIN visit w ON v.pid = w.pid JOIN ward a ON w.ward = a.ward WHERE a.beds > 25",
    "SELECT COUNT(*) AS n FROM visit v JOIN visit w ON v.pid = w.pid LEFT JOIN ward a ON w.ward = a.ward",
]


def _duckdb(statement: str) -> float:
    import duckdb
    import pyarrow as pa

    with duckdb.connect() as connection:
        for name, columns in TABLES.items():
            connection.register(name, pa.table(columns))
        return float(connection.execute(statement).fetchall()[0][0])


def _answer(statement: str, **more: Any) -> float:
    with no_noise():
        found = sl.Session(clinic(), budget=sl.PureDP(10**4)).sql(statement, epsilon=1000, **({"max_rows": 99} | more))
    return float(found.shown["n"][0])


@pytest.mark.parametrize("statement", AGREE)
def test_pairs_are_those_of_duckdb(statement: str) -> None:
    assert _answer(statement) == pytest.approx(_duckdb(statement))


def test_the_price_is_that_of_the_pairs_that_count() -> None:
    database = clinic()
    assert sl.Session(database, budget=sl.PureDP(9)).sql(AGREE[0], epsilon=1, max_rows=2).guarantee.unit == PersonOf(
        "clinic"
    )
    for most in (1, 9):
        asked, pairs = sl.SQL(AGREE[0], epsilon=1, max_rows=most).over(database.linked)
        (part,) = asked.prepare(pairs.schema).parts
        assert part.groups.norms.total == most
    query, view = sl.SQL(AGREE[1], epsilon=1, max_rows=7).over(database.linked)
    assert isinstance(view, PairedView)
    assert (view.max_rows, query.max_rows) == (7, None)
    assert [len(part) for part in view.conditions()] == [1, 0, 1]  # one side, the other, both
    assert _answer(AGREE[0], max_rows=1) == 4  # one pair of each of four persons


REFUSED = {
    "SELECT COUNT(*) FROM visit v JOIN visit w ON v.days = w.days": "do not form one tree",
    "SELECT COUNT(*) FROM visit v JOIN visit w ON v.ward = w.ward": "do not form one tree",  # across people in SQL
    "SELECT COUNT(*) FROM visit v LEFT JOIN visit w ON v.pid = w.pid": "LEFT JOIN",
    "SELECT COUNT(*) FROM visit v JOIN visit w ON v.pid = w.pid JOIN visit x ON x.pid = w.pid": "do not form one tree",
    "SELECT COUNT(*) FROM visit v JOIN visit w ON v.pid = w.pid AND v.vid < w.vid": "is a key",
    "SELECT COUNT(*) FROM visit v JOIN visit w ON v.pid = w.pid WHERE v.vid IN (SELECT vid FROM drug)": "sub-select in",
    "SELECT v.pid, COUNT(*) FROM visit v JOIN visit w ON v.pid = w.pid GROUP BY v.pid": "person",
    "SELECT COUNT(*) FROM visit": "max_rows is for a JOIN",
    "SELECT COUNT(*) FROM visit v JOIN patient p ON v.pid = p.pid": "max_rows is for a JOIN",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_other_joins_are_refused_unpaid(statement: str) -> None:
    session = sl.Session(clinic(), budget=sl.PureDP(1))
    for dry_run in (True, False):
        with pytest.raises((RangeError, SchemaError), match=REFUSED[statement]):
            session.sql(statement, epsilon=1, max_rows=5, dry_run=dry_run)
    assert session.remaining.epsilon == 1


def test_pairs_need_to_know_how_many_count() -> None:
    session = sl.Session(clinic(), budget=sl.PureDP(1))
    with pytest.raises(RangeError, match="max_rows="):
        session.sql(AGREE[0], epsilon=1)
    one = sl.Session(sl.Table({"x": [1]}, schema=[sl.Number("x", granularity=1)], name="t"), budget=sl.PureDP(1))
    with pytest.raises(RangeError, match="leave it out"):
        one.sql("SELECT COUNT(*) FROM t", epsilon=1, max_rows=3)
    assert session.remaining.epsilon == one.remaining.epsilon == 1
