"""Statements over a database: joins and sub-selects give DuckDB's answer, and what cannot be is refused unpaid."""

from __future__ import annotations

from typing import Any, get_args

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from benchmarks.tpch import no_noise

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.summaries.sql_dialects import Dialect

TABLES: dict[str, dict[str, list[Any]]] = {
    "patient": {"pid": [1, 2, 3, 4, 6], "sex": ["F", "M", "F", "M", "F"]},
    "visit": {
        "vid": [10, 11, 12, 13, 14, 15, 16],
        "pid": [1, 1, 2, 3, 3, 3, 5],
        "ward": [7, 8, 7, 9, 7, None, 8],
        "days": [3, 1, 4, 2, 2, 5, 1],
    },
    "drug": {
        "vid": [10, 10, 11, 12, 14, 14, 14, 16],
        "dose": [5, 7, 1, 2, 9, 9, 3, 4],
        "limit_of": [6, 6, 6, 6, 6, 10, 6, 6],
    },
    "ward": {"ward": [7, 8], "name": ["A", "B"], "beds": [30, 20]},
}


def clinic() -> sl.Database:
    def table(name: str, *schema: Any, public: bool = False) -> sl.Table:
        return sl.Table(pa.table(TABLES[name]), schema=list(schema), public=public)

    whole: dict[str, Any] = {"lower": 0, "upper": 40, "granularity": 1}
    return sl.Database(
        {
            "patient": table("patient", sl.PersonId("pid", max_rows=1), sl.Category("sex", ["F", "M"], other=None)),
            "visit": table(
                "visit",
                sl.PersonId("pid", max_rows=9),
                sl.Key("vid"),
                sl.Reference("ward", to="ward"),
                sl.Number("days", **whole),
            ),
            "drug": table(
                "drug",
                sl.PersonVia("vid", to="visit", max_rows=20),
                sl.Number("dose", **whole),
                sl.Number("limit_of", **whole),
            ),
            "ward": table(
                "ward",
                sl.Key("ward"),
                sl.Category("name", ["A", "B"], other=None),
                sl.Number("beds", **whole),
                public=True,
            ),
        },
        name="clinic",
    )


