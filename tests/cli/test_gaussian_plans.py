"""Gaussians and mixtures in plans: priced without data, run or refused free, errors with positions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

import sidelight as sl
from sidelight.errors import PlanError
from sidelight.guarantees import GDP, ZCDP
from sidelight.plans import read_plan

HEAD = """
title = "Heights and weights"

[source]
path = "people.csv"

[[column]]
name = "height"

[[column]]
name = "weight"

[budget]
rho = 2

[ledger]
url = "budget.db"
"""
ONE = """
[[query]]
kind = "gaussian"
title = "One Gaussian"
columns = ["height", "weight"]
rho = 0.5
prediction = {rows = [[161, 55.5], [185, 90], [172, 70.25]], origin = "three people of the team"}
"""
TWO = """
[[query]]
kind = "gaussian_mixture"
title = "Two groups"
columns = ["weight", "height"]
components = 2
rho = 0.5
prediction = {public = "survey.csv", origin = "survey of 2024, published"}
"""
CENTRES = np.array([[160.0, 55.0], [185.0, 90.0]])


def _rows(count: int, seed: int, *, groups: int = 2) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return CENTRES[rng.integers(groups, size=count)] + rng.normal(0, [3, 2], (count, 2))


def _write(path: Path, rows: np.ndarray, *, names: str = "height,weight") -> None:
    np.savetxt(path, rows, delimiter=",", header=names, comments="", fmt="%.3f")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan with both kinds. The survey has a column more, and a row that misses a number."""
    _write(tmp_path / "people.csv", _rows(4000, 1))
    public = np.column_stack([np.arange(17), _rows(17, 2)])
    public[3, 1] = np.nan
    _write(tmp_path / "survey.csv", public, names="id,height,weight")
    path = tmp_path / "plan.toml"
    path.write_text(HEAD + ONE + TWO, encoding="utf-8")
    return path


def test_the_queries_are_those_of_the_library(plan: Path) -> None:
    one, two = read_plan(plan).queries
    survey = np.loadtxt(plan.parent / "survey.csv", delimiter=",", skiprows=1)[:, [2, 1]]
    public = sl.PublicData(survey[np.isfinite(survey).all(axis=1)], "survey of 2024, published")
    same = sl.SeparatedMixture(["weight", "height"], components=2, rho="0.5", prediction=public)
    schema = read_plan(plan).schema
    assert dict(two.prepared.request) == dict(same.prepare(schema).request)
    assert two.prepared.prediction == same.prepare(schema).prediction
    rows = sl.PublicData([[161, 55.5], [185, 90], [172, 70.25]], "three people of the team")
    fit = sl.GaussianFit(["height", "weight"], rho="0.5", prediction=rows).prepare(schema)
    assert dict(one.prepared.request) == dict(fit.request)
    assert one.prepared.claims == fit.claims


def test_all_keys_of_both_kinds_reach_the_library(plan: Path) -> None:
    ranges = 'kind = "gaussian"\ncolumns = ["height"]\nepsilon = 1\nmean_bound = 300\nvariance_bound = 1e4\nsteps = 3\n'
    more = 'kind = "gaussian"\nrho = 0.1\ncondition = 40\nscale = "30"\nconstants = "proven"\n' + ONE.splitlines()[-1]
    mixed = TWO.replace("components = 2", "components = 2\nleast_weight = 0.2\ncondition = 30").replace(
        "rho = 0.5", 'epsilon = 1\ndelta = 1e-6\nmethod = "recursive"\non_failure = "single"'
    )
    noisy = ranges.replace("epsilon = 1", 'epsilon = 1\nnoise = "laplace"\nrows = 4000')
    text = HEAD + "".join(f"\n[[query]]\n{each}" for each in (ranges, more, noisy)) + mixed
    plan.write_text(text, encoding="utf-8")
    first, second, third, fourth = (each.prepared for each in read_plan(plan).queries)
    assert first.request["mean_bound"] == "300"
    assert first.request["steps"] == "3"
    assert first.claims.pure() is not None
    assert second.request["condition"] == "40"
    assert second.request["scale"] == "30"
    assert second.request["constants"] == "proven"
    assert second.request["columns"] == ["height", "weight"]  # all of the schema, where none are named
    assert any(isinstance(claim, GDP) for claim in second.claims)
    assert (third.request["noise"], third.request["rows"]) == ("laplace", "4000")
    assert fourth.request["method"] == "recursive"
    assert fourth.request["on_failure"] == "single"
    assert fourth.request["least_weight"] == "0.2"
    assert any(isinstance(claim, ZCDP) for claim in fourth.claims)


