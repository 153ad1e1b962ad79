"""Tested answers in plans: priced without the data, released or refused at the same price."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

PLAN = """
title = "Hours"

[source]
path = "hours.csv"
name = "hours"

[[column]]
name = "hours"
lower = 0
upper = 99
granularity = 1

[[column]]
name = "city"
kind = "category"
categories = ["Bonn", "Ulm"]

[budget]
epsilon = 2
delta = 1e-5

[[query]]
kind = "stable_median"
title = "Median of hours"
column = "hours"
epsilon = 1
delta = 1e-6

[[query]]
kind = "stable_mode"
title = "Where most live"
column = "city"
epsilon = 1
delta = 1e-6
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    rows = ["40,Bonn"] * 700 + ["20,Ulm"] * 100 + ["60,Ulm"] * 100
    (tmp_path / "hours.csv").write_text("hours,city\n" + "\n".join(rows), encoding="utf-8")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN, encoding="utf-8")
    return path


def test_tested_answers_are_priced_and_released(plan: Path, sidelight: Callable[..., Any]) -> None:
    priced = sidelight("plan", plan)
    assert priced.status == 0, priced.err
    ran = sidelight("run", plan, "--output", plan.parent / "r.html", "--json", plan.parent / "r.json")
    assert ran.status == 0, ran.err
    text = (plan.parent / "r.json").read_text(encoding="utf-8")
    assert "Bonn" in text
    assert "40.0" in text


def test_a_refusal_is_reported(plan: Path, sidelight: Callable[..., Any]) -> None:
    rows = ["40,Bonn", "41,Ulm"] * 5
    (plan.parent / "hours.csv").write_text("hours,city\n" + "\n".join(rows), encoding="utf-8")
    ran = sidelight("run", plan, "--output", plan.parent / "r.html", "--json", plan.parent / "r.json")
    assert ran.status == 0, ran.err
    assert "a few records could overturn" in (plan.parent / "r.json").read_text(encoding="utf-8")


def test_a_bad_share_says_where(plan: Path, sidelight: Callable[..., Any]) -> None:
    plan.write_text(PLAN.replace('column = "hours"', 'column = "hours"\ntest_share = 2'), encoding="utf-8")
    refused = sidelight("plan", plan)
    assert refused.status != 0
    assert "test_share" in refused.err
