"""Theorem 1 of the hierarchies page, end to end: all neighbours of small tables through the code that releases them.

The exact values that meet the noise are caught where they meet it; how far one unit moves them is compared with the
sensitivity that they carry, and all measurements together with the claim.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.noise import Source
from sidelight.session.query import prepare_query
from sidelight.summaries import tree_measurement
from sidelight.summaries.tree_measurement import LevelMargin, _scale
from sidelight.testing import SeededEntropy

LEAVES, SEXES = ["a1", "a2", "b1", "b2"], ["f", "m"]
GEO = sl.Hierarchy("leaf", {"town": 1})
LEAF, SEX = sl.Category("leaf", LEAVES, other=None), sl.Category("sex", SEXES, other=None)
PERSON = sl.PersonId("id", max_rows=3)
Row = dict[str, Any]


def all_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every level a share of the price: of so few leaves the default measures the leaves alone."""
    shares = (Fraction(1, 4), Fraction(1, 4), Fraction(1, 2))
    monkeypatch.setattr(tree_measurement, "default_shares", lambda search: (shares, 0.0))


def persons_of(cells: list[Row], most: int) -> Iterator[tuple[Row, ...]]:
    for size in range(1, most + 1):
        yield from itertools.combinations_with_replacement(cells, size)


def margins_of(prepared: Any, schema: Any, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Return each measured margin with the exact values that its noise is added to."""
    met: list[tuple[Any, Any]] = []
    before = LevelMargin.bounded

    def caught(self: LevelMargin, values: Any, unit: Any) -> Any:
        bounded = before(self, values, unit)
        met.append((self, bounded))
        return bounded

    columns = {column.name: [row[column.name] for row in rows] for column in schema}
    with monkeypatch.context() as patch, Source(SeededEntropy("brute force")) as source:
        patch.setattr(LevelMargin, "bounded", caught)
        prepared.run(sl.Table(columns, schema=schema), source)
    return met


def losses(query: Any, schema: list[Any], cells: list[Row], most: int, patch: pytest.MonkeyPatch) -> tuple[float, int]:
    """Return the largest part of the claim that a unit uses, and how often norms of leaves were too small."""
    prepared: Any = prepare_query(query, sl.Schema(schema))
    base = [{"id": f"other {place % 2}", **cell} for place, cell in enumerate(cells[:3])]
    without = margins_of(prepared, schema, base, patch)
    used, short = 0.0, 0
    for person in persons_of(cells, most):
        withal = margins_of(prepared, schema, [*base, *({"id": "one", **row} for row in person)], patch)
        assert len(withal) == len(without) == len(prepared.measurement.margins)
        loss = 0.0
        for (margin, bounded), (_, other) in zip(withal, without, strict=True):
            off = np.abs(np.asarray(bounded.value) - np.asarray(other.value)).astype(float)
            moved = off.sum() if bounded.norm == "l1" else np.sqrt((off**2).sum())
            assert moved <= float(bounded.sensitivity) * (1 + 1e-9)
            loss += (moved / _scale(margin, prepared.measurement.unit)) ** (1 if bounded.norm == "l1" else 2)
            leaves = next(m for m, _ in withal if m.level == 2 and m.axes == margin.axes)
            short += moved > float(leaves.bounded(np.zeros(1, int), prepared.measurement.unit).sensitivity) * (1 + 1e-9)
        pure = withal[0][1].norm == "l1"
        claimed = float(prepared.claims.pure().epsilon) if pure else float(prepared.claims.gdp().mu) ** 2
        assert loss <= claimed * (1 + 1e-9)
        used = max(used, loss / claimed)
    return used, short


PRICES = [{"rho": "0.5"}, {"epsilon": 1}]
CELLS: list[Row] = [{"leaf": leaf, "sex": sex} for leaf in LEAVES for sex in SEXES]
PAID: list[Row] = [{"leaf": leaf, "pay": pay} for leaf in LEAVES for pay in (-2.0, 3.0)]


@pytest.mark.parametrize("price", PRICES)
def test_rows_of_a_person_move_every_level_within_its_norms(
    price: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Persons with three rows anywhere; norms of the leaves used for all levels are the planted bug, and are caught."""
    all_levels(monkeypatch)
    query = sl.Count(by=[GEO, "sex"], of="rows", max_groups=3, max_rows_per_group=1, **price)
    used, short = losses(query, [PERSON, LEAF, SEX], CELLS, 3, monkeypatch)
    assert used > 0.99 if "epsilon" in price else used > 0.7  # the worst of one margin is not that of another
    assert (short > 0) == ("rho" in price)  # in l1 all levels move by as much


def test_bounding_holds_where_a_person_has_more_rows_than_count(monkeypatch: pytest.MonkeyPatch) -> None:
    all_levels(monkeypatch)
    query = sl.Count(by=GEO, of="rows", max_groups=1, max_rows_per_group=2, rho="0.5")
    used, _ = losses(query, [PERSON, LEAF], CELLS[::2], 4, monkeypatch)
    assert used > 0.99


def test_impossible_cells_and_public_totals_do_not_widen_it(monkeypatch: pytest.MonkeyPatch) -> None:
    all_levels(monkeypatch)
    by: dict[str, Any] = {"of": "rows", "max_groups": 2, "max_rows_per_group": 1}
    by |= {"rho": "0.5"}
    schema = [PERSON, LEAF, SEX]
    for more in (
        {"impossible": 'sex == "m"'},
        {"impossible": 'leaf == "a1" and sex == "m"'},
        {"public_totals": {"town": {"a": 3, "b": 1}}},
    ):
        used, _ = losses(sl.Count(by=[replace(GEO, **more), "sex"], **by), schema, CELLS, 2, monkeypatch)
        assert used > 0.5


@pytest.mark.parametrize("price", PRICES)
def test_sums_and_means_of_rows_move_within_their_norms(price: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    schema = [PERSON, LEAF, sl.Number("pay", lower=-2, upper=3)]
    rows: dict[str, Any] = {"max_groups": 2, "max_rows_per_group": 1, **price}
    capped = replace(GEO, caps={"town": 40})
    for query in (sl.Sum("pay", by=capped, **rows), sl.Mean("pay", by=GEO, of="rows", **rows)):
        used, _ = losses(query, schema, PAID, 2, monkeypatch)
        assert used > 0.7
