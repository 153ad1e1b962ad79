"""A town of generated people, a public survey of the same columns, and a plan that asks for a synthetic table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_fixtures import sidelight

import sidelight as sl
from sidelight.testing import seeded_release

__all__ = ["seeded_json", "sidelight", "town"]

PLAN = """
title = "People of the town"

[source]
path = "people.csv"

[[column]]
name = "sex"
kind = "category"
categories = ["F", "M"]

[[column]]
name = "job"
kind = "category"
categories = ["nurse", "driver", "cook"]

[[column]]
name = "age"
lower = 16
upper = 99
granularity = 1

[budget]
epsilon = 3

[ledger]
url = "budget.db"

[[query]]
kind = "synthetic_table"
title = "Who works as what"
epsilon = 1
bins = {age = [16, 35, 55, 100]}
"""


def rows_text(rows: int, seed: int) -> str:
    """People whose jobs follow their sex, as CSV."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], rows)
    job = np.where(rng.random(rows) < 0.7, np.where(sex == "F", "nurse", "driver"), "cook")
    age = np.clip(rng.normal(45, 15, rows), 16, 99).astype(int)
    lines = [f"{s},{j},{a}" for s, j, a in zip(sex, job, age, strict=True)]
    return "\n".join(["sex,job,age", *lines]) + "\n"


@pytest.fixture
def town(tmp_path: Path) -> Path:
    """A folder with `people.csv`, `survey.csv` and `plan.toml`."""
    (tmp_path / "people.csv").write_text(rows_text(3000, 1), encoding="utf-8")
    (tmp_path / "survey.csv").write_text(rows_text(300, 2), encoding="utf-8")
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="session")
def seeded_json() -> str:
    """A release of the same domain, made with seeded noise."""
    cells = [line.split(",") for line in rows_text(500, 3).splitlines()[1:]]
    data = {"sex": [c[0] for c in cells], "job": [c[1] for c in cells], "age": [int(c[2]) for c in cells]}
    schema = [
        sl.Category("sex", ["F", "M"]),
        sl.Category("job", ["nurse", "driver", "cook"]),
        sl.Number("age", lower=16, upper=99, granularity=1),
    ]
    query = sl.SyntheticTable(bins={"age": [16, 35, 55, 100]}, epsilon=1)
    return seeded_release(query, sl.Table(data, schema=schema), seed=5).to_json()
