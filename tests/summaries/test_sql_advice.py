"""What a refused statement over a database is told to write instead is right."""

from __future__ import annotations

import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.records.readings import NumberReading


def clinic() -> sl.Session:
    age = sl.Number("age", lower=0, upper=100, granularity=1)
    visit = sl.Table({"p": [1], "v": [1], "age": [3]}, schema=[sl.PersonId("p", max_rows=3), sl.Key("v"), age])
    link = sl.PersonVia("v", to="visit", max_rows=3)
    drug = sl.Table({"v": [1], "d": ["a"]}, schema=[link, sl.Category("d", ["a"], other=None)])
    return sl.Session(sl.Database({"visit": visit, "drug": drug}, name="clinic"), budget=sl.PureDP(1))


@pytest.mark.parametrize(
    ("statement", "message", "instead"),
    [
        ("COUNT(v) FROM visit", r"count rows with COUNT\(\*\)", "COUNT(*) FROM visit"),
        ("COUNT(*) FROM drug NATURAL JOIN visit", "^NATURAL JOIN", "COUNT(*) FROM drug JOIN visit USING (v)"),
        (
            "COUNT(*) FROM drug WHERE drug.v IN (SELECT v FROM visit WHERE age > 3)",
            "each row of 'drug' names one row of 'visit' here; write JOIN visit",
            "COUNT(*) FROM drug JOIN visit ON drug.v = visit.v WHERE age > 3",
        ),
        (
            "COUNT(*) FROM visit WHERE age IS DISTINCT FROM 5",
            "write x <> 5 OR x IS NULL",
            "COUNT(*) FROM visit WHERE age <> 5 OR age IS NULL",
        ),
        (
            "COUNT(*) FROM visit WHERE age IS NOT DISTINCT FROM 5",
            "write =, or IS NULL",
            "COUNT(*) FROM visit WHERE age = 5",
        ),
    ],
)
def test_what_is_to_be_written_instead_is_understood(statement: str, message: str, instead: str) -> None:
    session = clinic()
    with pytest.raises(RangeError, match=message):
        session.sql(f"SELECT {statement}", epsilon="0.5", dry_run=True)
    session.sql(f"SELECT {instead}", epsilon="0.5", dry_run=True)
    session.sql("SELECT AVG(n) FROM (SELECT p, COUNT(v) AS n FROM visit GROUP BY p) s", epsilon="0.5", dry_run=True)


def test_names_stand_in_quotes_where_they_need_them() -> None:
    person = sl.PersonId("the person", max_rows=3)
    visit = sl.Table({"the person": [1], "v": [1]}, schema=[person, sl.Key("v")])
    link = sl.PersonVia("v", to="order", max_rows=3)
    drug = sl.Table({"v": [1], "d": ["a"]}, schema=[link, sl.Category("d", ["a"], other=None)])
    session = sl.Session(sl.Database({"order": visit, "drug": drug}, name="clinic"), budget=sl.PureDP(1))
    for statement, message in {
        'COUNT(*) FROM drug WHERE drug.v IN (SELECT v FROM "order")': 'write JOIN "order" ON',
        'v, COUNT(*) FROM drug JOIN "order" ON drug.v = "order".v GROUP BY v': 'drug.v or "order".v; write one',
    }.items():
        with pytest.raises(RangeError, match=message):
            session.sql(f"SELECT {statement}", epsilon="0.5", dry_run=True)


@pytest.mark.parametrize(("name", "written"), [("2019", '"2019"'), ("my-table", '"my-table"'), ("people", "people")])
def test_a_table_is_named_as_from_takes_it(name: str, written: str) -> None:
    table = sl.Table({"job": ["cook"]}, schema=[sl.Category("job", ["cook"], other=None)], name=name)
    session = sl.Session(table, budget=sl.PureDP(1))
    with pytest.raises(RangeError, match=f"write FROM {written}$"):
        session.sql("SELECT COUNT(*) FROM another", epsilon="0.5", dry_run=True)
    for known in (written, f'"{name}"'):  # the page of a server always quotes it
        session.sql(f"SELECT COUNT(*) FROM {known}", epsilon="0.5", dry_run=True)


def test_declared_numbers_are_read_by_the_rule_of_their_page() -> None:
    read = NumberReading().of_text
    assert [read(text) for text in ("\u00a07", "7\u2003", "\u22121")] == [7, 7, -1]
    assert all(read(text) != read(text) for text in ("1_000", "1e000001", "\uff17"))
