"""`sidelight audit`: attacks a plan on generated data, opens nothing, goes on where it stopped, and says what falls."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

from sidelight.cli import auditing

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(auditing, "USUAL_SECONDS", 1.0)
    monkeypatch.setattr(auditing, "USUAL_RUNS", 16)
    return folder


def test_a_plan_is_attacked_without_its_data_and_without_a_charge(sidelight: Run) -> None:
    Path("people.csv").unlink()
    result = sidelight("audit", "plan.toml")
    assert result.status == 0, result.err
    for text in ("Quartiles of age", "PureDP(ε = 0.5)", "stands", "runs of two", "is not proved by that", "audit.html"):
        assert text in result.out
    assert not Path("budget.db").exists()
    page = Path("audit.html").read_text(encoding="utf-8")
    assert "Quartiles of age" in page
    assert "Hardest pair" in page


def test_an_audit_goes_on_where_it_was_stopped(sidelight: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sidelight("audit", "plan.toml").status == 0
    kept = json.loads(Path("audit.json").read_text(encoding="utf-8"))
    first = kept["queries"][0]
    kept["queries"] = [first]
    Path("audit.json").write_text(json.dumps(kept), encoding="utf-8")
    asked = []
    real = auditing.audit_query
    monkeypatch.setattr(auditing, "audit_query", lambda *given, **how: asked.append(how["seed"]) or real(*given, **how))
    result = sidelight("audit", "plan.toml")
    assert result.status == 0, result.err
    assert 0 not in asked
    assert asked
    assert "attacked before" in result.out
    assert json.loads(Path("audit.json").read_text(encoding="utf-8"))["queries"][0] == first
    asked.clear()
    assert sidelight("audit", "plan.toml", "--long", "--seconds", "1").status == 0  # another length begins again
    assert 0 in asked


def test_files_of_others_and_inputs_are_not_written_over(sidelight: Run) -> None:
    Path("audit.json").write_text("[1, 2]", encoding="utf-8")
    result = sidelight("audit", "plan.toml")
    assert result.status == 2
    assert "was not written by `sidelight audit`" in result.err
    assert Path("audit.json").read_text(encoding="utf-8") == "[1, 2]"
    assert sidelight("audit", "plan.toml", "-o", "plan.toml").status == 2


@pytest.mark.planted("a plan's query that gives its rows away")
def test_a_claim_that_falls_is_told(sidelight: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from sidelight.audit import query_audit

    monkeypatch.setattr(auditing, "USUAL_RUNS", 400)
    monkeypatch.setattr(auditing, "USUAL_SECONDS", 60.0)
    monkeypatch.setattr(query_audit, "run_of", lambda prepared: lambda table, entropy: int(table.rows.length))
    result = sidelight("audit", "plan.toml")
    assert result.status == 1
    assert "REFUTED" in result.out
    assert "a claim is false" in result.err
