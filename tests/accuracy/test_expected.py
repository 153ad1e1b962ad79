"""Every kind of a plan says how far off it is before it runs, and which price an accuracy needs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import sidelight as sl
from sidelight.accuracy.expected import DRAWS, at_price, expected, with_expected
from sidelight.accuracy.price import epsilon_for, swept
from sidelight.cli.app import app
from sidelight.errors import RangeError
from sidelight.records import Schema, Table
from sidelight.release import Release
from sidelight.session.query import prepare_query
from sidelight.testing import seeded_release

NUMBERS = Schema([sl.Number("age", lower=0, upper=100), sl.Number("pay", lower=0, upper=1000)])
PEOPLE = Schema([*NUMBERS.columns, sl.Category("renewed", ["no", "yes"], other=None)])


def _rows(count: int = 10_000) -> Table:
    rng = np.random.default_rng(5)
    age = rng.uniform(20, 80, count)
    renewed = np.where(age + rng.normal(0, 20, count) > 50, "yes", "no")
    pay = np.clip(10 * age + rng.normal(0, 50, count), 0, 1000)
    return Table({"age": age, "pay": pay, "renewed": renewed}, schema=PEOPLE)


def test_a_theorem_is_preferred_and_holds_at_the_stated_price() -> None:
    query = sl.Count(epsilon="0.5")
    found = expected(query, query.prepare(NUMBERS), NUMBERS, confidence=0.95)
    assert found.basis == "bound"
    assert found.unit == "rows"
    needed = epsilon_for(query, NUMBERS, within=found.size)
    assert float(needed) == pytest.approx(0.5, rel=0.02)
    assert needed.expected.size <= found.size


@pytest.mark.parametrize("within", [4, 20, 200])
def test_the_price_is_the_smallest_that_is_enough(within: float) -> None:
    query = sl.Quantiles([0.5], column="age", epsilon=3)
    needed = epsilon_for(query, NUMBERS, within=within)
    bound = sl.Quantiles([0.5], column="age", epsilon=needed.amount).prepare(NUMBERS).error
    cheaper = sl.Quantiles([0.5], column="age", epsilon=float(needed) * 0.97).prepare(NUMBERS).error
    assert bound.likely.at(0.95).max() <= within < cheaper.likely.at(0.95).max()
    assert needed.expected.size == pytest.approx(bound.at(0.95).max())
    assert "a likely error within" in str(needed)
    assert "for certain: ± " in str(needed)


def test_more_confidence_needs_a_higher_price_and_mu_and_rho_are_kept() -> None:
    count = sl.Count(epsilon=1)
    assert float(epsilon_for(count, NUMBERS, within=10, confidence=0.99)) > float(
        epsilon_for(count, NUMBERS, within=10)
    )
    by_rho = epsilon_for(sl.Count(rho="0.1"), NUMBERS, within=10)
    assert by_rho.name == "rho"
    assert sl.Count(rho=by_rho.amount).prepare(NUMBERS).error.at(0.95).max() <= 10
    assert at_price(sl.Count(rho=2), 3).rho == 18


def test_what_cannot_be_reached_and_what_is_always_exact_is_said() -> None:
    with pytest.raises(RangeError, match="no epsilon up to 100"):
        epsilon_for(sl.Quantiles([0.5], column="age", epsilon=1), NUMBERS, within=0.01)
    with pytest.raises(RangeError, match="exact at every one"):
        epsilon_for(sl.StableMode("renewed", epsilon=1, delta="1e-6"), PEOPLE, within=1)
    with pytest.raises(RangeError, match="within must be a positive number"):
        epsilon_for(sl.Count(epsilon=1), NUMBERS, within=-1)


@pytest.mark.parametrize("kind", [sl.LogisticRegression, sl.AdditiveClassifier])
def test_a_measured_error_is_about_that_of_rows_like_the_generated_ones(kind: Any) -> None:
    """Compare the measured error of a model with the errors of releases of rows of the declared shape."""
    query = sl.ModelQuery(model=kind(epsilon=1, delta="1e-6"), target="renewed", features=["age", "pay"])
    found = expected(query, query.prepare(PEOPLE), PEOPLE, confidence=0.95)
    assert found.basis == "measured"
    assert "percentage points" in found.unit
    assert found.rows == 10_000
    table = _rows()
    columns = {"age": np.linspace(20, 80, 50), "pay": np.linspace(200, 800, 50)}

    def chances(epsilon: float, seed: int) -> np.ndarray:
        release = seeded_release(at_price(query, epsilon), table, seed=seed)
        return 50 * (1 + np.tanh(query.scores(release.value, columns, PEOPLE) / 2))

    truth = chances(100, 1)
    off = [float(np.quantile(np.abs(chances(1, seed) - truth), 0.95)) for seed in range(10)]
    assert found.size / 10 < np.median(off) < 3 * found.size


def test_at_the_stated_confidence_the_largest_of_the_draws_is_shown() -> None:
    assert math.log(1 / (1 - 0.95)) / math.log(DRAWS + 1) == pytest.approx(1)
    query = sl.ModelQuery(model=sl.LinearRegression(epsilon=1, delta="1e-6"), target="pay", features=["age"])
    prepared = query.prepare(PEOPLE)
    usual, sure = (expected(query, prepared, PEOPLE, confidence=each) for each in (0.95, 0.9975))
    assert sure.size == pytest.approx(2 * usual.size, rel=1e-6)
    assert usual.tail(0.95).at(0.9975).max() == pytest.approx(sure.size, rel=1e-6)


def test_a_release_of_a_model_carries_its_own_error_or_what_was_measured() -> None:
    query = sl.ModelQuery(model=sl.LinearRegression(epsilon=1, delta="1e-6"), target="pay", features=["age"])
    release = seeded_release(query, _rows(), seed=2)
    assert release.error is not None
    assert with_expected(release, query, query.prepare(PEOPLE), PEOPLE) is release
    told = with_expected(replace(release, error=None), query, query.prepare(PEOPLE), PEOPLE)
    assert isinstance(told, Release)
    assert told.error is not None
    assert "generated" in told.error.assumption
    assert not told.error.proved
    assert "worst case" not in str(told)
    assert Release.from_json(told.to_json()).error == told.error


def test_a_sweep_falls_with_the_price() -> None:
    sizes = [found.size for _, _, found in swept(sl.Mean("pay", epsilon=1), NUMBERS)]
    assert all(before > after for before, after in itertools.pairwise(sizes))


def _plan(folder: Path) -> Path:
    (folder / "plan.toml").write_text(
        '[source]\npath = "no.csv"\n[[column]]\nname = "age"\nlower = 0\nupper = 100\n[budget]\nepsilon = 3\n'
        '[[query]]\nkind = "count"\nepsilon = 1\n[[query]]\nkind = "quantiles"\ncolumn = "age"\nlevels = [0.5]\n'
        "epsilon = 1\n",
        encoding="utf-8",
    )
    return folder / "plan.toml"


def test_the_commands_answer_with_a_number_and_a_chart(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    path, runner = str(_plan(tmp_path)), CliRunner()
    told = runner.invoke(app, ["accuracy", path, "--query", "1", "--within", "10"])
    assert told.exit_code == 0
    assert "epsilon = 0.3" in told.output
    assert "█" in told.output
    swept_all = runner.invoke(app, ["plan", path, "--sweep"])
    assert swept_all.exit_code == 0
    assert swept_all.output.count("0.125") >= 2
    assert "ranks" in swept_all.output
    wrong = runner.invoke(app, ["accuracy", path, "--query", "3", "--within", "10"])
    assert wrong.exit_code == 2
    assert "--query must be from 1 to 2" in wrong.output


@pytest.mark.parametrize("unit", ["day", "hour"])
def test_rows_with_a_date_are_generated(unit: str) -> None:
    """Forecasts for a schema with a `Date`, of its own and of other columns."""
    visit = sl.Date("visit", start="2020-01-01", end="2025-12-31", unit=unit)  # type: ignore[arg-type]
    schema = Schema([visit, *PEOPLE.columns])
    queries = (
        sl.Mean("visit", by="renewed", epsilon=1),
        sl.Mean("pay", by="renewed", epsilon=1),
        sl.Quantiles([0.5], column="visit", by="renewed", epsilon=1),
        sl.ModelQuery(model=sl.LinearRegression(epsilon=5, delta="1e-6"), target="pay", features=["visit", "age"]),
        sl.Covariance(columns=["visit", "pay"], radius=3000, epsilon=5),
    )
    for query in queries:
        found = expected(query, query.prepare(schema), schema, confidence=0.95)
        assert found.basis != "nothing", (query, found.condition)
        assert math.isfinite(found.size)


def test_a_forecast_that_fails_in_any_way_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    query = sl.Mean("pay", by="renewed", epsilon=1, clip="private")
    prepared = query.prepare(PEOPLE)

    def failing(self: object, table: Table, source: object) -> None:
        raise ValueError("of a library")

    monkeypatch.setattr(type(prepared), "run", failing)
    assert expected(query, prepared, PEOPLE, confidence=0.95).basis == "nothing"


def test_a_weak_release_carries_no_error_of_other_rows() -> None:
    """Of 80 rows a weak Gaussian was said to be within 0.01 deviations, as 10,000 rows would be, and was off by 9."""
    rng = np.random.default_rng(0)
    schema = [sl.Number(name, lower=-100, upper=100) for name in "abc"]
    query = sl.GaussianFit(["a", "b", "c"], prediction=rng.normal(0, 1, (12, 3)), rho="0.05")
    table = Table({name: rng.normal(0, 1, 80) for name in "abc"}, schema=schema)
    prepared = query.prepare(table.schema)
    weak = 0
    for seed in range(5):
        release = seeded_release(query, table, seed=f"weak {seed}")
        if release.value["weak"]:
            weak += 1
            assert with_expected(release, query, prepared, table.schema).error is None
    assert weak


@pytest.mark.parametrize(("rows", "assumed"), [(300.0, 300), (9_000.0, 10_000), (40_000.0, 40_000), (None, 10_000)])
def test_an_error_is_measured_on_about_as_many_rows_as_were_released(rows: float | None, assumed: int) -> None:
    query = sl.SyntheticTable(columns=["sex", "job"], epsilon=1)
    schema = Schema([sl.Category("sex", ["F", "M"], other=None), sl.Category("job", ["a", "b"], other=None)])
    found = expected(query, query.prepare(schema), schema, confidence=0.95, rows=rows)
    assert found.rows == assumed


SURVEY = Schema([sl.Category("region", ["N", "S", "E", "W"], other=None), sl.Number("score", lower=0, upper=100)])
BOTH = "SELECT region, COUNT(*) AS n, AVG(score) AS m FROM survey GROUP BY region ORDER BY n DESC LIMIT 2"


def _expected_of(query: Any, schema: Schema = SURVEY) -> Any:
    return expected(query, prepare_query(query, schema), schema, confidence=0.95)


def test_every_number_of_a_statement_has_an_error_of_its_own_which_covers() -> None:
    """A count and a mean were shown with the middle of both half-widths, which was that of neither."""
    query = sl.SQL(BOTH.removesuffix(" LIMIT 2"), epsilon="0.5")
    found = _expected_of(query)
    rng = np.random.default_rng(13)
    region, score = np.repeat(["N", "S", "E", "W"], 2500), rng.normal(50, 16, 10_000).clip(0, 100)
    table = Table({"region": region, "score": score}, schema=SURVEY, name="survey")
    truth = {label: {"n": 2500.0, "m": float(score[region == label].mean())} for label in "NSEW"}
    off: dict[str, list[float]] = {"n": [], "m": []}
    for seed in range(100):
        for row in seeded_release(query, table, seed=f"own error {seed}").value.to_records():
            for name, errors in off.items():
                errors.append(abs(row[name] - truth[row["region"]][name]))
    for name, errors in off.items():  # 400 errors: a share of 0.95 is below 0.885 with probability below 1e-6
        assert np.mean(np.array(errors) <= found.columns[name]) > 0.885, name
        assert np.mean(np.array(errors) <= found.columns[name] / 3) < 0.885, name


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        (BOTH, ["n", "m"]),
        ("SELECT region, COUNT(*) * 2 AS twice, AVG(score) / 10 AS tenth FROM t GROUP BY region", ["twice", "tenth"]),
        ("SELECT region, COUNT(*) AS low, AVG(score) AS high FROM t GROUP BY region", ["low", "high"]),
        ("SELECT SUM(score) AS s, COUNT(*) AS n FROM t HAVING COUNT(*) > 99999", ["s", "n"]),
        ("SELECT SUM(score) / 100 AS share FROM t", ["share"]),
        ("SELECT COUNT(*) AS n FROM t", []),  # a theorem, in rows
    ],
)
def test_what_a_statement_shows_is_what_has_an_error(statement: str, names: list[str]) -> None:
    found = _expected_of(sl.SQL(statement, epsilon="0.5"))
    assert [*found.columns] == names
    assert found.to_json()["columns"] == found.columns
    assert all(f"{name} ± " in str(found) for name in names)
    assert found.size == max(found.columns.values(), default=found.size)


def test_a_computed_number_has_the_error_of_what_is_shown() -> None:
    plain, tenth = (
        _expected_of(sl.SQL(f"SELECT COUNT(*){more} AS n, AVG(score) AS m FROM t", epsilon=1)) for more in ("", " / 10")
    )
    assert tenth.columns["n"] == pytest.approx(plain.columns["n"] / 10, rel=1e-6)


def test_means_of_several_columns_have_their_own_errors_and_prices_hold_for_each() -> None:
    query = sl.Mean(["age", "pay"], epsilon="0.5")
    found = _expected_of(query, NUMBERS)
    assert found.columns["mean_pay"] == pytest.approx(10 * found.columns["mean_age"], rel=0.1)
    needed = epsilon_for(query, NUMBERS, within=2)
    assert max(needed.expected.columns.values()) <= 2
    assert "within 2 in every column" in str(needed)
    assert "mean ± " in str(_expected_of(sl.Summary("score", epsilon=1)))


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("law", ["about the middle", "mostly at the lower bound"])
@pytest.mark.parametrize(
    ("query", "within", "column", "of"),
    [
        (sl.StandardDeviation("x", epsilon=1), 1.0, "sd", lambda x: x.std(ddof=1)),
        (sl.Variance("x", epsilon=1), 10.0, "variance", lambda x: x.var(ddof=1)),
        (sl.Summary("x", epsilon=1), 1.0, "mean", np.mean),
        (sl.SQL("SELECT SUM(x) / COUNT(*) AS m FROM t", epsilon=1), 1.0, "m", np.mean),
    ],
    ids=["standard deviation", "variance", "summary", "sql"],
)
def test_a_measured_error_holds_for_zero_inflated_numbers_too(
    query: Any, within: float, column: str, of: Any, law: str
) -> None:
    """A hundred releases of other rows at the price that was named: more misses than this have a chance below 1e-6."""
    rows, draws, rng = 10_000, 100, np.random.default_rng(8)
    x = {
        "about the middle": np.clip(rng.normal(50, 17, rows).round(), 0, 100),
        "mostly at the lower bound": np.where(rng.random(rows) < 0.9, 0.0, rng.integers(1, 101, rows)),
    }[law]
    table = sl.Table({"x": x}, schema=[sl.Number("x", lower=0, upper=100, granularity=1)])
    needed = sl.epsilon_for(query, table.schema, within=within)
    assert needed.expected.basis == "measured"
    asked = at_price(query, needed.amount)
    found = [seeded_release(asked, table, seed=seed) for seed in range(draws)]
    values = [each.shown if column == "m" else each.value for each in found]
    beyond = sum(abs(float(np.asarray(each[column])[0]) - float(of(x))) > within for each in values)
    assert binom.sf(beyond - 1, draws, 0.05) > 1e-6


def test_a_measured_error_says_that_it_is_for_each_group() -> None:
    schema = sl.Schema([sl.Number("x", lower=0, upper=100), sl.Category("g", ["a", "b"], other=None)])
    needed = sl.epsilon_for(sl.Variance("x", by="g", epsilon=1), schema, within=50)
    assert "for each group" in str(needed)
    assert "for each group" not in str(sl.epsilon_for(sl.Variance("x", epsilon=1), schema, within=50))


def test_columns_are_enough_for_a_price() -> None:
    columns = [sl.Number("age")]
    assert sl.epsilon_for(sl.Count(epsilon=1), columns, within=10) == sl.epsilon_for(
        sl.Count(epsilon=1), sl.Schema(columns), within=10
    )
