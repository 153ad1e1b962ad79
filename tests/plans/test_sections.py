"""Sections of plans and queries say the same: read, written and read again, every kind is the same question."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

import sidelight as sl
from sidelight.errors import PlanError
from sidelight.plans import FolderResolver, NameResolver, Section, query_table, read_query, write_query
from sidelight.plans.columns import COLUMN_TABLE, write_column
from sidelight.plans.toml_text import toml_lines
from sidelight.registry import PLAN_KINDS

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from every_kind import QUERIES, plan_of_every_kind, write_people

JSON = msgspec.json.Encoder(decimal_format="number")
DOCS = Path(__file__).parents[2] / "docs"
#: More keys of some kinds than the examples of every kind have.
MORE = """
[[query]]
kind = "quantiles"
levels = [0.25, 0.5]
column = 'age'
epsilon = 0.1
prediction = {family = "hedge", weight = 0.2, prediction = LAPLACE, with = CAUCHY}
[[query]]
kind = "quantiles"
levels = [0.25, 0.5]
rho = 0.1
column = 'age'
prediction = [CAUCHY, CAUCHY]
size = 90
[[query]]
kind = "quantiles"
levels = ["1/3"]
column = "age"
epsilon = 1
by = ["sex", "cut(age, [30, 60])"]
where = "age > 3"
[[query]]
kind = "quantiles"
levels = [0.5]
column = "age"
epsilon = 1
form = "tree"
[[query]]
kind = "distribution"
column = "age"
rho = "1/3"
size = 100
prediction = {family = "half_cauchy", scale = 9}
[[query]]
kind = "count"
by = "sex"
epsilon = 0.1
of = "rows"
confidence = 0.9
rollup = true
[[query]]
kind = "count"
by = ["job", "sex"]
epsilon = 0.1
prediction = [{public = "jobs.csv", origin = "a", doubt = 0.1}]
[[query]]
kind = "histogram"
column = "age"
bins = "private"
rho = 1
outside = "drop"
[[query]]
kind = "mean"
column = ["age", "income"]
by = "sex"
mu = 1
[[query]]
kind = "mean"
column = "income * 2"
epsilon = 1
delta = 1e-6
clip = [0, 80.5]
[[query]]
kind = "mean"
column = "age"
epsilon = 1
prediction = CAUCHY
[[query]]
kind = "sum"
column = "income"
epsilon = 1
clip = "declared"
[[query]]
kind = "variance"
column = "income"
ddof = 0
epsilon = 1
by = "sex"
[[query]]
kind = "top_k"
column = "job"
k = 2
route = "peeling"
epsilon = 1
[[query]]
kind = "sql"
select = "SELECT COUNT(*) FROM people"
rho = 0.1
confidence = 0.9
[[query]]
kind = "covariance"
columns = ["age", "height"]
radius = 9
rho = 1
prediction = [[1, 0.1], [0.1, 2]]
centre = [40, -0.5]
[[query]]
kind = "covariance"
columns = ["age", "height"]
radius = 9
epsilon = 1
centre = "mean"
project = false
[[query]]
kind = "gaussian"
columns = ["age"]
rho = 0.1
prediction = {rows = [[20], [30.5], [70]], origin = "three"}
condition = 40
[[query]]
kind = "gaussian"
columns = ["age"]
epsilon = 1
mean_bound = 300
variance_bound = 1e4
steps = 3
noise = "laplace"
rows = 9
[[query]]
kind = "synthetic_table"
rho = 1
columns = ["sex", "age"]
ways = 1
sets = [["sex", "age"]]
ranges = ["age"]
missing = ["sex"]
[[query]]
kind = "synthetic_table"
rho = 1
bins = {age = [16, 30.5, 99], income = 20}
rounds = 2
engine = "queries"
[[query]]
kind = "logistic_regression"
target = "renewed"
epsilon = 4
delta = 1e-6
class_weight = {yes = 2}
intercept = false
[[query]]
kind = "logistic_regression"
target = "renewed"
epsilon = 4
delta = 1e-6
classes = ["no", "yes"]
rows = 9
odds = 4
[[query]]
kind = "linear_regression"
target = "income"
features = ["age"]
loss = "huber"
solver = "objective"
epsilon = 2
delta = 1e-6
[[query]]
kind = "linear_regression"
target = "income"
features = ["age"]
epsilon = 2
delta = 1e-6
geometry = "none"
passes = 4
prediction = [{coefficients = {age = 0.3}, intercept = -4.5, scale = 0.5, origin = 'a paper'}]
[[query]]
kind = "linear_svc"
target = "renewed"
features = ["age"]
epsilon = 2
delta = 1e-6
width = 0.25
intercept = 2
[[query]]
kind = "adassp"
target = "income"
features = ["age"]
mu = 0.1
shrinkage = "uniform"
gram_share = 0.4
[[query]]
kind = "stable_median"
column = "age"
epsilon = 1
delta = 1e-6
spread = 1
test_share = 0.4
"""
MORE = MORE.replace("CAUCHY", '{family = "cauchy", location = 40, scale = "1/3", origin = {public = "census of 2020"}}')
MORE = MORE.replace("LAPLACE", '{family = "laplace", location = -40, scale = 3}')
SECTIONS = [*(f'kind = "{kind}"\n{text}' for kind, text in QUERIES.items()), *MORE.split("[[query]]")[1:]]


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, sl.Schema]:
    folder = tmp_path_factory.mktemp("people")
    write_people(folder)
    return folder, plan_of_every_kind(folder).schema


def read(text: str, **more: Any) -> Section:
    return Section(tomllib.loads(text, parse_float=Decimal), **more)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", SECTIONS)
def test_a_section_survives_being_written(people: tuple[Path, sl.Schema], text: str) -> None:
    folder, schema = people
    resolver = FolderResolver(folder)
    query = read_query(read(text, resolver=resolver))
    written = write_query(query, resolver=resolver, title="A title")
    again = read_query(Section(written, resolver=resolver))
    assert write_query(again, resolver=resolver, title="A title") == written
    assert tomllib.loads("\n".join(toml_lines(written)), parse_float=Decimal) == written
    by_json = read_query(
        Section(json.loads(JSON.encode(written), parse_float=Decimal, parse_int=int), resolver=resolver)
    )
    meant = query.prepare(schema)
    for other in (again, by_json):
        prepared = other.prepare(schema)
        assert prepared.request == meant.request
        assert prepared.claims == meant.claims
        assert prepared.prediction == meant.prediction
    assert written.keys() >= tomllib.loads(text).keys()


def test_every_kind_is_tried() -> None:
    assert set(QUERIES) == set(PLAN_KINDS)
    for kind in PLAN_KINDS:
        assert query_table(kind).schema()["additionalProperties"] is False


def test_python_queries_are_written() -> None:
    query = sl.Mean("hours", by="sex", where=sl.col("age") >= 18, epsilon=0.1, clip=(0, 80.5))
    assert write_query(query) == {
        "kind": "mean",
        "column": "hours",
        "by": ["sex"],
        "where": "age >= 18",
        "epsilon": Decimal("0.1"),
        "clip": [0, Decimal("80.5")],
    }
    with pytest.raises(PlanError, match="has no name that a plan could write"):
        write_query(sl.Count(by="sex", epsilon=1, prediction=sl.Predicted({"F": 1, "M": 2}, origin="a register")))
    with pytest.raises(PlanError, match="cannot say neighbours of StableMode"):
        write_query(sl.StableMode("job", epsilon=1, delta=1e-6, neighbours=sl.Neighbours.REPLACE))
    model = sl.LinearSVC(epsilon=1, delta=1e-6, data_norm=1)
    with pytest.raises(PlanError, match="cannot say data_norm"):
        write_query(sl.ModelQuery(model=model, target="job"))
    with pytest.raises(PlanError, match="no section for MajorityVote"):
        write_query(sl.MajorityVote("job", noise_scale=1, epsilon=1, delta=1e-6))


def test_a_resolver_of_names_opens_nothing() -> None:
    text = 'kind = "count"\nby = "sex"\nepsilon = 1\nprediction = {public = "jobs", origin = "register"}'
    names = NameResolver(frozenset({"jobs"}))
    section = read(text, resolver=names)
    assert query_table("count").read_values(section)["prediction"].table == "jobs"
    assert write_query(read_query(section), resolver=names)["prediction"] == {"public": "jobs", "origin": "register"}
    with pytest.raises(PlanError, match="public names 'other', which is not known here"):
        read_query(read(text.replace("jobs", "other"), resolver=names))


def examples() -> Iterator[Any]:
    for page in sorted(DOCS.rglob("*.md")):
        for block in re.findall(r"```(?:toml|text)\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
            if "[[query]]" in block:
                yield pytest.param(block, id=page.stem)


@pytest.mark.parametrize("block", list(examples()))
def test_examples_of_the_documentation_are_sections(block: str) -> None:
    """Those whose prediction is a file are only checked; nothing is opened."""
    for values in tomllib.loads(block, parse_float=Decimal)["query"]:
        values.pop("from", None)  # of the plan: which rows of a database
        section = Section(values, resolver=NameResolver())
        table = query_table(values["kind"])
        table.read_values(section)
        if values["kind"] not in ("gaussian", "gaussian_mixture"):
            written = write_query(read_query(section), resolver=NameResolver())
            again = read_query(Section(written, resolver=NameResolver()))
            assert write_query(again, resolver=NameResolver()) == written


def test_columns_are_written() -> None:
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
    per_person = 1
    [[column]]
    name = "age"
    lower = -0.5
    granularity = "1/3"
    missing = "drop"
    [[column]]
    name = "day"
    kind = "date"
    start = 2024-01-01
    end = "2024-12-31"
    [[column]]
    name = "place"
    kind = "label"
    casefold = true
    """
    for values in tomllib.loads(text, parse_float=Decimal)["column"]:
        column = COLUMN_TABLE.read_section(Section(values))
        assert COLUMN_TABLE.read_section(Section(write_column(column))) == column


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "count"\ntitle = 3\nepsilon = 1', "title must be text in quotes, got the number 3"),
        ('kind = "count"\ntitle = ""\nepsilon = 1', "title must not be empty"),
        ('kind = "mean"\ncolumn = "age"\nepsilon = 1\nclip = 3', 'clip must be "auto" or .* or a list in .brackets.'),
        ('kind = "count"\nepsilon = 1\nrollup = 1', "rollup must be true or false, got the number 1"),
        ('kind = "count"\nepsilon = 1\nnoise = "normal"', "noise = 'normal' is not an option; did you mean 'gaussian'"),
        ('kind = "mean"\ncolumn = "age"\nepsilon = 1\nnoise = "laplace"', "the key 'noise' is gone; leave it out"),
        ('kind = "top_k"\ncolumn = "x"\nk = 1\nepsilon = 1\nroute = "peel"', "did you mean 'peeling'"),
        ('kind = "top_k"\ncolumn = "job"\nk = 1.5\nepsilon = 1', "k must be a whole number, got the number 1.5"),
        ("epsilon = 1", "'kind' is missing"),
        ('kind = "quantiles"\nlevels = [0.5]\nepsilon = 1\nbranching = 2', "the key 'branching' is gone; leave it out"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        read_query(read(text))


def test_several_released_entries_are_all_named() -> None:
    prior = '{family = "uniform", lower = 0, upper = 1, origin = {released = ["a", "b"]}}'
    query: Any = read_query(read(f'kind = "quantiles"\nlevels = [0.5]\nepsilon = 1\nprediction = {prior}'))
    assert query.prediction.origin.entries == ("a", "b")
