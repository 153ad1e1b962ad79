"""One plan file and its rows, for every engine that can open them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sidelight.plans import Plan, read_plan
from sidelight.records import Table
from sidelight.testing import seeded_release

PLAN = """
title = "Visits"
[source]
path = "visits"
[[column]]
name = "patient"
kind = "person"
max_rows = 2
[[column]]
name = "age"
lower = 0
upper = 120
granularity = 1
[[column]]
name = "minutes"
lower = 0
upper = 60
[[column]]
name = "ward"
kind = "category"
categories = ["north", "south"]
[[column]]
name = "day"
kind = "date"
start = "2024-01-01"
end = "2024-12-31"
[budget]
epsilon = 40
delta = 1e-5
[[query]]
kind = "quantiles"
column = "minutes"
levels = [0.1, 0.5, 0.9]
epsilon = 1
[[query]]
kind = "quantiles"
column = "minutes"
by = "ward"
max_groups = 2
levels = [0.5]
epsilon = 1
[[query]]
kind = "count"
by = "ward"
max_groups = 2
epsilon = 1
[[query]]
kind = "mean"
column = "age"
by = "ward"
max_groups = 2
epsilon = 1
[[query]]
kind = "covariance"
columns = ["age", "minutes"]
radius = 150
epsilon = 2
delta = 1e-6
[[query]]
kind = "adassp"
features = ["age"]
target = "minutes"
epsilon = 2
delta = 1e-6
[[query]]
kind = "synthetic_table"
columns = ["ward", "age"]
ways = 2
epsilon = 2
delta = 1e-6
[[query]]
kind = "quantiles"
column = "day"
levels = [0.5]
epsilon = 1
[[query]]
kind = "linear_regression"
features = ["age", "ward"]
target = "minutes"
epsilon = 2
delta = 1e-6
passes = 4
[[query]]
kind = "logistic_regression"
features = ["age", "minutes"]
target = "ward"
epsilon = 2
delta = 1e-6
passes = 4
[[query]]
kind = "additive_regression"
features = ["age", "ward"]
target = "minutes"
epsilon = 2
delta = 1e-6
[[query]]
kind = "additive_classifier"
features = ["age", "minutes"]
target = "ward"
epsilon = 2
delta = 1e-6
[[query]]
kind = "gaussian"
columns = ["age", "minutes"]
prediction = {public = "survey.csv", origin = "a survey, published"}
epsilon = 2
delta = 1e-6
"""
SURVEY = "age,minutes\n20,12.5\n47,30\n61,18.25\n83,40\n"


def write_visits(folder: Path) -> pa.Table:
    """Write the plan and the rows, in three files, and return the rows."""
    rng = np.random.default_rng(9)
    rows = pa.table(
        {
            "patient": [None if place % 50 == 0 else f"p{place % 170}" for place in range(600)],
            "age": pa.array([None if age == 40 else age for age in rng.integers(16, 90, 600).tolist()], pa.int64()),
            "minutes": rng.gamma(3, 8, 600),
            "ward": [["north", "south", "attic", None][at] for at in rng.integers(0, 4, 600)],
            "day": np.datetime64("2024-01-01", "D") + rng.integers(-9, 400, 600),
        }
    )
    (folder / "visits").mkdir()
    for part in range(3):
        pq.write_table(rows.slice(200 * part, 200), folder / "visits" / f"{part}.parquet")
    (folder / "survey.csv").write_text(SURVEY, encoding="utf-8")
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    return rows


def releases(folder: Path, source: Any = None, **more: Any) -> list[str]:
    """Return what the plan releases under seeded noise, of its own source or of another with the same rows."""
    plan: Plan = read_plan(folder / "plan.toml")
    table = plan.one.open() if source is None else Table(source, schema=plan.schema, name=plan.name, **more)
    outcomes = [seeded_release(each.query, table, seed=place) for place, each in enumerate(plan.queries)]
    with np.printoptions(threshold=sys.maxsize):  # every number, not the first and last three
        return [repr(getattr(outcome, "value", outcome)) for outcome in outcomes]
