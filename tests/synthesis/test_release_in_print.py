"""A synthetic release prints in a few lines, also when it comes back from JSON or a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sidelight as sl
from sidelight.testing import seeded_release

SCHEMA = [sl.Category("sex", ["F", "M"], other=None), sl.Category("job", ["nurse", "cook"], other=None)]


def released(**given: Any) -> sl.Release:
    table = sl.Table({"sex": ["F", "M"] * 100, "job": ["nurse", "cook", "cook", "nurse"] * 50}, schema=SCHEMA)
    release = seeded_release(sl.SyntheticTable(rho=2, **given), table, seed=1)
    assert isinstance(release, sl.Release)
    return release


@pytest.mark.parametrize("engine", ["marginals", "queries"])
def test_a_release_prints_in_few_lines_also_when_it_comes_back(engine: Any) -> None:
    release = released(engine=engine)
    again = sl.Release.from_json(release.to_json())
    assert str(again) == str(release)
    assert again._repr_html_() == release._repr_html_()
    assert "a synthetic table of" in str(again)
    assert "(sex, job;" in str(again)
    assert max(map(len, str(again).splitlines())) < 150
    assert len(str(again).splitlines()) <= 3


def test_a_stored_release_prints_in_few_lines(tmp_path: Path) -> None:
    table = sl.Table({"sex": ["F", "M"] * 50}, schema=SCHEMA[:1])
    session = sl.Session(table, budget=sl.ZCDP(1), ledger=tmp_path / "budget.db", scope="people")
    query = sl.SyntheticTable(sl.marginals(1), rho="0.5")
    session.release(query, key="today")
    stored = session.release(query, key="today")
    assert len(str(stored)) < 200
    assert "sl.Synthetic(release)" in str(stored)
