"""The pages about plans and commands say what the code does."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures
from typer.main import get_command

from sidelight.cli.app import app
from sidelight.plans import query_table
from sidelight.plans.predictions import FAMILIES
from sidelight.registry import PLAN_KINDS

PAGES = Path(__file__).parents[2] / "docs" / "reference"


def test_the_example_plan_works(sidelight: Callable[..., Any], write_plan: Callable[[str], Path]) -> None:
    page = (PAGES / "plan-files.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    result = sidelight("plan", write_plan(example))
    assert result.status == 0, result.err
    assert "Quartiles of age" in result.out


def test_every_kind_and_family_is_described() -> None:
    page = (PAGES / "plan-files.md").read_text(encoding="utf-8")
    for kind in PLAN_KINDS:
        assert f'`kind = "{kind}"`' in page
    for family in FAMILIES:
        assert f'`"{family}"`' in page


def test_every_key_is_described() -> None:
    page = (PAGES / "plan-files.md").read_text(encoding="utf-8")
    for kind in PLAN_KINDS:
        for name, key in query_table(kind).keys.items():
            assert f"`{name}`" in page or f"`{name} = " in page, (kind, name)
            assert key.meaning, (kind, name)


def test_the_page_of_keys_is_made_of_the_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PAGES.parent))
    text = import_module("plan_keys").page()
    assert '### `kind = "quantiles"`' in text
    assert "| `max_groups` | a whole number |" in text
    assert "| `max_rows` | a whole number | must be given |" in text


def test_every_command_and_option_is_described() -> None:
    page = (PAGES / "cli.md").read_text(encoding="utf-8")
    commands = get_command(app).commands  # type: ignore[attr-defined]
    nested = {f"ledger {name}": each for name, each in commands["ledger"].commands.items()}
    single = {name: each for name, each in commands.items() if name != "ledger"}
    for name, command in {**single, **nested}.items():
        assert f"`sidelight {name}" in page, name
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option not in ("--help", "--title"):
                    assert f"`{option}" in page, (name, option)
