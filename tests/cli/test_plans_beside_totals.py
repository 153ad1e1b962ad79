"""Plans whose counts publish totals exactly: their budget, ledger and report name the totals and the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

from sidelight.errors import PlanError
from sidelight.guarantees import Neighbours
from sidelight.guarantees.claims import NOT_PROTECTED
from sidelight.ledger import open_ledger
from sidelight.plans import read_plan

PLAN = """
[source]
path = "people.csv"

[[column]]
name = "leaf"
kind = "category"
categories = ["a1", "a2", "b1", "b2"]

[[column]]
name = "sex"
kind = "category"
categories = ["f", "m"]

[budget]
rho = 1

[ledger]
url = "budget.db"

[[query]]
kind = "count"
by = [{column = "leaf", prefixes = {town = 1}, invariants = [{level = "town", reason = "Towns Act, s. 4"}]}, "sex"]
rho = 0.1

[[query]]
kind = "count"
by = "sex"
rho = 0.1
"""


def test_a_plan_opens_a_scope_for_its_totals(tmp_path: Path, sidelight: Callable[..., Any]) -> None:
    rows = "".join(f"{leaf},{sex}\n" for leaf, sex in [("a1", "f")] * 40 + [("b2", "m")] * 60)
    (tmp_path / "people.csv").write_text("leaf,sex\n" + rows, encoding="utf-8")
    file = tmp_path / "plan.toml"
    file.write_text(PLAN, encoding="utf-8")
    plan = read_plan(file)
    assert plan.budget.neighbours is Neighbours.KEPT
    assert "Towns Act, s. 4" in plan.budget.kept
    quoted = sidelight("plan", file).out
    assert "Towns Act, s. 4" in quoted
    assert "3 totals of level town. No prediction says how many of them are small." in " ".join(quoted.split())
    done = sidelight("run", file, "-o", tmp_path / "report.html", "--json", tmp_path / "out.json")
    assert done.status == 0, done.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Published exactly" in page
    assert "Towns Act, s. 4" in page
    assert NOT_PROTECTED in page
    assert "is in the data or not" not in page
    assert "Towns Act, s. 4" in sidelight("ledger", "show", tmp_path / "budget.db").out.replace("\n", " ")
    with open_ledger(tmp_path / "budget.db") as ledger:
        assert ledger.verify().ok
        (scope,) = ledger.scopes()
        assert float(scope.spent().zcdp.total) == pytest.approx(0.5, abs=1e-9)  # type: ignore[union-attr]
    other = '{column = "leaf", prefixes = {town = 1}, invariants = [{level = "all", reason = "another"}]}'
    file.write_text(PLAN.replace('by = "sex"', f"by = {other}"), encoding="utf-8")
    with pytest.raises(PlanError, match="no budget holds given"):
        read_plan(file)
