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


def test_declared_numbers_are_read_by_the_rule_of_their_page() -> None:
    read = NumberReading().of_text
    assert [read(text) for text in ("\u00a07", "7\u2003", "\u22121")] == [7, 7, -1]
    assert all(read(text) != read(text) for text in ("1_000", "1e000001", "\uff17"))
