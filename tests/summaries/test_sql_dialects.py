"""A statement means what it means in the dialect that it names, or is refused.

The expected numbers of "postgresql" are those of PostgreSQL 15; of the others, what their manuals say.
"""

from __future__ import annotations

from math import trunc
from typing import Any, get_args

import pytest

from sidelight import SQL, Category, Date, Drop, Number, Schema, Table
from sidelight.errors import RangeError
from sidelight.summaries.sql_dialects import Dialect
from sidelight.summaries.sql_statement import parse_select
from sidelight.testing import seeded_release

LABELS = ["a_b", "axb", "nurse", "cook", "c%k", "[c]", "a\\b"]
AGES = [None, *range(40)]
INTEGER_DIALECTS = ("postgresql", "tsql")
TABLE = Table(
    {
        "label": [LABELS[at % 7] for at in range(82)],
        "age": [AGES[at % 41] for at in range(82)],
        "change": [at % 41 - 20 for at in range(82)],
        "day": ["2021-03-07" if at % 2 else "2020-02-29" for at in range(82)],
    },
    schema=[
        Category("label", LABELS, other=None),
        Number("age", lower=0, upper=39, granularity=1),
        Number("change", lower=-20, upper=20, granularity=1),
        Date("day", start="2020-01-01", end="2021-12-31"),
    ],
    name="t",
)
PEOPLE = [(AGES[at % 41], at % 41 - 20) for at in range(82)]


def asked(what: str, dialect: str, rest: str = "") -> Any:
    """Return one number of a statement, with hardly any noise."""
    query = SQL(f"SELECT {what} AS n FROM t {rest}", epsilon=10**6, dialect=dialect)  # type: ignore[arg-type]
    found = seeded_release(query, TABLE, seed=1)
    return round(float((found.value if found.shown is None else found.shown)["n"][0]), 4)


def count(condition: str, dialect: str) -> Any:
    return asked("COUNT(*)", dialect, f"WHERE {condition}")


# --- integer division


