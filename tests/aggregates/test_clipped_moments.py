"""Wide rows go from the coding to the product as floats: the same integers as the codes, whatever the rows hold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates import clipped_vector, moments
from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.collect import coded_rows, collect
from sidelight.aggregates.moments import ClippedMoments
from sidelight.guarantees.units import Row


def hostile(rows: int, width: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(rows, width)) * 10.0 ** rng.integers(-3, 3, (rows, 1))
    for value in (np.nan, np.inf, -np.inf, 1e300, -1e308, 5e-324, 1e160):
        data[rng.integers(0, rows, 3), rng.integers(0, width, 3)] = value
    return data


def aggregate_of(schema: sl.Schema, *, centre: float = 0.0) -> ClippedMoments:
    width = len(schema.columns)
    coding = ClippedVector(
        columns=tuple(schema.number(f"x{i}") for i in range(width)),
        radius=Fraction(3, 2),
        levels=1 << 14,
        centres=(Fraction(centre),) * width,
    )
    return ClippedMoments(coding=coding, rows_per_unit=1, unit=Row())


@pytest.mark.parametrize("declared", [{}, {"lower": -2, "upper": 5}, {"missing": sl.Fill(1)}])
@pytest.mark.parametrize("centre", [0.0, 0.25])
def test_whole_floats_are_the_codes(declared, centre, monkeypatch) -> None:
    monkeypatch.setattr(clipped_vector, "_LEAST_ROWS", 16)
    monkeypatch.setattr(clipped_vector, "_BLOCK_CELLS", 64)
    monkeypatch.setattr(moments, "_LEAST_ROWS", 64)
    monkeypatch.setattr(moments, "_WORK_CELLS", 64)
    table = sl.Table(hostile(300, 4, 1), schema=[sl.Number(f"x{i}", **declared) for i in range(4)])
    aggregate = aggregate_of(table.schema, centre=centre)
    assert aggregate.folds_batches
    assert aggregate.batch_rows == 64
    at_once = collect(table, aggregate)
    state = aggregate.empty()
    exact = np.zeros((4, 4), object)
    for codes in coded_rows(table, aggregate.coding):
        state = aggregate.fold(state, codes)
        whole = np.stack(codes).astype(object)
        assert max(sum(entry**2 for entry in row) for row in whole.T) <= (1 << 14) ** 2
        exact += whole @ whole.T
    by_codes = aggregate.finish(state)
    assert at_once.count.value == by_codes.count.value
    np.testing.assert_array_equal(at_once.total.value, by_codes.total.value)
    np.testing.assert_array_equal(at_once.second.value, by_codes.second.value)
    np.testing.assert_array_equal(at_once.second.value.astype(object), exact)


def test_a_row_is_coded_alike_in_any_company() -> None:
    data = hostile(64, 5, 2)
    schema = [sl.Number(f"x{i}", missing=sl.Fill(0)) for i in range(5)]
    table = sl.Table(data, schema=schema)
    coding = aggregate_of(table.schema).coding
    (together,) = coded_rows(table, coding)
    for place in range(len(data)):
        (alone,) = coded_rows(sl.Table(data[place : place + 1], schema=schema), coding)
        assert [int(code[0]) for code in alone] == [int(code[place]) for code in together]


def test_persons_are_capped_as_before() -> None:
    data = {"who": np.repeat(["a", "b"], 4), "x0": np.linspace(-1, 1, 8), "x1": np.linspace(1, 0, 8)}
    table = sl.Table(data, schema=[sl.PersonId("who", max_rows=2), sl.Number("x0"), sl.Number("x1")])
    assert sl.aggregates.moments.clipped_moments(table, ["x0", "x1"], radius=2).count.value == 4
