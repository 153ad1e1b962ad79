"""Names that differ only in case: each means the column that is spelled so, or the statement is refused."""

from __future__ import annotations

from typing import Any

import pytest

import sidelight as sl
from sidelight.errors import SidelightError
from sidelight.records import Category, Number, Schema
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
