"""Names that differ only in case: each means the column that is spelled so, or the statement is refused."""

from __future__ import annotations

import pytest
import sqlglot
from benchmarks.tpch import no_noise

import sidelight as sl
from sidelight.errors import SidelightError
from sidelight.records import Category, Number, Schema
from sidelight.summaries.sql_nodes import declared_name
from sidelight.summaries.sql_statement import parse_select

SCHEMA = Schema([Category("g", ["a", "b"]), Category("G", ["u", "v"]), Number("x", lower=0, upper=9, granularity=1)])


@pytest.mark.parametrize(
    "statement",
    [
        'SELECT COUNT(*) AS "n", AVG(x) AS "N" FROM t HAVING "n" > 50',
        'SELECT AVG(x) AS "N", COUNT(*) AS "n" FROM t',
        'SELECT AVG(x) AS "N", COUNT(*) AS "n", "N" * 2 AS d FROM t',
        'SELECT g, AVG(x) AS "N", COUNT(*) AS "n" FROM t GROUP BY g ORDER BY "N"',
        'SELECT "g", COUNT(*) AS "G" FROM t GROUP BY "g" ORDER BY "g"',
        'SELECT SUM("a") AS s FROM (SELECT x AS "a", x * 2 AS "A" FROM t) AS s',
        'WITH r AS (SELECT x FROM t), "R" AS (SELECT x * 2 AS x FROM t) SELECT SUM(x) AS s FROM r',
    ],
)
def test_names_of_as_that_differ_only_in_case_are_refused(statement: str) -> None:
    with pytest.raises(SidelightError, match="differ only in case"):
        parse_select(statement, SCHEMA)


def test_an_order_by_a_column_that_a_name_of_as_resembles_is_refused() -> None:
    with pytest.raises(SidelightError, match="AS with another name"):
        parse_select('SELECT COUNT(*) AS "X" FROM t GROUP BY x ORDER BY x', SCHEMA)
    assert parse_select('SELECT COUNT(*) AS "x" FROM t GROUP BY "g" ORDER BY "x"', SCHEMA).shown is not None


def test_columns_that_differ_only_in_case_are_selected_by_their_names() -> None:
    assert parse_select('SELECT "G", "g", COUNT(*) AS n FROM t GROUP BY "G", "g"', SCHEMA).by == ("G", "g")


@pytest.mark.filterwarnings("ignore:a budget of epsilon")
def test_statements_over_a_database_are_refused_as_those_over_a_table() -> None:
    session = sl.Session(clinic(), budget=sl.PureDP(2000))
    for statement in (
        'SELECT COUNT(*) AS "n", AVG(x) AS "N" FROM visit',
        'WITH r AS (SELECT pid, MAX(x) AS m FROM visit GROUP BY pid), "R" AS (SELECT pid, MAX("X") AS m FROM visit '
        "GROUP BY pid) SELECT COUNT(*) AS n FROM r WHERE m = 5",
    ):
        with pytest.raises(SidelightError, match="differ only in case"):
            session.sql(statement, epsilon=1000)
    by_both = session.sql('SELECT "x", "X", COUNT(*) AS n FROM visit GROUP BY "x", "X"', epsilon=1000).shown
    assert by_both.keys_of_groups == ("x", "X")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("x", "x"), ("X", "X"), ('"x"', "x"), ('"X"', "X"), ("AGE", "Age"), ('"AGE"', None), ("Age", "Age"), ("y", None)],
)
def test_what_a_name_means(name: str, meant: str | None) -> None:
    assert declared_name(sqlglot.parse_one(name, dialect="duckdb"), ["X", "x", "Age"]) == meant


def test_a_name_that_resembles_several_is_refused() -> None:
    schema = Schema([Number("Pay", lower=0, upper=9, granularity=1), Number("pay", lower=0, upper=9, granularity=1)])
    with pytest.raises(SidelightError, match='\'PAY\' may mean "Pay" or "pay"'):
        parse_select("SELECT SUM(PAY) AS s FROM t", schema)


