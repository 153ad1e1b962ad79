"""Plans of statistics by group, and SELECT on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

import sidelight as sl
from sidelight.errors import PlanError
from sidelight.plans import read_plan

PLAN = """
[source]
path = "people.csv"

[[column]]
name = "age"
lower = 0
upper = 120
granularity = 1

[[column]]
name = "hours"
lower = 0
upper = 168
granularity = 0.5

[[column]]
name = "sex"
kind = "category"
categories = ["F", "M"]
other = false

[budget]
epsilon = 3

[ledger]
url = "budget.db"
"""
SELECT = "SELECT sex, COUNT(*) AS n, AVG(hours) FROM people WHERE age >= 30 GROUP BY sex"


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Path]:
    """Write a plan with one query, and the people."""
    rows = "".join(f"{18 + (7 * i) % 70},{(3 * i) % 80 / 2},{'FM'[i % 2]}\n" for i in range(400))
    (tmp_path / "people.csv").write_text("age,hours,sex\n" + rows, encoding="utf-8")

    def write(query: str = "") -> Path:
        path = tmp_path / "plan.toml"
        path.write_text(PLAN + (f"[[query]]\n{query}" if query else ""), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (
            'kind = "count"\nby = "sex"\nwhere = "age >= 18"\nepsilon = 0.1\nof = "rows"',
            sl.Count(by="sex", where="age >= 18", epsilon="0.1", of="rows"),
        ),
        (
            'kind = "count"\nby = ["sex", "cut(age, [30, 60])"]\nrho = "1/3"\nnoise = "gaussian"\nconfidence = 0.9',
            sl.Count(by=["sex", sl.col("age").cut([30, 60])], rho="1/3", noise="gaussian", confidence=0.9),
        ),
        (
            'kind = "histogram"\ncolumn = "age"\nbins = [0, 18.5, 120]\noutside = "drop"\nepsilon = 1',
            sl.Histogram("age", bins=[0, "18.5", 120], outside="drop", epsilon=1),
        ),
        ('kind = "histogram"\ncolumn = "age"\nbins = "private"\nrho = 1', sl.Histogram("age", rho=1)),
        ('kind = "histogram"\ncolumn = "age"\nbins = 4\nepsilon = 1', sl.Histogram("age", bins=4, epsilon=1)),
        (
            'kind = "mean"\ncolumn = "hours"\nby = "sex"\nclip = [0, 80.5]\nmu = 1',
            sl.Mean("hours", by="sex", clip=(0, 80.5), mu=1),
        ),
        (
            'kind = "mean"\ncolumn = ["age", "hours"]\nby = "sex"\nmu = 1',
            sl.Mean(["age", "hours"], by="sex", mu=1),
        ),
        (
            'kind = "mean"\ncolumn = "hours * 2"\nepsilon = 1\ndelta = 1e-6',
            sl.Mean("hours * 2", epsilon=1, delta="1e-6"),
        ),
        (
            'kind = "mean"\ncolumn = "age"\nepsilon = 1\nprediction = {family = "cauchy", location = 40, scale = 9}',
            sl.Mean("age", epsilon=1, prediction=sl.priors.Cauchy(40, 9)),
        ),
        (
            'kind = "proportion"\ncondition = \'sex == "F"\'\nepsilon = 1',
            sl.Proportion(sl.col("sex") == "F", epsilon=1),
        ),
        ('kind = "sum"\ncolumn = "hours"\nepsilon = 1', sl.Sum("hours", epsilon=1)),
        ('kind = "variance"\ncolumn = "hours"\nddof = 0\nepsilon = 1', sl.Variance("hours", ddof=0, epsilon=1)),
        (
            'kind = "standard_deviation"\ncolumn = "hours"\nby = "sex"\nepsilon = 1',
            sl.StandardDeviation("hours", by="sex", epsilon=1),
        ),
        (
            'kind = "quantiles"\ncolumn = "age"\nlevels = [0.5]\nby = "sex"\nwhere = "hours > 3"\nepsilon = 1',
            sl.Quantiles(["0.5"], column="age", by="sex", where="hours > 3", epsilon=1),
        ),
        (
            'kind = "quantiles"\ncolumn = "age"\nlevels = [0.5]\nby = "sex"\nprediction = "total"\nepsilon = 1',
            sl.Quantiles(["0.5"], column="age", by="sex", prediction="total", epsilon=1),
        ),
        ('kind = "summary"\ncolumn = "hours"\nby = "sex"\nepsilon = 1', sl.Summary("hours", by="sex", epsilon=1)),
        ('kind = "count_distinct"\ncolumn = "sex"\nepsilon = 1', sl.CountDistinct("sex", epsilon=1)),
        ('kind = "top_k"\ncolumn = "sex"\nk = 1\nepsilon = 1', sl.TopK("sex", k=1, epsilon=1)),
        (
            'kind = "count"\nby = ["sex", "cut(age, [30])"]\nrollup = true\nepsilon = 1',
            sl.Count(by=["sex", sl.col("age").cut([30])], rollup=True, epsilon=1),
        ),
        (
            'kind = "count"\nby = "sex"\nrollup = true\nepsilon = 1',
            sl.Count(by="sex", rollup=True, epsilon=1),
        ),
        (f'kind = "sql"\nselect = "{SELECT}"\nepsilon = 1', sl.SQL(SELECT, epsilon=1)),
    ],
)
def test_a_plan_says_what_python_says(plan: Callable[..., Path], text: str, query: Any) -> None:
    found = read_plan(plan(text))
    meant = query.prepare(found.schema)
    assert found.queries[0].prepared.request == meant.request
    assert found.queries[0].prepared.claims == meant.claims
    assert found.queries[0].prepared.prediction == meant.prediction


def test_public_tables_and_releases_are_predictions(
    sidelight: Callable[..., Any], plan: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "register.csv").write_text("sex,persons\nF,210\nM,190\n", encoding="utf-8")
    asked = 'kind = "count"\nby = "sex"\nepsilon = 0.1\nprediction = '
    public = plan(f'{asked}{{public = "register.csv", origin = "register of 2025", doubt = "0.1"}}')
    prediction = read_plan(public).queries[0].prepared.prediction
    assert prediction is not None
    assert "register of 2025" in prediction["description"]
    assert prediction["doubt"] == "0.1"
    pq.write_table(pa.table({"sex": ["F", "M"], "persons": [210, 190]}), tmp_path / "register.parquet")
    same = plan(f'{asked}{{public = "register.parquet", origin = "register of 2025", doubt = "0.1"}}')
    assert read_plan(same).queries[0].prepared.prediction == prediction
    both = plan(f'{asked}[{{public = "register.csv", origin = "a"}}, {{public = "register.parquet", origin = "b"}}]')
    told = read_plan(both).queries[0].prepared.prediction
    assert told is not None
    assert told["description"].startswith("the best of 2")
    public = plan(f'{asked}{{public = "register.csv", origin = "register of 2025", doubt = "0.1"}}')
    out = tmp_path / "first.json"
    assert sidelight("run", public, "--json", out, "-o", tmp_path / "a.html").status == 0
    again = plan(f'{asked}{{release = "first.json"}}')
    earlier = read_plan(again).queries[0].prepared.prediction
    assert earlier is not None
    entry = json.loads(out.read_text(encoding="utf-8"))["items"][0]["outcome"]["circumstances"]["entry_id"]
    assert earlier["origin"]["entries"] == [entry]
    assert read_plan(again).queries[0].prepared.claims == read_plan(public).queries[0].prepared.claims


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "count"\nby = "sx"\nepsilon = 1', "sx"),
        ('kind = "count"\nby = "age"\nepsilon = 1', "age"),
        ('kind = "count"\nby = "sex"', "price"),
        ('kind = "count"\nwhere = "open(age)"\nepsilon = 1', "calls no functions"),
        ('kind = "count"\nwhere = "age > 1e999999999"\nepsilon = 1', "ordinary size"),
        ('kind = "count"\nbye = "sex"\nepsilon = 1', "bye"),
        ('kind = "mean"\nby = "sex"\nepsilon = 1', "'column' is missing"),
        ('kind = "histogram"\ncolumn = "age"\nepsilon = 1', "'bins' is missing"),
        ('kind = "proportion"\ncolumn = "sex"\nepsilon = 1', "condition"),
        ('kind = "mean"\ncolumn = "age"\nclip = [9, 1]\nepsilon = 1', "line"),
        ('kind = "count"\nby = "sex"\nepsilon = 1\nprediction = {public = "no.csv", origin = "x"}', "no file"),
        ('kind = "count"\nby = "sex"\nepsilon = 1\nprediction = {public = "odd.csv", origin = "x"}', "twice|none of"),
        ('kind = "count"\nby = "sex"\nepsilon = 1\nprediction = {public = "people.csv", origin = "x"}', "private"),
        ('kind = "count"\nby = "sex"\nepsilon = 1\nprediction = {public = "bad.csv", origin = "x"}', "cells"),
        (
            'kind = "count"\nby = "sex"\nepsilon = 1\nprediction = [{public = "good.csv", origin = "x"}, '
            '{public = "people.csv", origin = "x"}]',
            "private",
        ),
        ('kind = "count"\nby = "sex"\nepsilon = 1\nprediction = {public = "bad.parquet", origin = "x"}', "no Parquet"),
        ('kind = "count"\nby = "sex"\nepsilon = 1\nprediction = {release = "odd.csv"}', "holds no releases"),
        ('kind = "count"\nby = "sex"\nepsilon = 1\nprediction = {doubt = 1}', "name one of the three"),
        ('kind = "sql"\nselect = "SELECT job FROM people"\nepsilon = 1', "job"),
    ],
)
def test_a_mistake_is_told_with_its_place(plan: Callable[..., Path], tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "odd.csv").write_text("sex,count\nX,1\n", encoding="utf-8")
    (tmp_path / "good.csv").write_text("sex,count\nF,1\n", encoding="utf-8")
    (tmp_path / "bad.csv").write_text("sex,count\nF,1,2\n", encoding="utf-8")
    (tmp_path / "bad.parquet").write_text("sex,count\n", encoding="utf-8")
    with pytest.raises(PlanError, match=message) as error:
        read_plan(plan(text))
    assert "plan.toml" in str(error.value)


def test_a_statement_is_shown_then_run_and_free_the_second_time(
    sidelight: Callable[..., Any], plan: Callable[..., Path], tmp_path: Path
) -> None:
    path, out = plan(), tmp_path / "report.html"
    dry = sidelight("sql", path, SELECT, "--epsilon", "1", "--dry-run")
    assert dry.status == 0, dry.err
    assert "Mean('hours', by=['sex'], where='age >= 30', epsilon='1') for mean_hours, n" in dry.out
    assert "price: PureDP(ε = 1)" in dry.out
    assert not (tmp_path / "budget.db").exists()
    first = sidelight("sql", path, SELECT, "--epsilon", "1", "-o", out)
    assert first.status == 0, first.err
    assert first.out.index("price:") < first.out.index("mean_hours_low")
    assert "mean hours" in out.read_text(encoding="utf-8")
    second = sidelight("sql", path, SELECT, "--epsilon", "1", "-o", out)
    assert "1 of 1 charges were paid in an earlier run" in second.out
    assert sidelight("sql", path, SELECT, "--epsilon", "2.5", "-o", out).status == 1


@pytest.mark.parametrize(
    ("statement", "options", "message"),
    [
        ("SELECT COUNT(*) FROM persons", ["--epsilon", "1"], "called 'people'"),
        ("SELECT COUNT(*) FROM people LIMIT 10%", ["--epsilon", "1"], "LIMIT"),
        ("SELECT COUNT(*) FROM people", ["--epsilon", "1", "--dialect", "mysql"], "dialect"),
        ("SELECT COUNT(*) FROM people", [], "price"),
        ("SELECT COUNT(*) FROM people", ["--epsilon", "1", "--rho", "1"], "price"),
        ("SELECT COUNT(*) FROM people", ["--epsilon", "-1"], "epsilon"),
    ],
)
def test_a_statement_that_cannot_run_spends_nothing(
    sidelight: Callable[..., Any],
    plan: Callable[..., Path],
    tmp_path: Path,
    statement: str,
    options: list[str],
    message: str,
) -> None:
    result = sidelight("sql", plan(), statement, *options, "-o", tmp_path / "report.html")
    assert result.status == 2
    assert message in result.err
    assert not (tmp_path / "budget.db").exists()


EVERY_KIND = {
    "count": 'by = "sex"',
    "mean": 'column = "hours"\nby = "sex"',
    "sum": 'column = "hours"',
    "variance": 'column = "hours"',
    "standard_deviation": 'column = "hours"',
    "proportion": 'condition = "age >= 18"',
    "histogram": 'column = "age"\nbins = 5',
    "summary": 'column = "hours"\nby = "sex"',
    "top_k": 'column = "sex"\nk = 1\nroute = "peeling"',
    "count_distinct": 'column = "sex"',
}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_plan_says_how_far_off_every_kind_will_be(kind, plan, sidelight) -> None:
    shown = sidelight("plan", plan(f'kind = "{kind}"\n{EVERY_KIND[kind]}\nepsilon = 1\n')).out
    assert "±" in shown
    theorem = kind in ("count", "histogram", "sum", "mean", "proportion", "top_k", "count_distinct")
    assert ("measured" in " ".join(shown.split())) != theorem


def test_a_forecast_is_near_what_is_released(plan) -> None:
    """A forecast for 400 rows in 0..40, within a factor of 2 of the release."""
    from sidelight.accuracy.forecast import forecast

    query = sl.Mean("hours", epsilon=1)
    schema = read_plan(plan('kind = "count"\nepsilon = 1\n')).schema
    halves, rows, unit = forecast(query, query.prepare(schema), schema, rows=400)
    assert (rows, unit) == (400, "")
    table = query.release(sl.Table(plan().parent / "people.csv", schema=schema)).value
    assert 0.5 < halves["mean"] / ((table.high - table.low) / 2) < 2
