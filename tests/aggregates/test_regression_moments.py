"""Gram matrix and products: the definition by hand, neighbours within the sensitivity, both lowerings alike."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import NumberCoding
from sidelight.aggregates.collect import Lowering, collect
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.aggregates.regression_moments import LeastSquares, RegressionMoments, RegressionRow
from sidelight.errors import RangeError
from sidelight.grid import Grid
from sidelight.records import Number, PersonId, Schema, Table

COLUMNS = [Number("a"), Number("b"), Number("y", lower=-2, upper=6)]


def statistics(*, constant: int = 40, centre: int = 20, schema: Schema | None = None) -> LeastSquares:
    """Features of length at most 1 in 100 steps; y in -2..6 in steps of 1/10, centred at 2."""
    public = schema or Schema(COLUMNS)
    grid = Grid(resolution=Fraction(1, 10), first=-20, last=60, dither_bits=0, snap="nearest")
    vector = ClippedVector(columns=(COLUMNS[0], COLUMNS[1]), radius=Fraction(1), levels=100, centres=(Fraction(0),) * 2)
    row = RegressionRow(features=vector, target=NumberCoding("y", FixedPoint.on_grid(COLUMNS[2], grid)))
    return LeastSquares(
        coding=row, constant=constant, centre=centre, rows_per_unit=public.rows_per_unit, unit=public.unit
    )


def moments(rows: list[tuple[float, float, float]], lowering: Lowering = "auto", **options: int) -> RegressionMoments:
    a, b, y = (np.array([row[i] for row in rows], float) for i in range(3))
    data: object = {"a": a, "b": b, "y": y}
    if lowering == "engine":
        polars = pytest.importorskip("polars")
        data = polars.DataFrame(data)
    return collect(Table(data, schema=COLUMNS), statistics(**options), lowering=lowering)


def by_hand(rows: list[tuple[float, float, float]], constant: int, centre: int) -> tuple[np.ndarray, np.ndarray]:
    gram, cross = np.zeros((3, 3), object), np.zeros(3, object)
    for a, b, y in rows:
        if any(np.isnan(v) for v in (a, b, y)):
            continue
        length = max(1.0, float(np.hypot(a, b)))
        z = np.array([int(a / length * 100), int(b / length * 100), constant], object)
        code = int(np.floor(min(max(y, -2.0), 6.0) * 10 + 0.5)) - centre
        gram, cross = gram + np.outer(z, z), cross + z * code
    return gram, cross


ROWS = [
    (0.25, 0.5, 1.0),
    (-3.0, 4.0, 9.0),
    (0.0, 0.0, -7.0),
    (np.nan, 0.1, 1.0),
    (0.1, 0.1, np.nan),
    (0.75, -0.25, 2.5),
]


@pytest.mark.parametrize("lowering", ["batches", "engine"])
@pytest.mark.parametrize(("constant", "centre"), [(40, 20), (0, 0)])
def test_the_definition(lowering: Lowering, constant: int, centre: int) -> None:
    found = moments(ROWS, lowering, constant=constant, centre=centre)
    gram, cross = by_hand(ROWS, constant, centre)
    width = 3 if constant else 2
    assert np.array_equal(found.gram.value, gram[:width, :width].astype(int))
    assert np.array_equal(found.cross.value, cross[:width].astype(int))


cell = st.one_of(st.floats(-5, 5), st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -1e300]))
row = st.tuples(cell, cell, cell)


@given(rows=st.lists(row, max_size=6), more=row)
@settings(max_examples=80, deadline=None)
def test_a_neighbour_stays_within_the_sensitivity(
    rows: list[tuple[float, float, float]], more: tuple[float, ...]
) -> None:
    before, after = moments(rows), moments([*rows, more])  # type: ignore[list-item]
    for first, second in [(before.gram, after.gram), (before.cross, after.cross)]:
        moved = np.linalg.norm(np.asarray(second.value, float) - np.asarray(first.value, float))
        assert moved <= float(first.sensitivity) * (1 + 1e-12)


def test_the_sensitivity_is_nearly_attained() -> None:
    before, after = moments([]), moments([(1.0, 0.0, 6.0)])
    for first, second in [(before.gram, after.gram), (before.cross, after.cross)]:
        assert np.linalg.norm(np.asarray(second.value - first.value, float)) > 0.999 * float(first.sensitivity)


def test_a_person_with_many_rows_counts_within_the_cap() -> None:
    schema = Schema([*COLUMNS, PersonId("who", max_rows=2)])
    data = {"a": np.ones(9), "b": np.zeros(9), "y": np.full(9, 6.0), "who": np.array(["p"] * 9, object)}
    found = collect(Table(data, schema=schema), statistics(schema=schema))
    assert found.gram.sensitivity == 2 * (100**2 + 40**2)
    assert np.linalg.norm(np.asarray(found.gram.value, float)) <= float(found.gram.sensitivity)


def test_mistakes_are_named() -> None:
    with pytest.raises(RangeError, match="both"):
        RegressionRow(
            features=statistics().coding.features,
            target=NumberCoding("a", FixedPoint.on_grid(COLUMNS[0], Grid(resolution=Fraction(1)))),
        )
    with pytest.raises(RangeError, match="too large"):
        statistics(constant=2**21)
