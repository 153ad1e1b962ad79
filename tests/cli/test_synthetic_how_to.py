"""The page "Publish a synthetic table", followed from an empty folder: its files, its commands, what they print."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "publish-a-synthetic-table.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def masked(line: str) -> str:
    """Numbers are noisy, and tables are padded."""
    return " ".join(re.sub(r"\d[\d,.]*", "#", line).split())


def test_the_page_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sidelight: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    for example in doctest.DocTestParser().get_examples(blocks("python")[0]):
        exec(compile(example.source, "page", "exec"), globals())
    for name, text in zip(("plan.toml", "next-year.toml"), blocks("toml"), strict=True):
        Path(name).write_text(text, encoding="utf-8")
    commands = 0
    for session in blocks("console"):
        for part in session.removeprefix("$ ").split("\n$ "):
            command, *expected = part.strip().splitlines()
            words = shlex.split(command)
            assert words[0] == "sidelight"
            result = sidelight(*words[1:])
            assert result.status == 0, (command, result.err)
            printed = [masked(line) for line in result.out.splitlines()]
            for line in expected:
                assert masked(line) in printed, (command, line, result.out)
            commands += 1
    assert commands == 6
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
    (line,) = blocks("text")
    Path("plan.toml").write_text(blocks("toml")[0] + line, encoding="utf-8")
    Path("survey.csv").write_text("sex,job,age\nF,cook,30\nM,nurse,40\n", encoding="utf-8")
    assert sidelight("plan", "plan.toml").status == 0
