"""Predictions and workloads of `kind = "synthetic_table"`: read as in Python, refused with the line, never charged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from synthetic_plan_fixtures import *  # noqa: F403 - fixtures
from synthetic_plan_fixtures import PLAN, rows_text

import sidelight as sl
from sidelight.errors import PlanError
from sidelight.plans import read_plan

Run = Callable[..., Any]


def plan_with(folder: Path, *lines: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(PLAN + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def first(plan: Path) -> Any:
    return read_plan(plan).queries[0]


def test_public_rows_mean_the_same_as_in_python(town: Path) -> None:
    plan = plan_with(town, 'prediction = {public = "survey.csv", origin = "survey of 2024"}', "trust = 0.5")
    planned = first(plan)
    public = sl.PublicData(str(town / "survey.csv"), "survey of 2024")
    same = sl.SyntheticTable(bins={"age": [16, 35, 55, 100]}, epsilon=1, prediction=public, trust=0.5)
    assert planned.prepared.request == same.prepare(read_plan(plan).schema).request
    assert planned.prepared.prediction["description"] == "300 public rows (survey of 2024)"
    assert planned.prepared.prediction["origin"] == {"kind": "public", "description": "survey of 2024"}
    assert planned.query.trust == 0.5
    assert planned.prepared.predicted.prior.trust == 0.5


def test_public_rows_may_be_parquet(town: Path) -> None:
    import pandas as pd

    pd.read_csv(town / "survey.csv").to_parquet(town / "survey.parquet")
    csv = first(plan_with(town, 'prediction = {public = "survey.csv", origin = "survey"}'))
    parquet = first(plan_with(town, 'prediction = {public = "survey.parquet", origin = "survey"}'))
    assert csv.prepared.request == parquet.prepared.request


def test_other_public_rows_are_another_plan(town: Path) -> None:
    plan = plan_with(town, 'prediction = {public = "survey.csv", origin = "survey"}')
    before = read_plan(plan).digest
    (town / "survey.csv").write_text(rows_text(300, 77), encoding="utf-8")
    assert read_plan(plan).digest != before


def test_earlier_releases_predict(town: Path, sidelight: Run) -> None:
    ran = sidelight("run", plan_with(town), "--output", town / "r.html", "--json", town / "last.json")
    assert ran.status == 0, ran.err
    planned = first(plan_with(town, 'prediction = {releases = ["last.json"]}'))
    entry = json.loads((town / "last.json").read_text())["items"][0]["outcome"]["circumstances"]["entry_id"]
    assert planned.prepared.prediction["origin"] == {"kind": "released", "entries": [entry]}
    (release,) = planned.query.prediction
    (town / "bare.json").write_text(release.release.to_json(), encoding="utf-8")
    twice = 'prediction = {releases = [{file = "last.json", title = "Who works as what"}, "bare.json"]}'
    assert first(plan_with(town, twice)).prepared.prediction["description"] == "2 earlier releases"


def test_a_prediction_costs_nothing(town: Path, sidelight: Run) -> None:
    plain = first(plan_with(town)).prepared.claims
    assert first(plan_with(town, 'prediction = {public = "survey.csv", origin = "s"}')).prepared.claims == plain


def test_the_path_starts_at_the_plan(town: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any) -> None:
    plan = plan_with(town, 'prediction = {public = "survey.csv", origin = "survey"}')
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert first(plan).prepared.prediction is not None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['prediction = {publik = "survey.csv"}'], "unknown key 'publik'; did you mean 'public'"),
        (['prediction = {origin = "survey"}'], "name one of the two"),
        (['prediction = {public = "survey.csv", releases = ["a.json"], origin = "s"}'], "name one of the two"),
        (['prediction = {public = "survey.csv"}'], "'origin' is missing"),
        (['prediction = {public = "survey.csv", origin = ""}'], "origin must not be empty"),
        (['prediction = {public = "none.csv", origin = "s"}'], "public names 'none.csv', which is no file"),
        (['prediction = {public = ".", origin = "s"}'], "which is no file"),
        (['prediction = {public = "people.csv", origin = "s"}'], "the private source of this plan"),
        (['prediction = {public = "link.csv", origin = "s"}'], "the private source of this plan"),
        (['prediction = {releases = ["none.json"]}'], "releases names 'none.json', which is no file"),
        (["prediction = {releases = []}"], "releases is empty"),
        (["prediction = {releases = [3]}"], "each of releases must be a JSON file"),
        (['prediction = {releases = "last.json"}'], "releases must be a list"),
        (['prediction = {releases = [{file = "none.json"}]}'], "file names 'none.json', which is no file"),
        (['prediction = {releases = [{fil = "none.json"}]}'], "unknown key 'fil'"),
        (['prediction = {releases = ["survey.csv"]}'], "'survey.csv' holds no releases"),
        (['prediction = {releases = ["a.json"], origin = "s"}'], "origin does not go with releases"),
        (['prediction = "survey.csv"'], "prediction must be {public = "),
        (["trust = 0.5"], "there is none"),
        (['prediction = {public = "survey.csv", origin = "s"}', "trust = 1.5"], "trust must lie in 0..1"),
        (['prediction = {public = "survey.csv", origin = "s"}', 'trust = "much"'], "trust"),
        (['prediction = {public = "other.csv", origin = "s"}'], "other columns than the release"),
        (['prefixes = ["agee"]'], "'agee'"),
        (['prefixes = "age"'], "prefixes must be a list"),
        (["ranges = [3]"], "each of ranges must be text"),
        (["sets = []"], "sets is a list of lists"),
        (['columns = ["age"]', 'bins = {age = ["a third", 3]}'], "age"),
    ],
)
def test_mistakes_name_their_line_and_charge_nothing(
    town: Path, sidelight: Run, lines: list[str], message: str
) -> None:
    (town / "other.csv").write_text("sex,town\nF,Bonn\n", encoding="utf-8")
    (town / "link.csv").symlink_to(town / "people.csv")
    text = PLAN.replace("bins = {age = [16, 35, 55, 100]}\n", "") if "bins" in lines[-1] else PLAN
    plan = town / "plan.toml"
    plan.write_text(text + "\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        read_plan(plan)
    assert message in str(caught.value)
    assert "plan.toml, line " in str(caught.value)
    assert sidelight("run", plan, "--json", town / "r.json").status == 2
    assert not (town / "budget.db").exists()


def test_the_line_is_that_of_the_prediction(town: Path) -> None:
    plan = plan_with(town, 'prediction = {public = "none.csv", origin = "s"}')
    line = plan.read_text(encoding="utf-8").splitlines().index('prediction = {public = "none.csv", origin = "s"}') + 1
    with pytest.raises(PlanError, match=f"plan.toml, line {line}, query 1 prediction: public names"):
        read_plan(plan)


def test_a_release_on_another_domain_is_refused_before_any_charge(town: Path, sidelight: Run) -> None:
    other = plan_with(town)
    other.write_text(PLAN.replace("35, 55", "40"), encoding="utf-8")
    assert sidelight("run", other, "--output", town / "r.html", "--json", town / "last.json").status == 0
    (town / "budget.db").unlink()
    refused = sidelight("run", plan_with(town, 'prediction = {releases = ["last.json"]}'), "--json", town / "r.json")
    assert refused.status == 2
    assert "another domain" in refused.err
    assert "plan.toml, line" in refused.err
    assert not (town / "budget.db").exists()


def test_a_release_that_protects_nobody_is_refused(town: Path, seeded_json: str) -> None:
    (town / "seeded.json").write_text(seeded_json, encoding="utf-8")
    with pytest.raises(PlanError, match="seeded noise, not private"):
        read_plan(plan_with(town, 'prediction = {releases = ["seeded.json"]}'))


def test_workloads_add_up(town: Path) -> None:
    asked = ["ways = 1", 'sets = [["sex", "job", "age"]]', 'prefixes = ["age"]', 'ranges = ["age"]']
    given = first(plan_with(town, *asked)).query.workload
    named = sl.marginals(sets=[["sex", "job", "age"]])
    assert given == sl.marginals(1) + named + sl.synthesis.prefixes("age") + sl.synthesis.ranges("age")
    assert first(plan_with(town)).query.workload == sl.marginals(2)
    assert first(plan_with(town, 'ranges = ["age"]')).query.workload == sl.synthesis.ranges("age")