def clinic() -> sl.Database:
    """Return tables and columns whose names differ only in case: 9 patients, 9 rows of visit and 3 of Visit."""
    pid, number = [*range(9)], {"lower": 0, "upper": 9, "granularity": 1}
    numbers = [sl.Number("x", **number), sl.Number("X", **number)]
    whole = {"vid": pid, "Vid": [8, *range(8)], "pid": pid, "x": [1] * 9, "X": [5] * 9}
    few = {name: cells[:3] for name, cells in whole.items()}
    rows = [sl.PersonId("pid", max_rows=1), *numbers]
    return sl.Database(
        {
            "patient": sl.Table({"pid": pid, "x": [2] * 9, "X": [7] * 9}, schema=rows),
            "visit": sl.Table(whole, schema=[*rows, sl.Key("vid")]),
            "Visit": sl.Table(few, schema=rows),
            "drug": sl.Table(
                {"Vid": pid, "vid": [0] * 9, "y": pid},
                schema=[
                    sl.PersonVia("Vid", to="visit", max_rows=9),
                    sl.Number("vid", **number),
                    sl.Number("y", **number),
                ],
            ),
        },
        name="clinic",
    )


EXACT = {
    'SELECT SUM("X") AS n FROM visit': 45,
    'SELECT SUM("x") AS n FROM visit': 9,
    'SELECT SUM("x") AS n FROM visit WHERE "X" > 4': 9,
    'SELECT SUM(v."X") AS n FROM visit AS v': 45,
    "SELECT SUM(V.X) AS n FROM visit AS v": 45,
    'SELECT COUNT(*) AS n FROM "Visit"': 3,
    "SELECT COUNT(*) AS n FROM Visit": 3,
    "SELECT COUNT(*) AS n FROM visit": 9,
    "SELECT COUNT(*) AS n FROM PATIENT": 9,
    'SELECT SUM(p."X") AS n FROM visit v JOIN patient p ON v.pid = p.pid': 63,
    'SELECT SUM(p."x") AS n FROM visit v JOIN patient p USING (PID)': 18,
    'SELECT SUM(v."X") AS n FROM "Visit" v JOIN patient p ON v.pid = p.pid': 15,
    'SELECT SUM(d.y) AS n FROM drug d JOIN visit v ON d."Vid" = v.vid WHERE v."X" = 5': 36,
    'SELECT COUNT(*) AS n FROM patient p WHERE EXISTS (SELECT * FROM "Visit" v WHERE v.pid = p.pid AND v."X" = 5)': 3,
    'SELECT SUM(p."X") AS n FROM patient p WHERE (SELECT SUM(v."X") FROM visit v WHERE v.pid = p.pid) = 5': 63,
    # the table around is called "V", the one inside v
    'SELECT COUNT(*) AS n FROM patient "V" WHERE EXISTS (SELECT * FROM visit v WHERE v.pid = "V".pid)': 9,
    'SELECT COUNT(*) AS n FROM (SELECT pid, MAX("X") AS m FROM visit GROUP BY pid) s WHERE m = 5': 9,
}


@pytest.mark.filterwarnings("ignore:a budget of epsilon")
@pytest.mark.parametrize(("statement", "wanted"), EXACT.items())
def test_a_database_reads_the_column_that_is_spelled_so(statement: str, wanted: int) -> None:
    options = {"person_total": 9} if "FROM drug" in statement else {}
    with no_noise():
        released = sl.Session(clinic(), budget=sl.PureDP(2000)).sql(statement, epsilon=1000, **options)
    assert released.shown["n"].tolist() == [wanted]


NOT_THERE = "FROM names|has no column|names no table|no table|may mean|USING names|do not form|neither a column"


@pytest.mark.parametrize(
    "statement",
    [
        'SELECT COUNT(*) AS n FROM "PATIENT"',
        'SELECT SUM(v."PID") AS n FROM visit v',
        'SELECT SUM("V".x) AS n FROM visit v',
        "SELECT COUNT(*) AS n FROM VISIT",
        "SELECT SUM(y) AS n FROM drug d JOIN visit v ON d.vid = v.vid",
        'SELECT COUNT(*) AS n FROM patient JOIN visit USING ("PID")',
        'SELECT COUNT(*) FROM patient p JOIN (SELECT "PID" AS k, COUNT(*) AS c FROM visit GROUP BY pid) t ON k = p.pid',
    ],
)
@pytest.mark.filterwarnings("ignore:a budget of epsilon")
def test_a_database_refuses_other_spellings_in_quotes_before_the_charge(statement: str) -> None:
    session = sl.Session(clinic(), budget=sl.PureDP(2000))
    before = str(session.remaining)
    options = {"person_total": 9} if "FROM drug" in statement else {}
    with pytest.raises(SidelightError, match=NOT_THERE):
        session.sql(statement, epsilon=1000, **options)
    assert str(session.remaining) == before
