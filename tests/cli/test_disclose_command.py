"""`sidelight disclose`: the deployment record of a plan, from its ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks.disclosures import SCHEMA
from cli_fixtures import *  # noqa: F403 - fixtures

from plan_schema_check import problems

Run = Callable[..., Any]
TABLE = """
[disclosure]
curator = "Town Library"
curator_type = "Government"
intended_use = "Planning"
region = "Northtown"
authors = ["A. Ny"]
"""


@pytest.fixture(autouse=True)
def _here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_from_a_run_to_a_record(sidelight: Run, folder: Path) -> None:
    asked = sidelight("disclose", "plan.toml")
    assert asked.status == 2
    assert "[disclosure]" in asked.err
    assert "curator_type = ..." in asked.err
    plan = folder / "plan.toml"
    plan.write_text(plan.read_text(encoding="utf-8") + TABLE, encoding="utf-8")
    assert sidelight("disclose", "plan.toml").status == 2  # no ledger exists yet
    assert sidelight("run", "plan.toml").status == 0
    (folder / "people.csv").unlink()
    spent = (folder / "budget.db").read_bytes()
    made = sidelight("disclose", "plan.toml", "-o", "record.yaml")
    assert made.status == 0, made.err
    assert "tier 2" in made.out
    record = yaml.safe_load((folder / "record.yaml").read_text(encoding="utf-8"))
    assert list(problems(record, SCHEMA)) == []
    assert record["deployment"]["basic"]["name"] == "Ages and hours"
    page = (folder / "disclosure.html").read_text(encoding="utf-8")
    assert "Town Library" in page
    assert "<script" not in page
    assert (folder / "budget.db").read_bytes() == spent
    assert sidelight("disclose", "plan.toml", "-o", "plan.toml").status == 2
    assert sidelight("disclose", "plan.toml", "-o", "same.html", "--page", "same.html").status == 2


def test_a_mistake_in_the_table_has_its_line(sidelight: Run, folder: Path) -> None:
    plan = folder / "plan.toml"
    text = plan.read_text(encoding="utf-8") + TABLE.replace('"Government"', '"School"')
    plan.write_text(text, encoding="utf-8")
    wrong = sidelight("disclose", "plan.toml")
    assert wrong.status == 2
    assert "Nonprofit" in wrong.err