AGREE = {
    "an outer row that finds nothing is dropped": (
        "SELECT COUNT(*) AS n FROM visit JOIN ward ON visit.ward = ward.ward"
    ),
    "and kept by LEFT JOIN": "SELECT COUNT(*) AS n FROM visit v LEFT JOIN ward w ON v.ward = w.ward",
    "by the person": "SELECT sex, COUNT(*) AS n FROM visit JOIN patient ON visit.pid = patient.pid GROUP BY sex",
    "USING in other letters": "SELECT name, SUM(days) AS n FROM visit JOIN ward USING (WARD) GROUP BY name",
    "USING": "SELECT name, SUM(days) AS n FROM visit JOIN ward USING (ward) GROUP BY name",
    "commas": (
        "SELECT name, SUM(dose) AS n FROM ward w, drug d, visit v WHERE d.vid = v.vid AND v.ward = w.ward GROUP BY name"
    ),
    "a chain to the person": (
        "SELECT sex, SUM(dose) AS n FROM drug d JOIN visit v ON d.vid = v.vid JOIN patient p ON v.pid = p.pid "
        "GROUP BY 1"
    ),
    "conditions of both": (
        "SELECT COUNT(*) AS n FROM drug JOIN visit ON drug.vid = visit.vid WHERE days >= 2 AND dose > limit_of"
    ),
    "EXISTS": (
        "SELECT COUNT(*) AS n FROM visit v WHERE EXISTS (SELECT * FROM drug WHERE drug.vid = v.vid AND dose > 4)"
    ),
    "two EXISTS that begin alike": (
        "SELECT COUNT(*) AS n FROM visit v WHERE "
        "EXISTS (SELECT 1 FROM drug WHERE drug.vid = v.vid AND dose >= 0 AND dose <= 40 AND dose > 4) AND "
        "EXISTS (SELECT 1 FROM drug WHERE drug.vid = v.vid AND dose >= 0 AND dose <= 40 AND dose > 8)"
    ),
    "NOT EXISTS": "SELECT COUNT(*) AS n FROM visit v WHERE NOT EXISTS (SELECT 1 FROM drug d WHERE d.vid = v.vid)",
    "IN": "SELECT SUM(days) AS n FROM visit WHERE vid IN (SELECT vid FROM drug WHERE dose = 9)",
    "a count": "SELECT COUNT(*) AS n FROM visit v WHERE (SELECT COUNT(*) FROM drug d WHERE d.vid = v.vid) >= 2",
    "a maximum": "SELECT COUNT(*) AS n FROM visit v WHERE (SELECT MAX(dose) FROM drug d WHERE d.vid = v.vid) > 6",
    "of the person": (
        "SELECT sex, COUNT(*) AS n FROM patient p WHERE EXISTS (SELECT * FROM visit v WHERE v.pid = p.pid AND "
        "days > 2) GROUP BY sex"
    ),
    "persons": (
        "SELECT visits, COUNT(*) AS n FROM (SELECT pid, COUNT(*) AS visits FROM visit GROUP BY pid) AS t "
        "GROUP BY visits"
    ),
    "all persons": (
        "SELECT visits, COUNT(*) AS n FROM (SELECT p.pid, COUNT(vid) AS visits FROM patient p LEFT JOIN visit "
        "v ON p.pid = v.pid GROUP BY p.pid) AS t GROUP BY visits"
    ),
    "WITH": (
        "WITH t AS (SELECT pid, MAX(days) AS longest FROM visit WHERE days < 5 GROUP BY pid) SELECT COUNT(*) "
        "AS n FROM t WHERE longest >= 3"
    ),
    "a list of a public table": (
        "SELECT COUNT(*) AS n FROM visit v JOIN ward w ON v.ward = w.ward WHERE w.name IN (SELECT name FROM ward "
        "WHERE beds > 20 AND name IS NOT NULL) AND days IS NOT NULL"
    ),
    "a list inside of a lookup": (
        "SELECT COUNT(*) AS n FROM visit WHERE ward IN (SELECT ward FROM ward WHERE name IN (SELECT name FROM ward "
        "WHERE beds > 20))"
    ),
    "a sub-select of rows": (
        "SELECT name, COUNT(*) AS n FROM (SELECT name, days FROM visit JOIN ward ON visit.ward = ward.ward) x "
        "WHERE days > 1 GROUP BY name"
    ),
}


def shown(statement: str, **more: Any) -> dict[tuple[str, ...], float]:
    session = sl.Session(clinic(), budget=sl.PureDP(1000))
    options: dict[str, Any] = {"person_total": 1000} if "SUM(" in statement else {}
    options |= {"max_groups": 2} if statement in (AGREE["by the person"], AGREE["a sub-select of rows"]) else {}
    with no_noise():
        release = session.sql(statement, epsilon=1000, **options, **more)
    assert release.query["view"]["database"] == "clinic"
    table = release.shown
    keys = table.keys_of_groups
    return {tuple(str(table[key][at]) for key in keys): float(table["n"][at]) for at in range(len(table["n"]))}


@pytest.mark.filterwarnings("ignore:a budget of epsilon")
@pytest.mark.parametrize("statement", AGREE.values(), ids=AGREE.keys())
def test_answers_are_those_of_duckdb(statement: str) -> None:
    """Orders of people without a row among the patients are theirs all the same; DuckDB must not see other people."""
    found = shown(statement)
    with duckdb.connect() as connection:
        for name, columns in TABLES.items():
            connection.register(name, pa.table(columns))
        rows = connection.execute(statement).fetchall()
    wanted = {tuple(str(cell) for cell in row[:-1]): float(row[-1]) for row in rows}
    assert {key: value for key, value in found.items() if value or not key} == pytest.approx(wanted)


