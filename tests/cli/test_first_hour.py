"""The first hour of a newcomer: the tutorial of commands is followed, and every printed column can be explained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures
from transcripts import DOCS, follow, make_files

from sidelight.cli.explain import glossary
from sidelight.summaries.grouped import TABLE_COLUMNS

Run = Callable[..., Any]


def test_the_tutorial_of_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sidelight: Run) -> None:
    page = DOCS / "tutorials" / "five-minutes-on-your-own-file.md"
    monkeypatch.chdir(tmp_path)
    make_files(page)
    assert follow(page, sidelight) == 7
    looked = sidelight("init", "visits.csv", "--look", "-o", "looked.toml")
    assert looked.status == 0
    assert sidelight("run", "looked.toml").status == 2


def test_every_printed_column_is_explained(sidelight: Run) -> None:
    columns = {name for names in TABLE_COLUMNS.values() for name in names}
    assert columns <= set(glossary())
    for name in (*columns, "mean_age_noise_sd", "mean_fee_low", "likely_95", "within_95"):
        assert sidelight("explain", name).status == 0, name
    assert sidelight("explain", "mean_fee_lowest").status == 2


def test_without_a_term_every_meaning_is_printed(sidelight: Run) -> None:
    shown = " ".join(sidelight("explain").out.split())
    assert all(" ".join(f"{name}: {meaning}".split()) in shown for name, meaning in glossary().items())


def test_a_useless_price_is_named(sidelight: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loans.csv").write_text("member,age,district\n", encoding="utf-8")
    declared = ("--person", "member", "--number", "age:0:110:1", "--category", "district:north,south:1")
    assert sidelight("init", "loans.csv", *declared).status == 0
    assert "USELESS" not in sidelight("plan", "plan.toml").out
    text = Path("plan.toml").read_text(encoding="utf-8")
    Path("poor.toml").write_text(text.replace("epsilon = 0.37", "epsilon = 0.0001"), encoding="utf-8")
    poor = sidelight("plan", "poor.toml").out
    assert "USELESS AT THIS PRICE: 'Mean of age by district, each person once'" in poor
