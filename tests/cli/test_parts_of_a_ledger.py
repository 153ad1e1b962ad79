"""A sequence with `days_per_person` lasts indefinitely, and no command says anything else once a day was released."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

PLAN = """
[source]
path = "trips-{day}.csv"
name = "trips"

[[column]]
name = "minutes"
lower = 0
granularity = 1

[budget]
epsilon = 1

[ledger]
url = "budget.db"

[sequence]
column = "minutes"
levels = [0.5]
epsilon = 0.5
location = 10
scale = 3
plausible = [0, 120]
days_per_person = 2
"""


@pytest.fixture
def two_days(sidelight: Callable[..., Any], write_plan: Callable[[str], Path], tmp_path: Path) -> Path:
    """A plan with two released days."""
    plan = write_plan(PLAN)
    for day in ("2025-11-15", "2025-11-16"):
        (tmp_path / f"trips-{day}.csv").write_text("minutes\n" + "7\n12\n" * 100)
        made = sidelight("today", plan, "--day", day, "-o", tmp_path / "report.html")
        assert made.status == 0, made.err
    return plan


def test_a_further_day_is_priced_as_a_part_of_its_own(sidelight: Callable[..., Any], two_days: Path) -> None:
    priced = sidelight("plan", two_days)
    assert priced.status == 0, priced.err
    assert "lasts indefinitely" in priced.out
    (line,) = (line.split() for line in priced.out.splitlines() if line.startswith("Sum of"))
    assert line[-6:] == ["0", "1", "1", "1", "100.0", "%"]


def test_show_says_what_a_new_part_may_spend(sidelight: Callable[..., Any], two_days: Path) -> None:
    shown = sidelight("ledger", "show", two_days.parent / "budget.db")
    text = " ".join(shown.out.split())
    assert "left for a new part: one pure query up to ε = 1" in text
    assert "has data in at most 2 days" in text
    assert "nothing is left" not in text
    assert text.count("Scope ") == 1
    assert text.count("quantiles of minutes") == 2
    part = sidelight("ledger", "show", two_days.parent / "budget.db", "--scope", "trips/2025-11-16")
    assert "nothing is left" in part.out


def test_a_mistyped_scope_is_answered_with_the_nearest(sidelight: Callable[..., Any], two_days: Path) -> None:
    shown = sidelight("ledger", "show", two_days.parent / "budget.db", "--scope", "tripps")
    assert shown.status == 2
    assert "did you mean 'trips'? known: trips" in " ".join(shown.err.split())


def test_the_shortfall_is_that_of_the_query_itself(sidelight: Callable[..., Any], folder: Path) -> None:
    plan = folder / "plan.toml"
    plan.write_text(plan.read_text().replace("epsilon = 0.5\n", "epsilon = 5\n"))
    refused = sidelight("run", plan, "-o", folder / "report.html")
    assert refused.status == 1
    assert "remaining ε 3, " in refused.err  # the first query: the second, which would fit, takes nothing from it


def test_a_missing_table_is_asked_for_as_one_writes_it(
    sidelight: Callable[..., Any], write_plan: Callable[[str], Path]
) -> None:
    assert "write [source]" in sidelight("plan", write_plan('title = "x"')).err
