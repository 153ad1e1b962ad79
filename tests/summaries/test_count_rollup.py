"""Counts with totals: margins agree, norms are those of each margin, and the price is paid once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import SchemaError
from sidelight.group_table import GroupTable
from sidelight.noise import Source
from sidelight.session.query import prepare_query
from sidelight.summaries.count_rollup import Margin, PreparedRollup, cell_weights
from sidelight.testing import SeededEntropy, seeded_release

A, B = ["a0", "a1", "a2"], ["b0", "b1", "b2", "b3"]
SCHEMA = [sl.Category("a", A, other=None), sl.Category("b", B, other=None)]
CELLS = np.array([[90, 40, 0, 3], [25, 60, 10, 0], [7, 5, 120, 2]])


def people() -> sl.Table:
    pairs = [(a, b) for i, a in enumerate(A) for j, b in enumerate(B) for _ in range(CELLS[i, j])]
    return sl.Table({"a": [a for a, _ in pairs], "b": [b for _, b in pairs]}, schema=SCHEMA)


def visits(rows: int) -> sl.Table:
    """Return a single person with a row in each of many cells."""
    cells = [(a, b) for a in A for b in B][:rows]
    data = {"id": ["me"] * rows, "a": [a for a, _ in cells], "b": [b for _, b in cells]}
    return sl.Table(data, schema=[sl.PersonId("id", max_rows=rows), *SCHEMA])


def table_of(query: Any, seed: int = 1) -> GroupTable:
    outcome = seeded_release(query, people(), seed=seed)
    assert isinstance(outcome, sl.Release)
    assert sl.Release.from_json(outcome.to_json()) == outcome
    assert isinstance(outcome.value, GroupTable)
    return outcome.value


@pytest.mark.parametrize("price", [{"epsilon": 1}, {"rho": "0.05"}, {"epsilon": 600}, {"epsilon": "1e-3"}])
def test_all_margins_agree(price: dict[str, Any]) -> None:
    table = table_of(sl.Count(by=["a", "b"], rollup=True, **price))
    assert table.rows == 12 + 3 + 4 + 1
    for name, near in (("count", 0.0), ("unbiased", 1e-6 * (1 + np.abs(table["unbiased"]).max()))):
        number = {group: table[name][place] for place, group in enumerate(table.groups)}
        for a in A:
            assert sum(number[a, b] for b in B) == pytest.approx(number[a, "all"], abs=near)
        assert sum(number["all", b] for b in B) == pytest.approx(number["all", "all"], abs=near)
    assert (table["count"] >= 0).all()
    assert table["count"].dtype == np.int64


def test_the_price_is_shared_and_paid_once() -> None:
    pure = prepare_query(sl.Count(by=["a", "b"], rollup=True, epsilon=1), people().schema)
    assert str(pure.claims) == "PureDP(ε = 1)"
    gaussian = prepare_query(sl.Count(by=["a", "b"], rollup=True, mu="0.5"), people().schema)
    assert isinstance(gaussian, PreparedRollup)
    assert len(gaussian.margins) == 4
    mu = gaussian.claims.gdp()
    assert mu is not None
    assert 0.4999 < float(mu.mu) <= 0.5


def test_stated_noise_is_the_noise() -> None:
    prepared = prepare_query(sl.Count(by=["a", "b"], rollup=True, rho="0.02"), people().schema)
    truth = np.concatenate([CELLS.ravel(), CELLS.sum(axis=1), CELLS.sum(axis=0), [CELLS.sum()]])
    with Source(SeededEntropy(5)) as source:
        tables = [prepared.run(people(), source).value for _ in range(400)]  # type: ignore[attr-defined]
    off = np.array([table["unbiased"] - truth for table in tables])
    stated = tables[0]["noise_sd"]
    for part in (slice(0, 12), slice(12, 15), slice(15, 19), slice(19, 20)):
        size = off[:, part].size
        assert np.sqrt(np.mean(off[:, part] ** 2)) == pytest.approx(stated[part][0], rel=6 / math.sqrt(size) + 0.02)
    covered = np.mean([(table["low"] <= truth) & (truth <= table["high"]) for table in tables])
    assert covered > 0.93
    assert stated[19] < math.sqrt(12) * stated[0]  # the total is better than the sum of its cells


@pytest.mark.parametrize("rows", [2, 4, 8])
def test_one_person_moves_a_margin_by_what_its_norms_say(rows: int) -> None:
    """A person with a row in each of 8 cells moves the total by 8, not by √8."""
    table = visits(rows)
    limits = {"max_groups": rows, "max_rows_per_group": 1}
    prepared = prepare_query(sl.Count(by=["a", "b"], rollup=True, of="rows", rho=1, **limits), table.schema)
    assert isinstance(prepared, PreparedRollup)
    cells = np.array([1] * rows + [0] * (12 - rows)).reshape(3, 4)
    fine, noise = prepared.groups.norms, prepared.margins[0].noise
    for axes, apart in (((0, 1), 1), ((0,), 4), ((1,), 3), ((), 12)):
        norms = fine if apart == 1 else fine.margin(cells=12 // apart, cells_apart=apart)
        bounded = Margin(axes=axes, norms=norms, noise=noise).bounded(cells, prepared.groups)
        reach = float(np.sqrt((np.asarray(bounded.value, float) ** 2).sum()))
        assert reach <= float(bounded.sensitivity) + 1e-9
        assert axes != () or reach == float(bounded.sensitivity) == rows > float(fine.l2)  # the trap: the cells' norm
    moved = 0.0
    for margin in prepared.margins:
        move = np.asarray(margin.bounded(cells, prepared.groups).value, float) / float(margin.noise.scale)
        moved += float(np.square(move).sum())
    claimed = prepared.claims.gdp()
    assert claimed is not None
    assert moved <= float(claimed.mu) ** 2 * (1 + 1e-9)


def test_a_prediction_moves_the_cells_and_totals_follow() -> None:
    predicted = {(a, b): int(CELLS[i, j]) for i, a in enumerate(A) for j, b in enumerate(B)}
    plain = sl.Count(by=["a", "b"], rollup=True, rho="0.001")
    informed = sl.Count(by=["a", "b"], rollup=True, rho="0.001", prediction=predicted)
    assert prepare_query(plain, people().schema).claims == prepare_query(informed, people().schema).claims
    one, other = table_of(plain), table_of(informed)
    assert one["unbiased"].tolist() == other["unbiased"].tolist()
    truth = CELLS.ravel()
    error = [np.mean((table["count"][:12] - truth) ** 2) for table in (one, other)]
    assert error[1] < error[0]
    again = sl.Count(by=["a", "b"], rollup=True, rho="0.001", prediction=one)  # a rolled-up table predicts by its cells
    assert table_of(again).rows == 20


@pytest.mark.parametrize(
    ("query", "schema", "said"),
    [
        (lambda: sl.Count(rollup=True, epsilon=1), SCHEMA, "1 to 5 columns"),
        (lambda: sl.Count(by="a", rollup=True, epsilon=1), [sl.Category("a", ["all", "x"])], "rename that label"),
        (
            lambda: sl.Count(by="a", rollup=True, epsilon=1, max_groups=2),
            [sl.PersonId("id", max_rows=4), *SCHEMA],
            "do not add up",
        ),
        (
            lambda: sl.Count(by="c", rollup=True, epsilon=1, delta="1e-6"),
            [sl.Label("c"), *SCHEMA],
            "declared labels",
        ),
    ],
)
def test_mistakes_are_found_before_anything_is_charged(query: Any, schema: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        prepare_query(query(), sl.Schema(schema))


def test_no_label_is_favoured() -> None:
    """Thirty groups with three rows each: the error of the first ten was +0.44 on average, that of the last -0.33."""
    labels = [f"g{place:02}" for place in range(30)]
    table = sl.Table({"g": labels * 3}, schema=[sl.Category("g", labels, other=None)])
    prepared = prepare_query(sl.Count(by="g", rollup=True, epsilon=1), table.schema)
    runs = 200
    with Source(SeededEntropy("labels")) as source:
        errors = np.array([prepared.run(table, source).value["count"][:30] for _ in range(runs)]) - 3.0
    groups = errors.reshape(runs, 3, 10).mean(axis=2)
    assert (np.abs(groups.mean(axis=0) - groups.mean()) < 6 * groups.std(axis=0) / np.sqrt(runs)).all()
    assert np.abs(groups.mean(axis=0) - groups.mean()).max() < 0.2


@pytest.mark.parametrize("confidence", [0.9, 0.999])
@pytest.mark.parametrize("price", [{"epsilon": 1}, {"epsilon": "0.1"}, {"epsilon": 4}])
def test_intervals_cover_at_their_confidence(price: dict[str, Any], confidence: float) -> None:
    """Sums of few Laplace variables have heavier tails than the normal law: 99.9 % covered 0.990 of the cells."""
    query = sl.Count(by=["a", "b"], rollup=True, confidence=confidence, **price)
    prepared = prepare_query(query, people().schema)
    assert isinstance(prepared, PreparedRollup)
    with Source(SeededEntropy("once")) as source:
        value = prepared.run(people(), source).value
    sizes = {axes: math.prod(prepared.groups.shape[axis] for axis in axes) for axes in prepared.shown}
    bounds = np.repeat(prepared.bounds, [sizes[axes] for axes in prepared.shown])
    assert value["high"] == pytest.approx(np.maximum(value["unbiased"] + bounds, 0))
    assert value["low"] == pytest.approx(np.maximum(value["unbiased"] - bounds, 0))
    runs, rng = 60_000, np.random.default_rng(8)
    noises = {margin.axes: margin for margin in prepared.margins}
    for axes, bound in zip(prepared.shown, prepared.bounds, strict=True):
        total = np.zeros(runs)
        for margin, weight, cells in cell_weights(
            prepared.groups.shape, {axes: each.variance for axes, each in noises.items()}, axes
        ):
            rate = 1 - math.exp(-1 / float(noises[margin].noise.scale))
            drawn = rng.geometric(rate, (cells, runs)) - rng.geometric(rate, (cells, runs))
            total += weight * drawn.sum(axis=0)
        share = (np.abs(total) > bound).mean()
        assert share < (1 - confidence) + 6 * math.sqrt((1 - confidence) / runs)
        if price["epsilon"] != 4:  # where noise has few values, none lies at the confidence
            assert share > 0.3 * (1 - confidence) - 6 * math.sqrt((1 - confidence) / runs)  # nor much too wide