def test_both_are_priced_run_reported_and_remembered(plan: Path, sidelight: Callable[..., Any]) -> None:
    priced = sidelight("plan", plan)
    assert priced.status == 0, priced.err
    assert "One Gaussian" in priced.out
    page, found = plan.parent / "r.html", plan.parent / "r.json"
    ran = sidelight("run", plan, "--output", page, "--json", found)
    assert ran.status == 0, ran.err
    one, two = (item["outcome"] for item in json.loads(found.read_text(encoding="utf-8"))["items"])
    gaussian = sl.Release.from_json(json.dumps(one))
    assert gaussian.value["mean"] == pytest.approx(CENTRES.mean(axis=0), abs=2)
    mixture = sl.Release.from_json(json.dumps(two))
    means = np.sort(mixture.value["means"][:, ::-1], axis=0)  # its columns are weight and height
    assert means == pytest.approx(CENTRES, abs=1)
    text = page.read_text(encoding="utf-8")
    for shown in ("One Gaussian", "Two groups", "covariance", "weights", "survey of 2024, published"):
        assert shown in text
    again = sidelight("run", plan, "--output", page, "--json", found)
    assert "2 of 2 charges were paid in an earlier run" in again.out


def test_a_mixture_that_is_not_certified_is_reported(plan: Path, sidelight: Callable[..., Any]) -> None:
    _write(plan.parent / "people.csv", _rows(4000, 3, groups=1))
    plan.write_text(HEAD + TWO, encoding="utf-8")
    ran = sidelight("run", plan, "--output", plan.parent / "r.html")
    assert ran.status == 0, ran.err
    assert "could not be certified" in (plan.parent / "r.html").read_text(encoding="utf-8")


def test_a_mixture_of_persons_is_refused_with_the_plan_and_costs_nothing(
    plan: Path, sidelight: Callable[..., Any]
) -> None:
    rows = np.column_stack([_rows(4000, 1), np.arange(4000) // 2])
    _write(plan.parent / "people.csv", rows, names="height,weight,who")
    person = '\n[[column]]\nname = "who"\nkind = "person"\nmax_rows = 2\n'
    plan.write_text(HEAD.replace("\n[budget]", person + "\n[budget]") + ONE + TWO, encoding="utf-8")
    for command in (["plan", plan], ["run", plan, "--output", plan.parent / "r.html"]):
        refused = sidelight(*command)
        assert refused.status != 0
        assert "line 31, query 2" in refused.err
        assert "wants its rows in memory" in " ".join(refused.err.split())
    assert not (plan.parent / "budget.db").exists()
    plan.write_text(HEAD.replace("\n[budget]", person + "\n[budget]") + ONE, encoding="utf-8")
    assert sidelight("plan", plan).status == 0  # a single Gaussian of persons is read from files


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rho = 0.5\n", "rho = 0.5\nstep = 3\n", "line 24, query 1: unknown key 'step'"),
        (ONE.splitlines()[-1], "", "query 1: there are no public rows: pass prediction"),
        ("{rows = [[161, 55.5], [185, 90], [172, 70.25]], origin", "{origin", "name one of the two"),
        ("[[161, 55.5], [185, 90]", "[[161], [185, 90]", "all of one length"),
        ("[[161, 55.5], [185, 90]", '[["a", 55.5], [185, 90]', "rows of numbers"),
        ("[[161, 55.5], [185, 90], [172, 70.25]]", "[]", "rows of numbers"),
        (', origin = "three people of the team"', "", "'origin' is missing"),
        ("[161, 55.5], [185, 90], [172, 70.25]", "[1, 2, 3], [4, 5, 7]", "one number for each of the 2 columns"),
        ('"survey.csv"', '"nothing.csv"', "which is no file"),
        ('"survey.csv"', '"people.csv"', "the private source of this plan"),
        ('columns = ["weight", "height"]\n', "", r"write columns = \[...\]"),
        ('columns = ["weight", "height"]', 'columns = ["weight", "hight"]', "has no column 'hight'"),
        ("components = 2", "components = 40", "a whole number from 1 to 16"),
        ("components = 2", 'components = 2\nmethod = "best"', "method = 'best' is not an option"),
        (TWO.splitlines()[-1], "", "'prediction' is missing"),
    ],
)
def test_mistakes_are_named_with_their_place(plan: Path, old: str, new: str, message: str) -> None:
    text = HEAD + ONE + TWO
    assert old in text
    plan.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PlanError, match=message):
        read_plan(plan)