REFUSED = {
    "SELECT COUNT(*) FROM visit v JOIN drug d ON v.days = d.dose": "declared keys",
    "SELECT COUNT(*) FROM visit v LEFT JOIN ward w ON v.ward = w.ward AND w.beds > 20": "LEFT JOIN",
    "SELECT COUNT(*) FROM visit RIGHT JOIN ward ON visit.ward = ward.ward": "RIGHT JOIN",
    "SELECT COUNT(*) FROM visit CROSS JOIN ward": "do not form one tree",
    "SELECT COUNT(*) FROM visit a JOIN visit b ON a.pid = b.pid": "several rows",
    "SELECT COUNT(*) FROM ward": "public",
    "SELECT COUNT(*) FROM visits": "visit",
    "SELECT COUNT(*) FROM visit WHERE vid NOT IN (SELECT vid FROM drug)": "NOT EXISTS",
    "SELECT COUNT(*) FROM visit v WHERE EXISTS (SELECT 1 FROM drug d WHERE d.vid = v.vid AND dose > v.days)": "around",
    "SELECT COUNT(*) FROM visit WHERE NOT (days > 1 AND vid IN (SELECT vid FROM drug))": "NOT EXISTS",
    "SELECT COUNT(*) FROM visit v WHERE EXISTS (SELECT COUNT(*) FROM drug d WHERE d.vid = v.vid)": "always",
    "SELECT COUNT(*) FROM visit WHERE days > (SELECT MAX(dose) FROM drug)": "all rows",
    "SELECT COUNT(*) FROM visit v WHERE EXISTS (SELECT * FROM drug d WHERE d.vid = v.vid LIMIT 1)": "LIMIT",
    "SELECT COUNT(*) FROM visit v WHERE (SELECT AVG(dose) FROM drug d WHERE d.vid = v.vid) + 1 > 3": "sub-select",
    "SELECT vid, COUNT(*) FROM drug GROUP BY vid": "is a key",
    "SELECT pid, COUNT(*) FROM visit GROUP BY pid": "person|pid",
    "SELECT ward, COUNT(*) FROM visit JOIN ward USING (ward) GROUP BY ward": "may mean",
    "SELECT COUNT(*) FROM visit WHERE colour = 1": "colour",
    "SELECT COUNT(*) FROM visit v WHERE v.colour = 1": "colour",
    "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT * FROM visit v WHERE v.days = p.pid)": "key",
    "SELECT COUNT(*) FROM (SELECT pid, COUNT(*) AS n FROM visit GROUP BY pid LIMIT 1) t": "LIMIT",
    "SELECT COUNT(*) FROM (SELECT pid, COUNT(*) AS n FROM visit GROUP BY pid ORDER BY n) t": "ORDER",
    "SELECT COUNT(*) FROM (SELECT pid, COUNT(*) AS n FROM visit GROUP BY pid QUALIFY 1 = 1) t": "QUALIFY",
    "SELECT COUNT(*) FROM (SELECT pid, COUNT(*) AS n FROM visit GROUP BY pid) t TABLESAMPLE (9 PERCENT)": "TABLESAMPLE",
    "SELECT COUNT(*) FROM (SELECT pid, COUNT(*) AS n FROM visit GROUP BY pid) t(n, pid)": "COLUMNS",
    "SELECT COUNT(*) FROM (SELECT DISTINCT pid, COUNT(*) AS n FROM visit GROUP BY pid) t": "DISTINCT",
    "SELECT COUNT(*) FROM visit TABLESAMPLE (10 PERCENT)": "TABLESAMPLE",
    "WITH t(n, pid) AS (SELECT pid, COUNT(*) AS n FROM visit GROUP BY pid) SELECT COUNT(*) FROM t": "COLUMNS",
    "SELECT COUNT(*) FROM visit PIVOT (SUM(days) FOR ward IN (7, 8))": "PIVOT",
    "SELECT COUNT(*) FROM other.visit": "other.visit",
    "SELECT COUNT(*) FROM visit v(a, b)": "COLUMNS",
    "SELECT COUNT(*) FROM drug d JOIN visit v JOIN ward w ON v.ward = w.ward ON d.vid = v.vid": "JOIN",
    "SELECT COUNT(*) FROM visit v WHERE EXISTS (SELECT 1 FROM drug d TABLESAMPLE (10 PERCENT) WHERE d.vid = v.vid)": (
        "TABLESAMPLE"
    ),
    "SELECT COUNT(*) FROM visit v WHERE EXISTS (SELECT 1 FROM drug d WHERE d.vid = v.vid QUALIFY 1 = 1)": "QUALIFY",
    "SELECT COUNT(*) FROM visit JOIN ward USING (zzz)": "USING names 'zzz'",
    "SELECT COUNT(*) FROM visit JOIN ward USING (days)": "no column 'days'",
    "SELECT COUNT(*) FROM (SELECT p.pid, COUNT(*) AS n FROM patient p WHERE EXISTS (SELECT 1 FROM visit v "
    "WHERE v.pid = p.pid) GROUP BY p.pid) t WHERE n >= 1": "sub-select in WHERE",
    "SELECT COUNT(*) FROM patient p WHERE EXISTS (SELECT 1 FROM visit v WHERE v.pid = p.pid AND v.vid IN "
    "(SELECT vid FROM drug))": "sub-select in WHERE",
}


