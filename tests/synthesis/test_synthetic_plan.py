"""`kind = "synthetic_table"` in plan files: read like a query in Python, refused with the line where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import sidelight as sl
from sidelight.errors import PlanError
from sidelight.plans.plan import read_plan

PLAN = """
[source]
path = "people.csv"

[[column]]
name = "sex"
kind = "category"
categories = ["F", "M"]

[[column]]
name = "age"
kind = "number"
lower = 0
upper = 100
granularity = 1

[budget]
rho = 1

[[query]]
kind = "synthetic_table"
rho = 0.5
bins = {age = [0, 18, 65, 100]}
missing = ["age"]
rounds = 1
"""


def write(folder: Path, text: str) -> Path:
    (folder / "people.csv").write_text("sex,age\n" + "F,31\nM,70\nF,\n" * 100)
    plan = folder / "plan.toml"
    plan.write_text(text)
    return plan


def test_a_plan_asks_for_the_same_table(tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path, PLAN))
    same = sl.SyntheticTable(bins={"age": [0, 18, 65, 100]}, missing=["age"], rho="0.5", rounds=1)
    assert plan.queries[0].prepared.request == same.prepare(plan.schema).request


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ways = 3\nbin = 2", "unknown key 'bin'"),
        ("sets = [1]", "lists of column names"),
        ('engine = "gan"', "is not an option"),
        ("bins = {age = 0.5}", "whole number"),
    ],
)
def test_mistakes_name_their_place(tmp_path: Path, line: str, message: str) -> None:
    text = PLAN.replace("bins = {age = [0, 18, 65, 100]}\n", "") if line.startswith("bins") else PLAN
    with pytest.raises(PlanError, match=message):
        read_plan(write(tmp_path, text + line + "\n"))
