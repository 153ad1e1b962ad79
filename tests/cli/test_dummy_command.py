"""`sidelight dummy`: rows of a plan's shape, and a trial that spends nothing of the plan's budget."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def _here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_a_plan_is_tried_before_the_data_is_there(sidelight: Run, folder: Path) -> None:
    (folder / "people.csv").unlink()
    made = sidelight("dummy", "plan.toml", "--rows", "300", "--plan", "trial.toml", "--json", "made.json")
    assert made.status == 0, made.err
    assert "GENERATED" in made.out
    assert json.loads((folder / "made.json").read_text())["generated"] is True
    assert len((folder / "dummy.csv").read_text().splitlines()) == 301
    ran = sidelight("run", "trial.toml")
    assert ran.status == 0, ran.err
    assert "Quartiles of age" in ran.out
    assert "generated rows" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "trial.db").exists()
    assert not (folder / "budget.db").exists()


def test_nothing_is_written_over(sidelight: Run, folder: Path) -> None:
    kept = (folder / "people.csv").read_text()
    assert sidelight("dummy", "plan.toml", "-o", "people.csv", "--overwrite").status == 2
    assert (folder / "people.csv").read_text() == kept
    assert sidelight("dummy", "plan.toml").status == 0
    again = sidelight("dummy", "plan.toml")
    assert again.status == 2
    assert "--overwrite" in again.err
    assert sidelight("dummy", "plan.toml", "--overwrite", "--hostile").status == 0
    assert sidelight("dummy", "plan.toml", "-o", "dummy.parquet").status == 2
    (folder / "inner").mkdir()
    assert sidelight("dummy", "plan.toml", "--overwrite", "--plan", "inner/trial.toml").status == 2
