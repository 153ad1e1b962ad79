"""Plans that fit models: priced without the data, run, and every mistake named with its place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

from sidelight.errors import PlanError
from sidelight.guarantees import ApproxDP
from sidelight.plans import read_plan

PLAN = """
[source]
path = "customers.csv"

[[column]]
name = "age"
lower = 18
upper = 90

[[column]]
name = "visits"
lower = 0
upper = 30

[[column]]
name = "renewed"
kind = "category"
categories = ["no", "yes"]
other = false

[budget]
epsilon = 12
delta = 1e-5

[[query]]
kind = "logistic_regression"
target = "renewed"
epsilon = 4
delta = 1e-6

[[query]]
kind = "linear_regression"
target = "visits"
features = ["age"]
loss = "huber"
solver = "objective"
epsilon = 2
delta = 1e-6

[[query]]
kind = "linear_svc"
target = "renewed"
features = ["visits"]
width = 0.25
epsilon = 2
delta = 1e-6

[[query]]
kind = "adassp"
target = "visits"
features = ["age"]
feature_norm = 90
mu = 0.1
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    age, visits = rng.uniform(18, 90, 3000), rng.uniform(0, 30, 3000)
    renewed = np.where(visits > 15, "yes", "no")
    rows = [f"{a:.2f},{v:.2f},{r}" for a, v, r in zip(age, visits, renewed, strict=True)]
    (tmp_path / "customers.csv").write_text("age,visits,renewed\n" + "\n".join(rows), encoding="utf-8")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN, encoding="utf-8")
    return path


def changed(plan: Path, old: str, new: str) -> Path:
    text = plan.read_text(encoding="utf-8")
    assert old in text
    plan.write_text(text.replace(old, new, 1), encoding="utf-8")
    return plan


