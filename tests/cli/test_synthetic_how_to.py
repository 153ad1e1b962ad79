"""The page "Publish a synthetic table", followed from an empty folder: its files, its commands, what they print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cli_fixtures import *  # noqa: F403 - fixtures
from transcripts import DOCS, blocks, follow, make_files

PAGE = DOCS / "how-to" / "publish-a-synthetic-table.md"


def test_the_page_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sidelight: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_files(PAGE)
    for name, text in zip(("plan.toml", "next-year.toml"), blocks(PAGE, "toml"), strict=True):
        Path(name).write_text(text, encoding="utf-8")
    assert follow(PAGE, sidelight) == 6
    frame = pd.read_csv("synthetic.csv")
    assert abs(len(frame) - 20_000) < 1000
    nurses = frame[frame["job"] == "nurse"]
    assert (nurses["sex"] == "F").mean() > 0.95
    assert len(pd.read_parquet("small.parquet")) == 500
    assert "an earlier release" in Path("report-2027.html").read_text(encoding="utf-8")


def test_the_survey_of_the_page_predicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sidelight: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = blocks(PAGE, "text")
    Path("plan.toml").write_text(blocks(PAGE, "toml")[0] + line, encoding="utf-8")
    Path("survey.csv").write_text("sex,job,age\nF,cook,30\nM,nurse,40\n", encoding="utf-8")
    assert sidelight("plan", "plan.toml").status == 0
