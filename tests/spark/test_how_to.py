"""The page on Spark from its first line to the report, as a reader would follow it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sidelight.cli.app import app

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-a-plan-on-spark.md"


def test_the_page_runs_from_start_to_report(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parts = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert [kind for kind, _ in parts] == ["console", "python", "toml", "console", "python"]
    names: dict[str, Any] = {}
    here = f'"{tmp_path}/visits"'  # Spark has a working folder of its own, which is another here
    exec(parts[1][1].replace('"visits"', here), names)
    Path("visits.toml").write_text(parts[2][1], encoding="utf-8")
    for line in parts[3][1].splitlines():
        found = CliRunner().invoke(app, line.split()[1:])
        assert found.exit_code == 0, found.output
    report = Path("report.html").read_text(encoding="utf-8")
    assert "Visits" in report
    assert "south" in report
    exec(parts[4][1].replace('parquet("visits")', f"parquet({here})"), names)
    assert names["people"].engine == "spark"