@pytest.mark.filterwarnings("ignore:a budget of epsilon")
def test_models_are_priced_without_the_data_and_then_run(plan: Path, sidelight: Callable[..., Any]) -> None:
    data = plan.parent / "customers.csv"
    kept = data.read_bytes()
    data.unlink()
    priced = sidelight("plan", plan)
    assert priced.status == 0, priced.err
    assert "Linear model of renewed" in priced.out
    assert "ApproxDP(ε = 2, δ = 1e-6" in priced.out
    assert "GDP(μ = 0.8" in priced.out
    said = re.sub(r"\s+", " ", priced.out)
    assert len(re.findall(r"Forecast of '[^']+' on new rows: (?:accuracy|R²) about 0\.\d+ \(", said)) == 3
    assert "of the declared shape, generated: yours may differ" in said
    data.write_bytes(kept)
    out, releases = plan.parent / "r.html", plan.parent / "r.json"
    ran = sidelight("run", plan, "--output", out, "--json", releases)
    assert ran.status == 0, ran.err
    text = json.dumps(json.loads(releases.read_text(encoding="utf-8")))
    for labels in (["age", "visits", "intercept"], ["age", "intercept"], ["visits", "intercept"]):
        assert json.dumps(labels) in text
    assert "3000" not in ran.out  # the number of rows is private


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('target = "renewed"', 'target = "renewd"', "renewd"),
        ('target = "renewed"', 'target = "age"', "is a number, and a classifier wants labels"),
        ('features = ["age"]', 'features = ["agee"]', "'age'"),
        ('features = ["age"]', 'features = ["visits"]', "among the features"),
        ('loss = "huber"', 'loss = "hubert"', "huber"),
        ("width = 0.25", "widht = 0.25", "width"),
        ("epsilon = 4\n", "", "'epsilon' is missing"),
        ("epsilon = 4\ndelta = 1e-6", "epsilon = 4", "'delta' is missing"),
        ("epsilon = 4\n", "epsilon = 4\nregularisation = -1\n", "regularisation"),
        ("epsilon = 4\n", 'epsilon = 4\nsolver = "newton"\n', "solver"),
        ("epsilon = 4\n", "epsilon = 4\nrows = 0\n", "rows"),
        ("epsilon = 4\n", "epsilon = 4\nodds = 0\n", "odds"),
        ("epsilon = 4\n", 'epsilon = 4\nprediction = {public = "none.csv", origin = "x"}\n', "no file"),
        ("epsilon = 4\n", 'epsilon = 4\nprediction = {origin = "x"}\n', "name one of the three"),
        ("epsilon = 4\n", "epsilon = 4\nprediction = {coefficients = {agee = 1}}\n", "agee"),
        ("epsilon = 4\n", 'epsilon = 4\nbound = "loose"\n', "bound"),
        (
            "epsilon = 4\n",
            'epsilon = 4\nclass_weight = {yes = "1e12000000"}\n',
            "ordinary size",
        ),
        ("mu = 0.1", "mu = 0.1\nrho = 0.1", "exactly one of rho"),
        ("feature_norm = 90", "feature_norm = -1", "feature_norm"),
        ("lower = 18\n", "", "public range"),
    ],
)
@pytest.mark.filterwarnings("ignore:a budget of epsilon")
def test_mistakes_are_named_with_their_place(plan: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_plan(changed(plan, old, new))
    assert said in str(caught.value)
    assert "query" in str(caught.value)
    assert "line" in str(caught.value)


@pytest.mark.filterwarnings("ignore:a budget of epsilon")
def test_weights_classes_and_no_intercept(plan: Path) -> None:
    more = 'epsilon = 4\nclass_weight = {yes = 2}\nclasses = ["no", "yes"]\nintercept = false\n'
    planned = read_plan(changed(plan, "epsilon = 4\n", more)).queries[0].prepared
    assert planned.request["intercept"] == "none"
    assert planned.claims.implies(ApproxDP(4, "1e-6"))


@pytest.mark.filterwarnings("ignore:a budget of epsilon")
def test_predictions_of_a_plan(plan: Path, sidelight: Callable[..., Any]) -> None:
    public = plan.parent / "survey.csv"
    rows = [f"{18 + place % 70},{place % 30},{'yes' if place % 30 > 15 else 'no'}" for place in range(210)]
    public.write_text("age,visits,renewed\n" + "\n".join(rows), encoding="utf-8")
    more = """epsilon = 4
rows = 3000
geometry = "public"
prediction = [
  {public = "survey.csv", origin = "a survey of 2020"},
  {coefficients = {visits = 0.3}, intercept = -4.5, scale = 0.5},
]
"""
    planned = read_plan(changed(plan, "epsilon = 4\n", more)).queries[0].prepared
    assert planned.request["predictions"] == "2"
    assert planned.request["rows"] == "3000"
    assert planned.prediction is not None
    assert "a survey of 2020" in str(planned.prediction["description"])
    assert planned.claims.implies(ApproxDP(4, "1e-6"))
    ran = sidelight("run", plan, "--output", plan.parent / "r.html")
    assert ran.status == 0, ran.err


def test_a_sequence_is_priced_by_its_days(sidelight: Callable[..., Any], tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "plan-files.md").read_text(encoding="utf-8")
    (daily,) = (block for block in re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL) if "[sequence]" in block)
    path = tmp_path / "daily.toml"
    path.write_text(daily, encoding="utf-8")
    for_ever = sidelight("plan", path)
    assert for_ever.status == 0, for_ever.err
    assert "lasts indefinitely" in for_ever.out
    path.write_text(daily.replace("days_per_person = 2", ""), encoding="utf-8")
    counted = sidelight("plan", path)
    assert counted.status == 0, counted.err
    assert "lasts for 2 days" in counted.out
    assert not list(tmp_path.glob("*.db"))  # nothing is written
    path.write_text(daily.replace("days_per_person = 2", "days_per_person = 3"), encoding="utf-8")
    assert sidelight("plan", path).status == 1
