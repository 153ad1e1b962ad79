"""Plans are read exactly, and every mistake is named with its place and the nearest right word."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

from sidelight.errors import PlanError
from sidelight.guarantees import ApproxDP, Person, PureDP
from sidelight.plans import read_plan
from sidelight.predictions import Cauchy, Gaussian, Histogram, Laplace, Mixture, ScaleFree, Uniform

WritePlan = Callable[[str], Path]


def change(folder: Path, old: str, new: str) -> Path:
    path = folder / "plan.toml"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(PlanError) as caught:
        read_plan(path)
    return str(caught.value)


def test_a_plan_says_what_it_says(folder: Path) -> None:
    plan = read_plan(folder / "plan.toml")
    assert plan.title == "Ages and hours"
    assert plan.one.path == folder / "people.csv"
    assert plan.budget == ApproxDP(3, "1e-6")
    assert plan.ledger == f"sqlite:///{folder / 'budget.db'}"
    assert (plan.name, plan.scope, plan.together_at, plan.strict) == ("people", "people", None, False)
    assert [each.title for each in plan.queries] == ["Quartiles of age", "Quantiles of hours"]
    assert plan.schema.number("hours").granularity == Fraction(1, 2)


def test_decimals_are_exact(folder: Path) -> None:
    plan = read_plan(change(folder, "epsilon = 0.5", "epsilon = 0.1"))
    pure = plan.queries[0].prepared.claims.pure()
    assert pure is not None
    assert pure.epsilon == Fraction(1, 10)
    plan = read_plan(change(folder, "epsilon = 0.1", 'epsilon = "1/3"'))
    assert plan.queries[0].prepared.request["epsilon"] == "1/3"


def test_relative_paths_start_at_the_plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    plan = read_plan(Path("..") / "plan.toml")
    assert plan.one.path.resolve() == folder / "people.csv"
    assert Path(plan.ledger.removeprefix("sqlite:///")).resolve() == folder / "budget.db"  # type: ignore[union-attr]


def test_a_server_is_taken_as_it_is(folder: Path) -> None:
    plan = read_plan(change(folder, '"budget.db"', '"postgresql://ann@host/budget"'))
    assert plan.ledger == "postgresql://ann@host/budget"


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (
            "epsilon = 0.5",
            "epslion = 0.5",
            ["plan.toml, line 31, query 1", "unknown key 'epslion'", "did you mean 'epsilon'?"],
        ),
        ("[budget]", "[budgte]", ["line 19", "unknown key 'budgte'", "did you mean 'budget'?"]),
        ("granularity = 1", "granularty = 1", ["line 11, column 1", "did you mean 'granularity'?"]),
        ("location = 40", "locaton = 40", ["line 32, query 1 prediction", "did you mean 'location'?"]),
        ('"cauchy"', '"cuachy"', ["line 32", "'cuachy' is not an option", "did you mean 'cauchy'?"]),
        ('kind = "number"', 'kind = "numbr"', ["line 10", "did you mean 'number'?"]),
        ('kind = "quantiles"', 'kind = "quantile"', ["line 27", "did you mean 'quantiles'?"]),
        ('column = "age"', 'column = "agee"', ["line 26, query 1", "column 'agee' is not declared"]),
        ("epsilon = 0.5", 'epsilon = "half"', ["query 1", "epsilon", "half"]),
        ("epsilon = 0.5", "epsilon = true", ["line 31", "epsilon must be a number, got true"]),
        ("epsilon = 0.5", "epsilon = inf", ["line 31", "epsilon must be a number of ordinary size"]),
        ("epsilon = 0.5", "epsilon = 1e999999", ["line 31", "epsilon must be a number of ordinary size"]),
        ("epsilon = 0.5", "epsilon = -1", ["query 1", "epsilon", "-1"]),
        ("epsilon = 0.5\n", "", ["line 26, query 1", "the price is exactly one of", "got none"]),
        (
            "levels = [0.25, 0.5, 0.75]",
            "levels = 0.5",
            ["line 30", "levels must be a list in [brackets], got the number 0.5"],
        ),
        ("levels = [0.25, 0.5, 0.75]", "levels = [0.5, 0.25]", ["query 1", "must increase"]),
        (
            "levels = [0.25, 0.5, 0.75]",
            'levels = ["a", true]',
            ["line 30", "each of levels must be a number, got true"],
        ),
        ('path = "people.csv"', "path = 3", ["line 5, source", "path must be text in quotes, got the number 3"]),
        ('path = "people.csv"', 'path = ""', ["line 5", "path must not be empty"]),
        ('path = "people.csv"\n', "", ["line 4, source", "'path' is missing"]),
        ('path = "people.csv"', 'path = "people.csv"\nrecords = "line"', ["line 6, source", "did you mean 'lines'"]),
        ("epsilon = 3\ndelta = 1e-6", "", ["budget", "the budget is empty"]),
        ("epsilon = 3", "rho = 3", ["budget", "epsilon and delta"]),
        ("epsilon = 3", "epsilon = -3", ["budget", "epsilon"]),
        ("epsilon = 3", 'epsilon = 3\nroutes = ["basci"]', ["line 21, budget", "did you mean 'basic'?"]),
        ('title = "Ages and hours"', 'title = "unfinished', ["not valid TOML", "line 2"]),
        ('name = "hours"', 'name = "age"', ["column 2", "'age' was declared before"]),
        ("[[query]]", "[pricing]\ndelta = 1e-7\n[[query]]", ["pricing", "leave it out"]),
        ("granularity = 1", 'granularity = 1\nmissing = "zero"', ["column 1", 'missing must be "drop"']),
        ("scale = 15", 'scale = 15, origin = "public"', ["line 32", "origin must be"]),
        ("scale = 15", "scale = -15", ["line 32", "scale must be positive"]),
    ],
)
def test_mistakes_are_named_with_their_place(folder: Path, old: str, new: str, parts: list[str]) -> None:
    message = refusal(change(folder, old, new))
    for part in parts:
        assert part in message, message


@pytest.mark.parametrize(("text", "part"), [("", "'source' is missing"), ("source = 3", "source must be a table")])
def test_plans_without_the_necessary(write_plan: WritePlan, text: str, part: str) -> None:
    assert part in refusal(write_plan(text))


def test_plans_that_ask_or_declare_nothing(folder: Path) -> None:
    path = folder / "plan.toml"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[: whole.index("[[query]]")], encoding="utf-8")
    assert "asks nothing" in refusal(path)
    path.write_text(whole[: whole.index("[[column]]")] + "[budget]\nepsilon = 1\n", encoding="utf-8")
    assert "the schema is empty" in refusal(path)


def test_a_plan_that_cannot_be_read(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refusal(tmp_path / "no.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refusal(tmp_path / "bytes.toml")


def prior_of(folder: Path, prediction: str) -> object:
    plan = read_plan(change(folder, '{family = "cauchy", location = 40, scale = 15}', prediction))
    return plan.queries[0].query.prediction  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("prediction", "wanted"),
    [
        ('{family = "uniform", lower = 0, upper = 120}', Uniform(0, 120)),
        ('{family = "laplace", location = 40, scale = 2.5}', Laplace(40, 2.5)),
        ('{family = "gaussian", location = 40, scale = 2.5}', Gaussian(40, 2.5)),
        ('{family = "histogram", edges = [0, 40, 90], masses = [1, 3]}', Histogram([0, 40, 90], [1, 3])),
        ('{family = "scale_free", resolution = 1, signs = "positive"}', ScaleFree(1, "positive")),
        (
            '{family = "hedge", weight = 0.2, prediction = {family = "laplace", location = 40, scale = 3},'
            ' with = {family = "cauchy", location = 40, scale = 20}}',
            Mixture([0.8, 0.2], [Laplace(40, 3), Cauchy(40, 20)]),
        ),
        (
            '{family = "mixture", weights = [0.5, 0.5], priors = [{family = "cauchy", location = 20, scale = 5},'
            ' {family = "cauchy", location = 60, scale = 5}]}',
            Mixture([0.5, 0.5], [Cauchy(20, 5), Cauchy(60, 5)]),
        ),
    ],
)
def test_every_family_of_predictions(folder: Path, prediction: str, wanted: object) -> None:
    assert prior_of(folder, prediction) == wanted


def test_one_prediction_a_level_with_origins(folder: Path) -> None:
    cauchy = 'family = "cauchy", location = {}, scale = 5, origin = {}'
    each = [
        "{" + cauchy.format(30, '{public = "census 2020"}') + "}",
        "{" + cauchy.format(40, '{released = ["entry7"]}') + "}",
        "{" + cauchy.format(50, '"guess"') + "}",
    ]
    priors = prior_of(folder, f"[{', '.join(each)}]")
    assert isinstance(priors, tuple)
    assert [str(prior.origin.kind) for prior in priors] == ["public", "released", "guess"]
    assert priors[1].origin.entries == ("entry7",)


def test_persons_categories_and_missing_values(folder: Path) -> None:
    text = """
    [[column]]
    name = "id"
    kind = "person"
    max_rows = 3
    [[column]]
    name = "sex"
    kind = "category"
    categories = ["F", "M", 9]
    other = false
    missing = {fill = "F"}
    [budget]"""
    plan = read_plan(change(folder, "[budget]", text))
    assert plan.schema.unit == Person("id", 3)
    assert plan.budget.unit == Person("id", 3)
    assert plan.queries[0].prepared.claims.unit == Person("id", 3)
    sex = plan.schema.category("sex")
    assert (sex.categories, sex.other) == (("F", "M", "9"), None)


def test_keys_depend_on_what_is_asked_and_on_nothing_else(folder: Path) -> None:
    first = read_plan(folder / "plan.toml")
    same = read_plan(change(folder, 'title = "Ages and hours"', 'title = "Other words"'))
    assert same.key(0, label="a") == first.key(0, label="a")
    assert first.key(0, label="a") != first.key(1, label="a")
    assert first.key(0, label="a") != first.key(0, label="b")
    other = read_plan(change(folder, "epsilon = 0.25", "epsilon = 0.26"))
    assert other.key(0, label="a") != first.key(0, label="a")  # a changed plan is a new key, for every query in it


def test_lines_as_records_are_another_plan(folder: Path) -> None:
    plan = read_plan(folder / "plan.toml")
    assert plan.records == "standard"
    lines = read_plan(change(folder, 'name = "people"', 'name = "people"\nrecords = "lines"'))
    assert lines.records == "lines"
    assert lines.digest != plan.digest


def test_budget_of_epsilon_alone_is_pure(folder: Path) -> None:
    assert read_plan(change(folder, "delta = 1e-6\n", "")).budget == PureDP(3)
