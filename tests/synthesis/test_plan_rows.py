"""A public number of rows in a plan: refused where the plan is read, because its budget counts other neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest

import sidelight as sl
from sidelight.errors import ClaimError, PlanError
from sidelight.plans.plan import read_plan

PLAN = """
[source]
path = "people.csv"

[[column]]
name = "sex"
kind = "category"
categories = ["F", "M"]

[budget]
rho = 1

[[query]]
kind = "synthetic_table"
ways = 1
rho = 0.5
"""


def test_rows_are_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("sex\n" + "F\nM\n" * 50)
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    read_plan(plan)
    plan.write_text(PLAN + "rows = 100\n")
    with pytest.raises(PlanError, match=r"plan.toml, line \d+, .*leave rows out .*or release without a ledger"):
        read_plan(plan)


def test_a_session_charges_adding_and_removing_only_and_a_single_release_takes_rows() -> None:
    table = sl.Table({"sex": ["F", "M"] * 50}, schema=[sl.Category("sex", ["F", "M"], other=None)])
    query = sl.SyntheticTable(sl.marginals(1), rho="0.5", rows=100)
    with pytest.raises(ClaimError):
        sl.Session(table, budget=sl.ZCDP(1)).release(query)
    release = query.release(table)
    assert isinstance(release, sl.Release)
    assert release.guarantee.neighbours is sl.Neighbours.REPLACE
