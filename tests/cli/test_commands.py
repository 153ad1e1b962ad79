"""The command line as a whole: help, statuses, errors without tracebacks, the demo, stored reports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

from sidelight.version import VERSION

Run = Callable[..., Any]


def process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-m", "sidelight", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def test_help_is_light(tmp_path: Path) -> None:
    heavy = "('numpy', 'rich', 'jinja2', 'sqlalchemy')"
    code = f"import sys, sidelight.cli.app; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout.strip() == "[]"
    result = process("--help", cwd=tmp_path)
    assert result.returncode == 0
    for command in ("demo", "plan", "run", "report", "ledger"):
        assert command in result.stdout


def test_version_and_nothing(sidelight: Run) -> None:
    assert sidelight("--version").out == f"sidelight {VERSION}\n"
    assert "Usage" in sidelight().out + sidelight().err


def test_unknown_commands_and_options_are_mistakes(sidelight: Run) -> None:
    assert sidelight("dmeo").status == 2
    assert sidelight("demo", "--drws", "3").status == 2
    assert sidelight("demo", "--draws", "1").status == 2


def test_errors_are_one_message_unless_a_traceback_is_wanted(tmp_path: Path) -> None:
    plain = process("plan", "no.toml", cwd=tmp_path)
    assert plain.returncode == 2
    assert plain.stdout == ""
    assert plain.stderr.count("\n") == 1
    assert plain.stderr.startswith("error: the plan 'no.toml' cannot be read")
    full = process("--traceback", "plan", "no.toml", cwd=tmp_path)
    assert full.returncode != 0
    assert "Traceback" in full.stderr


def test_an_unforeseen_error_says_no_more_than_its_kind(sidelight: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from sidelight.cli import demo

    def broken(**_: object) -> None:
        raise ValueError("record 17 holds 123456")

    monkeypatch.setattr(demo, "demo", broken)
    result = sidelight("demo")
    assert result.status == 3
    assert "ValueError" in result.err
    assert "123456" not in result.err + result.out


def test_demo_in_a_pipe_is_quick_quiet_and_true(tmp_path: Path) -> None:
    result = process("demo", "--draws", "30", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""  # no progress bars in a pipe
    assert result.stdout.rstrip().endswith("Report: report.html")
    errors = [
        float(text) for text in re.findall(r"^(?:Nothing|Bounds|A guess|Public).*?(\d+\.\d)\s", result.stdout, re.M)
    ]
    assert len(errors) == 4
    assert errors[2] < errors[0]
    assert errors[3] < errors[0] / 2  # 24 against 5 ranks; thirty draws leave 10 % of uncertainty
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The people are generated" in page
    assert "NOT PRIVATE" not in page
    assert "PureDP(ε = 0.5)" in page


def test_demo_checks_its_output_first(sidelight: Run, tmp_path: Path) -> None:
    result = sidelight("demo", "-o", tmp_path / "no" / "report.html")
    assert result.status == 2
    assert "does not exist" in result.err


def test_report_from_stored_releases(sidelight: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert sidelight("run", "plan.toml", "--json", "out.json").status == 0
    result = sidelight("report", "out.json", "-o", "again.html")
    assert result.status == 0, result.err
    assert "2 releases. Report: again.html" in result.out
    assert Path("again.html").read_bytes() == Path("report.html").read_bytes()
    wrong = sidelight("report", "people.csv")
    assert wrong.status == 2
    assert "expected the JSON" in wrong.err
    assert sidelight("report", "no.json").status == 2


def test_run_in_a_pipe_is_quiet(folder: Path) -> None:
    result = process("run", "plan.toml", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.rstrip().endswith("Report: report.html")
