"""The expected error of a synthetic table before it runs, against the errors made on tables that depend otherwise."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.accuracy.expected import Expected, expected
from sidelight.session.query import prepare_query
from sidelight.testing import seeded_release

SIZES = {"a": 8, "b": 3, "c": 5, "d": 4}
SCHEMA = sl.Schema([sl.Category(name, [f"{name}{code}" for code in range(size)]) for name, size in SIZES.items()])
ROWS = 2000


def codes(law: str) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    hidden = rng.integers(0, 4, ROWS)
    if law == "copies":
        return {name: hidden % size for name, size in SIZES.items()}
    noisy = np.where(rng.random(ROWS) < 0.85, hidden % 3, rng.integers(0, 3, ROWS))
    rare = np.where(rng.random(ROWS) < 0.9, 0, rng.integers(0, 5, ROWS))
    return {"a": np.minimum(rng.geometric(0.4, ROWS) - 1, 7), "b": noisy, "c": rare, "d": hidden}


def forecast(epsilon: str, rows: int = ROWS) -> Expected:
    query = sl.SyntheticTable(sl.marginals(2), epsilon=epsilon)
    return expected(query, prepare_query(query, SCHEMA), SCHEMA, confidence=0.95, rows=rows)


@pytest.mark.parametrize("law", ["copies", "hidden class"])
def test_errors_made_are_hardly_ever_larger(law: str) -> None:
    """Of 30 releases at most 10 are further off than stated with 95 %: more have a chance of 1e-7."""
    held, query = codes(law), sl.SyntheticTable(sl.marginals(2), epsilon="0.1")
    cells = {name: [f"{name}{code}" for code in each] for name, each in held.items()}
    table, made = sl.Table(cells, schema=SCHEMA), []
    for place in range(30):
        mass, worst = sl.Synthetic(seeded_release(query, table, seed=f"{law} {place}")).mass, 0.0
        for pair in combinations(SIZES, 2):
            true = np.zeros([mass.domain.shape_of((name,))[0] for name in pair])
            np.add.at(true, tuple(held[name] for name in pair), 1 / ROWS)
            worst = max(worst, 50 * float(np.abs(mass.marginal(pair) - true).sum()))
        made.append(worst)
    stated = forecast("0.1").size
    assert sum(each > stated for each in made) <= 10


def test_no_more_than_all_rows_are_in_a_wrong_cell() -> None:
    assert 50 < forecast("0.03").size <= 100
