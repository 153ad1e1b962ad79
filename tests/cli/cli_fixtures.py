"""A small data set of generated people, a plan over it, and the command line as a user has it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

__all__ = ["folder", "sidelight", "write_plan"]

PLAN = """
title = "Ages and hours"

[source]
path = "people.csv"
name = "people"

[[column]]
name = "age"
kind = "number"
granularity = 1

[[column]]
name = "hours"
lower = 0
upper = 168
granularity = 0.5

[budget]
epsilon = 3
delta = 1e-6

[ledger]
url = "budget.db"

[[query]]
kind = "quantiles"
title = "Quartiles of age"
column = "age"
levels = [0.25, 0.5, 0.75]
epsilon = 0.5
prediction = {family = "cauchy", location = 40, scale = 15}

[[query]]
kind = "quantiles"
column = "hours"
levels = [0.5]
epsilon = 0.25
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `people.csv` and `plan.toml`."""
    rows = "".join(f"{18 + (7 * i) % 70},{(3 * i) % 80 / 2}\n" for i in range(400))
    (tmp_path / "people.csv").write_text("age,hours\n" + rows, encoding="utf-8")
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    return tmp_path


@pytest.fixture
def write_plan(tmp_path: Path) -> Callable[[str], Path]:
    """Write a plan text and return its path."""

    def write(text: str) -> Path:
        path = tmp_path / "plan.toml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


@pytest.fixture
def sidelight() -> Callable[..., Any]:
    """Run the command line in this process; gives status, out and err."""
    from sidelight.cli.app import app

    def run(*arguments: str | Path) -> SimpleNamespace:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return SimpleNamespace(status=result.exit_code, out=result.stdout, err=result.stderr)

    return run
