"""Releases are typed by their query: a checker knows what `release.value` is."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import sidelight as sl
from sidelight.quantiles.query import QuantileOptions

ROOT = Path(__file__).parents[2]
#: What is asked, and what a checker says of its value.
ASKED = {
    "sl.Quantiles([0.5], epsilon=1).release([1.0]).value": "ndarray",
    "sl.Quantiles([0.5], column='a', by='b', epsilon=1).release(table).value": "GroupTable",
    "session.release(sl.Quantiles([0.5], column='a', epsilon=1)).value": "ndarray",
    "session.release(sl.Quantiles([0.5], column='a', where='a > 3', epsilon=1)).value": "GroupTable",
    "session.release(sl.Count(by='b', epsilon=1)).value": "GroupTable",
    "session.release(sl.Mean('a', epsilon=1)).value": "GroupTable",
    "session.release(sl.quantiles.Distribution(column='a', epsilon=1)).value": "ReleasedDistribution",
    "session.release(sl.Covariance(['a', 'b'], rho=1)).value": "Mapping",
    "session.release(sl.StableMedian('a', epsilon=1, delta='1e-6'))": "Refused",
}


def test_the_options_that_a_checker_knows_are_all_there_are() -> None:
    known = set(QuantileOptions.__annotations__) | {"levels", "by", "where"}
    assert {each.name for each in fields(sl.Quantiles)} == known


@pytest.mark.slow
def test_a_checker_knows_what_is_released(tmp_path: Path) -> None:
    lines = ["import sidelight as sl", "table: sl.Table", "session: sl.Session"]
    lines += [f"reveal_type({asked})" for asked in ASKED]
    lines.append("sl.Quantiles([0.5], epsilom=1)")  # the control: a checker that says nothing would pass
    snippet = tmp_path / "asked.py"
    snippet.write_text("\n".join(lines), encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", snippet],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    revealed = re.findall(r'Revealed type is "(.*)"', found.stdout)
    assert len(revealed) == len(ASKED), found.stdout
    for (asked, wanted), told in zip(ASKED.items(), revealed, strict=True):
        assert wanted in told, (asked, told)
        assert told != "Any"
    assert "epsilom" in found.stdout
