"""`kind = "covariance"` in plan files: read like a query in Python, refused with the line where it is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import PlanError
from sidelight.plans.plan import read_plan

PLAN = """
[source]
path = "rows.csv"

[[column]]
name = "a"
kind = "number"

[[column]]
name = "b"
kind = "number"

[budget]
rho = 1

[[query]]
kind = "covariance"
radius = 1
rho = 0.5
prediction = [[0.1, 0.0], [0.0, 0.2]]
centre = [0.0, -0.1]
"""


def write(folder: Path, text: str) -> Path:
    rows = np.random.default_rng(0).normal(size=(50, 2)) * 0.3
    np.savetxt(folder / "rows.csv", rows, delimiter=",", header="a,b", comments="")
    (folder / "plan.toml").write_text(text, encoding="utf-8")
    return folder / "plan.toml"


def test_a_plan_reads_the_query(tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path, PLAN))
    query = plan.queries[0]
    query = getattr(query, "query", query)
    assert isinstance(query, sl.Covariance)
    np.testing.assert_array_equal(query.prediction[0].matrix, [[0.1, 0.0], [0.0, 0.2]])
    assert [float(entry) for entry in query.centre] == [0.0, -0.1]  # type: ignore[union-attr]
    assert query.release(sl.Table(tmp_path / "rows.csv", schema=[sl.Number("a"), sl.Number("b")])).labels == ("a", "b")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("radius = 1", "radius = 0", "radius"),
        ("rho = 0.5", 'rho = 0.5\nmethod = "separat"', "did you mean 'separate'"),
        ("[[0.1, 0.0], [0.0, 0.2]]", "[[0.1, 0.0], [0.3, 0.2]]", "symmetric"),
        ("[[0.1, 0.0], [0.0, 0.2]]", '[["x", 0.0], [0.3, 0.2]]', "rows of numbers"),
        ("centre = [0.0, -0.1]", 'centre = "median"', "not an option"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, before: str, after: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        read_plan(write(tmp_path, PLAN.replace(before, after)))
