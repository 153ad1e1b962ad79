"""Stated standard errors of synthetic tables against the errors made, by how many rows a cell has.

The error of a fitted count is n + r: noise n of deviation s, and r that is released. |n + r| > 1.96·√(s² + r²) needs
|n| > s·√(1.96² - 1) = 1.69·s whatever r is: at most 9.2 % of normal or Laplace noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.testing import seeded_release

#: At most 9.2 % in expectation; cells of one release share their errors, so the line is far above.
MOST = 0.2
RELEASES = 12


def law(name: str) -> tuple[dict[str, Any], tuple[int, int]]:
    rng = np.random.default_rng(3)
    if name == "few labels":
        return {"a": rng.integers(0, 4, 20_000), "b": rng.integers(0, 4, 20_000)}, (60, 60)
    if name == "skewed":
        shares = 1 / np.arange(1, 61) ** 2
        return {each: rng.choice(60, 20_000, p=shares / shares.sum()) for each in "ab"}, (60, 60)
    if name == "one cell":
        return {"a": np.zeros(3000, int), "b": np.zeros(3000, int)}, (25, 25)
    assert name == "diagonal"
    a = rng.choice(30, 5000, p=np.arange(30) / 435)
    return {"a": a, "b": np.where(rng.random(5000) < 0.9, a, rng.integers(0, 30, 5000))}, (30, 30)


def table_of(codes: dict[str, Any], sizes: tuple[int, int]) -> tuple[sl.Table, Any]:
    labels = {name: [f"{name}{place}" for place in range(size)] for name, size in zip("ab", sizes, strict=True)}
    schema = [sl.Category(name, each, other=None) for name, each in labels.items()]
    counts = np.zeros(sizes)
    np.add.at(counts, (codes["a"], codes["b"]), 1)
    return sl.Table({name: np.array(labels[name])[codes[name]] for name in "ab"}, schema=schema), counts


def shares_of_errors(query: sl.SyntheticTable, name: str, columns: tuple[str, ...]) -> Any:
    """Return the error of each occupied count as a share of its stated standard error, a row a release."""
    table, counts = table_of(*law(name))
    true = counts if len(columns) == 2 else counts.sum(axis="ba".index(columns[0]))
    found = []
    for place in range(RELEASES):
        answer = sl.Synthetic(seeded_release(query, table, seed=f"{name} {place}")).answer(columns)
        assert not isinstance(answer, list)
        assert answer.errors is not None
        found.append((np.abs(answer.counts - true) / answer.errors)[true > 0])
    return np.array(found)


@pytest.mark.parametrize("engine", ["marginals", "loglinear"])
@pytest.mark.parametrize("columns", [("a", "b"), ("a",), ("b",)])
@pytest.mark.parametrize("name", ["few labels", "skewed", "one cell", "diagonal"])
def test_errors_of_occupied_cells_hold(name: str, columns: tuple[str, ...], engine: Any) -> None:
    found = shares_of_errors(sl.SyntheticTable(sl.marginals(2), epsilon="0.2", engine=engine), name, columns)
    assert (found > 1.96).mean() <= MOST
    assert np.sqrt((found**2).mean()) < 1.3


def test_errors_hold_where_public_rows_are_of_another_population() -> None:
    table, counts = table_of(*law("skewed"))
    other = np.random.default_rng(4).integers(30, 60, (2000, 2))
    public = sl.PublicData({"a": [f"a{code}" for code in other[:, 0]], "b": [f"b{code}" for code in other[:, 1]]}, "x")
    query = sl.SyntheticTable(sl.marginals(2), epsilon=1, engine="support", prediction=public)
    synthetic = sl.Synthetic(seeded_release(query, table, seed="elsewhere"))
    answer = synthetic.answer(["a", "b"])
    assert not isinstance(answer, list)
    assert answer.errors is not None
    found = np.abs(answer.counts - counts) / answer.errors
    assert np.sqrt((found**2).mean()) < 1.3
    (line,) = synthetic.report()
    moved = np.abs(answer.counts / answer.rows - counts / counts.sum()).sum() / 2
    assert line["expected_error"] > 0.7 * moved
