"""Moments through an affine map: against the plain sums, on all engines, row by row, and cell by cell."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapped_moments import mapped_moments
from sidelight.aggregates.collect import collect
from sidelight.aggregates.mapped_vector import (
    CelledMoments,
    CelledVector,
    RowMap,
    affine,
    as_table,
    mapped_aggregate,
    moments_by_cell,
)
from sidelight.aggregates.moments import MomentState
from sidelight.errors import RangeError, SourceError
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.units import Person, Row
from sidelight.records import Fill, Number, PersonId, Table
from sidelight.records.rows import Batch

NASTY = [0.0, -0.0, 5e-324, 1e300, -1e300, math.inf, -math.inf, math.nan, 0.5, 1.0, -1.0, 0.7071067811865476, 1e16]
numbers = st.sampled_from(NASTY) | st.floats(-2, 2)
TURN = np.array([[0.6, -0.3, 1.7], [0.01, 4.0, -1e-5]])
CENTRE = np.array([0.1, -0.2, 0.3])


def test_moments_are_those_of_the_mapped_and_clipped_rows() -> None:
    rows = np.random.default_rng(1).normal(size=(500, 3))
    mapped = (rows - CENTRE) @ TURN.T
    clipped = mapped / np.maximum(1.0, np.linalg.norm(mapped, axis=1, keepdims=True) / 2.5)
    moments = mapped_moments(rows, radius=2.5, centre=CENTRE, matrix=TURN)
    unit = float(moments.scale)
    assert moments.count.value == 500
    assert np.abs(moments.total.value * unit - clipped.sum(axis=0)).max() < 500 * unit
    assert np.abs(moments.second.value * unit**2 - clipped.T @ clipped).max() < 3 * 500 * 2.5 * unit
    assert moments.count.unit == Row()


def test_rows_that_cannot_be_used_are_left_out() -> None:
    rows = np.array([[1.0, 1.0], [math.nan, 1.0], [math.inf, 1.0], [1.0, -math.inf]])
    moments = mapped_moments(rows, radius=1, levels=100)
    assert moments.count.value == 1
    assert moments.total.value.tolist() == [70, 70]
    bounded = Table({"a": rows[:, 0], "b": rows[:, 1]}, schema=[Number("a", upper=1, missing=Fill(0)), Number("b")])
    moments = mapped_moments(bounded, radius=10, levels=10)
    assert moments.count.value == 3  # infinity clamps to a bound, a missing number is filled; the last row has neither
    assert moments.total.value.tolist() == [2, 3]


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=8), st.sampled_from([1, 7, 2**14, 2**20]))
def test_no_row_is_too_long_and_none_looks_at_another(rows, levels) -> None:
    table = Table(np.array(rows), schema=[Number(name) for name in "abc"])
    row_map = RowMap.of(3, centre=CENTRE, matrix=TURN, radius="0.37")
    coding = mapped_aggregate(table, None, row_map=row_map, levels=levels).coding
    values = np.array(rows, np.float64)

    def codes(part):
        batch = Batch(len(part), {name: part[:, place].copy() for place, name in enumerate("abc")})
        return np.array(coding.kernel(batch)[0])

    whole = codes(values)
    assert all(sum(int(entry) ** 2 for entry in column) <= levels**2 for column in whole.T)
    alone = np.concatenate([codes(values[place : place + 1]) for place in range(len(values))], axis=1)
    assert np.array_equal(whole, alone)


def test_a_matrix_product_would_let_rows_look_at_each_other_and_ours_does_not() -> None:
    """The trap: BLAS chooses its kernels by the number of rows. Column by column no bit moves."""
    generator = np.random.default_rng(5)
    rows, turn = generator.normal(size=(65, 50)), generator.normal(size=(50, 50))
    ours = [affine(list(part.T), turn, np.zeros(50)) for part in (rows, rows[:64], rows[:1])]
    assert np.array_equal(ours[0][:, :64], ours[1])
    assert np.array_equal(ours[0][:, :1], ours[2])
    assert np.allclose(ours[0].T, rows @ turn.T)


def test_engines_and_arrays_give_the_same_integers() -> None:
    generator = np.random.default_rng(2)
    rows = np.concatenate(
        [generator.normal(size=(300, 3)), np.array(np.meshgrid(NASTY, NASTY[:5], [0.25])).reshape(3, -1).T]
    )
    schema = [Number("a", lower=-1, upper="1.5"), Number("b", missing=Fill("0.5")), Number("c")]
    columns = dict(zip("abc", rows.T.copy(), strict=True))
    frame = pl.DataFrame(columns)
    results = []
    for source in (columns, frame, duckdb.connect().from_arrow(frame.to_arrow())):
        for lowering in ("batches", "engine"):
            table = Table(source, schema=schema)
            if lowering == "engine" and table.rows.length is not None and table.engine == "numpy":
                continue
            moments = mapped_moments(table, radius="1.25", centre=CENTRE, matrix=TURN, lowering=lowering)
            results.append((moments.count.value, moments.total.value.tolist(), moments.second.value.tolist()))
    assert len(results) == 5
    assert all(result == results[0] for result in results)


class Sign:
    """Rows by the sign of their first number; those near 0 belong nowhere."""

    cells = 2

    def label(self, columns):
        return np.where(np.abs(columns[0]) < 0.1, -1, (columns[0] > 0).astype(np.int64))


def test_cells_are_collected_in_one_pass_each_by_its_own_map() -> None:
    rows = np.random.default_rng(3).normal(size=(2000, 2))
    rows[7, 1] = math.nan
    maps = [RowMap.of(2, centre=[-1, 0], matrix=None, radius=1), RowMap.of(2, centre=[1, 0], matrix=None, radius=3)]
    usable = rows[np.isfinite(rows).all(axis=1)]
    cells = moments_by_cell(rows, maps=maps, rule=Sign())
    for moments, row_map, here in zip(cells, maps, (usable[:, 0] <= -0.1, usable[:, 0] >= 0.1), strict=True):
        alone = mapped_moments(usable[here], radius=row_map.radius, centre=row_map.centre)
        assert moments.count.value == alone.count.value == here.sum()
        assert moments.second.value.tolist() == alone.second.value.tolist()
        assert moments.scale == alone.scale


def test_cells_merge_and_a_person_spreads_at_most_its_rows_over_them() -> None:
    schema = [Number("a"), Number("b"), PersonId("who", max_rows=3)]
    rows = {"a": [1.0, -1.0, 1.0, -1.0, 2.0], "b": [0.0] * 5, "who": ["p", "p", "p", "p", "q"]}
    table = Table(rows, schema=schema)
    maps = [RowMap.of(2, centre=None, matrix=None, radius=1)] * 2
    cells = moments_by_cell(table, ["a", "b"], maps=maps, rule=Sign(), levels=10)
    assert sum(moments.count.value for moments in cells) == 4
    assert [moments.second.sensitivity for moments in cells] == [300, 300]
    assert cells[0].count.unit == Person("who", 3)
    parts = tuple(mapped_aggregate(table, ["a", "b"], row_map=each, levels=10) for each in maps)
    aggregate = CelledMoments(coding=CelledVector(parts=tuple(p.coding for p in parts), rule=Sign()), cells=parts)
    merged = aggregate.finish(aggregate.merge(aggregate.empty(), aggregate.empty()))
    assert [moments.count.value for moments in merged] == [0, 0]
    relation = duckdb.connect().from_arrow(pl.DataFrame(rows).to_arrow())
    with pytest.raises(SourceError, match="batches"):
        moments_by_cell(Table(relation, schema=schema), ["a", "b"], maps=maps, rule=Sign())
    with pytest.raises(SourceError, match="batches"):
        collect(table, aggregate, lowering="engine")


@given(
    st.lists(st.tuples(numbers, numbers, st.sampled_from("pqr")), max_size=6),
    st.lists(st.tuples(numbers, numbers), max_size=5),
)
def test_a_person_moves_all_cells_together_by_no_more_than_one_cell_may_move(others, own) -> None:
    """Why the cells cost what one of them costs (covariance proof page, Theorem 2), in exact integers."""
    schema = [Number("a"), Number("b"), PersonId("who", max_rows=3)]
    maps = [RowMap.of(2, centre=[place, 0], matrix=[[1, 2], [0, 1]], radius=1) for place in range(2)]

    def cells(rows):
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        data = {"a": np.array(columns[0], float), "b": np.array(columns[1], float), "who": list(columns[2])}
        return moments_by_cell(Table(data, schema=schema), ["a", "b"], maps=maps, rule=Sign(), levels=100)

    without, with_them = cells(others), cells([*others, *((a, b, "new") for a, b in own)])
    for part, norm in (("count", 1), ("total", 2), ("second", 2)):
        moved = 0
        for before, after in zip(without, with_them, strict=True):
            step = np.ravel(getattr(after, part).value).astype(object) - np.ravel(getattr(before, part).value)
            moved += sum(abs(int(entry)) ** norm for entry in step)
        assert moved <= getattr(without[0], part).sensitivity ** norm


def test_the_same_rows_of_a_person_count_in_all_passes_whatever_the_maps_are() -> None:
    """Cells share one budget over many passes: a person whose other row counted in the next would pay in two cells."""
    schema = [Number("a"), Number("b"), PersonId("who", max_rows=2)]
    draw = np.random.default_rng(5)
    rows = {
        "a": np.ravel([[-1.0, 1.0, -1.0, 2.0]] * 50),
        "b": draw.choice([0.0, -0.0, 1e-300, 7.0], 200),
        "who": np.repeat([f"p{place}" for place in range(50)], 4),
    }
    table, found = Table(rows, schema=schema), set()
    for _ in range(12):
        maps = [
            RowMap.of(2, centre=draw.normal(size=2), matrix=draw.normal(size=(2, 2)), radius=3 * draw.random())
            for _ in range(2)
        ]
        cells = moments_by_cell(table, ["a", "b"], maps=maps, rule=Sign())
        found.add(tuple(moments.count.value for moments in cells))
    assert len(found) == 1
    assert sum(*found) == 100


@pytest.mark.planted("which rows of a person count in a cell differs from pass to pass", of=("SeparatedMixture",))
def test_rows_of_a_person_that_are_chosen_anew_in_each_pass_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CelledVector, "marks", lambda _, batch: None)
    with pytest.raises(AssertionError):
        test_the_same_rows_of_a_person_count_in_all_passes_whatever_the_maps_are()


@pytest.mark.parametrize(
    "arguments",
    [
        {"radius": 0},
        {"radius": -1},
        {"radius": "nan"},
        {"centre": [0.0]},
        {"centre": [0.0, math.inf]},
        {"matrix": [[1.0, math.nan]]},
        {"matrix": [1.0, 2.0]},
        {"matrix": np.eye(3)},
        {"levels": 0},
        {"levels": 2**30},
    ],
)
def test_bad_public_parameters_are_refused(arguments) -> None:
    with pytest.raises(RangeError):
        mapped_moments(np.zeros((3, 2)), **({"radius": 1} | arguments))


def test_sums_that_could_leave_int64_become_python_integers() -> None:
    table = as_table(np.zeros((0, 2)))
    aggregate = mapped_aggregate(table, None, row_map=RowMap.of(2, centre=None, matrix=None, radius=1), levels=2**20)
    rows, length = 2**23 + 5, 2**20
    state = MomentState(rows, np.array([rows * length, 0]), np.array([[rows * length**2, 0], [0, 0]], object))
    codes = (np.full(3, length), np.zeros(3, np.int64))
    folded = aggregate.fold(MomentState(rows, state.total.astype(np.int64), state.second), codes)
    assert folded.second[0, 0] == (rows + 3) * length**2
    assert aggregate.merge(folded, state).second[0, 0] == (2 * rows + 3) * length**2
    assert aggregate.finish(folded).second.value[0, 0] == 2**62  # saturated, never wrapped


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(RangeError, match="axes"):
        mapped_moments(np.zeros(3), radius=1)
    one = RowMap.of(2, centre=None, matrix=None, radius=1)
    with pytest.raises(RangeError, match="cells"):
        moments_by_cell(np.zeros((3, 2)), maps=[one], rule=Sign())
    flat = RowMap.of(2, centre=None, matrix=[[1, 0]], radius=1)
    with pytest.raises(RangeError, match="same number"):
        moments_by_cell(np.zeros((3, 2)), maps=[one, flat], rule=Sign())


@pytest.mark.parametrize("last", [[3.0, 4.0], [3.0, "x"], [3.0]])
def test_lists_are_refused_whatever_their_cells_are(last: list[Any]) -> None:
    """The type of an array made of a list is what one cell says, and whether there is one, what one row says."""
    one = RowMap.of(2, centre=None, matrix=None, radius=1)
    for rows in ([[1.0, 2.0], last], ([1.0, 2.0], last)):
        with pytest.raises(RangeError, match=r"must be a NumPy array or an sl\.Table, got (list|tuple)"):
            moments_by_cell(rows, maps=[one, one], rule=Sign())  # type: ignore[arg-type]


def test_an_odd_cell_of_an_untyped_array_drops_its_row() -> None:
    one = RowMap.of(2, centre=None, matrix=None, radius=1)
    plain = np.array([[0.5, 0.2], [-0.5, 0.1]])
    odd = np.vstack([plain.astype(object), np.array([[0.3, "x"]], object)])
    for first, second in zip(*(moments_by_cell(r, maps=[one, one], rule=Sign()) for r in (plain, odd)), strict=True):
        assert np.array_equal(first.total.value, second.total.value)


def test_sensitivities_in_other_norms() -> None:
    def moments(width, neighbours, levels=10):
        return mapped_moments(np.zeros((2, width)), radius=1, levels=levels, neighbours=neighbours)

    added, swapped = moments(3, Neighbours.ADD_REMOVE), moments(3, Neighbours.REPLACE)
    assert (added.total_in_l1.sensitivity, swapped.total_in_l1.sensitivity) == (17, 34)  # 10√3 = 17.3
    assert (added.second_in_trace.sensitivity, swapped.second_in_trace.sensitivity) == (100, 200)
    assert (added.upper_triangle.sensitivity, swapped.upper_triangle.sensitivity) == (200, 300)  # 100·√9 = 300
    one = moments(1, Neighbours.REPLACE)
    assert {one.second.sensitivity, one.second_in_trace.sensitivity, one.upper_triangle.sensitivity} == {Fraction(100)}
