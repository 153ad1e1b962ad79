"""What SQL is understood, what is refused in which words, and that no text does anything else."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.errors import RangeError, SchemaError, SidelightError
from sidelight.records import Category, Number, PersonId, Schema
from sidelight.records.expression_text import parse_expression
from sidelight.release.statement_trees import StatementRow, evaluated
from sidelight.summaries.sql_statement import parse_select
from sidelight.summaries.sql_translation import asked_of

SCHEMA = Schema(
    [
        PersonId("pid", max_rows=3),
        Number("age", lower=0, upper=120, granularity=1),
        Number("income"),
        Category("job", ["nurse", "it's", 'say "hi"', "\\", "ärztin", "--", "NULL"]),
        Category("Region", ["N", "S"]),
        Category("select", ["a"]),
    ]
)


def condition(sql: str) -> str:
    """Return how a condition was understood."""
    return str(parse_select(f"SELECT COUNT(*) FROM people WHERE {sql}", SCHEMA).where)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("age >= 18", "age >= 18"),
        ("AGE>=18", "age >= 18"),
        ("people.age >= 18", "age >= 18"),
        ("18 <= age", "18 <= age"),
        ("age <> 0.1", "age != 0.1"),
        ("age = -2.5e1", "age == -25"),
        ("age > 10 + 2 * 4", "age > 18"),
        ("age > 1/3", "age > 1/3"),
        ("age * 2 + income / 12 < 7", "age * 2 + income / 12 < 7"),
        ("(age + 1) * 2 < 7", "(age + 1) * 2 < 7"),
        ("-age < 7", "0 - age < 7"),
        ("job = 'it''s'", 'job == "it\'s"'),
        ("job = 'say \"hi\"'", 'job == "say \\"hi\\""'),
        ("job = '\\'", 'job == "\\\\"'),
        ("job = 'ärztin'", 'job == "ärztin"'),
        ("job = '--' /* ' */ AND age > 1 -- '", 'job == "--" and age > 1'),
        ("job IN ('nurse', 'NULL')", 'job in ["nurse", "NULL"]'),
        ("NOT job IN ('nurse')", 'not job in ["nurse"]'),
        ("job NOT IN ('nurse')", 'not job in ["nurse"]'),
        ("age BETWEEN 18 AND 65", "age >= 18 and age <= 65"),
        ("age NOT BETWEEN 18 AND 65", "not (age >= 18 and age <= 65)"),
        ("age IS NULL OR income IS NOT NULL", "age is None or not income is None"),
        ("age > 1 OR age < 2 AND NOT age = 3", "age > 1 or age < 2 and not age == 3"),
        ("(age > 1 OR age < 2) AND age = 3", "(age > 1 or age < 2) and age == 3"),
        ("\"select\" = 'a'", 'select == "a"'),
        ("\"Region\" = 'N' AND region = 'S'", 'Region == "N" and Region == "S"'),
    ],
)
def test_conditions_become_expressions(sql: str, text: str) -> None:
    assert condition(sql) == text
    assert parse_expression(text).same_as(parse_expression(condition(sql)))


@pytest.mark.parametrize(
    ("statement", "named", "instead"),
    [
        ("SELECT COUNT(*) FROM people JOIN other ON a = b", "JOIN", "sl.Database"),
        ("SELECT COUNT(*) FROM people, other", "JOIN", "sl.Database"),
        ("SELECT COUNT(*) FROM people WHERE age IN (SELECT 1)", "subquery", "list the constants"),
        ("SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1)", "EXISTS", "WHERE"),
        ("SELECT DISTINCT job FROM people", "job", "GROUP BY"),
        ("SELECT COUNT(*) OVER () FROM people", "OVER", "GROUP BY"),
        ("SELECT COUNT(*) FROM people TABLESAMPLE (10 PERCENT)", "TABLESAMPLE", "all rows"),
        ("SELECT COUNT(*) FROM people UNION SELECT COUNT(*) FROM people", "UNION", "one after another"),
        ("SELECT COUNT(*) FROM people; DROP TABLE people", "several", "one after another"),
        ("DROP TABLE people", "DROP", "SELECT"),
        ("EXPLAIN SELECT 1", "EXPLAIN", "SELECT"),
        ("SELECT * FROM people", "*", "never released"),
        ("SELECT age FROM people", "age", "GROUP BY"),
        ("SELECT job FROM people GROUP BY job", "no number", "COUNT(*)"),
        ("SELECT MIN(age) FROM people", "MIN", "QUANTILE(column, 0.01)"),
        ("SELECT MAX(age) FROM people", "MAX", "QUANTILE(column, 0.99)"),
        ("SELECT AVG(DISTINCT age) FROM people", "DISTINCT", "COUNT(DISTINCT person)"),
        ("SELECT my_function(age) FROM people", "MY_FUNCTION", "SELECT takes"),
        ("SELECT QUANTILE(age, 1.5) FROM people", "level", "QUANTILE(income, 0.9)"),
        ("SELECT COUNT(*) FROM people WHERE job = NULL", "NULL", "IS NULL"),
        ("SELECT COUNT(*) FROM people WHERE age IS TRUE", "age", "compare it"),
        ("SELECT COUNT(*) FROM people WHERE age", "age", "compare"),
        ("SELECT COUNT(*) FROM people WHERE 1 < age < 2", "condition", "AND"),
        ("SELECT COUNT(*) FROM people WHERE age = ?", "placeholder", "constant"),
        ("SELECT COUNT(*) FROM people WHERE age > 1 / 0", "division by zero", ""),
        ("SELECT AVG(age) / 0 FROM people", "division by zero", "another divisor"),
        ("SELECT COUNT(*) % -(0.00) AS n FROM people", "division by zero", "another divisor"),
        ("SELECT COUNT(*) // CAST(0e5 AS INT) FROM people", "division by zero", "another divisor"),
        (
            "SELECT job, COUNT(*) FROM people GROUP BY job HAVING COUNT(*) / 0 > 1",
            "division by zero",
            "another divisor",
        ),
        ("SELECT COUNT(*) FROM people WHERE age IN ()", "age IN ()", "region IN ('N', 'S')"),
        ("SELECT COUNT(*) FROM people WHERE NOT UPPER(job) IN ()", "empty", "region IN ('N', 'S')"),
        ("SELECT COUNT(*) FILTER (WHERE job IN ()) FROM people", "job IN ()", "region IN ('N', 'S')"),
        ("SELECT COUNT(*) FROM people WHERE age > 1e999999999", "ordinary size", ""),
        ("SELECT CASE WHEN age > 1 THEN 1 END, COUNT(*) FROM people", "age", "GROUP BY"),
        ("SELECT job, COUNT(*) FROM people GROUP BY 2", "COUNT(*)", "not a column to group by"),
        ("SELECT job, COUNT(*) FROM people GROUP BY 1 + 1", "GROUP BY", "columns"),
        ("SELECT other.age, COUNT(*) FROM people GROUP BY other.age", "other", "people"),
        ("SELECT AVG(n) FROM (SELECT job, COUNT(*) AS n FROM people GROUP BY job) t", "aggregate", "afterwards"),
        ("SELECT COUNT(*) FROM (SELECT * FROM people LIMIT 5) t", "LIMIT", "WHERE"),
        ("SELECT job, COUNT(*) FROM people GROUP BY job HAVING income > 3", "income", "HAVING"),
        ("SELECT job, COUNT(*) FROM people GROUP BY job ORDER BY 3", "ORDER BY 3", "has 2"),
        ("SELECT job, COUNT(*) FROM people GROUP BY job LIMIT 10%", "percent", "LIMIT n"),
        ("SELECT job, AVG(age) FROM people GROUP BY ROLLUP(job)", "ROLLUP", "COUNT(*)"),
        ("SELECT pid, COUNT(*) FROM people GROUP BY pid", "pid", "COUNT(DISTINCT pid)"),
        ("SELECT COUNT(*) || 'x' FROM people", "COUNT(*)", "texts"),
        ("SELECT COUNT(*) + 'x' FROM people", "numbers", "text"),
        ("SELECT job, COUNT(*) FROM people GROUP BY job HAVING COUNT(*)", "HAVING", "compare"),
        ("SELECT COUNT(*) FROM people WHERE age > CURRENT_DATE", "CURRENT_DATE", "tomorrow"),
        ("SELECT COUNT(*) FROM people WHERE job = Region", "same labels", "same order"),
        ("SELECT COUNT(*)", "FROM", "SELECT"),
        ("SELECT COUNT(*) FROM (SELECT age FROM people QUALIFY ROW_NUMBER() OVER () = 1) p", "QUALIFY", "HAVING"),
        ("SELECT COUNT(*) FROM (SELECT age FROM people) AS p(a)", "COLUMNS", "SELECT"),
        ("SELECT", "", ""),
        ("", "nothing", "SELECT"),
        ("SELECT COUNT(* FROM people", "line 1", "SELECT"),
        ("SELECT COUNT(*) FROM people WHERE job = 'open", "parse", "SELECT"),
    ],
)
def test_everything_else_is_refused_by_name(statement: str, named: str, instead: str) -> None:
    with pytest.raises(RangeError) as error:
        parse_select(statement, SCHEMA)
    assert named in str(error.value)
    assert instead in str(error.value)


def test_divisors_that_only_begin_with_zero_are_understood() -> None:
    for divisor in ("0.5", "10", "(0.01)", "-1e-3", "NULLIF(COUNT(*), 0)"):
        parse_select(f"SELECT SUM(age) / {divisor} AS n FROM people WHERE job IN ('nurse')", SCHEMA)


def test_unknown_columns_name_the_nearest() -> None:
    with pytest.raises(SchemaError, match=r"'incme' is not declared.*income"):
        parse_select("SELECT AVG(incme) FROM people", SCHEMA)
    with pytest.raises(SchemaError, match=r"income.*granularity"):
        parse_select("SELECT FLOOR(income), COUNT(*) FROM people GROUP BY 1", SCHEMA)
    with pytest.raises(SchemaError, match="empty text"):
        condition("job = ''")
    with pytest.raises(SchemaError, match="single quotes"):
        condition('job = "nurse"')


def test_names_of_the_answer() -> None:
    found = parse_select(
        "SELECT Region, COUNT(*), COUNT(DISTINCT pid), AVG(income), QUANTILE(income, .9), MEDIAN(age) AS half, "
        "AVG(job = 'nurse') AS nurses, SUM(age * 2) FROM people p WHERE p.age > 1 GROUP BY p.region",
        SCHEMA,
    )
    names = ["Region", "count", "persons", "mean_income", "quantile_0.9_income", "half", "nurses", "sum_age * 2"]
    assert [item.name for item in found.items] == names
    assert found.by == ("Region",)
    assert [item.function for item in found.items][-2:] == ["proportion", "sum"]


def test_long_statements_are_read_and_deep_ones_refused() -> None:
    many = " OR ".join(f"age = {place}" for place in range(300))
    assert condition(many).count(" or ") == 299
    for deep in ("(" * 5000 + "age" + ")" * 5000 + " > 1", "NOT " * 3000 + "age > 1", "age" + " + 1" * 3000 + " > 1"):
        with pytest.raises(SidelightError):
            condition(deep)
    with pytest.raises(RangeError, match="at most"):
        condition(f"job = '{'x' * 200_000}'")


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.sampled_from(list("abåß\\'\"; -*/%(),.=<>{}[]@:$#\x00\n\t01e")), max_size=40))
def test_no_text_in_a_condition_does_anything_else(text: str) -> None:
    try:
        found = condition(text)
    except SidelightError:
        return
    assert found == "None" or parse_expression(found) is not None  # what holds for every row is left out


@pytest.mark.parametrize("text", ["1 /", "age >", "-", "1 = 1 /", "a %", "1 / > 2"])
def test_an_operator_with_one_side_is_refused_in_words(text: str) -> None:
    with pytest.raises(SidelightError):
        condition(text)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_a_quoted_text_is_that_text(label: str) -> None:
    schema = Schema([Category("job", [label])])
    quoted = label.replace("'", "''")
    found = parse_select(f"SELECT COUNT(*) FROM people WHERE job = '{quoted}'", schema).where
    assert found is not None
    assert found.same_as(parse_expression(str(found)))
    assert found.right.value == label  # type: ignore[attr-defined]


def test_a_sum_of_ones_is_a_count() -> None:
    select = parse_select("SELECT region, SUM(1), COUNT(*) AS n, SUM((1)) AS ones FROM people GROUP BY region", SCHEMA)
    asked = asked_of(select)
    assert [query.kind for query in asked] == ["count"]
    assert [name for name, _ in asked[0].serves] == ["sum_1", "n", "ones"]


@pytest.mark.parametrize("name", ["rows", "None", "persons"])
def test_a_column_called_as_nothing_is_a_column(name: str) -> None:
    schema = Schema([PersonId("pid", max_rows=3), Number(name), Number("age", lower=0, upper=120)])
    statement = f'SELECT COUNT(*) AS a, COUNT("{name}") AS b, COUNT(DISTINCT pid) AS c FROM people'
    found = [
        (each.names, each.options["of"], "where" in each.options) for each in asked_of(parse_select(statement, schema))
    ]
    assert found == [(("a",), "rows", False), (("b",), "rows", True), (("c",), "persons", False)]
    shared = parse_select(f'SELECT COUNT("{name}") + 1 AS x, COUNT(*) + 1 AS y FROM people', schema)
    assert len([item for item in shared.items if item.function is not None]) == 2


def test_names_of_names_are_refused_before_they_double_without_end() -> None:
    doubled = [f"a{place} * a{place} AS a{place + 1}" for place in range(40)]
    aliases = f"SELECT COUNT(*) AS a0, {', '.join(doubled)} FROM people"
    chain = f"SELECT COUNT(*) AS a0, {', '.join(f'a{at} + 1 AS a{at + 1}' for at in reversed(range(800)))} FROM people"
    nested = "SELECT age AS x FROM people"
    for _ in range(40):
        nested = f"SELECT x + x AS x FROM ({nested}) AS t"
    tables = "WITH t0 AS (SELECT age AS x FROM people)" + "".join(
        f", t{at + 1} AS (SELECT x + x AS x FROM t{at})" for at in range(40)
    )
    for statement in (aliases, chain, f"SELECT SUM(x) FROM ({nested}) AS t", f"{tables} SELECT SUM(x) FROM t40"):
        with pytest.raises(RangeError, match="split it"):
            parse_select(statement, SCHEMA)
    few = parse_select(f"SELECT COUNT(*) AS a0, {', '.join(doubled[:5])} FROM people", SCHEMA)
    assert few.shown is not None


def test_exact_numbers_without_end_are_null() -> None:
    power: list[object] = ["*", *[["number", "n"]] * 2]
    for _ in range(9):
        power = ["*", power, power]
    assert evaluated(power, StatementRow((), {"n": Fraction(2)}, totals=False)) == Fraction(2) ** 1024
    assert evaluated(["*", power, power], StatementRow((), {"n": Fraction(99)}, totals=False)) is None


def like(text: str, pattern: str) -> bool:
    """Return what LIKE says, by trying every length of each %."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[start:], pattern[1:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


@settings(max_examples=200, deadline=None)
@given(st.text("ab\n", max_size=7), st.text("ab_%\n", max_size=6))
def test_like_is_what_sql_means(text: str, pattern: str) -> None:
    tree = ["like", *(["constant", "text", each] for each in (text, pattern))]
    assert evaluated(tree, StatementRow((), {}, totals=False)) is like(text, pattern)


def test_like_takes_no_time_that_grows_with_the_power_of_its_signs() -> None:
    tree = ["like", ["constant", "text", "a" * 2000 + "c"], ["constant", "text", "%a" * 20 + "%b"]]
    assert evaluated(tree, StatementRow((), {}, totals=False)) is False
