"""`explain`, `schema` and `completion`: the words, the plan files for editors, and the shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

from plan_schema_check import problems, schema
from sidelight.cli import main
from sidelight.cli.explain import glossary
from sidelight.registry import PLAN_KINDS


def test_words_are_explained(sidelight: Callable[..., Any]) -> None:
    assert "e^ε" in sidelight("explain", "ε").out
    assert sidelight("explain", "Routes").out.startswith("route: ")
    assert "sensitivity" in sidelight("explain").out
    wrong = sidelight("explain", "sensitivty")
    assert wrong.status == 2
    assert "did you mean 'sensitivity'?" in wrong.err


def test_the_glossary_holds_the_words_of_the_house_and_no_markup() -> None:
    words = glossary()
    for word in [
        "guarantee",
        "cost",
        "charge",
        "neighbours",
        "unit",
        "prediction",
        "query",
        "aggregate",
        "mechanism",
        "release",
        "epsilon",
        "delta",
    ]:
        assert len(words[word]) > 30
    assert not [text for text in words.values() if re.search(r"\]\(|\*\*|\n", text)]
    page = Path(__file__).parents[2] / "docs" / "reference" / "glossary.md"
    assert "{include} ../../src/sidelight/cli/glossary.md" in page.read_text(encoding="utf-8")


def test_the_schema_is_printed_and_knows_every_kind(sidelight: Callable[..., Any]) -> None:
    printed = json.loads(sidelight("schema").out)
    assert printed == json.loads(json.dumps(schema()))
    kinds = printed["properties"]["query"]["items"]["oneOf"]
    assert [kind["properties"]["kind"]["const"] for kind in kinds] == list(PLAN_KINDS)
    for kind in kinds:
        told = [key for key, value in kind["properties"].items() if value]
        assert len(told) >= 0.8 * len(kind["properties"]), kind


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"budgets": {}}, "plan has no key budgets"),
        ({"budget": {"epsilon": True}}, "plan.budget.epsilon fits none"),
        ({"budget": {"epsilon": 1, "routes": ["basic", "rdp"]}}, "must be one of"),
        ({"query": [{"kind": "quantile", "levels": [0.5]}]}, "fits 0 of its kinds"),
        ({"query": [{"kind": "quantiles", "levels": [0.5], "epsilonn": 1}]}, "fits 0 of its kinds"),
        ({"query": [{"kind": "covariance", "columns": "age"}]}, "fits 0 of its kinds"),
        ({"column": [{"name": "age", "lower": 0, "max_rows": 3}]}, "fits 0 of its kinds"),
    ],
)
def test_the_schema_finds_mistakes(change: dict[str, Any], problem: str) -> None:
    plan: dict[str, Any] = {
        "source": {"path": "people.csv"},
        "budget": {"epsilon": 1, "delta": "1e-6"},
        "column": [{"name": "age", "lower": 0, "upper": 99}, {"name": "id", "kind": "person", "max_rows": 3}],
        "query": [{"kind": "quantiles", "column": "age", "levels": [0.5], "epsilon": 1, "title": "Median"}],
    }
    assert not list(problems(plan, schema()))
    assert any(problem in found for found in problems(plan | change, schema()))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_scripts_are_printed(sidelight: Callable[..., Any], shell: str) -> None:
    assert "_SIDELIGHT_COMPLETE" in sidelight("completion", shell).out
    assert sidelight("completion", "tcsh").status == 2


def test_a_shell_that_asks_is_told_the_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"_SIDELIGHT_COMPLETE": "complete_bash", "COMP_WORDS": "sidelight ledger ver", "COMP_CWORD": "2"}
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == ["verify"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("more", [[], ["--json", "-"]])
def test_a_standard_output_that_is_full_is_no_defect(folder: Path, more: list[str], *, buffered: bool) -> None:
    command = [sys.executable, "-c", "from sidelight.cli import main; main()", "run", "plan.toml", *more]
    settings = os.environ | {"PYTHONUNBUFFERED": "" if buffered else "1"}
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            command, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=settings
        )
    assert found.returncode == 1
    assert "standard output cannot be written" in found.stderr
    assert "defect" not in found.stderr
    assert (folder / "report.html").exists() == bool(more)  # text fails before the charge, JSON is written last
