"""A source may be a pattern: none of its files, under any name, passes for public rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidelight.errors import PlanError
from sidelight.plans import read_plan

PLAN = """
title = "Heights"

[source]
path = "{source}"

[[column]]
name = "height"

[[column]]
name = "weight"

[budget]
rho = 2

[[query]]
kind = "gaussian"
columns = ["height", "weight"]
rho = 0.5
prediction = {{public = "{public}", origin = "published"}}
"""
ROWS = "height,weight\n161,55.5\n185,90\n172,70.25\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("people-1.csv", "people-2.csv", "survey.csv"):
        (tmp_path / name).write_text(ROWS, encoding="utf-8")
    (tmp_path / "link.csv").symlink_to(tmp_path / "people-2.csv")
    return tmp_path


def write(folder: Path, *, source: str, public: str) -> Path:
    plan = folder / "plan.toml"
    plan.write_text(PLAN.format(source=source, public=public), encoding="utf-8")
    return plan


@pytest.mark.parametrize("source", ["people-*.csv", "people-?.csv", "./people-*.csv"])
@pytest.mark.parametrize("public", ["people-1.csv", "people-2.csv", "link.csv"])
def test_a_file_of_the_pattern_is_private(folder: Path, source: str, public: str) -> None:
    with pytest.raises(PlanError, match="the private source of this plan"):
        read_plan(write(folder, source=source, public=public))


def test_other_files_are_public(folder: Path) -> None:
    assert read_plan(write(folder, source="people-*.csv", public="survey.csv")).queries
    assert read_plan(write(folder, source="nowhere-*.csv", public="survey.csv")).queries