@pytest.mark.filterwarnings("ignore:a budget of epsilon")
@pytest.mark.parametrize("dialect", [each for each in get_args(Dialect) if each != "duckdb"])
def test_every_dialect_reads_statements_over_a_database(dialect: str) -> None:
    """A statement is written out again in its own dialect, whose spellings sqlglot reads in ways of their own."""
    for statement in AGREE.values():
        assert shown(statement, dialect=dialect) == shown(statement), statement


def test_a_long_public_list_is_refused_by_its_length() -> None:
    whole: dict[str, Any] = {"lower": 0, "upper": 10**6, "granularity": 1}
    numbers = np.arange(5001)
    lists = sl.Database(
        {
            "v": sl.Table({"who": [1], "x": [3]}, schema=[sl.PersonId("who", max_rows=1), sl.Number("x", **whole)]),
            "p": sl.Table({"k": numbers, "y": numbers}, schema=[sl.Key("k"), sl.Number("y", **whole)], public=True),
        },
        name="lists",
    )
    session = sl.Session(lists, budget=sl.PureDP(1))
    with pytest.raises(RangeError, match="finds 5001 different values, and a list holds at most 5000"):
        session.sql("SELECT COUNT(*) FROM v WHERE x IN (SELECT y FROM p)", epsilon=1)
    asked = "SELECT COUNT(*) FROM v WHERE x IN (SELECT y FROM p WHERE y < 5000)"
    assert "price" in str(session.sql(asked, epsilon=1, dry_run=True))


@pytest.mark.parametrize("statement", REFUSED)
def test_refused_before_a_charge(statement: str) -> None:
    session = sl.Session(clinic(), budget=sl.PureDP(1))
    before = str(session.remaining)
    for dry_run in (True, False):
        with pytest.raises((RangeError, SchemaError), match=REFUSED[statement]):
            session.sql(statement, epsilon=1, max_groups=1, dry_run=dry_run)
    assert str(session.remaining) == before


def test_a_dry_run_shows_the_queries_over_the_view() -> None:
    session = sl.Session(clinic(), budget=sl.PureDP(1))
    text = str(session.sql(AGREE["by the person"], epsilon="0.5", dry_run=True))
    assert "patient.sex" in text
    assert "PureDP" in text
    named = session.sql("SELECT COUNT(*) FROM clinic.visit", epsilon="0.5", dry_run=True)  # by the database's name
    assert str(named) == str(session.sql("SELECT COUNT(*) FROM visit", epsilon="0.5", dry_run=True))


def test_intervals_of_constants() -> None:
    schema = [sl.Date("d", start="2020-01-01", end="2024-12-31")]
    days = sl.Table({"d": ["2024-01-30", "2024-02-29", "2024-03-01"]}, schema=schema)
    for when, count in [
        ("DATE '2024-01-31' + INTERVAL '1' MONTH", 2),
        ("DATE '2024-03-01' - INTERVAL 1 DAY", 2),
        ("DATE '2025-02-28' - INTERVAL '1' YEAR", 1),
        ("DATE '2024-02-22' + INTERVAL '1' WEEK", 2),
    ]:
        with no_noise():
            found = sl.SQL(f"SELECT COUNT(*) AS n FROM t WHERE d <= {when}", epsilon=1).release(days).value
        assert np.asarray(found["n"]).tolist() == [count]
