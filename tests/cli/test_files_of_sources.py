"""No file of a source, however it is named, is public for its plan, or written by a command that reads the plan."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

from sidelight.cli.daily import read_daily_plan
from sidelight.errors import PlanError
from sidelight.plans import read_plan

HEAD = """
[source]
path = "{source}"
name = "visits"
[[column]]
name = "g"
kind = "category"
categories = ["11", "12", "21"]
[[column]]
name = "count"
lower = 0
upper = 200
[budget]
epsilon = 2
[ledger]
url = "budget.db"
"""
COUNT = '[[query]]\nkind = "count"\nepsilon = 0.5\n'
#: Every place of a plan that names a file, with that file's name.
NAMED = {
    "prediction of a table": COUNT
    + 'by = "g"\nprediction = {{public = "{file}", origin = "a table", column = "count"}}',
    "one of several predictions": COUNT
    + 'by = "g"\nprediction = [{{public = "{file}", origin = "a table", column = "count"}}]',
    "earlier release": COUNT + 'by = "g"\nprediction = {{release = "{file}"}}',
    "ancestors": COUNT + 'by = {{column = "g", file = "{file}", levels = ["town"]}}',
    "public totals": COUNT + 'by = {{column = "g", prefixes = {{town = 1}}, public_totals = "{file}"}}',
    "public rows": '[[query]]\nkind = "gaussian"\ncolumns = ["count"]\nepsilon = 0.5\ndelta = 1e-7\n'
    'prediction = {{public = "{file}", origin = "rows"}}',
    "synthetic table": '[[query]]\nkind = "synthetic_table"\nepsilon = 0.5\ndelta = 1e-7\n'
    'prediction = {{releases = ["{file}"]}}',
    "coefficients": '[[query]]\nkind = "linear_regression"\ntarget = "count"\nfeatures = ["g"]\n'
    "epsilon = 0.5\ndelta = 1e-7\n"
    'prediction = {{release = "{file}"}}',
}
SOURCES = ["visits", "visits/", "visits/*.csv", "visits/a.csv", "v*/a.csv", "./visits/../visits"]
FILES = ["visits/a.csv", "./visits/a.csv", "link.csv", "hard.csv"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "visits").mkdir()
    (tmp_path / "visits" / "a.csv").write_text("g,count,level,id,value,town\n11,120,town,1,3,1\n12,80,town,2,4,1\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "visits" / "a.csv")
    os.link(tmp_path / "visits" / "a.csv", tmp_path / "hard.csv")
    return tmp_path


def write(folder: Path, text: str, **names: str) -> Path:
    plan = folder / "plan.toml"
    plan.write_text(text.format(**names), encoding="utf-8")
    return plan


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("named", NAMED)
def test_a_file_of_a_source_is_never_public(folder: Path, named: str, file: str, source: str) -> None:
    plan = write(folder, HEAD + NAMED[named], source=source, file=file)
    with pytest.raises(PlanError, match="the private source of this plan"):
        read_plan(plan)
    assert not (folder / "budget.db").exists()


def test_a_file_that_the_engines_leave_out_is_private_too(folder: Path) -> None:
    (folder / "visits" / "_before.csv").write_text("g,count\n11,119\n")
    with pytest.raises(PlanError, match="the private source of this plan"):
        read_plan(write(folder, HEAD + NAMED["prediction of a table"], source="visits", file="visits/_before.csv"))


def test_another_file_next_to_the_folder_is_public(folder: Path) -> None:
    (folder / "published.csv").write_text("g,count\n11,120\n12,80\n21,3\n")
    plan = write(folder, HEAD + NAMED["prediction of a table"], source="visits", file="published.csv")
    assert read_plan(plan).queries


@pytest.mark.parametrize("source", ["visits", "visits/*.csv"])
def test_no_file_of_another_table_of_a_database_is_public(folder: Path, source: str) -> None:
    text = """
    [database]
    name = "clinic"
    [table.person]
    path = "person.csv"
    column = [{{name = "id", kind = "person", max_rows = 1}}, {{name = "g", kind = "category", categories = ["11"]}}]
    [table.visit]
    path = "{source}"
    column = [{{name = "id", kind = "person", max_rows = 3}}]
    [budget]
    epsilon = 2
    [[query]]
    from = "person"
    kind = "count"
    by = "g"
    epsilon = 0.5
    prediction = {{public = "visits/a.csv", origin = "a table", column = "count"}}
    """
    (folder / "person.csv").write_text("id,g\n1,11\n")
    with pytest.raises(PlanError, match="the private source of this plan"):
        read_plan(write(folder, text, source=source))
    code = '[table.code]\npath = "visits/a.csv"\npublic = true\ncolumn = [{{name = "g", kind = "key"}}]\n[budget]'
    with pytest.raises(PlanError, match="it is the source of 'visit'"):
        read_plan(write(folder, text.replace("[budget]", code), source=source))


DAILY = """
[source]
path = "trips/{{day}}.csv"
[[column]]
name = "age"
lower = 0
upper = 110
granularity = 1
[budget]
epsilon = 2
[ledger]
url = "budget.db"
[sequence]
column = "age"
levels = [0.5]
epsilon = 0.5
{more}
"""

#: Commands with a plan, by their options that name an output; where `{out}` stands the output goes.
COMMANDS = {
    "run": ["run", "plan.toml", "-o", "{out}"],
    "run --json": ["run", "plan.toml", "--json", "{out}"],
    "sql": ["sql", "plan.toml", "SELECT COUNT(*) FROM visits", "--epsilon", "0.1", "-o", "{out}"],
    "sql --json": ["sql", "plan.toml", "SELECT COUNT(*) FROM visits", "--epsilon", "0.1", "--json", "{out}"],
    "plan --json": ["plan", "plan.toml", "--json", "{out}"],
    "accuracy --json": ["accuracy", "plan.toml", "--within", "3", "--json", "{out}"],
    "check --json": ["check", "plan.toml", "--json", "{out}"],
    "dummy": ["dummy", "plan.toml", "--overwrite", "-o", "{out}"],
    "dummy --plan": ["dummy", "plan.toml", "--overwrite", "-o", "dummy.csv", "--plan", "{out}"],
    "audit": ["audit", "plan.toml", "-o", "{out}"],
    "disclose": ["disclose", "plan.toml", "-o", "{out}"],
    "disclose --page": ["disclose", "plan.toml", "--page", "{out}"],
    "init": ["init", "{source}", "--overwrite", "--number", "count:0:200", "-o", "{out}"],
    "init --write-metadata": [
        *("init", "{source}", "--overwrite", "--number", "count:0:200", "-o", "new.toml"),
        *("--write-metadata", "{out}"),
    ],
}
DISCLOSURE = """
[disclosure]
curator = "Town Library"
curator_type = "Government"
authors = ["A. Ny"]
intended_use = "planning"
region = "Town"
"""


@pytest.mark.parametrize("source", ["visits", "visits/*.csv"])
@pytest.mark.parametrize("out", ["visits/a.csv", "visits/new.csv", "link.csv", "hard.csv"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_writes_a_file_of_its_source(
    folder: Path, sidelight: Any, monkeypatch: pytest.MonkeyPatch, command: str, out: str, source: str
) -> None:
    monkeypatch.chdir(folder)
    write(folder, HEAD + COUNT + DISCLOSURE, source=source)
    if command.startswith("disclose"):  # it reads a ledger
        assert sidelight("run", "plan.toml").status == 0
    before = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    found = sidelight(*(part.format(out=out, source=source) for part in COMMANDS[command]))
    assert found.status == 2, found.err
    assert any(text in found.err for text in ("would be lost", "would become part", "not written by `sidelight"))
    assert {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()} == before


def test_files_outside_of_the_source_are_written(folder: Path, sidelight: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "reports").mkdir()
    for source, out in (("visits", "reports/a.csv"), ("visits/*.csv", "visits/report.html"), ("visits/*.csv", "a.csv")):
        write(folder, HEAD + COUNT, source=source)
        found = sidelight("run", "plan.toml", "-o", out, "--json", "reports/answer.json")
        assert found.status == 0, found.err
        assert json.loads((folder / "reports/answer.json").read_text())["ok"]
        (folder / "budget.db").unlink()


@pytest.mark.parametrize("ledger", ["visits/new.csv", "visits/a.csv", "link.csv"])
def test_a_ledger_is_no_file_of_a_source(folder: Path, ledger: str) -> None:
    for source in ("visits", "visits/*.csv"):
        plan = write(folder, HEAD.replace("budget.db", ledger) + COUNT, source=source)
        with pytest.raises(PlanError, match="would be a file of the data"):
            read_plan(plan)


def test_a_sequence_keeps_the_files_of_all_days(folder: Path, sidelight: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "trips").mkdir()
    for day in ("2026-11-14", "2026-11-15"):
        (folder / "trips" / f"{day}.csv").write_text("age\n30\n40\n")
    write(folder, DAILY, more="")
    for out in ("2026-11-14", "2026-11-15", "2026-11-16"):
        found = sidelight("today", "plan.toml", "--day", "2026-11-15", "-o", f"trips/{out}.csv")
        assert found.status == 2, found.err
        assert "choose another output" in found.err
        found = sidelight("plan", "plan.toml", "--json", f"trips/{out}.csv")
        assert found.status == 2, found.err
    assert (folder / "trips/2026-11-14.csv").read_text() == "age\n30\n40\n"
    assert not (folder / "trips/2026-11-16.csv").exists()
    with pytest.raises(PlanError, match="the state would be written to a file of a day"):
        read_daily_plan(write(folder, DAILY, more='state = "trips/2026-11-16.csv"'))
    assert read_daily_plan(write(folder, DAILY, more='state = "trips/state.json"')).state is not None


def test_a_table_is_not_written_over_its_release(folder: Path, sidelight: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "release.csv").write_text("{}")
    found = sidelight("table", "release.csv", "--overwrite", "-o", "./release.csv")
    assert found.status == 2
    assert "would be lost" in found.err