@pytest.mark.parametrize("dialect", INTEGER_DIALECTS)
def test_rows_divide_integers_where_the_dialect_does(dialect: str) -> None:
    ages = [age for age, _ in PEOPLE if age is not None]
    changes = [change for _, change in PEOPLE]
    assert count("age / 10 = 3", dialect) == sum(age // 10 == 3 for age in ages)
    assert count("change / 7 = 0", dialect) == sum(trunc(each / 7) == 0 for each in changes)
    assert count("change / -7 >= 2", dialect) == sum(trunc(each / -7) >= 2 for each in changes)
    assert count("100 / change = 33", dialect) == sum(each == 3 for each in changes)
    assert count("change / 3 * 3 = change", dialect) == sum(each % 3 == 0 for each in changes)
    assert count("(age + 1) / 10 + change = 3", dialect) == sum(
        age is not None and (age + 1) // 10 + change == 3 for age, change in PEOPLE
    )
    assert count("age IN (7 / 2, 9)", dialect) == 4
    assert count("age > 61 / 2", dialect) == sum(age > 30 for age in ages)
    assert asked("SUM(age / 10)", dialect) == sum(age // 10 for age in ages)
    assert asked("SUM(CASE WHEN age / 10 = 3 THEN change / 7 ELSE 0 END)", dialect) == sum(
        trunc(change / 7) for age, change in PEOPLE if age is not None and age // 10 == 3
    )
    assert asked("AVG(age / 10)", dialect) == pytest.approx(sum(age // 10 for age in ages) / len(ages), abs=1e-3)
    assert asked("COUNT(*) FILTER (WHERE age / 10 >= 2.5)", dialect) == sum(age // 10 >= 2.5 for age in ages)


@pytest.mark.parametrize("dialect", INTEGER_DIALECTS)
def test_a_divisor_that_is_no_integer_divides_exactly(dialect: str) -> None:
    for written in ("age / 10.0", "CAST(age AS FLOAT) / 10", "age * 1.0 / 10"):
        assert count(f"{written} = 3.1", dialect) == 2
    assert asked("SUM(change) * 1.0 / COUNT(*)", dialect) == 0


@pytest.mark.parametrize("dialect", ["duckdb", "bigquery", "snowflake", "spark"])
def test_other_dialects_divide_exactly(dialect: str) -> None:
    assert count("age / 10 = 3", dialect) == 2
    assert asked("SUM(age) / COUNT(*)", dialect) == pytest.approx(sum(range(40)) * 2 / 82, abs=1e-3)


@pytest.mark.parametrize(("written", "dialect"), [("DIV(age, 10)", "bigquery"), ("age DIV 10", "spark")])
def test_the_division_of_integers_of_other_dialects(written: str, dialect: str) -> None:
    assert count(f"{written} = 3", dialect) == 20


@pytest.mark.parametrize("dialect", INTEGER_DIALECTS)
@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("(age + change) / 10 = 3", "divides integers in this dialect, which is understood of one declared column"),
        ("age > 1 / 0", "no number"),
    ],
)
def test_integer_divisions_that_cannot_be_read_are_refused(condition: str, why: str, dialect: str) -> None:
    with pytest.raises(RangeError, match=why):
        count(condition, dialect)


def test_the_sum_of_integers_is_one() -> None:
    total = sum(range(40)) * 2
    assert asked("SUM(age) / COUNT(*)", "tsql") == total // 82
    assert asked("(SUM(age) + 1) / 7", "tsql") == (total + 1) // 7
    assert asked("SUM(age) / 7.0", "tsql") == pytest.approx(total / 7, abs=1e-3)
    with pytest.raises(RangeError, match="that of a bigint column as decimals"):
        asked("SUM(age) / COUNT(*)", "postgresql")
    assert asked("COUNT(*) / 3", "postgresql") == 27


def test_types_of_functions_decide_what_is_divided() -> None:
    """PostgreSQL has doubles of ROUND, FLOOR, SIGN and decimals of EXTRACT and DIV; T-SQL has integers of all."""
    for written in ("ROUND(age)", "FLOOR(age)", "CEIL(age)", "TRUNC(age)", "SIGN(age) * age", "MOD(age, 40) * 1.0"):
        assert count(f"{written} / 10 = 3", "postgresql") == 2, written
    for written in ("ABS(age)", "MOD(age, 40)", "COALESCE(age, 0)", "NULLIF(age, 0)"):
        assert count(f"{written} / 10 = 3", "postgresql") == 20, written
    for written in ("ROUND(age, 0)", "FLOOR(age)", "CEILING(age)", "ABS(age)", "age % 40"):
        assert count(f"{written} / 10 = 3", "tsql") == 20, written
    assert count("EXTRACT(year FROM day) / 2 = 1010.5", "postgresql") == 41
    assert count("DATEPART(year, day) / 2 = 1010", "tsql") == 82


# --- casts and rounding

_CASTS = [
    ("CAST(2.5 AS INTEGER)", {"duckdb": 3, "postgresql": 3, "bigquery": 3, "snowflake": 3, "spark": 2, "tsql": 2}),
    ("CAST(3.5 AS INTEGER)", {"duckdb": 4, "postgresql": 4, "bigquery": 4, "snowflake": 4, "spark": 3, "tsql": 3}),
    ("CAST(-2.5 AS INTEGER)", {"duckdb": -3, "postgresql": -3, "bigquery": -3, "snowflake": -3, "spark": -2}),
    ("CAST(-2.7 AS INTEGER)", {"duckdb": -3, "postgresql": -3, "spark": -2, "tsql": -2}),
    ("CAST(CAST(2.5 AS DOUBLE PRECISION) AS INTEGER)", {"duckdb": 2, "postgresql": 2, "snowflake": 3, "spark": 2}),
    ("CAST(5 / 2.0 AS INTEGER)", {"duckdb": 2, "postgresql": 3, "spark": 2, "tsql": 2}),
    ("CAST(2.71828 AS DECIMAL)", {"duckdb": 2.718, "postgresql": 2.7183, "snowflake": 3, "spark": 3, "tsql": 3}),
    ("CAST(2.71828 AS DECIMAL(5, 1))", dict.fromkeys(("duckdb", "postgresql", "snowflake", "spark", "tsql"), 2.7)),
    ("CAST(2.71828 AS NUMERIC)", {"bigquery": 2.7183}),
    ("ROUND(2.5)", dict.fromkeys(("duckdb", "postgresql", "bigquery", "snowflake", "spark"), 3)),
    ("ROUND(CAST(2.5 AS DOUBLE PRECISION))", {"duckdb": 3, "postgresql": 2, "snowflake": 3, "spark": 3}),
    ("ROUND(2.25, 1)", dict.fromkeys(("duckdb", "postgresql", "bigquery", "snowflake", "spark", "tsql"), 2.3)),
]


@pytest.mark.parametrize(
    ("written", "dialect", "number"),
    [(written, dialect, number) for written, found in _CASTS for dialect, number in found.items()],
)
def test_casts_and_rounding_are_those_of_the_dialect(written: str, dialect: str, number: float) -> None:
    assert asked(f"COUNT(*) * 0 + {written}", dialect) == number
    assert count(f"age >= 0 AND {written} = {number} AND age < 5", dialect) == 10 if number != 2.7183 else True


# --- LIKE

_PATTERNS = [
    (r"'a\_b'", {"duckdb": [], "postgresql": ["a_b"], "snowflake": ["a_b", "axb", "a\\b"], "spark": ["a_b"]}),
    (r"'a\\_b'", {"postgresql": [], "bigquery": ["a_b"], "snowflake": [], "spark": ["a_b"]}),
    (r"'c\%k'", {"duckdb": [], "postgresql": ["c%k"], "spark": ["c%k"], "tsql": []}),
    (r"'a\\b'", {"duckdb": [], "postgresql": ["a\\b"], "snowflake": ["a\\b"], "bigquery": [], "spark": []}),
    (r"'a\\\\b'", {"bigquery": ["a\\b"], "spark": ["a\\b"]}),
    ("'a!_b' ESCAPE '!'", {each: ["a_b"] for each in ("duckdb", "postgresql", "snowflake", "spark", "tsql")}),
    ("'![c]' ESCAPE '!'", {"tsql": ["[c]"]}),
    ("'c%'", {each: ["cook", "c%k"] for each in get_args(Dialect)}),
]


@pytest.mark.parametrize(
    ("pattern", "dialect", "labels"),
    [(pattern, dialect, labels) for pattern, found in _PATTERNS for dialect, labels in found.items()],
)
def test_patterns_are_those_of_the_dialect(pattern: str, dialect: str, labels: list[str]) -> None:
    wanted = sum(LABELS[at % 7] in labels for at in range(82))
    assert count(f"label LIKE {pattern}", dialect) == wanted
    assert count(f"label NOT LIKE {pattern}", dialect) == 82 - wanted
    if dialect in ("duckdb", "postgresql", "snowflake", "spark"):
        assert count(f"label ILIKE {pattern}", dialect) == wanted


@pytest.mark.parametrize(
    ("pattern", "dialect", "why"),
    [
        ("'[cn]%'", "tsql", "a set of characters"),
        ("'%[^a]'", "tsql", "a set of characters"),
        (r"'a\'", "postgresql", "ends with"),
        ("'a!' ESCAPE '!'", "duckdb", "ends with"),
        (r"'a\_b'", "bigquery", "a backslash that BigQuery does not know"),
        ("'NURSE'", "tsql", "depends on capitals"),
        ("'A%'", "tsql", "depends on capitals"),
        ("label", "tsql", "a written pattern"),
    ],
)
def test_patterns_that_cannot_be_read_are_refused(pattern: str, dialect: str, why: str) -> None:
    with pytest.raises(RangeError, match=why):
        count(f"label LIKE {pattern}", dialect)


def test_capitals_make_no_difference_that_is_not_seen_in_tsql() -> None:
    assert count("UPPER(label) LIKE 'NURSE'", "tsql") == count("label = 'nurse'", "duckdb")
    for condition in ("UPPER(label) = 'nurse'", "LOWER(label) IN ('NURSE', 'cook')"):
        assert count(condition, "duckdb") < count(condition.casefold().replace("upper", "lower"), "duckdb")
        with pytest.raises(RangeError, match="depends on capitals"):
            count(condition, "tsql")
    for labels in (["Cook", "cook"], ["cook", "cook "]):
        schema = Schema([Category("job", labels)])
        with pytest.raises(RangeError, match="differ in capitals or in blanks"):
            parse_select("SELECT job, COUNT(*) FROM t GROUP BY job", schema, dialect="tsql")
        parse_select("SELECT job, COUNT(*) FROM t GROUP BY job", schema, dialect="postgresql")


# --- quantiles of BigQuery


@pytest.mark.parametrize(
    ("place", "level"),
    [("OFFSET(1)", 0.25), ("ORDINAL(2)", 0.25), ("SAFE_OFFSET(3)", 0.75), ("SAFE_ORDINAL(4)", 0.75), ("1", 0.25)],
)
def test_places_of_approx_quantiles_count_from_zero_or_one(place: str, level: float) -> None:
    select = parse_select(f"SELECT APPROX_QUANTILES(age, 4)[{place}] FROM t", TABLE.schema, dialect="bigquery")
    assert [item.level for item in select.items] == [level]


@pytest.mark.parametrize("place", ["OFFSET(0)", "ORDINAL(1)", "ORDINAL(5)", "SAFE_OFFSET(4)"])
def test_the_extremes_of_approx_quantiles_are_refused(place: str) -> None:
    with pytest.raises(RangeError, match="strictly between 0 and 1"):
        parse_select(f"SELECT APPROX_QUANTILES(age, 4)[{place}] FROM t", TABLE.schema, dialect="bigquery")


# --- names


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT label, COUNT(*) AS age FROM (SELECT label FROM t) s WHERE age > 30 GROUP BY label",
        "WITH s AS (SELECT label FROM t) SELECT label, COUNT(*) AS age FROM s WHERE age > 30 GROUP BY label",
        "SELECT COUNT(*) FILTER (WHERE age > 3) AS age FROM (SELECT label FROM t) s",
        "SELECT SUM(age) AS age FROM (SELECT label FROM t) s",
        "SELECT label, COUNT(*) AS age, s.age AS other FROM (SELECT label FROM t) s GROUP BY label",
        "SELECT COUNT(*) AS age FROM (SELECT label FROM (SELECT label, age FROM t) u) s WHERE age > 3",
    ],
)
def test_a_column_that_a_subquery_does_not_have_is_refused(statement: str) -> None:
    with pytest.raises(RangeError, match="'age' is not a column of the subquery 's'"):
        parse_select(statement, TABLE.schema)


@pytest.mark.parametrize(
    ("statement", "keys"),
    [
        ("SELECT label AS age, COUNT(*) AS n FROM (SELECT label FROM t) s GROUP BY age", ["label"]),
        ("SELECT label AS l, COUNT(*) AS n FROM (SELECT label FROM t) s GROUP BY l", ["label"]),
        ("SELECT age, COUNT(*) AS n FROM (SELECT label AS age FROM t) s GROUP BY age", ["label"]),
    ],
)
def test_names_of_as_around_a_subquery_are_not_columns_of_the_table(statement: str, keys: list[str]) -> None:
    assert list(map(str, parse_select(statement, TABLE.schema).by)) == keys


def test_order_by_reads_names_of_as_first() -> None:
    inner = "(SELECT label, COUNT(*) AS n FROM t GROUP BY label) s"
    query = SQL(f"SELECT label, 100 - n AS n FROM {inner} ORDER BY n, label LIMIT 2", epsilon=10**6)
    assert seeded_release(query, TABLE, seed=1).shown["label"] == ["a_b", "axb"]
    query = SQL(f"SELECT label, 100 - n AS n FROM {inner} ORDER BY n DESC, label LIMIT 2", epsilon=10**6)
    assert seeded_release(query, TABLE, seed=1).shown["label"] == ["[c]", "a\\b"]


@pytest.mark.parametrize(
    ("statement", "dialect"),
    [
        ("SELECT UPPER(label) AS label, COUNT(*) AS n FROM t GROUP BY label", "bigquery"),
        ("SELECT UPPER(label) AS label, COUNT(*) AS n FROM (SELECT label FROM t) s GROUP BY label", "bigquery"),
        ("SELECT label, COUNT(*) AS age FROM t GROUP BY label HAVING age > 3", "bigquery"),
        ("SELECT label, COUNT(*) AS age FROM t GROUP BY label ORDER BY -age", "postgresql"),
    ],
)
def test_names_with_two_meanings_are_refused_where_dialects_differ(statement: str, dialect: str) -> None:
    with pytest.raises(RangeError, match="is a column and, by AS, something else"):
        parse_select(statement, TABLE.schema, dialect=dialect)
    again = statement.replace("AS label", "AS other").replace("AS age", "AS other").replace("-age", "-other")
    parse_select(again.replace("age > 3", "other > 3"), TABLE.schema, dialect=dialect)


# --- notes


@pytest.mark.parametrize(
    ("statement", "noted"),
    [
        ("SELECT COUNT(*) FROM t WHERE job <> 'cook'", True),
        ("SELECT COUNT(*) FROM t WHERE NOT job = 'cook' AND age > 3", True),
        ("SELECT COUNT(*) FROM t WHERE job IS NULL", True),
        ("SELECT COUNT(*) FROM t WHERE job IS NOT NULL", True),
        ("SELECT COUNT(*) FROM t WHERE job NOT IN ('cook')", True),
        ("SELECT COUNT(*) FROM t WHERE job NOT LIKE 'c%'", True),
        ("SELECT COUNT(*) FROM t WHERE job LIKE '%'", True),
        ("SELECT COUNT(job) FROM t", True),
        ("SELECT COUNT(*) FILTER (WHERE job <> 'cook') FROM t", True),
        ("SELECT AVG(job = 'cook') FROM t", True),
        ("SELECT COALESCE(job, 'none') AS g, COUNT(*) FROM t GROUP BY 1", True),
        ("SELECT job IS NULL AS g, COUNT(*) FROM t GROUP BY 1", True),
        ("SELECT COUNT(*) FROM t WHERE job = 'cook'", False),
        ("SELECT COUNT(*) FROM t WHERE job IN ('cook', 'nurse') OR age > 3", False),
        ("SELECT COUNT(*) FROM t WHERE NOT age = 3", False),
        ("SELECT COUNT(*) FROM t WHERE job LIKE 'c%'", False),
        ("SELECT AVG(CASE WHEN job = 'cook' THEN 1 ELSE 0 END) FROM t", False),
        ("SELECT CASE WHEN job = 'cook' THEN 'a' ELSE 'b' END AS g, COUNT(*) FROM t GROUP BY 1", False),
        ("SELECT job, COUNT(*), AVG(age) FROM t GROUP BY job", False),
    ],
)
def test_a_note_says_where_missing_labels_are_not_null(statement: str, noted: bool) -> None:
    age = Number("age", lower=0, upper=99, granularity=1)
    words = "job: missing cells count as the label 'other'"
    query = SQL(statement, epsilon=1)
    assert (words in str(query.translation(Schema([Category("job", ["cook", "nurse"]), age])))) is noted
    for column in (Category("job", ["cook", "nurse"], other=None), Category("job", ["cook", "nurse"], missing=Drop())):
        assert "missing cells" not in str(query.translation(Schema([column, age])))


def test_notes_are_part_of_the_release() -> None:
    table = Table({"job": ["cook", None, "pilot"] * 5, "age": [1, 2, 3] * 5}, schema=[
        Category("job", ["cook"]), Number("age", lower=0, upper=9, granularity=1),
    ])  # fmt: skip
    query = SQL("SELECT AVG(age) AS age FROM t WHERE job <> 'cook'", epsilon=1, dialect="tsql")
    said = seeded_release(query, table, seed=1).value.notes["meaning"]
    assert "job: missing cells count as the label 'other'" in said
    assert "age: T-SQL drops the fraction of an average of integers" in said
