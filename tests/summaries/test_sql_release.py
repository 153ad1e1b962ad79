"""Statements as releases: the same noise as the queries that they mean, one price for all, and an attack on it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.group_sums import group_counts
from sidelight.audit import audit
from sidelight.errors import BudgetError, RangeError, SchemaError
from sidelight.noise import Source
from sidelight.session.query import prepare_query
from sidelight.summaries.sql_query import PreparedSQL
from sidelight.testing import SeededEntropy, seeded_release

SCHEMA = [
    sl.Category("job", ["cook", "nurse"], other=None),
    sl.Number("age", lower=0, upper=120, granularity=1),
    sl.Number("income", lower=0, upper=1000),
]
BOTH = "SELECT job, COUNT(*) AS n, AVG(income) AS pay, AVG(age) FROM people WHERE age >= 18 GROUP BY job"


def people(name: str | None = "people", rows: int = 400) -> sl.Table:
    place = np.arange(rows)
    data = {"job": np.where(place % 3, "nurse", "cook"), "age": place % 90, "income": 300.0 + place % 200}
    return sl.Table(data, schema=SCHEMA, name=name)


def test_a_statement_is_the_query_that_it_means() -> None:
    table = people()
    asked = seeded_release(sl.SQL("SELECT job, COUNT(*) FROM people GROUP BY job", epsilon=1), table, seed=5)
    meant = seeded_release(sl.Count(by="job", epsilon=1), table, seed=5)
    assert asked.value["count"].tolist() == meant.value["count"].tolist()
    assert asked.value["count_low"].tolist() == meant.value["low"].tolist()
    assert asked.guarantee == meant.guarantee
    mean = seeded_release(sl.Mean("income", by="job", where="age >= 18", epsilon=1), table, seed=5)
    asked = seeded_release(sl.SQL(BOTH.replace(", AVG(age)", ""), epsilon=1), table, seed=5)
    assert asked.value["pay"].tolist() == mean.value["mean"].tolist()
    assert asked.value["n"].tolist() == np.rint(mean.value["count"]).astype(int).tolist()
    told = [name for name in asked.value.columns if not name.endswith(("_low", "_high", "_pooled"))]
    assert told == ["n", "pay", "supported"]  # in the order of the statement


def test_numbers_of_one_column_are_one_query_and_columns_share_the_price() -> None:
    found = sl.SQL(BOTH, epsilon=1).translation(sl.Schema(SCHEMA))
    assert str(found) == (
        "Mean('income', by=['job'], where='age >= 18', epsilon=0.5) for pay, n\n"
        "Mean('age', by=['job'], where='age >= 18', epsilon=0.5) for mean_age\n"
        "price: PureDP(ε = 1)"
    )


@pytest.mark.parametrize(
    "price", [{"epsilon": "0.3"}, {"rho": "0.1"}, {"mu": "0.7"}, {"epsilon": 1, "delta": "1e-6"}], ids=str
)
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_all_numbers_together_cost_at_most_the_price(price: dict[str, Any], columns: int) -> None:
    numbers = ["COUNT(age)", "AVG(income)", "AVG(job = 'cook')"][:columns]
    prepared = prepare_query(sl.SQL(f"SELECT {', '.join(numbers)} FROM people", **price), sl.Schema(SCHEMA))
    assert len(prepared.parts) == columns
    pure, gaussian = prepared.claims.pure(), prepared.claims.gdp()
    if "epsilon" in price:  # with delta as well: pure noise is the smaller one here
        assert pure is not None
        assert pure.epsilon == Fraction(price["epsilon"])
        return
    assert gaussian is not None
    most = 2 * Fraction(price["rho"]) if "rho" in price else Fraction(price["mu"]) ** 2
    assert most * Fraction(999_999, 1_000_000) < gaussian.mu**2 <= most * (1 + Fraction(1, 10**30))


def test_with_delta_the_smaller_noise_is_taken() -> None:
    schema = sl.Schema([sl.PersonId("pid", max_rows=50), *SCHEMA[1:], sl.Category("job", [f"{i}" for i in range(60)])])
    statement = "SELECT job, COUNT(*), AVG(income), AVG(age) FROM people GROUP BY job"
    price = {"epsilon": 1, "delta": "1e-6"}
    many = prepare_query(sl.SQL(statement, **price, max_groups=50, max_rows_per_group=1), schema)
    few = prepare_query(sl.SQL(statement, **price, max_groups=1, max_rows_per_group=1), schema)
    assert many.claims.pure() is None
    assert few.claims.pure() is not None


def counts(prepared: PreparedSQL, table: sl.Table, seed: int) -> Any:
    """Return a sampler of the sum of all noisy counts of a statement, drawn as its queries draw them."""
    source = Source(SeededEntropy(seed))

    def drawn(part: Any, draws: int) -> Any:
        exact = group_counts(table, part.groups, norm=part.noise.norm)
        often = replace(exact, value=np.full(draws, int(np.asarray(exact.value).item())))
        return np.asarray(part.noise.on(often).release(source))

    return lambda draws: sum(drawn(part, draws) for part in prepared.parts).tolist()


@pytest.mark.planted("the whole price for each number of a statement", of=("SQL",))
def test_no_row_shows_more_than_the_price_of_the_statement() -> None:
    """An attack that sums three counts; the planted bug gives each the whole price."""
    statement = "SELECT COUNT(*) AS a, COUNT(age) AS b, COUNT(income) AS c FROM people"
    pair = (people(rows=31), people(rows=30))
    right = prepare_query(sl.SQL(statement, epsilon=1), pair[0].schema)
    dear = prepare_query(sl.SQL(statement, epsilon=3), pair[0].schema)
    wrong = replace(right, parts=dear.parts)
    found = audit(counts(right, pair[0], 1), counts(right, pair[1], 2), draws=6000)
    assert not any(found.refutes(claim) for claim in right.claims)
    found = audit(counts(wrong, pair[0], 3), counts(wrong, pair[1], 4), draws=6000)
    assert found.refutes(sl.PureDP(1))


def test_a_session_charges_once_and_a_dry_run_nothing() -> None:
    session = sl.Session(people(), budget=sl.PureDP(1))
    before = str(session.remaining)
    shown = session.sql(BOTH, epsilon="0.6", dry_run=True)
    assert str(session.remaining) == before
    assert "price: PureDP(ε = 0.6)" in str(shown)
    release = session.sql(BOTH, epsilon="0.6")
    assert release.kind == "sql"
    assert release.value["job"] == ["cook", "nurse"]
    assert sl.outcome_from_json(release.to_json()) == release
    with pytest.raises(BudgetError):
        session.sql(BOTH, epsilon="0.6")
    assert "0.4" in str(session.remaining)


def test_mistakes_are_found_before_any_charge() -> None:
    session = sl.Session(people(), budget=sl.PureDP(1))
    before = str(session.remaining)
    for statement, message in [
        ("SELECT COUNT(*) FROM persons", "called 'people'"),
        ("SELECT COUNT(*) FROM people WHERE job = 'doctor'", "not among the declared labels"),
        ("SELECT income, COUNT(*) FROM people GROUP BY income", "granularity"),
        ("SELECT AVG(job) FROM people", "job"),
        ("SELECT COUNT(*) FROM people WHERE 1 = 2", "no row"),
    ]:
        for dry_run in (True, False):
            with pytest.raises((RangeError, SchemaError), match=message):
                session.sql(statement, epsilon=1, dry_run=dry_run)
    with pytest.raises(RangeError, match="price"):
        session.sql("SELECT COUNT(*) FROM people")
    assert str(session.remaining) == before


def test_a_table_without_a_name_is_called_anything() -> None:
    assert sl.SQL("SELECT COUNT(*) FROM whatever", epsilon=1).release(people(None)).value.rows == 1


def test_persons_need_to_know_in_how_many_groups_they_count() -> None:
    schema = sl.Schema([sl.PersonId("pid", max_rows=5), *SCHEMA])
    statement = "SELECT job, COUNT(DISTINCT pid) AS persons, COUNT(*) AS visits FROM people GROUP BY job"
    with pytest.raises(SchemaError, match="max_groups"):
        sl.SQL(statement, epsilon=1).translation(schema)
    found = sl.SQL(statement, epsilon=1, max_groups=2).translation(schema)
    assert [query.options["of"] for query in found.queries] == ["persons", "rows"]


def test_no_group_and_no_rows_are_answers() -> None:
    for rows in (0, 1):
        value = sl.SQL(BOTH, epsilon=1).release(people(rows=rows)).value
        assert value.rows == 2
        assert np.all(value["n"] >= 0)


@pytest.mark.parametrize("rest", ["", " WHERE age > 3", " GROUP BY job"])
def test_quantiles_are_numbers_of_the_same_table(rest: str) -> None:
    keys = "job, " if "GROUP" in rest else ""
    asked = f"SELECT {keys}MEDIAN(age) AS half, QUANTILE(age, 0.9), COUNT(*) FROM people{rest}"
    value = sl.SQL(asked, epsilon=4).release(people()).value
    assert value.columns[:2] == ("half", "quantile_0.9_age")
    assert bool(np.all(value["half"] < value["quantile_0.9_age"]))
    assert bool(np.all((value["half"] > 20) & (value["half"] < 70)))
    alone = sl.SQL(f"SELECT {keys}MEDIAN(age) FROM people{rest}", epsilon=1, delta="1e-6")
    assert alone.prepare(sl.Schema(SCHEMA)).claims.pure() == sl.PureDP(1)
    with pytest.raises(RangeError, match="pure price"):
        sl.SQL(asked, rho=1).prepare(sl.Schema(SCHEMA))


def test_spreads_bring_mean_and_count_along() -> None:
    asked = sl.SQL("SELECT job, VAR_SAMP(age), AVG(age), COUNT(*), SUM(age) FROM people GROUP BY job", epsilon=4)
    found = asked.translation(sl.Schema(SCHEMA))
    assert [query.names for query in found.queries] == [("variance_age", "mean_age", "count"), ("sum_age",)]
    value = asked.release(people()).value
    assert value.columns[0] == "variance_age"
    assert bool(np.all(value["variance_age"] > 100))
    sd = sl.SQL("SELECT STDDEV(age) AS spread FROM people", epsilon=4).release(people()).value
    assert 10 < sd.spread < 50


@pytest.mark.parametrize(
    ("numbers", "clash"),
    [
        ("COUNT(*) AS n, AVG(age) AS n_low", "n_low"),
        ("AVG(age) AS n_low, COUNT(income) AS n", "n_low"),
        ("COUNT(*) AS n, 2 * COUNT(income) AS n_high", "n_high"),
        ("2 * COUNT(*) AS n, 3 * COUNT(*) AS n_high", "n_high"),
        ("MEDIAN(age) AS n, COUNT(*) AS n_pooled", "n_pooled"),
        ("AVG(age) AS n, COUNT(*) AS supported", "supported"),
        ("2 * SUM(age) AS supported", "supported"),
        ("SUM(age) / 2 AS n, COUNT(*) AS sum_age_low", None),
        ("COUNT(*) AS job_low", None),
        ("COUNT(*) AS supported", None),
        ("COUNT(*) AS low, AVG(age) AS high", None),
    ],
)
@pytest.mark.parametrize("group", ["", " GROUP BY job"])
def test_a_name_of_a_column_that_another_number_has_is_refused(numbers: str, clash: str | None, group: str) -> None:
    """A mean was shown between the ends of the interval of another number, as if it were one of them."""
    query = sl.SQL(f"SELECT {'job, ' if group else ''}{numbers} FROM people{group}", epsilon=50)
    if clash is None:
        query.prepare(sl.Schema(SCHEMA))
        return
    with pytest.raises(RangeError, match=f"has a column '{clash}' of its own; write AS"):
        query.prepare(sl.Schema(SCHEMA))


def test_a_group_that_is_called_like_the_end_of_an_interval_is_refused() -> None:
    schema = sl.Schema([sl.Category("n_low", ["a"], other=None), sl.Category("supported", ["a"], other=None)])
    with pytest.raises(RangeError, match="the number 'n' has a column 'n_low' of its own"):
        sl.SQL("SELECT n_low, COUNT(*) AS n FROM t GROUP BY n_low", epsilon=1).prepare(schema)
    sl.SQL("SELECT n_low, COUNT(*) AS m FROM t GROUP BY n_low", epsilon=1).prepare(schema)
    sl.SQL("SELECT supported, COUNT(*) AS m FROM t GROUP BY supported", epsilon=1).prepare(schema)


def test_undeclared_labels_are_found_by_one_query() -> None:
    table = sl.Table({"drug": ["a"] * 500 + ["b"] * 300 + ["c"]}, schema=[sl.Label("drug")], name="visits")
    asked = "SELECT drug, COUNT(*) AS n{more} FROM visits GROUP BY drug"
    release = sl.SQL(asked.format(more=""), epsilon=1, delta="1e-6").release(table)
    assert sorted(release.value["drug"]) == ["a", "b"]
    assert sorted(release.labels) == ["a", "b"]
    with pytest.raises(SchemaError, match="undeclared"):
        sl.SQL(asked.format(more=", COUNT(drug) AS m"), epsilon=1, delta="1e-6").prepare(table.schema)
