"""What a report says of a query is in words: no object of Python, and nothing that is on or off as Python writes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_kind import every_kind

import sidelight as sl
from sidelight.report import Item, Report, render
from sidelight.testing import SeededSession

_PYTHON = re.compile(
    r"\bNone\b|\bTrue\b|\bFalse\b|Drop\(\)|Fill\(|object at 0x|Fraction\(|Decimal\(|np\."
    r"|float64|dtype|array\(|&lt;(class|function)"
)


def words_of(page: str) -> str:
    plain = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"<[^>]*>", " ", plain)


def page_of(outcome: Any) -> str:
    return render(Report(title="T", day="2026-01-01", items=(Item(title="a", outcome=outcome),)))


def test_no_report_of_any_kind_holds_a_word_of_python(tmp_path: Path) -> None:
    for item in every_kind(tmp_path).items:
        words = words_of(page_of(item.outcome))
        found = [words[max(0, each.start() - 40) : each.end() + 40] for each in _PYTHON.finditer(words)]
        assert found == [], item.title


@pytest.mark.parametrize(("policy", "used"), [("cell", "a value of its own"), ("drop", "left out")])
def test_an_additive_model_says_what_becomes_of_missing_cells(policy: Any, used: str) -> None:
    rows = {
        "x": [None, 1.0] * 300,
        "filled": [2.0] * 600,
        "day": ["2026-01-05"] * 600,
        "town": ["Bonn"] * 600,
        "kept": ["a"] * 600,
        "y": np.arange(600) % 100,
    }
    schema = [
        sl.Number("x", lower=0, upper=10),
        sl.Number("filled", lower=0, upper=10, missing=sl.Fill("2.5")),
        sl.Date("day", start="2026-01-01", end="2026-02-01", missing=sl.Fill("2026-01-31")),
        sl.Category("town", ["Bonn", "Ulm"]),
        sl.Category("kept", ["a", "b"], other=None),
        sl.Number("y", lower=0, upper=100),
    ]
    table = sl.Table(rows, schema=schema, name="people")
    session = SeededSession(table, budget=sl.ApproxDP(3, "1e-5"), seed="words")
    model = sl.AdditiveRegressor(epsilon=1, delta="1e-6", on_missing=policy, session=session)
    release = model.fit_table(table, target="y").release_
    assert release.query["missing"] == {
        "x": used,
        "filled": "counted as 2.5",
        "day": "counted as 2026-01-31",
        "town": "counted as other",
        "kept": "left out",
        "y": "left out",
    }
    assert _PYTHON.search(words_of(page_of(release))) is None
